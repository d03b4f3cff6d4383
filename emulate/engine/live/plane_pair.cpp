// Queue pairs as they are handed over: their paths, and the addresses that lead along them.
//
// A switch decides by what a frame carries, and UDP has 16 bits of source port. So the sender takes
// the first port from 49,152 on (annex A17 of the InfiniBand specification leaves the choice to it)
// that leads its packets and their answers along the paths of the packet core, hashed or pinned.
#include <stdexcept>
#include <string>

#include "plane.hpp"

namespace kvfabric {

namespace {

constexpr std::uint32_t first_port = 49152;
constexpr std::uint32_t port_count = 65536 - first_port;

}  // namespace

std::int64_t Plane::submit(const std::vector<FlowSetting>& flows) {
    const std::int64_t refused = Driver::submit(flows);
    if (refused >= 0) return refused;
    for (const FlowSetting& flow : flows) {
        if (flow.release >= now_) continue;
        ++late_flows_;
        latest_ = std::max(latest_, now_ - flow.release);
    }
    return -1;
}

// The addresses that lead along a flow's paths.
void Plane::accept(const Flow& flow) {
    refuse_long(flow);
    const FlowSetting& setting = flow.setting;
    Pair pair;
    pair.there.source_mac = setting_.mac[paths_[flow.path]];
    pair.there.destination_mac = setting_.mac[paths_[flow.back]];
    pair.there.source_ip = setting_.address[slot(setting.source)];
    pair.there.destination_ip = setting_.address[slot(setting.destination)];
    pair.there.source_port = find_port(flow);
    pair.back = {pair.there.destination_mac, pair.there.source_mac, pair.there.destination_ip,
                 pair.there.source_ip, pair.there.source_port};
    if (slot(setting.flow) >= pairs_.size()) pairs_.resize(slot(setting.flow) + 1);
    pairs_[slot(setting.flow)] = pair;
}

void Plane::refuse_long(const Flow& flow) const {
    const std::string name = "flow " + std::to_string(flow.setting.flow) + ": ";
    if (flow.setting.flow > number_mask) {
        throw std::invalid_argument(name + "queue pairs have 24 bits; number flows below 2^24");
    }
    if (flow.segment.packets() > number_mask) {
        throw std::invalid_argument(name + std::to_string(flow.segment.packets()) +
                                    " packets, their numbers have 24 bits; write fewer bytes");
    }
    for (const std::int32_t node : {flow.setting.source, flow.setting.destination}) {
        if (!owns(slot(node))) {
            throw std::invalid_argument(name + "host " + std::to_string(node) +
                                        " is not in this process");
        }
    }
}

std::uint16_t Plane::find_port(const Flow& flow) {
    const FlowSetting& setting = flow.setting;
    for (std::uint32_t i = 0; i < port_count; ++i) {
        const std::uint32_t port = first_port + (setting.entropy + i) % port_count;
        if (leads(setting.source, setting.destination, port, flow.path) &&
            leads(setting.destination, setting.source, port, flow.back)) {
            return static_cast<std::uint16_t>(port);
        }
    }
    throw std::invalid_argument("flow " + std::to_string(setting.flow) +
                                ": no UDP source port leads along its path and back; leave the "
                                "path to the hash, or take a fabric of fewer paths");
}

// Do frames with that source port take the path that begins there in the table of paths?
bool Plane::leads(std::int32_t source, std::int32_t destination, std::uint32_t source_port,
                  std::uint32_t path) {
    const std::uint64_t tuple = tuple_hash(seed_, static_cast<std::uint64_t>(source),
                                           static_cast<std::uint64_t>(destination), source_port);
    for (std::int32_t node = source; node != destination; ++path) {
        const std::int32_t port = router_.next(node, destination, tuple);
        if (port != static_cast<std::int32_t>(paths_[path])) return false;
        node = fabric_.node[ports_[slot(port)].reverse];
    }
    return true;
}

}  // namespace kvfabric
