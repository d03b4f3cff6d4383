// Switches: memory, marks, and queues that are stopped for too long.
#include "driver.hpp"

namespace kvfabric {

// The frame goes to the port by which it leaves; false when there is no memory for it. With only its
// header in, it is then still to be expected whole.
bool Driver::forward(std::uint32_t port_id, std::uint32_t out, PacketId id, bool by_header) {
    Packet& packet = packets_[id];
    const std::uint32_t node = ports_[port_id].node;
    SharedBuffer& buffer = *buffers_[node];
    const auto first = static_cast<std::uint32_t>(fabric_.first[node]);
    const Bytes stored = packet.wire - preamble_and_gap;
    const int priority = packet.priority;
    if (ports_[out].watchdogs[slot(priority)].dropping()) {
        drop(out, id, Cause::watchdog);
        return false;
    }
    if (!by_credits() && !buffer.admit(port_id - first, priority, out - first, stored)) {
        if (!by_header) drop(out, id, Cause::buffer);
        return false;
    }
    ++packet.hop;
    packet.ingress = port_id;
    Port& egress = ports_[out];
    if (!discipline_.mark_at_dequeue && packet.markable) {
        Bytes queue = egress.queue[slot(priority)].wire;
        if (egress.serving != none && packets_[egress.serving].priority == priority) {
            queue += egress.serialiser.left(now_);
        }
        mark(out, id, queue);
    }
    enqueue(out, id);
    if ((egress.paused & bit(priority)) != 0) guard(out, priority);
    if (packet.last) {
        trail_.joined(egress.queue[slot(priority)].trail, packet.flow, packet.attempt,
                      static_cast<std::uint8_t>(packet.hop - 1), out, now_,
                      egress.held(priority, now_));
    }
    if (!by_credits()) stop_if_over(port_id, priority);
    transmit(out);
    return true;
}

// Marks a frame that may be marked, or does not, by the bytes in its queue.
void Driver::mark(std::uint32_t port_id, PacketId id, Bytes queue) {
    Port& port = ports_[port_id];
    Packet& packet = packets_[id];
    if (!port.marker.possible(queue)) return;
    const std::uint64_t hash = draw(seed_, Purpose::mark, packet.flow, packet.sequence,
                                    packet.attempt, port_id);
    if (!port.marker.mark(queue, hash)) return;
    packet.marked = true;
    ++port.marked;
    note_mark(port_id, id);
}

// A frame has left the switch: its memory is free, and its group may go on.
void Driver::departed(const Packet& packet, std::uint32_t came_by, std::uint32_t egress) {
    if (by_credits()) {
        repay(came_by, packet);
        return;
    }
    const std::uint32_t node = ports_[egress].node;
    const auto first = static_cast<std::uint32_t>(fabric_.first[node]);
    SharedBuffer& buffer = *buffers_[node];
    const int priority = packet.priority;
    const std::uint32_t ingress = came_by - first;
    buffer.release(ingress, priority, egress - first, packet.wire - preamble_and_gap);
    resume_if_under(came_by, priority);
}

// A queue of a switch has been stopped or has gone on, or a frame waits in it.
void Driver::guard(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    if (discipline_.watch_detect == 0 || port.at_host) return;
    Watchdog& watchdog = port.watchdogs[slot(priority)];
    watchdog.watch(now_, ((port.paused & port.backlog) >> priority & 1) != 0);
    if (port.watch_due[slot(priority)] || watchdog.next() == never) return;
    port.watch_due[slot(priority)] = true;
    at(watchdog.next(), EventKind::timer, port_id, watch + static_cast<std::uint32_t>(priority));
}

// The watchdog gives a queue up, or takes it back.
void Driver::bark(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    port.watch_due[slot(priority)] = false;
    if (port.watchdogs[slot(priority)].expire(now_) == Watchdog::Verdict::drop) {
        while (!port.queue[slot(priority)].list.empty()) {
            const PacketId id = dequeue(port_id, priority);
            departed(packets_[id], packets_[id].ingress, port_id);
            drop(port_id, id, Cause::watchdog);
        }
    }
    guard(port_id, priority);
    transmit(port_id);
}

}  // namespace kvfabric
