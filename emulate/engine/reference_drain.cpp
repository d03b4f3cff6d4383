// Hosts that take data from their NICs at a rate of their own, in the reference engine.
//
// A NIC then is one more store-and-forward hop: what has arrived waits in its receive buffer until
// the host has drained it, and the NIC stops its switch as a switch stops its peers. The transport
// takes a frame when it is drained. ACKs, NAKs and CNPs are taken by the NIC at once.
#include "reference.hpp"

namespace kvfabric {

void Reference::stow(std::uint32_t port_id, PacketId id) {
    Port& port = ports_[port_id];
    const Packet& packet = packets_[id];
    const std::uint32_t local = port_id - static_cast<std::uint32_t>(fabric_.first[port.node]);
    const int priority = packet.priority;
    if (!buffers_[port.node]->admit(local, priority, local, packet.wire - preamble_and_gap)) {
        drop(port_id, id, Cause::buffer);
        return;
    }
    port.stowed.push(packets_, id);
    if (packet.last) {
        trail_.joined(port.stowed_trail, packet.flow, packet.attempt, packet.hop, port_id, now_, 0);
    }
    stop_if_over(port_id, priority);
    drain(port_id);
}

void Reference::drain(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    if (port.draining || port.stowed.empty()) return;
    port.draining = true;
    const Packet& packet = packets_[port.stowed.head()];
    if (packet.last) trail_.left(port.stowed_trail, now_, 0);
    at(port.drain.finish(now_, packet.wire), EventKind::drained, port_id, 0);
}

// The first frame of the receive buffer is in the host's memory.
void Reference::drained(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    port.draining = false;
    const PacketId id = port.stowed.pop(packets_);
    const Packet& packet = packets_[id];
    const std::uint32_t local = port_id - static_cast<std::uint32_t>(fabric_.first[port.node]);
    const int priority = packet.priority;
    buffers_[port.node]->release(local, priority, local, packet.wire - preamble_and_gap);
    resume_if_under(port_id, priority);
    receive(id);
    drain(port_id);
}

}  // namespace kvfabric
