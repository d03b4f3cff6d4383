// Ports, links and switches of the reference engine.
#include "reference.hpp"

namespace kvfabric {

namespace {

std::uint8_t bit(int priority) { return static_cast<std::uint8_t>(1 << priority); }

std::size_t slot(int priority) { return static_cast<std::size_t>(priority); }

}  // namespace

// The port may be free: pause frames first, then what the scheduler picks; of one class, waiting
// frames (at a host its answers) go before what the NIC pulls from its queue pairs.
void Reference::transmit(std::uint32_t port_id) {
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
        Packet& packet = packets_[id];
        if (discipline_.mark_at_dequeue && !port.at_host && packet.kind == FrameKind::data) {
            mark(port_id, packet, port.queue[slot(priority)].wire);
        }
        start(port_id, id);
    } else {
        send(port_id, priority);
    }
}

// On the wire, of the frame that a class with something to send would send next.
Bytes Reference::head_bytes(const Port& port, int priority) const {
    if ((port.backlog & bit(priority)) != 0) {
        return packets_[port.queue[slot(priority)].list.head()].wire;
    }
    const Flow& flow = flows_[port.nic.head(priority)];
    return flow.segment.payload(flow.sender.next()) + data_overhead;
}

void Reference::start(std::uint32_t port_id, PacketId id) {
    Port& port = ports_[port_id];
    port.blocked.end(now_);
    port.busy = true;
    port.serving = id;
    port.began = now_;
    const Packet& packet = packets_[id];
    if (by_credits()) port.credits[packet.priority].take(packet.wire - preamble_and_gap);
    const Time left = serialise(port, packet.wire);
    const Time arrival = left + port.delay;
    port.came_by = packet.ingress;
    if (port.flying.empty()) at(arrival, EventKind::arrival, port.reverse, whole);
    port.flying.push(
        {arrival, id, port.serialiser.per_byte(), loses(port_id, packet, arrival), false});
    if (discipline_.cut_through && !ports_[port.reverse].at_host) {
        at(now_ + port.serialiser.duration(header_wire) + port.delay, EventKind::arrival,
           port.reverse, header);
    }
    at(left, EventKind::sent, port_id, 0);
}

// When the last bit of a frame that starts now has left.
Time Reference::serialise(Port& port, Bytes wire) {
    if (port.fault >= 0) {
        port.serialiser.pace(faults_[slot(port.fault)].per_byte_q16(now_, port.per_byte_q16));
    }
    return port.serialiser.finish(now_, wire);
}

// One frame tells the present state of every class that changed or is due.
void Reference::start_pause(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    port.blocked.end(now_);
    port.busy = true;
    port.pausing = true;
    port.began = now_;
    port.told = port.notify;
    port.stopped = 0;
    for (int priority = 0; priority < 8; ++priority) {
        if (port.stops[slot(priority)].stopped()) port.stopped |= bit(priority);
    }
    port.stopped |= port.storming;
    port.notify = 0;
    ++totals_.pause_frames;
    at(serialise(port, pause_wire), EventKind::sent, port_id, 0);
}

// The last bit of the frame in service has left.
void Reference::sent(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    port.busy = false;
    port.busy_time += now_ - port.began;
    ++port.sent_packets;
    if (port.pausing) {
        port.pausing = false;
        port.sent_bytes += pause_wire;
        const auto lane = static_cast<std::uint32_t>(port.told << 8 | port.stopped);
        const Time in = now_ + fabric_.delay[port_id];
        if (port.fault < 0 || !faults_[slot(port.fault)].down(port.began, in)) {
            at(in + ports_[port.reverse].response, EventKind::pause, port.reverse, lane);
        }
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
void Reference::arrive(std::uint32_t port_id) {
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
    ++totals_.packet_hops;
    if (flight.gone) return;
    if (!ports_[port_id].at_host) {
        forward(port_id, flight.id, false);
    } else if (transport_.drain_bps > 0 && packets_[flight.id].kind == FrameKind::data) {
        stow(port_id, flight.id);
    } else {
        receive(flight.id);
    }
}

// The header of the next frame in flight is in: it goes on at once, or waits for its last bit.
void Reference::head(std::uint32_t port_id) {
    Port& from = ports_[ports_[port_id].reverse];
    Flight& flight = from.flying[from.headed++];
    if (flight.lost) return;
    const std::uint32_t out = hop_of(packets_[flight.id]);
    if (out != port_id && passes(flight, out)) flight.gone = forward(port_id, flight.id, true);
}

// Cut-through: nothing waits or is in service at the port that the frame goes out by, nothing stops
// it there, and the port is no faster than the frame comes in, or it would run out of bits.
bool Reference::passes(const Flight& flight, std::uint32_t out) const {
    const Port& egress = ports_[out];
    const Packet& packet = packets_[flight.id];
    const int priority = packet.priority;
    if (egress.watchdogs[slot(priority)].dropping()) return false;
    if (egress.busy || egress.backlog != 0 || egress.notify != 0) return false;
    if ((egress.paused & bit(priority)) != 0) return false;
    if (by_credits() && !egress.credits[slot(priority)].enough(packet.wire - preamble_and_gap)) {
        return false;
    }
    const std::int64_t rate =
        egress.fault < 0 ? egress.per_byte_q16
                         : faults_[slot(egress.fault)].per_byte_q16(now_, egress.per_byte_q16);
    return rate >= flight.per_byte_q16;
}

std::uint32_t Reference::hop_of(const Packet& packet) const {
    const Flow& flow = flows_[packet.flow];
    return paths_[(packet.kind == FrameKind::data ? flow.path : flow.back) + packet.hop];
}

// The frame goes to the port by which it leaves; false when there is no memory for it. With only its
// header in, it is then still to be expected whole.
bool Reference::forward(std::uint32_t port_id, PacketId id, bool by_header) {
    Packet& packet = packets_[id];
    const std::uint32_t out = hop_of(packet);
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
    if (!discipline_.mark_at_dequeue && packet.kind == FrameKind::data) {
        Bytes queue = egress.queue[slot(priority)].wire;
        if (egress.serving != none && packets_[egress.serving].priority == priority) {
            queue += egress.serialiser.left(now_);
        }
        mark(out, packet, queue);
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

// A frame has come in: must its peer stop?
void Reference::stop_if_over(std::uint32_t port_id, int priority) {
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

void Reference::enqueue(std::uint32_t port_id, PacketId id) {
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

PacketId Reference::dequeue(std::uint32_t port_id, int priority) {
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

void Reference::mark(std::uint32_t port_id, Packet& packet, Bytes queue) {
    Port& port = ports_[port_id];
    if (!port.marker.possible(queue)) return;
    const std::uint64_t hash = draw(seed_, Purpose::mark, packet.flow, packet.sequence,
                                    packet.attempt, port_id);
    if (!port.marker.mark(queue, hash)) return;
    packet.marked = true;
    ++port.marked;
    Flow& flow = flows_[packet.flow];
    if (now_ > flow.marked_at || port_id > flow.marked_by) {
        flow.marked_at = now_;
        flow.marked_by = port_id;
    }
}

// A frame has left the switch: its memory is free, and its group may go on.
void Reference::departed(const Packet& packet, std::uint32_t came_by, std::uint32_t egress) {
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

// A frame's memory is free: may the peer that sent it go on?
void Reference::resume_if_under(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    const auto first = static_cast<std::uint32_t>(fabric_.first[port.node]);
    if (!port.stops[slot(priority)].stopped()) return;
    if (!buffers_[port.node]->under(port_id - first, priority)) return;
    port.stops[slot(priority)].resume();
    observation_.pauses.end(port.reverse, priority, now_);
    port.notify |= bit(priority);
    transmit(port_id);
}

// A pause frame takes effect at the scheduler of the port.
void Reference::obey(std::uint32_t port_id, std::uint32_t lane) {
    Port& port = ports_[port_id];
    const auto told = static_cast<std::uint8_t>(lane >> 8);
    const auto stopped = static_cast<std::uint8_t>(lane);
    if (port.at_host) touch(port_id);
    if ((told & stopped) != 0) ++port.pauses;
    for (int priority = 0; priority < 8; ++priority) {
        if ((told & bit(priority)) == 0) continue;
        PauseReceiver& receiver = port.obeys[slot(priority)];
        if ((stopped & bit(priority)) != 0) {
            if (!receiver.paused()) port.still[slot(priority)] = now_;
            receiver.stop(now_, port.pause);
            port.paused |= bit(priority);
            port.watchdogs[slot(priority)].stopped(now_);
            if (!port.expiry_due[slot(priority)]) {
                port.expiry_due[slot(priority)] = true;
                at(receiver.until(), EventKind::timer, port_id,
                   expiry + static_cast<std::uint32_t>(priority));
            }
        } else {
            receiver.resume(now_);
            port.paused &= static_cast<std::uint8_t>(~bit(priority));
        }
        guard(port_id, priority);
    }
    transmit(port_id);
}

void Reference::expire_pause(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    PauseReceiver& receiver = port.obeys[slot(priority)];
    port.expiry_due[slot(priority)] = false;
    if (port.at_host) touch(port_id);
    if (receiver.expire(now_)) {
        port.paused &= static_cast<std::uint8_t>(~bit(priority));
        guard(port_id, priority);
        transmit(port_id);
    } else if (receiver.paused()) {
        port.expiry_due[slot(priority)] = true;
        at(receiver.until(), EventKind::timer, port_id,
           expiry + static_cast<std::uint32_t>(priority));
    }
}

void Reference::refresh_pause(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    PauseSender& sender = port.stops[slot(priority)];
    if (!sender.expire(now_)) return;
    port.notify |= bit(priority);
    at(sender.next(), EventKind::timer, port_id, refresh + static_cast<std::uint32_t>(priority));
    transmit(port_id);
}

// The frame is gone. For want of memory in a lossless class, that is an error of the run.
void Reference::drop(std::uint32_t port_id, PacketId id, Cause cause) {
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
    ++flows_[packet.flow].lost;
    if (packet.kind == FrameKind::data) totals_.bytes_dropped += packet.wire - data_overhead;
    packets_.give(id);
}

}  // namespace kvfabric
