#include <numeric>

#include "core_link.hpp"

namespace kvfabric {

namespace {

// Ports whose state fills the nearest caches.
constexpr std::size_t wide_from = 2'000;

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

Core::Core(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
           TransportSetting transport, const std::vector<FaultSetting>& faults,
           std::uint64_t seed, Time tick)
    : fabric_(std::move(fabric)), discipline_(std::move(discipline)),
      transport_(std::move(transport)), router_(fabric_, std::move(routes)), seed_(mix(seed)),
      ports_(fabric_.node.size()), rest_(ports_.size()), queues_(ports_.size() * 8),
      lines_(queues_.size()),
      nodes_(fabric_.is_switch.size()), control_(controls(transport_)),
      observation_(ports_.size()), deadlocks_(ports_.size(), discipline_.deadlock, tick),
      tick_(tick), next_tick_(tick) {
    kind_wire_ = {transport_.mtu + data_overhead, 0, 0, ack_wire, ack_wire, cnp_wire};
    for (std::size_t n = 0; n < nodes_.size(); ++n) add_node(n);
    classify();
    for (CorePort& port : ports_) port.in.open(arena_);
    for (CorePortRest& rest : rest_) rest.pauses_in.open(arena_);
    for (std::size_t p = 0; p < ports_.size(); ++p) add_port(p);
    if (transport_.drain_bps > 0) {
        receives_.resize(ports_.size());
        for (ReceiveBuffer& receive : receives_) receive.drain = Serialiser(transport_.drain_bps);
    }
    share_out(1);
    wide_ = ports_.size() > wide_from;
    acks_open_ = transport_.window > 0 || transport_.depth != no_limit;
    limited_ = acks_open_ || transport_.issue > 0;
    latched_.queued.assign(ports_.size(), 0);
    latched_.paused.assign(ports_.size(), 0);
    latched_.utilisation.assign(ports_.size(), 0.0);
    at_tick_.resize(ports_.size());
    if (by_credits()) {
        stoppable_.resize(ports_.size());
        std::iota(stoppable_.begin(), stoppable_.end(), 0u);
    }
    befall(faults);
}

void Core::add_node(std::size_t n) {
    CoreNode& node = nodes_[n];
    node.first = static_cast<std::uint32_t>(fabric_.first[n]);
    node.count = static_cast<std::uint32_t>(fabric_.first[n + 1]) - node.first;
    node.leaves.open(node.count);
    node.ports = ports_.data() + node.first;
    node.is_host = fabric_.is_switch[n] == 0;
    node.lined.resize(node.count / 64 + 1);
    if (node.is_host && transport_.drain_bps == 0) return;
    BufferSetting setting = buffer_setting(fabric_, discipline_, n);
    if (node.is_host) setting.total = transport_.receive_bytes * node.count;
    setting.shares = false;  // asked for rarely, and found in the queues
    node.buffer.emplace(setting);
}

// Link by link from the hosts on.
void Core::classify() {
    std::vector<std::size_t> reached;
    std::vector<bool> known(nodes_.size());
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
        known[n] = nodes_[n].is_host;
        if (known[n]) reached.push_back(n);
    }
    for (std::size_t i = 0; i < reached.size(); ++i) {
        const CoreNode& node = nodes_[reached[i]];
        for (std::uint32_t p = node.first; p < node.first + node.count; ++p) {
            const std::size_t far = index(fabric_.node[index(fabric_.reverse[p])]);
            if (known[far]) continue;
            known[far] = true;
            nodes_[far].of = static_cast<std::uint8_t>(node.of ^ 1u);
            reached.push_back(far);
        }
    }
}

void Core::add_port(std::size_t p) {
    CorePort& port = ports_[p];
    CorePortRest& rest = rest_[p];
    CoreNode& node = nodes_[index(fabric_.node[p])];
    const std::size_t peer = index(fabric_.reverse[p]);
    const std::size_t far = index(fabric_.node[peer]);
    port.node = static_cast<std::uint32_t>(fabric_.node[p]);
    port.id = static_cast<std::uint32_t>(p);
    port.peer = &ports_[peer];
    port.queues = &queues_[p * 8];
    port.local = static_cast<std::uint16_t>(p - node.first);
    port.of = node.of;
    port.leaf = node.leaves.leaf(port.local);
    port.peer_at_host = fabric_.is_switch[far] == 0;
    port.peer_class = nodes_[far].of;
    port.serialiser = Serialiser(fabric_.rate_bps[p]);
    const Time delay = fabric_.delay[p] + fabric_.latency[index(fabric_.node[p])];
    port.delay_key = static_cast<std::uint64_t>(delay) << stamp_shift;
    rest.marker = Marker(discipline_.kmin[p], discipline_.kmax[p], discipline_.pmax_q32[p]);
    (discipline_.mark_at_dequeue ? port.unmarked : port.unmarked_behind) = never;
    (discipline_.mark_at_dequeue ? port.unmarked_behind : port.unmarked) = rest.marker.unmarked();
    if (by_credits()) {
        port.odd |= by_credit;
        port.once_stopped = 0xff;
    }
    if (discipline_.watch_detect > 0) port.odd |= watched;
    if (discipline_.cut_through && !port.peer_at_host) port.odd |= heralded;
    port.heeded = by_credits() && !node.is_host;
    port.out.open(ports_[peer].in);
    rest.scheduler = Scheduler(discipline_.strict, discipline_.weight);
    rest.pauses_out.open(rest_[peer].pauses_in);
    rest.per_byte_q16 = port.serialiser.per_byte();
    rest.pause = port.serialiser.duration(most_quanta * quantum_bytes);
    rest.pause_flight =
        fabric_.delay[p] + std::max<Time>(0, discipline_.response[peer] - fabric_.latency[far]);
    rest.stops.fill(PauseSender(rest.pause));
    if (discipline_.watch_detect > 0) {
        rest.watchdogs.fill(Watchdog(discipline_.watch_detect, discipline_.watch_restore));
    }

    // The least time from an event here to one that it causes at the peer.
    rest.credits.fill(CreditSender(transport_.credits / credit_block));
    rest.credit_flight = fabric_.delay[p] + port.serialiser.duration(credit_wire);
    const bool whole = (port.odd & heralded) == 0;
    Time least =
        std::min(port.serialiser.duration(whole ? least_wire : header_wire) + delay,
                 port.serialiser.duration(pause_wire) + rest.pause_flight);
    if (by_credits()) least = std::min(least, rest.credit_flight);
    const std::uint64_t ahead = static_cast<std::uint64_t>(std::min(least, farthest)) << stamp_shift;
    Lookahead& from = lookahead_[node.of];
    from.to[port.peer_class] = std::min(from.to[port.peer_class], ahead);
    if (port.peer_at_host) from.to_host = std::min(from.to_host, ahead);
}

std::int64_t Core::submit(const std::vector<FlowSetting>& flows) {
    const std::size_t before = paths_.size();
    std::vector<CoreFlow> taken;
    std::vector<CoreRoute> routes;
    std::vector<std::uint32_t> ports;  // of both ways of a flow
    for (std::size_t row = 0; row < flows.size(); ++row) {
        CoreFlow flow;
        CoreRoute route;
        flow.setting = flows[row];
        ports.clear();
        const std::optional<Ways> ways = router_.ways(flow.setting, seed_, ports);
        if (!ways) {
            paths_.resize(before);
            return static_cast<std::int64_t>(row);
        }
        const auto back = ports.begin() + ways->back;
        const std::uint32_t end = path_end | static_cast<std::uint32_t>(flow.setting.flow);
        flow.hops = ways->hops;
        route.there = static_cast<std::uint32_t>(paths_.size());
        paths_.insert(paths_.end(), ports.begin(), back);
        paths_.push_back(end);
        route.back = static_cast<std::uint32_t>(paths_.size());
        paths_.insert(paths_.end(), back, ports.end());
        paths_.push_back(end);
        flow.segment = Segment(flow.setting.bytes, flow.setting.descriptors, transport_.mtu);
        const Sequence packets = flow.segment.packets();
        route.last = packets - 1;
        route.last_wire =
            static_cast<std::uint32_t>(flow.segment.payload(packets - 1) + data_overhead);
        flow.ideal = ideal_time(fabric_, discipline_, transport_, flow.segment,
                                std::span(paths_).subspan(route.there, flow.hops));
        flow.submitted = true;
        taken.push_back(flow);
        routes.push_back(route);
    }
    for (std::size_t row = 0; row < taken.size(); ++row) take(taken[row], routes[row]);
    return -1;
}

void Core::take(const CoreFlow& flow, const CoreRoute& route) {
    const std::size_t slot = index(flow.setting.flow);
    if (slot >= flows_.size()) {
        flows_.resize(slot + 1);
        routes_.resize(slot + 1);
        senders_.resize(slot + 1);
        receivers_.resize(slot + 1);
        for (const auto& worker : workers_) worker->marks.resize(slot + 1);
    }
    flows_[slot] = flow;
    routes_[slot] = route;
    CoreSender& sender = senders_[slot];
    sender.window = GoBackNSender(flow.segment.packets());
    sender.port = paths_[route.there];
    sender.step = route.there + 1;
    sender.priority = sender.place.priority = flow.setting.priority;
    sender.uniform = flow.segment.uniform();
    sender.release = flow.setting.release;
    sender.rate = Dcqcn(fabric_.rate_bps[sender.port]);
    receivers_[slot].port = paths_[route.back];
    receivers_[slot].step = route.back + 1;
    receivers_[slot].priority = flow.setting.priority;
    submitted_.push_back(static_cast<std::uint32_t>(slot));
}

std::vector<std::uint32_t> Core::path(std::size_t flow) const {
    const auto first = paths_.begin() + routes_.at(flow).there;
    return {first, first + flows_[flow].hops};
}

std::vector<Flow> Core::flows() {
    align();
    std::vector<Flow> rows;
    for (std::size_t slot = 0; slot < flows_.size(); ++slot) {
        const CoreFlow& flow = flows_[slot];
        if (!flow.submitted) continue;
        const CoreSender& sender = senders_[slot];
        const CoreReceiver& receiver = receivers_[slot];
        Flow row;
        row.setting = flow.setting;
        row.segment = flow.segment;
        row.hops = flow.hops;
        row.submitted = true;
        row.ideal = flow.ideal;
        row.finish = receiver.finish;
        row.sender_done = sender.done;
        row.marked = receiver.marked;
        FlowMark mark;
        for (const auto& worker : workers_) mark = std::max(mark, worker->marks[slot]);
        row.marked_by = mark.port;
        row.cnps = receiver.cnps;
        row.resent = sender.resent;
        row.timeouts = sender.timeouts;
        row.spurious = flow.spurious;
        row.lost = flow.lost;
        rows.push_back(row);
    }
    return rows;
}

std::int64_t Core::rate_bps(std::size_t flow) {
    align();
    const CoreSender& sender = senders_[flow];
    return sender.rate.rate_at(control_[sender.port], sender.done < 0 ? now_ : sender.done);
}

void Core::record_all() {
    for (CorePort& port : ports_) record(port);
}

const LinkState& Core::latched() {
    record_all();
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        latched_.queued[p] = at_tick_[p].waiting;
        latched_.utilisation[p] =
            static_cast<double>(at_tick_[p].sent) / static_cast<double>(tick_);
    }
    return latched_;
}

const Observation& Core::observation() {
    align();
    record_all();
    return observation_;
}

std::vector<Blame> Core::blames() {
    align();
    const std::vector<HopWait> waits = switch_waits();
    std::vector<Time> start(flows_.size(), -1);
    for (const auto& worker : workers_) {
        for (const CopyStart& copy : worker->trail.starts()) {
            if (receivers_[copy.flow].accepted == copy.attempt) start[copy.flow] = copy.start;
        }
    }
    std::vector<Blame> all(flows_.size());
    std::size_t first = 0;
    for (std::size_t f = 0; f < flows_.size(); ++f) {
        std::size_t end = first;
        while (end < waits.size() && waits[end].flow == f) ++end;
        if (receivers_[f].finish >= 0) {
            all[f] = blame(senders_[f].blame, senders_[f].release, start[f], receivers_[f].finish,
                           std::span(waits).subspan(first, end - first));
        }
        first = end;
    }
    return all;
}

// The waits at switches of the copies that were accepted, by (flow, hop).
std::vector<HopWait> Core::switch_waits() const {
    std::vector<HopWait> rows;
    for (const auto& worker : workers_) {
        const std::vector<HopWait> some =
            worker->trail.hops([&](std::uint32_t flow) { return receivers_[flow].accepted; });
        rows.insert(rows.end(), some.begin(), some.end());
    }
    std::sort(rows.begin(), rows.end(), in_hop_order);
    return rows;
}

std::vector<HopWait> Core::hop_waits() {
    align();
    std::vector<HopWait> rows = switch_waits();
    for (std::size_t f = 0; f < flows_.size(); ++f) {
        if (receivers_[f].finish < 0) continue;
        const Blame& sender = senders_[f].blame.parts();
        rows.push_back({static_cast<std::uint32_t>(f), senders_[f].port,
                        static_cast<std::uint16_t>(receivers_[f].accepted), 0, sender.source,
                        sender.paused});
    }
    std::sort(rows.begin(), rows.end(), in_hop_order);
    return rows;
}

std::vector<Port> Core::ports() {
    align();
    std::vector<Port> rows;
    rows.reserve(ports_.size());
    for (const CorePort& port : ports_) {
        const CorePortRest& rest = rest_[port.id];
        Port& row = rows.emplace_back();
        row.obeys = rest.obeys;
        row.credits = rest.credits;
        row.most_waiting = port.most_waiting;
        // A frame counts when it has left.
        const bool serving = port.serving_at(now_);
        row.sent_bytes = port.sent_bytes - (serving ? port.serving_wire : 0);
        row.sent_packets = port.sent_packets - (serving ? 1 : 0);
        row.busy_time = port.busy_time - (serving ? port.serialiser.end() - port.began : 0);
        row.pauses = rest.pauses;
        row.blocked = rest.blocked;
        row.marked = rest.marked;
        row.drops = rest.drops + rest_[port.peer->id].lost;
    }
    return rows;
}

// Entries of a port's link up to now; where its peer looks at headers, every frame is two.
std::int64_t Core::put_out(const CorePort& port) const {
    const std::int64_t frames = port.sent_packets - rest_[port.id].pause_frames;
    return (port.odd & heralded) != 0 ? 2 * frames : frames;
}

Totals Core::totals() {
    align();
    Totals all;
    for (const auto& worker : workers_) all += worker->totals;
    for (const CorePort& port : ports_) {
        const std::int64_t arrived = put_out(*port.peer) - port.in.content().entries;
        all.events += arrived + port.sent_packets - (port.serving_at(now_) ? 1 : 0);
        all.packet_hops += arrived;
    }
    return all;
}

Effort Core::effort() const {
    Effort all;
    std::uint64_t least = idle_key;
    for (const Lookahead& from : lookahead_) least = std::min({least, from.to[even], from.to[odd]});
    all.lookahead = static_cast<Time>(least >> stamp_shift);
    all.threads = static_cast<std::int64_t>(workers_.size());
    for (const auto& worker : workers_) {
        all.spans += worker->spans;
        all.visits += worker->visits;
    }
    all.flow_bytes = sizeof(CoreRoute) + sizeof(CoreSender) + sizeof(CoreReceiver) +
                     sizeof(CoreFlow) + sizeof(FlowMark) * all.threads;
    std::size_t frames = 0;
    for (const CorePort& port : ports_) {
        frames += port.in.content().bytes;
    }
    for (const FrameQueue& queue : queues_) frames += queue.bytes();
    for (const ReceiveBuffer& receive : receives_) frames += receive.frames.size() * sizeof(Stowed);
    all.frame_bytes = static_cast<std::int64_t>(frames);
    all.port_bytes = sizeof(CorePort) + sizeof(CorePortRest) + 8 * sizeof(FrameQueue);
    return all;
}

Bytes Core::in_flight() {
    align();
    Bytes total = 0;
    const auto count = [&](Frame frame) {
        if (is_data(frame.shape()) && !frame.hollow()) total += wire_of(frame) - data_overhead;
    };
    for (const CorePort& port : ports_) {
        port.in.each([&](const std::atomic<std::uint64_t>& head, std::uint64_t body) {
            count({head.load(), body});
        });
    }
    for (const FrameQueue& queue : queues_) {
        for (std::uint32_t i = 0; i < queue.size(); ++i) count(queue[i]);
    }
    for (const ReceiveBuffer& receive : receives_) {
        for (const Stowed& stowed : receive.frames) count(stowed.frame);
    }
    return total;
}

}  // namespace kvfabric
