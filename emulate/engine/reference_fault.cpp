// What befalls the links of the reference engine: frames lost, rates cut, pauses without a cause;
// and the watch over queues that such pauses stop.
#include "reference.hpp"

namespace kvfabric {

void Reference::befall(const std::vector<FaultSetting>& faults) {
    for (const FaultSetting& fault : faults) {
        Port& port = ports_[fault.port];
        if (port.fault < 0) {
            port.fault = static_cast<std::int32_t>(faults_.size());
            faults_.emplace_back();
        }
        faults_[static_cast<std::size_t>(port.fault)].add(fault);
        if (fault.kind == FaultKind::storm) at(fault.from, EventKind::timer, fault.port, storm);
    }
}

// Will a frame that starts now be lost on its way to the next node?
bool Reference::loses(std::uint32_t port_id, const Packet& packet, Time arrival) const {
    const Port& port = ports_[port_id];
    if (port.fault < 0) return false;
    const LinkFault& fault = faults_[static_cast<std::size_t>(port.fault)];
    if (fault.down(now_, arrival)) return true;
    const std::uint64_t loss = fault.loss_q32(now_, arrival);
    if (loss == 0) return false;
    const std::uint64_t hash = draw(seed_, Purpose::loss, packet.flow, packet.sequence,
                                    packet.attempt, port_id);
    return (hash >> 32) < loss;
}

// A storm begins, goes on or ends: its port tells the peer to stop, or what the buffer says.
void Reference::rage(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    const LinkFault& fault = faults_[static_cast<std::size_t>(port.fault)];
    port.storming = fault.storming(now_) ? discipline_.lossless : std::uint8_t{0};
    port.notify |= discipline_.lossless;
    const Time next = fault.storm_again(now_, port.pause / 2);
    if (next != never) at(next, EventKind::timer, port_id, storm);
    transmit(port_id);
}

// A queue of a switch has been stopped or has gone on, or a frame waits in it.
void Reference::guard(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    if (discipline_.watch_detect == 0 || port.at_host) return;
    const auto slot = static_cast<std::size_t>(priority);
    Watchdog& watchdog = port.watchdogs[slot];
    watchdog.watch(now_, ((port.paused & port.backlog) >> priority & 1) != 0);
    if (port.watch_due[slot] || watchdog.next() == never) return;
    port.watch_due[slot] = true;
    at(watchdog.next(), EventKind::timer, port_id, watch + static_cast<std::uint32_t>(priority));
}

// The watchdog gives a queue up, or takes it back.
void Reference::bark(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    const auto slot = static_cast<std::size_t>(priority);
    port.watch_due[slot] = false;
    if (port.watchdogs[slot].expire(now_) == Watchdog::Verdict::drop) {
        while (!port.queue[slot].list.empty()) {
            const PacketId id = dequeue(port_id, priority);
            departed(packets_[id], packets_[id].ingress, port_id);
            drop(port_id, id, Cause::watchdog);
        }
    }
    guard(port_id, priority);
    transmit(port_id);
}

}  // namespace kvfabric
