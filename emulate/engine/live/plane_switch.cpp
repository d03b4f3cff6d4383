// Switches of a plane: where frames go, whether there is memory, marks, pauses; what befalls links.
#include "plane.hpp"

namespace kvfabric {

// The port by which a frame leaves a node; -1 when it has no way. RoCEv2 goes by its addresses and
// its UDP source port, other IPv4 by addresses and ports, ARP to the owner of the address it asks
// for, and anything else by its Ethernet address; there is no flooding.
std::int32_t Plane::way(std::int32_t node, const Headers& headers, const std::uint8_t* frame) {
    std::int32_t to = -1;
    std::int32_t from = 0;
    if (headers.what == Headers::What::other) {
        to = by_mac_.node(destination_mac(frame));
    } else {
        to = by_ip_.node(headers.destination_ip);
        from = std::max(0, by_ip_.node(headers.source_ip));
    }
    if (to < 0 || to == node) return -1;
    const std::uint64_t tuple = tuple_hash(seed_, static_cast<std::uint64_t>(from),
                                           static_cast<std::uint64_t>(to), headers.entropy);
    return router_.next(node, to, tuple);
}

void Plane::forward(std::uint32_t port_id, PacketId id, const Headers& headers) {
    const std::uint32_t node = ports_[port_id].node;
    const std::int32_t egress_id =
        way(static_cast<std::int32_t>(node), headers, store_.bytes(id));
    if (egress_id < 0) {
        ++strays_.unrouted;
        store_.give(id);
        return;
    }
    const auto out = static_cast<std::uint32_t>(egress_id);
    const bool ours = headers.what == Headers::What::roce && headers.priority < 8;
    const int priority = ours ? headers.priority : plain_;
    Packet& packet = store_.packet(id);
    packet.flow = ours ? headers.flow : headers.source_ip ^ headers.destination_ip;
    packet.sequence = headers.sequence;
    packet.attempt = headers.attempt;
    packet.kind = headers.kind;
    packet.wire = static_cast<std::uint16_t>(headers.wire);
    packet.priority = static_cast<std::uint8_t>(priority);
    packet.ingress = port_id;
    if (!ours) ++strays_.foreign;

    SharedBuffer& buffer = *buffers_[node];
    const auto first = static_cast<std::uint32_t>(fabric_.first[node]);
    if (ports_[out].watchdogs[slot(priority)].dropping()) {
        drop(out, id, Cause::watchdog);
        return;
    }
    if (!buffer.admit(port_id - first, priority, out - first, headers.wire - preamble_and_gap)) {
        drop(out, id, Cause::buffer);
        return;
    }
    Port& egress = ports_[out];
    if (!discipline_.mark_at_dequeue) {
        Bytes queue = egress.queue[slot(priority)].wire;
        if (egress.serving != none && store_.packet(egress.serving).priority == priority) {
            queue += egress.serialiser.left(now_);
        }
        mark(out, packet, id, queue);
    }
    enqueue(out, id);
    if ((egress.paused & bit(priority)) != 0) guard(out, priority);
    stop_if_over(port_id, priority);
    transmit(out);
}

void Plane::mark(std::uint32_t port_id, Packet& packet, PacketId id, Bytes queue) {
    Port& port = ports_[port_id];
    if (!port.marker.possible(queue) || !markable(store_.bytes(id), store_.length(id))) return;
    const std::uint64_t hash = draw(seed_, Purpose::mark, packet.flow, packet.sequence,
                                    packet.attempt, port_id);
    if (!port.marker.mark(queue, hash)) return;
    mark_congestion(store_.bytes(id));
    ++port.marked;
}

// A frame has left the switch: its memory is free, and its group may go on.
void Plane::departed(const Packet& packet, std::uint32_t came_by, std::uint32_t egress) {
    const std::uint32_t node = ports_[egress].node;
    const auto first = static_cast<std::uint32_t>(fabric_.first[node]);
    const int priority = packet.priority;
    buffers_[node]->release(came_by - first, priority, egress - first,
                            packet.wire - preamble_and_gap);
    resume_if_under(came_by, priority);
}

// A frame has come in: must its peer stop?
void Plane::stop_if_over(std::uint32_t port_id, int priority) {
    Port& ingress = ports_[port_id];
    const SharedBuffer& buffer = *buffers_[ingress.node];
    const auto first = static_cast<std::uint32_t>(fabric_.first[ingress.node]);
    PauseSender& sender = ingress.stops[slot(priority)];
    if (!buffer.over(port_id - first, priority) || !sender.stop(now_)) return;
    ingress.notify |= bit(priority);
    const auto cause = first + static_cast<std::uint32_t>(buffer.holder(port_id - first, priority));
    observation_.pauses.begin(ingress.reverse, priority, cause, now_);
    at(sender.next(), EventKind::timer, port_id, refresh + static_cast<std::uint32_t>(priority));
    transmit(port_id);
}

// A frame's memory is free: may the peer that sent it go on?
void Plane::resume_if_under(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    const auto first = static_cast<std::uint32_t>(fabric_.first[port.node]);
    if (!port.stops[slot(priority)].stopped()) return;
    if (!buffers_[port.node]->under(port_id - first, priority)) return;
    port.stops[slot(priority)].resume();
    observation_.pauses.end(port.reverse, priority, now_);
    port.notify |= bit(priority);
    transmit(port_id);
}

void Plane::befall(const std::vector<FaultSetting>& faults) {
    for (const FaultSetting& fault : faults) {
        Port& port = ports_[fault.port];
        if (!owns(port.node)) continue;
        if (port.fault < 0) {
            port.fault = static_cast<std::int32_t>(faults_.size());
            faults_.emplace_back();
        }
        faults_[slot(port.fault)].add(fault);
        if (fault.kind == FaultKind::storm) at(fault.from, EventKind::timer, fault.port, storm);
    }
}

// Will a frame that starts now be lost on its way to the next node?
bool Plane::loses(std::uint32_t port_id, const Packet& packet, Time arrival) const {
    const Port& port = ports_[port_id];
    if (port.fault < 0) return false;
    const LinkFault& fault = faults_[slot(port.fault)];
    if (fault.down(now_, arrival)) return true;
    const std::uint64_t loss = fault.loss_q32(now_, arrival);
    if (loss == 0) return false;
    const std::uint64_t hash = draw(seed_, Purpose::loss, packet.flow, packet.sequence,
                                    packet.attempt, port_id);
    return (hash >> 32) < loss;
}

// A storm begins, goes on or ends: its port tells the peer to stop, or what the buffer says.
void Plane::rage(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    const LinkFault& fault = faults_[slot(port.fault)];
    port.storming = fault.storming(now_) ? discipline_.lossless : std::uint8_t{0};
    port.notify |= discipline_.lossless;
    const Time next = fault.storm_again(now_, port.pause / 2);
    if (next != never) at(next, EventKind::timer, port_id, storm);
    transmit(port_id);
}

// A queue of a switch has been stopped or has gone on, or a frame waits in it.
void Plane::guard(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    if (discipline_.watch_detect == 0 || port.at_host) return;
    Watchdog& watchdog = port.watchdogs[slot(priority)];
    watchdog.watch(now_, ((port.paused & port.backlog) >> priority & 1) != 0);
    if (port.watch_due[slot(priority)] || watchdog.next() == never) return;
    port.watch_due[slot(priority)] = true;
    at(watchdog.next(), EventKind::timer, port_id, watch + static_cast<std::uint32_t>(priority));
}

// The watchdog gives a queue up, or takes it back.
void Plane::bark(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    port.watch_due[slot(priority)] = false;
    if (port.watchdogs[slot(priority)].expire(now_) == Watchdog::Verdict::drop) {
        while (!port.queue[slot(priority)].list.empty()) {
            const PacketId id = dequeue(port_id, priority);
            const Packet& packet = store_.packet(id);
            departed(packet, packet.ingress, port_id);
            drop(port_id, id, Cause::watchdog);
        }
    }
    guard(port_id, priority);
    transmit(port_id);
}

}  // namespace kvfabric
