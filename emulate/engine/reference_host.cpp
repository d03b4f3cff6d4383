// Hosts and their NICs in the reference engine.
#include "reference.hpp"

namespace kvfabric {

// The flow's release: its queue pair joins the NIC, and the NIC looks once every event of this
// instant has been seen.
void Reference::release(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    const std::uint32_t port_id = paths_[flow.path];
    touch(port_id);
    flow.blame.begin(now_, held(flow, now_));
    Pairs pairs{*this};
    ports_[port_id].nic.review(pairs, flow_id, now_);
    at(now_, EventKind::send, port_id, 0);
}

// Everything at a NIC that was due has happened before something changes there.
void Reference::touch(std::uint32_t port_id) {
    Pairs pairs{*this};
    ports_[port_id].nic.advance(pairs, now_);
}

// When the descriptor of the flow's next packet has been issued.
Time Reference::issued(const Flow& flow) const {
    return flow.setting.release +
           transport_.issue * (flow.segment.descriptor(flow.sender.next()) + 1);
}

// When to ask the flow again; at most the time given when it may send its next packet then: the
// issue of its work request, and pacing. Never, while its window is full.
Time Reference::ask(std::uint32_t flow_id, Time time) {
    Flow& flow = flows_[flow_id];
    if (!flow.sender.more()) return never;
    if (transport_.window > 0 && flow.sender.outstanding() >= transport_.window) return never;
    if (transport_.issue > 0) {
        const Time when = issued(flow);
        if (when > time) return when;
    }
    if (!transport_.controlled) return time;
    return flow.pacer.ask(flow.rate, control_[paths_[flow.path]], time);
}

// What the flow waits for at its new place, in the order in which ask looks.
void Reference::placed(std::uint32_t flow_id, Time time) {
    using State = SenderBlame::State;
    Flow& flow = flows_[flow_id];
    State state = State::turn;
    if (flow.place.state != Place::State::lined && flow.sender.more()) {
        const bool full =
            transport_.window > 0 && flow.sender.outstanding() >= transport_.window;
        const bool posted = transport_.issue == 0 || issued(flow) <= time;
        state = full ? State::window : posted ? State::pacing : State::issue;
    }
    flow.blame.enter(state, time, held(flow, time));
}

Time Reference::held(const Flow& flow, Time time) const {
    return ports_[paths_[flow.path]].held(flow.setting.priority, time);
}

void Reference::went_back(Flow& flow) { flow.blame.back(now_, held(flow, now_)); }

// The priorities with a queue pair that may send now and that no answer goes before.
std::uint8_t Reference::line_up(std::uint32_t port_id) {
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
void Reference::sleep(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    Pairs pairs{*this};
    const Time next = port.nic.next(pairs);
    if (next >= port.wake) return;
    port.wake = next;
    at(next, EventKind::send, port_id, 0);
}

// The first in line of a priority sends one packet.
void Reference::send(std::uint32_t port_id, int priority) {
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

void Reference::receive(PacketId id) {
    const Packet packet = packets_[id];
    packets_.give(id);
    if (packet.kind == FrameKind::data) {
        receive_data(packet);
    } else {
        receive_ack(packet);
    }
}

void Reference::receive_data(const Packet& packet) {
    Flow& flow = flows_[packet.flow];
    const Bytes payload = packet.wire - data_overhead;
    if (packet.marked) {
        ++flow.marked;
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
    const std::int64_t number = std::int64_t{packet.sequence} + 1;
    const bool last = number == flow.segment.packets();
    const bool asks = last || number % transport_.ack_every == 0;
    if (asks && (accepted || verdict == GoBackNReceiver::Verdict::duplicate)) {
        ++totals_.acks;
        answer(packet.flow, FrameKind::ack, ack_wire, transport_.ack_class(flow.setting.priority));
    }
    if (accepted && last) {
        flow.finish = now_;
        flow.accepted = packet.attempt;
        completed_.push_back(packet.flow);
    }
}

// Queues an ACK, NAK or CNP at the receiver, ahead of its own data.
void Reference::answer(std::uint32_t flow_id, FrameKind kind, Bytes wire, std::uint8_t priority) {
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
    enqueue(port_id, id);
    transmit(port_id);
}

void Reference::receive_ack(const Packet& packet) {
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
    settle(packet.flow);
}

// Keeps at most one timer event of a flow waiting; it looks at the deadline when it is due.
void Reference::arm(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (flow.timer != never || flow.sender.deadline() == never) return;
    flow.timer = flow.sender.deadline();
    at(flow.timer, EventKind::timer, paths_[flow.path], flow_timers + 2 * flow_id + 1);
}

void Reference::expire_flow(std::uint32_t flow_id) {
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
void Reference::settle(std::uint32_t flow_id) {
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
