// Ports and their links: what is sent when.
#include "driver.hpp"

namespace kvfabric {

// The port may be free: pause frames first, then what the scheduler picks; of one class, waiting
// frames (at a host its answers) go before what the NIC pulls from its queue pairs.
void Driver::transmit(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    if (port.busy) return;
    if (port.notify != 0) {
        start_pause(port_id);
        return;
    }
    const std::uint8_t ready = port.at_host ? line_up(port_id) : std::uint8_t{0};
    auto eligible = static_cast<std::uint8_t>((port.backlog & ~port.paused) | ready);
    if (by_credits()) eligible = with_credits(port_id, eligible);
    if (eligible == 0) {
        if (port.at_host) sleep(port_id);
        port.blocked.idle(now_, (port.backlog | port.nic.lined()) != 0);
        return;
    }
    const int priority =
        port.scheduler.pick(eligible, [&](int p) { return head_bytes(port, p); });
    if ((port.backlog & bit(priority)) != 0) {
        const PacketId id = dequeue(port_id, priority);
        if (discipline_.mark_at_dequeue && !port.at_host && packets_[id].markable) {
            mark(port_id, id, port.queue[slot(priority)].wire);
        }
        start(port_id, id);
    } else {
        send(port_id, priority);
    }
}

// On the wire, of the frame that a class with something to send would send next.
Bytes Driver::head_bytes(const Port& port, int priority) const {
    if ((port.backlog & bit(priority)) != 0) {
        return packets_[port.queue[slot(priority)].list.head()].wire;
    }
    const Flow& flow = flows_[port.nic.head(priority)];
    return flow.segment.payload(flow.sender.next()) + data_overhead;
}

void Driver::start(std::uint32_t port_id, PacketId id) {
    Port& port = ports_[port_id];
    port.blocked.end(now_);
    port.busy = true;
    port.serving = id;
    port.began = now_;
    const Packet& packet = packets_[id];
    if (by_credits()) port.credits[packet.priority].take(packet.wire - preamble_and_gap);
    const Time end = serialise(port, packet.wire);
    const Time arrival = end + port.delay;
    port.came_by = packet.ingress;
    if (port.flying.empty()) at(arrival, EventKind::arrival, port.reverse, whole);
    port.flying.push(
        {arrival, id, port.serialiser.per_byte(), loses(port_id, packet, arrival), false});
    if (discipline_.cut_through && !ports_[port.reverse].at_host) {
        at(now_ + port.serialiser.duration(header_wire) + port.delay, EventKind::arrival,
           port.reverse, header);
    }
    at(end, EventKind::sent, port_id, 0);
}

// When the last bit of a frame that starts now has left.
Time Driver::serialise(Port& port, Bytes wire) {
    if (port.fault >= 0) {
        port.serialiser.pace(faults_[slot(port.fault)].per_byte_q16(now_, port.per_byte_q16));
    }
    return port.serialiser.finish(now_, wire);
}

// The last bit of the frame in service has left.
void Driver::sent(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    port.busy = false;
    port.busy_time += now_ - port.began;
    ++port.sent_packets;
    if (port.pausing) {
        port.pausing = false;
        port.sent_bytes += pause_wire;
    } else {
        const Packet& packet = packets_[port.serving];
        port.serving = none;
        port.sent_bytes += packet.wire;
        if (port.at_host) {
            touch(port_id);
            Flow& flow = flows_[packet.flow];
            if (packet.kind == FrameKind::data) flow.blame.end(now_, held(flow, now_));
        } else {
            departed(packet, port.came_by, port_id);
        }
    }
    transmit(port_id);
}

// The last bit of the first frame in flight is in. The port is the receiving node's.
void Driver::arrive(std::uint32_t port_id) {
    const std::uint32_t from_id = ports_[port_id].reverse;
    Port& from = ports_[from_id];
    const Flight flight = from.flying.pop();
    if (from.headed > 0) --from.headed;
    if (!from.flying.empty()) {
        at(from.flying.front().arrival, EventKind::arrival, port_id, whole);
    }
    if (by_credits() && (flight.lost || ports_[port_id].at_host)) {
        repay(port_id, packets_[flight.id]);
    }
    if (flight.lost) {
        drop(from_id, flight.id, Cause::fault);
        return;
    }
    if (flight.gone) {
        ++totals_.packet_hops;
    } else {
        come(port_id, flight.id);
    }
}

void Driver::enqueue(std::uint32_t port_id, PacketId id) {
    Port& port = ports_[port_id];
    const Packet& packet = packets_[id];
    observation_.queues[port_id].hold(port.waiting, ticks_);
    Queue& queue = port.queue[packet.priority];
    if (queue.list.empty()) port.still[packet.priority] = now_;
    queue.list.push(packets_, id);
    queue.wire += packet.wire;
    port.waiting += packet.wire;
    port.most_waiting = std::max(port.most_waiting, port.waiting);
    port.backlog |= bit(packet.priority);
}

PacketId Driver::dequeue(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    Queue& queue = port.queue[slot(priority)];
    const PacketId id = queue.list.pop(packets_);
    Packet& packet = packets_[id];
    observation_.queues[port_id].hold(port.waiting, ticks_);
    queue.wire -= packet.wire;
    if (packet.last) trail_.left(queue.trail, now_, port.held(priority, now_));
    port.waiting -= packet.wire;
    if (queue.list.empty()) {
        port.backlog &= static_cast<std::uint8_t>(~bit(priority));
        if ((port.nic.lined() & bit(priority)) == 0) port.scheduler.emptied(priority);
    }
    return id;
}

// The frame is gone. For want of memory in a lossless class, that is an error of the run.
void Driver::drop(std::uint32_t port_id, PacketId id, Cause cause) {
    const Packet& packet = packets_[id];
    ++ports_[port_id].drops;
    const bool lossless = (discipline_.lossless >> packet.priority & 1) != 0;
    if (cause == Cause::fault) {
        ++totals_.drops_fault;
    } else if (cause == Cause::watchdog) {
        ++totals_.drops_watchdog;
    } else {
        ++(lossless ? totals_.drops_lossless : totals_.drops_buffer);
    }
    lose(id);
}

}  // namespace kvfabric
