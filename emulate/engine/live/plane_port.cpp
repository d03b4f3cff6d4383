// Ports and links of a plane: what is sent when, and how pause frames are told and obeyed.
#include "plane.hpp"

namespace kvfabric {

// The port may be free: pause frames first, then what the scheduler picks; of one class, waiting
// frames (at a host its answers) go before what the NIC pulls from its queue pairs.
void Plane::transmit(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    if (port.busy) return;
    if (port.notify != 0) {
        start_pause(port_id);
        return;
    }
    const std::uint8_t ready = port.at_host ? line_up(port_id) : std::uint8_t{0};
    const auto eligible = static_cast<std::uint8_t>((port.backlog & ~port.paused) | ready);
    if (eligible == 0) {
        if (port.at_host) sleep(port_id);
        port.blocked.idle(now_, (port.backlog | port.nic.lined()) != 0);
        return;
    }
    const int priority =
        port.scheduler.pick(eligible, [&](int p) { return head_bytes(port, p); });
    if ((port.backlog & bit(priority)) != 0) {
        const PacketId id = dequeue(port_id, priority);
        if (discipline_.mark_at_dequeue && !port.at_host) {
            mark(port_id, store_.packet(id), id, port.queue[slot(priority)].wire);
        }
        start(port_id, id);
    } else {
        send(port_id, priority);
    }
}

// On the wire, of the frame that a class with something to send would send next.
Bytes Plane::head_bytes(const Port& port, int priority) const {
    if ((port.backlog & bit(priority)) != 0) {
        return store_.packet(port.queue[slot(priority)].list.head()).wire;
    }
    const Flow& flow = flows_[port.nic.head(priority)];
    return flow.segment.payload(flow.sender.next()) + data_overhead;
}

void Plane::start(std::uint32_t port_id, PacketId id) {
    Port& port = ports_[port_id];
    port.blocked.end(now_);
    port.busy = true;
    port.serving = id;
    port.began = now_;
    const Packet& packet = store_.packet(id);
    const Time left = serialise(port, packet.wire);
    const Time arrival = left + port.delay;
    port.came_by = packet.ingress;
    if (port.flying.empty()) at(arrival, EventKind::arrival, port.reverse, whole);
    port.flying.push(
        {arrival, id, port.serialiser.per_byte(), loses(port_id, packet, arrival), false});
    at(left, EventKind::sent, port_id, 0);
}

// When the last bit of a frame that starts now has left.
Time Plane::serialise(Port& port, Bytes wire) {
    if (port.fault >= 0) {
        port.serialiser.pace(faults_[slot(port.fault)].per_byte_q16(now_, port.per_byte_q16));
    }
    return port.serialiser.finish(now_, wire);
}

// One frame tells the present state of every class that changed or is due.
void Plane::start_pause(std::uint32_t port_id) {
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
void Plane::sent(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    port.busy = false;
    port.busy_time += now_ - port.began;
    ++port.sent_packets;
    if (port.pausing) {
        sent_pause(port_id);
    } else {
        const Packet& packet = store_.packet(port.serving);
        port.serving = none;
        port.sent_bytes += packet.wire;
        if (port.at_host) {
            touch(port_id);
        } else {
            departed(packet, port.came_by, port_id);
        }
    }
    transmit(port_id);
}

// A pause frame does not wait for the pipeline: it may be in before the frames sent before it.
void Plane::sent_pause(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    port.pausing = false;
    port.sent_bytes += pause_wire;
    const Time in = now_ + fabric_.delay[port_id];
    if (port.fault >= 0 && faults_[slot(port.fault)].down(port.began, in)) return;
    PauseFrame frame;
    frame.told = port.told;
    for (std::size_t priority = 0; priority < 8; ++priority) {
        if ((port.told & port.stopped) >> priority & 1) frame.quanta[priority] = most_quanta;
    }
    const PacketId id = store_.take();
    store_.set_length(id, build(setting_.mac[port_id], frame, store_.bytes(id)));
    Wire& telling = jacks_[port_id].telling;
    if (telling.empty()) at(in, EventKind::arrival, port.reverse, pausing);
    telling.push({in, id, 0, false, false});
}

// The last bit of the first frame on a link is in at the far end, whose port is given: there, or at
// the outlet of this end.
void Plane::arrive(std::uint32_t port_id, ArrivalLane lane) {
    const std::uint32_t from_id = ports_[port_id].reverse;
    Jack& jack = jacks_[from_id];
    Wire& wire = lane == pausing ? jack.telling : ports_[from_id].flying;
    const Flight flight = wire.pop();
    if (!wire.empty()) at(wire.front().arrival, EventKind::arrival, port_id, lane);
    if (flight.lost) {
        drop(from_id, flight.id, Cause::fault);
    } else if (jack.outlet != nullptr) {
        jack.outlet->send(from_id, flight.id, now_);
    } else {
        take_in(port_id, flight.id);
    }
}

void Plane::take_in(std::uint32_t port_id, PacketId id) {
    const Headers headers = parse(store_.bytes(id), store_.length(id));
    if (headers.what == Headers::What::pause) {
        hear(port_id, headers.pause);
        store_.give(id);
        return;
    }
    ++totals_.packet_hops;
    if (ports_[port_id].at_host) {
        receive(id, headers);
    } else {
        forward(port_id, id, headers);
    }
}

void Plane::enqueue(std::uint32_t port_id, PacketId id) {
    Port& port = ports_[port_id];
    const Packet& packet = store_.packet(id);
    observation_.queues[port_id].hold(port.waiting, ticks_);
    Queue& queue = port.queue[packet.priority];
    queue.list.push(store_.packets(), id);
    queue.wire += packet.wire;
    port.waiting += packet.wire;
    port.most_waiting = std::max(port.most_waiting, port.waiting);
    port.backlog |= bit(packet.priority);
}

PacketId Plane::dequeue(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    Queue& queue = port.queue[slot(priority)];
    const PacketId id = queue.list.pop(store_.packets());
    const Packet& packet = store_.packet(id);
    observation_.queues[port_id].hold(port.waiting, ticks_);
    queue.wire -= packet.wire;
    port.waiting -= packet.wire;
    if (queue.list.empty()) {
        port.backlog &= static_cast<std::uint8_t>(~bit(priority));
        if ((port.nic.lined() & bit(priority)) == 0) port.scheduler.emptied(priority);
    }
    return id;
}

// A pause frame is in: it takes effect after the response time.
void Plane::hear(std::uint32_t port_id, const PauseFrame& frame) {
    const Time effect = now_ + ports_[port_id].response;
    jacks_[port_id].heard.push_back({effect, frame});
    at(effect, EventKind::pause, port_id, 0);
}

// A pause frame takes effect at the scheduler of the port.
void Plane::obey(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    std::vector<Heard>& heard = jacks_[port_id].heard;
    const PauseFrame frame = heard.front().frame;
    heard.erase(heard.begin());
    if (port.at_host) touch(port_id);
    bool stops = false;
    for (int priority = 0; priority < 8; ++priority) {
        if ((frame.told & bit(priority)) == 0) continue;
        PauseReceiver& receiver = port.obeys[slot(priority)];
        const std::uint16_t quanta = frame.quanta[slot(priority)];
        if (quanta != 0) {
            stops = true;
            const std::int64_t bytes = quanta * quantum_bytes;
            const Time before = receiver.until();
            receiver.stop(now_, port.per_byte_q16 * bytes >> fraction_bits);
            port.paused |= bit(priority);
            port.watchdogs[slot(priority)].stopped(now_);
            if (!port.expiry_due[slot(priority)] || receiver.until() < before) {
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
    if (stops) ++port.pauses;
    transmit(port_id);
}

void Plane::expire_pause(std::uint32_t port_id, int priority) {
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

void Plane::refresh_pause(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    PauseSender& sender = port.stops[slot(priority)];
    if (!sender.expire(now_)) return;
    port.notify |= bit(priority);
    at(sender.next(), EventKind::timer, port_id, refresh + static_cast<std::uint32_t>(priority));
    transmit(port_id);
}

// The frame is gone. For want of memory in a lossless class, that is an error of the run.
void Plane::drop(std::uint32_t port_id, PacketId id, Cause cause) {
    const Packet& packet = store_.packet(id);
    ++ports_[port_id].drops;
    const bool lossless = (discipline_.lossless >> packet.priority & 1) != 0;
    if (cause == Cause::fault) {
        ++totals_.drops_fault;
    } else if (cause == Cause::watchdog) {
        ++totals_.drops_watchdog;
    } else {
        ++(lossless ? totals_.drops_lossless : totals_.drops_buffer);
    }
    const Headers headers = parse(store_.bytes(id), store_.length(id));
    if (headers.what == Headers::What::roce) totals_.bytes_dropped += headers.payload;
    store_.give(id);
}

}  // namespace kvfabric
