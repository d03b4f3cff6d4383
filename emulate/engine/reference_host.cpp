// Hosts and their NICs in the reference engine.
#include "reference.hpp"

namespace kvfabric {

namespace {

// Whole picoseconds between the starts of two frames at a sending rate, rounded up.
Time gap(Bytes wire, std::int64_t rate_bps) {
    constexpr std::int64_t bit_ps = 8'000'000'000'000LL;
    return (wire * bit_ps + rate_bps - 1) / rate_bps;
}

}  // namespace

// The flow's release: its queue pair joins the NIC's ring, and the NIC looks once every event of
// this instant has been seen.
void Reference::release(std::uint32_t flow_id) {
    list(flow_id);
    at(now_, EventKind::send, paths_[flows_[flow_id].path], 0);
}

// Puts a queue pair at the end of the round.
void Reference::list(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (flow.listed || !flow.sender.more()) return;
    flow.listed = true;
    Port& port = ports_[paths_[flow.path]];
    if (port.cursor == no_flow) {
        flow.before = flow.after = flow_id;
        port.cursor = flow_id;
        return;
    }
    const std::uint32_t last = flows_[port.cursor].before;
    flow.before = last;
    flow.after = port.cursor;
    flows_[last].after = flow_id;
    flows_[port.cursor].before = flow_id;
}

void Reference::unlist(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (!flow.listed) return;
    flow.listed = false;
    Port& port = ports_[paths_[flow.path]];
    if (port.cursor == flow_id) port.cursor = flow.after == flow_id ? no_flow : flow.after;
    flows_[flow.before].after = flow.after;
    flows_[flow.after].before = flow.before;
}

// When to ask the flow again; at most now when it may send its next packet: pacing at its present
// rate since the last one began, and the issue of its work request. Never, while its window is full.
Time Reference::eligible(Flow& flow, std::uint32_t port) {
    if (transport_.window > 0 && flow.sender.outstanding() >= transport_.window) return never;
    Time when = flow.setting.release;
    if (transport_.issue > 0) {
        when += transport_.issue * (flow.segment.descriptor(flow.sender.next()) + 1);
        if (when > now_) return when;
    }
    if (!transport_.controlled || flow.last_wire == 0) return when;
    flow.rate.advance(control_[port], now_);
    if (!flow.rate.limited()) return when;
    if (flow.paced_bps != flow.rate.rate()) {
        flow.paced_bps = flow.rate.rate();
        flow.next_send = flow.last_start + gap(flow.last_wire, flow.paced_bps);
    }
    if (flow.next_send <= now_) return when;
    return std::min(flow.next_send, flow.rate.next_increase());
}

// The NIC's port is free: the next eligible queue pair of an unpaused class sends one packet, else
// the NIC looks again when the first of them becomes eligible.
bool Reference::pull(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    if (port.cursor == no_flow) return false;
    Time first = never;
    std::uint32_t flow_id = port.cursor;
    do {
        Flow& flow = flows_[flow_id];
        const std::uint32_t next = flow.after;
        if ((port.paused >> flow.setting.priority & 1) == 0) {
            const Time when = eligible(flow, port_id);
            if (when <= now_) {
                port.cursor = next;
                send(port_id, flow_id);
                return true;
            }
            first = std::min(first, when);
        }
        flow_id = next;
    } while (flow_id != port.cursor);
    if (first < port.wake) {
        port.wake = first;
        at(first, EventKind::send, port_id, 0);
    }
    return false;
}

void Reference::send(std::uint32_t port_id, std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    const Sequence sequence = flow.sender.next();
    const Bytes payload = flow.segment.payload(sequence);
    const Bytes wire = payload + data_overhead;
    if (transport_.controlled) {
        flow.last_start = now_;
        flow.last_wire = wire;
        flow.paced_bps = 0;
        flow.rate.sent(control_[port_id], now_, wire);
    }
    const PacketId id = packets_.take();
    Packet& packet = packets_[id];
    packet.flow = flow_id;
    packet.sequence = sequence;
    packet.attempt = flow.sender.attempt();
    packet.wire = static_cast<std::uint16_t>(wire);
    packet.priority = flow.setting.priority;
    packet.hop = 1;
    if (flow.sender.take(now_, transport_.timeout)) flow.resent += payload;
    totals_.bytes_sent += payload;
    if (!flow.sender.more()) unlist(flow_id);
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
        answer(packet.flow, FrameKind::nak, ack_wire, flow.setting.priority);
    }
    const std::int64_t number = std::int64_t{packet.sequence} + 1;
    const bool last = number == flow.segment.packets();
    const bool asks = last || number % transport_.ack_every == 0;
    if (asks && (accepted || verdict == GoBackNReceiver::Verdict::duplicate)) {
        ++totals_.acks;
        answer(packet.flow, FrameKind::ack, ack_wire, flow.setting.priority);
    }
    if (accepted && last) {
        flow.finish = now_;
        completed_.push_back(packet.flow);
    }
}

// Queues an ACK, NAK or CNP at the receiver, ahead of its own data.
void Reference::answer(std::uint32_t flow_id, FrameKind kind, Bytes wire, std::uint8_t priority) {
    const Flow& flow = flows_[flow_id];
    const std::uint32_t port_id = paths_[flow.back];
    const PacketId id = packets_.take();
    Packet& packet = packets_[id];
    packet.flow = flow_id;
    packet.kind = kind;
    packet.sequence = flow.receiver.expected();
    packet.wire = static_cast<std::uint16_t>(wire);
    packet.priority = priority;
    packet.hop = 1;
    enqueue(ports_[port_id], id);
    transmit(port_id);
}

void Reference::receive_ack(const Packet& packet) {
    Flow& flow = flows_[packet.flow];
    const std::uint32_t port_id = paths_[flow.path];
    if (packet.kind == FrameKind::cnp) {
        flow.rate.cnp(control_[port_id], now_);
        return;
    }
    if (packet.kind == FrameKind::ack) {
        flow.sender.acknowledge(packet.sequence, now_, transport_.timeout);
    } else {
        flow.sender.reject(packet.sequence, now_, transport_.timeout);
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
    if (flow.sender.expire(now_, transport_.timeout)) {
        ++flow.timeouts;
        if (flow.lost == flow.lost_before) ++flow.spurious;
        flow.lost_before = flow.lost;
    }
    settle(flow_id);
}

// After the sender's state has changed: its place in the ring, its timer, its end.
void Reference::settle(std::uint32_t flow_id) {
    Flow& flow = flows_[flow_id];
    if (flow.sender.done()) {
        if (flow.sender_done < 0) flow.sender_done = now_;
        unlist(flow_id);
        return;
    }
    if (flow.sender.more()) {
        list(flow_id);
        transmit(paths_[flow.path]);
    } else {
        unlist(flow_id);
    }
    arm(flow_id);
}

}  // namespace kvfabric
