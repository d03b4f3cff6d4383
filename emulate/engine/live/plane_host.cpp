// Hosts and their NICs in a plane.
#include "plane.hpp"

namespace kvfabric {

// The flow's release: its queue pair joins the NIC, and the NIC looks once every event of this
// instant has been seen.
void Plane::release(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    const std::uint32_t port_id = paths_[flow.path];
    touch(port_id);
    const Time work = transport_.issue * flow.segment.descriptors();
    const bool queues = transport_.one_issuer && !transport_.posts_in_line();
    flow.posting.begin(queues ? ports_[port_id].thread.take(now_, work) : now_, transport_.depth);
    offer(flow_id);
    Pairs pairs{*this};
    ports_[port_id].nic.review(pairs, flow_id, now_);
    at(now_, EventKind::send, port_id, 0);
}

// Everything at a NIC that was due has happened before something changes there.
void Plane::touch(std::uint32_t port_id) {
    Pairs pairs{*this};
    ports_[port_id].nic.advance(pairs, now_);
}

// When the descriptor of the flow's next packet has been posted, never while that waits for an
// event.
Time Plane::posted(const Flow& flow) const {
    const std::int64_t descriptor = flow.segment.descriptor(flow.sender.next());
    if (transport_.posts_in_line()) return descriptor < flow.posted ? 0 : never;
    return flow.posting.at(descriptor, transport_.issue);
}

// Only an ACK can let the flow send.
bool Plane::full(const Flow& flow) const {
    if (transport_.window > 0 && flow.sender.outstanding() >= transport_.window) return true;
    return transport_.depth != no_limit &&
           !flow.posting.room(flow.segment.descriptor(flow.sender.next()));
}

// When to ask the flow again; at most the time given when it may send its next packet then.
Time Plane::ask(std::uint32_t flow_id, Time time) {
    Flow& flow = flows_[flow_id];
    if (!flow.sender.more()) return never;
    if (full(flow)) return never;
    if (transport_.issue > 0) {
        if (const Time when = posted(flow); when > time) return when;
    }
    if (!transport_.controlled) return time;
    return flow.pacer.ask(flow.rate, control_[paths_[flow.path]], time);
}

// The thread of the flow's NIC may have something to post.
void Plane::offer(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (!transport_.posts_in_line() || flow.offered) return;
    if (flow.posted == flow.segment.descriptors() || !flow.posting.room(flow.posted)) return;
    flow.offered = true;
    const std::uint32_t port_id = paths_[flow.path];
    ports_[port_id].line.offer(flow.setting.release, flow_id);
    post_next(port_id);
}

void Plane::post_next(std::uint32_t port_id) {
    const Time end = ports_[port_id].line.start(transport_.issue, now_);
    if (end != never) at(end, EventKind::timer, port_id, post);
}

// A descriptor has been posted by the thread of a NIC.
void Plane::end_post(std::uint32_t port_id) {
    touch(port_id);
    const std::uint32_t flow_id = ports_[port_id].line.end();
    flows_[flow_id].offered = false;
    ++flows_[flow_id].posted;
    offer(flow_id);
    post_next(port_id);
    Pairs pairs{*this};
    ports_[port_id].nic.review(pairs, flow_id, now_);
    transmit(port_id);
}

// The priorities with a queue pair that may send now and that no answer goes before.
std::uint8_t Plane::line_up(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    Pairs pairs{*this};
    const std::uint8_t before = port.nic.lined();
    const auto of = static_cast<std::uint8_t>(~(port.paused | port.backlog));
    const std::uint8_t ready = port.nic.ready(pairs, of, now_);
    const auto gone = static_cast<std::uint8_t>(before & ~port.nic.lined() & of);
    for (int priority = 0; gone >> priority != 0; ++priority) {
        if ((gone >> priority & 1) != 0) port.scheduler.emptied(priority);
    }
    return ready;
}

// Nothing can be sent now: the NIC looks again when the first of those that wait may.
void Plane::sleep(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    Pairs pairs{*this};
    const Time next = port.nic.next(pairs);
    if (next >= port.wake) return;
    port.wake = next;
    at(next, EventKind::send, port_id, 0);
}

// The first in line of a priority sends one packet.
void Plane::send(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    Pairs pairs{*this};
    const std::uint32_t flow_id = port.nic.take(pairs, priority);
    Flow& flow = flows_[flow_id];
    const Segment& segment = flow.segment;
    RoceFrame frame;
    frame.flow = flow_id;
    frame.sequence = flow.sender.next();
    frame.priority = flow.setting.priority;
    frame.attempt = flow.sender.attempt();
    frame.payload = segment.payload(frame.sequence);
    const std::int64_t descriptor = segment.descriptor(frame.sequence);
    frame.last = segment.ends_message(frame.sequence);
    frame.first = frame.sequence == 0 || segment.ends_message(frame.sequence - 1);
    frame.message = segment.message(descriptor);
    frame.offset = static_cast<std::uint64_t>(segment.offset(descriptor));
    frame.asks = frame.sequence + 1 == segment.packets() ||
                 (std::int64_t{frame.sequence} + 1) % transport_.ack_every == 0 ||
                 (transport_.ack_message && frame.last);
    const Bytes wire = frame.payload + data_overhead;
    if (transport_.controlled) flow.pacer.sent(flow.rate, control_[port_id], now_, wire);
    const PacketId id = store_.take();
    store_.set_length(id, build(pairs_[flow_id].there, frame, store_.bytes(id)));
    Packet& packet = store_.packet(id);
    packet.flow = flow_id;
    packet.sequence = frame.sequence;
    packet.attempt = frame.attempt;
    packet.wire = static_cast<std::uint16_t>(wire);
    packet.priority = frame.priority;
    if (flow.sender.take(now_, transport_.timeout)) flow.resent += frame.payload;
    totals_.bytes_sent += frame.payload;
    port.nic.review(pairs, flow_id, now_);
    if (((port.nic.lined() | port.backlog) >> priority & 1) == 0) {
        port.scheduler.emptied(priority);
    }
    arm(flow_id);
    start(port_id, id);
}

// What is not of this transport is for the host's own protocols, which see it without us.
void Plane::receive(PacketId id, const Headers& headers) {
    if (headers.what == Headers::What::roce) {
        const bool known = headers.flow < flows_.size() && flows_[headers.flow].submitted;
        if (!intact(store_.bytes(id), store_.length(id))) {
            ++strays_.damaged;
        } else if (!known) {
            ++strays_.unknown;
        } else if (headers.kind == FrameKind::data) {
            receive_data(headers.flow, headers);
        } else {
            receive_ack(headers.flow, headers);
        }
    }
    store_.give(id);
}

void Plane::receive_data(std::uint32_t flow_id, const Headers& headers) {
    Flow& flow = flows_[flow_id];
    constexpr std::uint8_t congested = 3;
    if (headers.ecn == congested) {
        ++flow.marked;
        if (transport_.controlled && now_ >= flow.cnp_after) {
            flow.cnp_after = now_ + transport_.cnp_interval;
            ++flow.cnps;
            ++totals_.cnps;
            answer(flow_id, FrameKind::cnp, transport_.cnp_priority);
        }
    }
    const GoBackNReceiver::Verdict verdict = flow.receiver.receive(headers.sequence);
    const bool accepted = verdict == GoBackNReceiver::Verdict::accepted;
    (accepted ? totals_.bytes_delivered : totals_.bytes_discarded) += headers.payload;
    const std::uint8_t priority = transport_.ack_class(flow.setting.priority);
    if (verdict == GoBackNReceiver::Verdict::gap) {
        ++totals_.naks;
        answer(flow_id, FrameKind::nak, priority);
    }
    if (headers.asks && (accepted || verdict == GoBackNReceiver::Verdict::duplicate)) {
        ++totals_.acks;
        answer(flow_id, FrameKind::ack, priority);
    }
    if (accepted && headers.sequence + 1 == flow.segment.packets()) {
        flow.finish = now_;
        --unfinished_;
        completed_.push_back({flow.setting.flow, flow.setting.handoff, now_});
    }
}

// Queues an ACK, NAK or CNP at the receiver, ahead of its own data.
void Plane::answer(std::uint32_t flow_id, FrameKind kind, std::uint8_t priority) {
    Flow& flow = flows_[flow_id];
    const std::uint32_t port_id = paths_[flow.back];
    RoceFrame frame;
    frame.kind = kind;
    frame.flow = flow_id;
    frame.sequence = flow.receiver.expected();
    frame.messages = static_cast<std::uint32_t>(flow.segment.complete(frame.sequence));
    frame.priority = priority;
    frame.attempt = flow.answers++;
    const PacketId id = store_.take();
    store_.set_length(id, build(pairs_[flow_id].back, frame, store_.bytes(id)));
    Packet& packet = store_.packet(id);
    packet.flow = flow_id;
    packet.kind = kind;
    packet.sequence = frame.sequence;
    packet.attempt = frame.attempt;
    packet.wire = static_cast<std::uint16_t>(kind == FrameKind::cnp ? cnp_wire : ack_wire);
    packet.priority = priority;
    enqueue(port_id, id);
    transmit(port_id);
}

void Plane::receive_ack(std::uint32_t flow_id, const Headers& headers) {
    Flow& flow = flows_[flow_id];
    const std::uint32_t port_id = paths_[flow.path];
    touch(port_id);
    if (headers.kind == FrameKind::cnp) {
        flow.rate.cnp(control_[port_id], now_);
        return;
    }
    if (headers.kind == FrameKind::ack) {
        flow.sender.acknowledge(headers.sequence, now_, transport_.timeout);
    } else {
        flow.sender.reject(headers.sequence, now_, transport_.timeout);
    }
    if (transport_.depth != no_limit) {
        flow.posting.complete(flow.segment.complete(flow.sender.acked()), transport_.depth,
                              transport_.issue, now_);
        offer(flow_id);
    }
    settle(flow_id);
}

// Keeps at most one timer event of a flow waiting; it looks at the deadline when it is due.
void Plane::arm(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (flow.timer != never || flow.sender.deadline() == never) return;
    flow.timer = flow.sender.deadline();
    at(flow.timer, EventKind::timer, paths_[flow.path], flow_timers + 2 * flow_id + 1);
}

void Plane::expire_flow(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    flow.timer = never;
    touch(paths_[flow.path]);
    if (flow.sender.expire(now_, transport_.timeout)) ++flow.timeouts;
    settle(flow_id);
}

// After the sender's state has changed: its end, or its place at the NIC and its timer.
void Plane::settle(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (flow.sender.done()) {
        if (flow.sender_done < 0) flow.sender_done = now_;
        return;
    }
    const std::uint32_t port_id = paths_[flow.path];
    Pairs pairs{*this};
    ports_[port_id].nic.review(pairs, flow_id, now_);
    transmit(port_id);
    arm(flow_id);
}

}  // namespace kvfabric
