#include "reference.hpp"

namespace kvfabric {

std::uint32_t Reference::hop_of(const Packet& packet) const {
    const Flow& flow = flows_[packet.flow];
    return paths_[(packet.kind == FrameKind::data ? flow.path : flow.back) + packet.hop];
}

void Reference::come(std::uint32_t port_id, PacketId id) {
    ++totals_.packet_hops;
    if (!ports_[port_id].at_host) {
        forward(port_id, hop_of(packets_[id]), id, false);
    } else if (transport_.drain_bps > 0 && packets_[id].kind == FrameKind::data) {
        stow(port_id, id);
    } else {
        receive(id);
    }
}

void Reference::tell(std::uint32_t port_id, const PauseFrame& frame, Time in) {
    hear(ports_[port_id].reverse, frame, in);
}

// The last mark, by (time, port), is what congestion control is blamed on.
void Reference::note_mark(std::uint32_t port_id, PacketId id) {
    Flow& flow = flows_[packets_[id].flow];
    if (now_ > flow.marked_at || port_id > flow.marked_by) {
        flow.marked_at = now_;
        flow.marked_by = port_id;
    }
}

void Reference::lose(PacketId id) {
    const Packet& packet = packets_[id];
    ++flows_[packet.flow].lost;
    if (packet.kind == FrameKind::data) totals_.bytes_dropped += packet.wire - data_overhead;
    packets_.give(id);
}

void Reference::handle_own(const Event& event) {
    event.kind() == EventKind::drained ? drained(event.port()) : head(event.port());
}

void Reference::ticked(Time first, Time last) {
    std::vector<std::uint32_t> stopped;
    for (std::uint32_t p = 0; p < ports_.size(); ++p) {
        if (latched_.paused[p] != 0) stopped.push_back(p);
    }
    watch_stopped(stopped, last / tick_ - ticks_);
    deadlocks_.look(Queues{*this}, stopped, latched_.paused, first, last);
}

// The header of the next frame in flight is in: it goes on at once, or waits for its last bit.
void Reference::head(std::uint32_t port_id) {
    Port& from = ports_[ports_[port_id].reverse];
    Flight& flight = from.flying[from.headed++];
    if (flight.lost) return;
    const std::uint32_t out = hop_of(packets_[flight.id]);
    if (out != port_id && passes(flight, out)) flight.gone = forward(port_id, out, flight.id, true);
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

std::vector<Blame> Reference::blames() const {
    const std::vector<HopWait> waits =
        trail_.hops([&](std::uint32_t flow) { return flows_[flow].accepted; });
    std::vector<Time> start(flows_.size(), -1);
    for (const CopyStart& copy : trail_.starts()) {
        if (flows_[copy.flow].accepted == copy.attempt) start[copy.flow] = copy.start;
    }
    std::vector<Blame> all(flows_.size());
    std::size_t first = 0;
    for (std::size_t f = 0; f < flows_.size(); ++f) {
        const Flow& flow = flows_[f];
        std::size_t end = first;
        while (end < waits.size() && waits[end].flow == f) ++end;
        if (flow.finish >= 0) {
            all[f] = blame(flow.blame, flow.setting.release, start[f], flow.finish,
                           std::span(waits).subspan(first, end - first));
        }
        first = end;
    }
    return all;
}

std::vector<HopWait> Reference::hop_waits() const {
    std::vector<HopWait> rows =
        trail_.hops([&](std::uint32_t flow) { return flows_[flow].accepted; });
    for (std::size_t f = 0; f < flows_.size(); ++f) {
        const Flow& flow = flows_[f];
        if (flow.finish < 0) continue;
        const Blame& sender = flow.blame.parts();
        rows.push_back({static_cast<std::uint32_t>(f), paths_[flow.path],
                        static_cast<std::uint16_t>(flow.accepted), 0, sender.source,
                        sender.paused});
    }
    std::sort(rows.begin(), rows.end(), in_hop_order);
    return rows;
}

std::uint8_t Reference::Queues::waiting(std::uint32_t port) const {
    return engine.ports_[port].at_host ? std::uint8_t{0} : engine.ports_[port].backlog;
}

Time Reference::Queues::still(std::uint32_t port, int priority) const {
    const Port& at = engine.ports_[port];
    return engine.by_credits() ? at.credits[slot(priority)].since() : at.still[slot(priority)];
}

bool Reference::Queues::holds(std::uint32_t port, int priority, std::uint32_t in) const {
    PacketId id = engine.ports_[port].queue[slot(priority)].list.head();
    while (id != none && engine.packets_[id].ingress != in) id = engine.packets_[id].next;
    return id != none;
}

Bytes Reference::in_flight() const {
    Bytes total = 0;
    const auto count = [&](PacketId id) {
        const Packet& packet = packets_[id];
        if (packet.kind == FrameKind::data) total += packet.wire - data_overhead;
    };
    for (const Port& port : ports_) {
        for (std::size_t i = 0; i < port.flying.size(); ++i) {
            if (!port.flying[i].gone) count(port.flying[i].id);
        }
        for (PacketId id = port.stowed.head(); id != none; id = packets_[id].next) count(id);
        for (const Queue& queue : port.queue) {
            for (PacketId id = queue.list.head(); id != none; id = packets_[id].next) count(id);
        }
    }
    return total;
}

}  // namespace kvfabric
