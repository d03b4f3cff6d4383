#include "plane.hpp"

#include <algorithm>
#include <stdexcept>

namespace kvfabric {

namespace {

// The class of everything that is not of this transport: the lowest that neither is lossless nor
// goes before others.
std::uint8_t plain_class(const DisciplineSetting& discipline) {
    const int reserved = discipline.lossless | discipline.strict;
    for (int priority = 0; priority < 8; ++priority) {
        if ((reserved >> priority & 1) == 0) return static_cast<std::uint8_t>(priority);
    }
    throw std::invalid_argument("discipline: every class is lossless or strict; leave one free");
}

// What befalls the links that begin here.
std::vector<FaultSetting> own_faults(const std::vector<FaultSetting>& faults,
                                     const FabricSetting& fabric, const PlaneSetting& setting) {
    if (setting.owned.size() != fabric.is_switch.size() ||
        setting.address.size() != fabric.is_switch.size() ||
        setting.mac.size() != fabric.node.size()) {
        throw std::invalid_argument("plane: owned and address have one entry a node, mac a port");
    }
    std::vector<FaultSetting> own;
    for (const FaultSetting& fault : faults) {
        if (setting.owned[static_cast<std::size_t>(fabric.node[fault.port])] != 0) {
            own.push_back(fault);
        }
    }
    return own;
}

}  // namespace

Plane::Plane(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
             TransportSetting transport, const std::vector<FaultSetting>& faults,
             std::uint64_t seed, Time tick, PlaneSetting setting)
    : Driver(fabric, std::move(routes), std::move(discipline), std::move(transport),
             own_faults(faults, fabric, setting), seed, tick),
      setting_(std::move(setting)), plain_(plain_class(discipline_)), jacks_(ports_.size()),
      by_ip_(setting_.address.size()), by_mac_(ports_.size()),
      store_(packets_, slot(setting_.frame_bytes)) {
    if (data_length(transport_.mtu) > slot(setting_.frame_bytes)) {
        throw std::invalid_argument("frame_bytes: below a full frame of the transport's mtu");
    }
    if (transport_.credits > 0 || transport_.drain_bps > 0 || discipline_.cut_through) {
        throw std::invalid_argument(
            "plane: real frames know no credits, no drain rate and no cut-through");
    }
    for (std::size_t node = 0; node < setting_.address.size(); ++node) {
        if (setting_.address[node] == 0) continue;
        by_ip_.put(setting_.address[node], static_cast<std::int32_t>(node));
    }
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        if (!ports_[p].at_host || setting_.mac[p] == 0) continue;
        by_mac_.put(setting_.mac[p], fabric_.node[p]);
    }
}

void Plane::attach(std::uint32_t port, Outlet& outlet) {
    if (port >= ports_.size() || !owns(ports_[port].node)) {
        throw std::invalid_argument("port " + std::to_string(port) +
                                    ": not of an owned node; attach ports of owned nodes");
    }
    jacks_[port].outlet = &outlet;
}

void Plane::require_links() const {
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        if (!owns(ports_[p].node) || jacks_[p].outlet != nullptr) continue;
        const std::uint32_t reverse = ports_[p].reverse;
        if (owns(ports_[reverse].node) && jacks_[reverse].outlet == nullptr) continue;
        throw std::invalid_argument("port " + std::to_string(p) +
                                    ": its peer is not in this process; attach an interface");
    }
}

void Plane::run(Time until) {
    while (!events_.empty() && events_.top().time <= until) step();
    now_ = std::max(now_, until);
    if (now_ >= next_tick_) latch_until(now_);
}

std::int64_t Plane::unfinished() const {
    return std::count_if(flows_.begin(), flows_.end(), [](const Flow& flow) {
        return flow.submitted && flow.finish < 0;
    });
}

// There, or at the outlet of the end that sent it.
void Plane::come(std::uint32_t port_id, PacketId id) {
    const std::uint32_t from_id = ports_[port_id].reverse;
    if (Outlet* outlet = jacks_[from_id].outlet) {
        outlet->send(from_id, id, now_);
    } else {
        take_in(port_id, id);
    }
}

void Plane::tell(std::uint32_t port_id, const PauseFrame& frame, Time in) {
    const PacketId id = store_.take();
    store_.set_length(id, build(setting_.mac[port_id], frame, store_.bytes(id)));
    Wire& wire = jacks_[port_id].telling;
    if (wire.empty()) at(in, EventKind::arrival, ports_[port_id].reverse, telling);
    wire.push({in, id, 0, false, false});
}

// The first pause frame on a link is in.
void Plane::handle_own(const Event& event) {
    Wire& wire = jacks_[ports_[event.port()].reverse].telling;
    const Flight flight = wire.pop();
    if (!wire.empty()) at(wire.front().arrival, EventKind::arrival, event.port(), telling);
    come(event.port(), flight.id);
}

}  // namespace kvfabric
