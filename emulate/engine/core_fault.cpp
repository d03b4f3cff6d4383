// What befalls the links of the fast core: frames lost, rates cut, pauses without a cause.
#include "core_link.hpp"

namespace kvfabric {

void Core::befall(const std::vector<FaultSetting>& faults) {
    for (const FaultSetting& fault : faults) {
        CorePort& port = ports_[fault.port];
        if ((port.odd & faulty) == 0) {
            port.odd |= faulty;
            rest_[port.id].fault = static_cast<std::uint32_t>(faults_.size());
            faults_.emplace_back();
        }
        faults_[rest_[port.id].fault].add(fault);
        if (fault.kind != FaultKind::storm) continue;
        CoreNode& node = nodes_[port.node];
        at(node, fault.from, EventKind::timer, fault.port, storm);
        worker_of(node).nodes[node.of].set(node.slot, node.next());
    }
}

// Will a frame that starts be lost on its way to the next node?
bool Core::loses(const CorePort& port, Frame frame, Time start, Time arrival) const {
    const LinkFault& fault = faults_[rest_[port.id].fault];
    if (fault.down(start, arrival)) return true;
    const std::uint64_t loss = fault.loss_q32(start, arrival);
    if (loss == 0) return false;
    const std::uint64_t hash = draw(seed_, Purpose::loss, flow_of(frame), sequence_of(frame),
                                    frame.attempt(), port.id);
    return (hash >> 32) < loss;
}

// A storm begins, goes on or ends: its port tells the peer to stop, or what the buffer says.
void Core::rage(Worker& worker, CoreNode& node, CorePort& port) {
    const LinkFault& fault = faults_[rest_[port.id].fault];
    port.storming = fault.storming(worker.now) ? discipline_.lossless : std::uint8_t{0};
    port.notify |= discipline_.lossless;
    const Time next = fault.storm_again(worker.now, rest_[port.id].pause / 2);
    if (next != never) at(node, next, EventKind::timer, port.id, storm);
    look(worker, node, port);
}

// A frame that the peer sent would be here now.
void Core::lose(Worker& worker, CorePort& port, Frame frame) {
    if (by_credits()) repay(worker, port, frame.priority(), wire_of(frame));
    if (frame.shape() == Shape::last && delivers_next(frame)) --worker.ending;
    ++rest_[port.id].lost;
    ++worker.totals.drops_fault;
    worker.facts.push_back({worker.now, 0, flow_of(frame), false});
    if (is_data(frame.shape())) worker.totals.bytes_dropped += wire_of(frame) - data_overhead;
}

}  // namespace kvfabric
