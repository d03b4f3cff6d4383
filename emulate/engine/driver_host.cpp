// Hosts and their NICs.
#include "driver.hpp"

namespace kvfabric {

// The flow's release: its queue pair joins the NIC, and the NIC looks once every event of this
// instant has been seen.
void Driver::release(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    const std::uint32_t port_id = paths_[flow.path];
    touch(port_id);
    flow.blame.begin(now_, held(flow, now_));
    const Time work = transport_.issue * flow.segment.descriptors();
    const bool queues = transport_.one_issuer && !transport_.posts_in_line();
    flow.posting.begin(queues ? ports_[port_id].thread.take(now_, work) : now_, transport_.depth);
    offer(flow_id);
    Pairs pairs{*this};
    ports_[port_id].nic.review(pairs, flow_id, now_);
    at(now_, EventKind::send, port_id, 0);
}

// Everything at a NIC that was due has happened before something changes there.
void Driver::touch(std::uint32_t port_id) {
    Pairs pairs{*this};
    ports_[port_id].nic.advance(pairs, now_);
}

// When the descriptor of the flow's next packet has been posted, never while that waits for an
// event.
Time Driver::posted(const Flow& flow) const {
    const std::int64_t descriptor = flow.segment.descriptor(flow.sender.next());
    if (transport_.posts_in_line()) return descriptor < flow.posted ? 0 : never;
    return flow.posting.at(descriptor, transport_.issue);
}

// Only an ACK can let the flow send.
bool Driver::full(const Flow& flow) const {
    if (transport_.window > 0 && flow.sender.outstanding() >= transport_.window) return true;
    return transport_.depth != no_limit &&
           !flow.posting.room(flow.segment.descriptor(flow.sender.next()));
}

// When to ask the flow again; at most the time given when it may send its next packet then: the
// issue of its work request, and pacing. Never, while its window is full.
Time Driver::ask(std::uint32_t flow_id, Time time) {
    Flow& flow = flows_[flow_id];
    if (!flow.sender.more()) return never;
    if (full(flow)) return never;
    if (transport_.issue > 0) {
        if (const Time when = posted(flow); when > time) return when;
    }
    if (!transport_.controlled) return time;
    return flow.pacer.ask(flow.rate, control_[paths_[flow.path]], time);
}

// What the flow waits for at its new place, in the order in which ask looks.
void Driver::placed(std::uint32_t flow_id, Time time) {
    using State = SenderBlame::State;
    Flow& flow = flows_[flow_id];
    State state = State::turn;
    if (flow.place.state != Place::State::lined && flow.sender.more()) {
        const bool ready = transport_.issue == 0 || posted(flow) <= time;
        state = full(flow) ? State::window : ready ? State::pacing : State::issue;
    }
    flow.blame.enter(state, time, held(flow, time));
}

Time Driver::held(const Flow& flow, Time time) const {
    return ports_[paths_[flow.path]].held(flow.setting.priority, time);
}

void Driver::went_back(Flow& flow) { flow.blame.back(now_, held(flow, now_)); }

// The thread of the flow's NIC may have something to post.
void Driver::offer(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (!transport_.posts_in_line() || flow.offered) return;
    if (flow.posted == flow.segment.descriptors() || !flow.posting.room(flow.posted)) return;
    flow.offered = true;
    const std::uint32_t port_id = paths_[flow.path];
    ports_[port_id].line.offer(flow.setting.release, flow_id);
    post_next(port_id);
}

void Driver::post_next(std::uint32_t port_id) {
    const Time end = ports_[port_id].line.start(transport_.issue, now_);
    if (end != never) at(end, EventKind::timer, port_id, post);
}

// A descriptor has been posted by the thread of a NIC.
void Driver::end_post(std::uint32_t port_id) {
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
std::uint8_t Driver::line_up(std::uint32_t port_id) {
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
void Driver::sleep(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    Pairs pairs{*this};
    const Time next = port.nic.next(pairs);
    if (next >= port.wake) return;
    port.wake = next;
    at(next, EventKind::send, port_id, 0);
}

// The first in line of a priority sends one packet.
void Driver::send(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    Pairs pairs{*this};
    const std::uint32_t flow_id = port.nic.take(pairs, priority);
    Flow& flow = flows_[flow_id];
    const Sequence sequence = flow.sender.next();
    const Bytes payload = flow.segment.payload(sequence);
    const Bytes wire = payload + data_overhead;
    if (transport_.controlled) flow.pacer.sent(flow.rate, control_[port_id], now_, wire);
    const PacketId id = packets_.take();
    Packet& packet = packets_[id];
    packet.flow = flow_id;
    packet.sequence = sequence;
    packet.attempt = flow.sender.attempt();
    packet.wire = static_cast<std::uint16_t>(wire);
    packet.priority = flow.setting.priority;
    packet.hop = 1;
    packet.last = sequence + 1 == flow.segment.packets();
    packet.asks = asks(flow, sequence);
    packet.markable = true;
    write(id);
    if (packet.last) trail_.started({flow_id, packet.attempt, now_});
    const bool again = flow.sender.take(now_, transport_.timeout);
    if (again) flow.resent += payload;
    flow.blame.start(now_, held(flow, now_), again, packet.last);
    totals_.bytes_sent += payload;
    port.nic.review(pairs, flow_id, now_);
    if (((port.nic.lined() | port.backlog) >> priority & 1) == 0) {
        port.scheduler.emptied(priority);
    }
    arm(flow_id);
    start(port_id, id);
}

// Must the receiver of a packet answer it?
bool Driver::asks(const Flow& flow, Sequence sequence) const {
    const std::int64_t number = std::int64_t{sequence} + 1;
    return number == flow.segment.packets() || number % transport_.ack_every == 0 ||
           flow.sender.asks() || (transport_.ack_message && flow.segment.ends_message(sequence));
}

void Driver::receive(PacketId id) {
    const Packet packet = packets_[id];
    packets_.give(id);
    if (packet.kind == FrameKind::data) {
        receive_data(packet);
    } else {
        receive_ack(packet);
    }
}

void Driver::receive_data(const Packet& packet) {
    Flow& flow = flows_[packet.flow];
    const Bytes payload = packet.wire - data_overhead;
    if (packet.marked) {
        if (flow.receiver.expected() == packet.sequence) ++flow.marked;
        if (transport_.controlled && now_ >= flow.cnp_after) {
            flow.cnp_after = now_ + transport_.cnp_interval;
            ++flow.cnps;
            ++totals_.cnps;
            answer(packet.flow, FrameKind::cnp, cnp_wire, transport_.cnp_priority);
        }
    }
    const GoBackNReceiver::Verdict verdict = flow.receiver.receive(packet.sequence);
    const bool accepted = verdict == GoBackNReceiver::Verdict::accepted;
    (accepted ? totals_.bytes_delivered : totals_.bytes_discarded) += payload;
    if (verdict == GoBackNReceiver::Verdict::gap) {
        ++totals_.naks;
        answer(packet.flow, FrameKind::nak, ack_wire, transport_.ack_class(flow.setting.priority));
    }
    if (packet.asks && (accepted || verdict == GoBackNReceiver::Verdict::duplicate)) {
        ++totals_.acks;
        answer(packet.flow, FrameKind::ack, ack_wire, transport_.ack_class(flow.setting.priority));
    }
    if (accepted && packet.sequence + 1 == flow.segment.packets()) {
        flow.finish = now_;
        flow.accepted = packet.attempt;
        completed_.push_back(packet.flow);
    }
}

// Queues an ACK, NAK or CNP at the receiver, ahead of its own data.
void Driver::answer(std::uint32_t flow_id, FrameKind kind, Bytes wire, std::uint8_t priority) {
    Flow& flow = flows_[flow_id];
    const std::uint32_t port_id = paths_[flow.back];
    const PacketId id = packets_.take();
    Packet& packet = packets_[id];
    packet.flow = flow_id;
    packet.kind = kind;
    packet.sequence = flow.receiver.expected();
    packet.attempt = flow.answers++;
    packet.wire = static_cast<std::uint16_t>(wire);
    packet.priority = priority;
    packet.hop = 1;
    write(id);
    enqueue(port_id, id);
    transmit(port_id);
}

void Driver::receive_ack(const Packet& packet) {
    Flow& flow = flows_[packet.flow];
    const std::uint32_t port_id = paths_[flow.path];
    touch(port_id);
    if (packet.kind == FrameKind::cnp) {
        flow.rate.cnp(control_[port_id], now_);
        return;
    }
    if (packet.kind == FrameKind::ack) {
        flow.sender.acknowledge(packet.sequence, now_, transport_.timeout);
    } else if (flow.sender.reject(packet.sequence, now_, transport_.timeout)) {
        went_back(flow);
    }
    if (transport_.depth != no_limit) {
        flow.posting.complete(flow.segment.complete(flow.sender.acked()), transport_.depth,
                              transport_.issue, now_);
        offer(packet.flow);
    }
    settle(packet.flow);
}

// Keeps at most one timer event of a flow waiting; it looks at the deadline when it is due.
void Driver::arm(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (flow.timer != never || flow.sender.deadline() == never) return;
    flow.timer = flow.sender.deadline();
    at(flow.timer, EventKind::timer, paths_[flow.path], flow_timers + 2 * flow_id + 1);
}

void Driver::expire_flow(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    flow.timer = never;
    touch(paths_[flow.path]);
    if (flow.sender.expire(now_, transport_.timeout)) {
        went_back(flow);
        ++flow.timeouts;
        if (flow.lost == flow.lost_before) ++flow.spurious;
        flow.lost_before = flow.lost;
    }
    settle(flow_id);
}

// After the sender's state has changed: its end, or its place at the NIC and its timer.
void Driver::settle(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (flow.sender.done()) {
        if (flow.sender_done < 0) flow.sender_done = now_;
        // It may have been in line to send something again.
        transmit(paths_[flow.path]);
        return;
    }
    const std::uint32_t port_id = paths_[flow.path];
    Pairs pairs{*this};
    ports_[port_id].nic.review(pairs, flow_id, now_);
    transmit(port_id);
    arm(flow_id);
}

}  // namespace kvfabric
