#include "plane.hpp"

#include <stdexcept>

namespace kvfabric {

namespace {

// The class of everything that is not of this transport: the lowest that neither is lossless nor
// goes before others.
int plain_class(const DisciplineSetting& discipline) {
    const int reserved = discipline.lossless | discipline.strict;
    for (int priority = 0; priority < 8; ++priority) {
        if ((reserved >> priority & 1) == 0) return priority;
    }
    throw std::invalid_argument("discipline: every class is lossless or strict; leave one free");
}

}  // namespace

Plane::Plane(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
             TransportSetting transport, const std::vector<FaultSetting>& faults,
             std::uint64_t seed, Time tick, PlaneSetting setting)
    : fabric_(std::move(fabric)), discipline_(std::move(discipline)),
      transport_(std::move(transport)), setting_(std::move(setting)),
      router_(fabric_, std::move(routes)), seed_(mix(seed)), plain_(plain_class(discipline_)),
      ports_(fabric_.node.size()), jacks_(ports_.size()), buffers_(fabric_.is_switch.size()),
      control_(controls(transport_)), by_ip_(buffers_.size()), by_mac_(ports_.size()),
      store_(slot(setting_.frame_bytes)), observation_(ports_.size()), tick_(tick),
      next_tick_(tick) {
    if (setting_.owned.size() != buffers_.size() || setting_.address.size() != buffers_.size() ||
        setting_.mac.size() != ports_.size()) {
        throw std::invalid_argument("plane: owned and address have one entry a node, mac a port");
    }
    if (data_length(transport_.mtu) > slot(setting_.frame_bytes)) {
        throw std::invalid_argument("frame_bytes: below a full frame of the transport's mtu");
    }
    if (transport_.credits > 0 || transport_.drain_bps > 0 || discipline_.cut_through) {
        throw std::invalid_argument(
            "plane: real frames know no credits, no drain rate and no cut-through");
    }
    for (std::size_t node = 0; node < buffers_.size(); ++node) {
        if (setting_.address[node] != 0) {
            by_ip_.put(setting_.address[node], static_cast<std::int32_t>(node));
        }
        if (fabric_.is_switch[node] == 0 || !owns(node)) continue;
        buffers_[node].emplace(buffer_setting(fabric_, discipline_, node));
    }
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        Port& port = ports_[p];
        const std::size_t node = slot(fabric_.node[p]);
        port.node = static_cast<std::uint32_t>(node);
        port.reverse = static_cast<std::uint32_t>(fabric_.reverse[p]);
        port.at_host = fabric_.is_switch[node] == 0;
        if (port.at_host && setting_.mac[p] != 0) by_mac_.put(setting_.mac[p], fabric_.node[p]);
        port.serialiser = Serialiser(fabric_.rate_bps[p]);
        port.per_byte_q16 = port.serialiser.per_byte();
        port.delay = fabric_.delay[p] + fabric_.latency[node];
        port.pause = port.serialiser.duration(most_quanta * quantum_bytes);
        port.response = std::max<Time>(0, discipline_.response[p] - fabric_.latency[node]);
        port.scheduler = Scheduler(discipline_.strict, discipline_.weight);
        port.marker = Marker(discipline_.kmin[p], discipline_.kmax[p], discipline_.pmax_q32[p]);
        port.stops.fill(PauseSender(port.pause));
        if (discipline_.watch_detect > 0) {
            port.watchdogs.fill(Watchdog(discipline_.watch_detect, discipline_.watch_restore));
        }
    }
    latched_.queued.assign(ports_.size(), 0);
    latched_.paused.assign(ports_.size(), 0);
    latched_.utilisation.assign(ports_.size(), 0.0);
    busy_at_tick_.assign(ports_.size(), 0);
    befall(faults);
}

void Plane::attach(std::uint32_t port, Outlet& outlet) {
    if (port >= ports_.size() || !owns(ports_[port].node)) {
        throw std::invalid_argument("port " + std::to_string(port) +
                                    ": not of an owned node; attach ports of owned nodes");
    }
    jacks_[port].outlet = &outlet;
}

void Plane::require_links() const {
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        if (!owns(ports_[p].node) || jacks_[p].outlet != nullptr) continue;
        const std::uint32_t reverse = ports_[p].reverse;
        if (owns(ports_[reverse].node) && jacks_[reverse].outlet == nullptr) continue;
        throw std::invalid_argument("port " + std::to_string(p) +
                                    ": its peer is not in this process; attach an interface");
    }
}

Time Plane::advance(Time until) {
    completed_.clear();
    while (!events_.empty() && events_.top().time <= until) {
        if (!completed_.empty() && events_.top().time > now_) return now_;
        step();
    }
    if (!completed_.empty()) return now_;
    now_ = std::max(now_, until);
    if (now_ >= next_tick_) latch_until(now_);
    return now_;
}

void Plane::run(Time until) {
    while (!events_.empty() && events_.top().time <= until) step();
    now_ = std::max(now_, until);
    if (now_ >= next_tick_) latch_until(now_);
}

void Plane::step() {
    const Event event = events_.top();
    if (event.time >= next_tick_) latch_until(event.time);
    events_.pop();
    now_ = event.time;
    ++totals_.events;
    handle(event);
}

void Plane::handle(const Event& event) {
    const std::uint32_t port = event.port();
    const std::uint32_t lane = event.lane();
    switch (event.kind()) {
    case EventKind::pause:
        obey(port);
        break;
    case EventKind::sent:
        sent(port);
        break;
    case EventKind::arrival:
        arrive(port, static_cast<ArrivalLane>(lane));
        break;
    case EventKind::timer:
        if (lane < refresh) {
            expire_pause(port, static_cast<int>(lane));
        } else if (lane < watch) {
            refresh_pause(port, static_cast<int>(lane - refresh));
        } else if (lane < storm) {
            bark(port, static_cast<int>(lane - watch));
        } else if (lane == storm) {
            rage(port);
        } else if (lane == post) {
            end_post(port);
        } else if (((lane - flow_timers) & 1) == 0) {
            release((lane - flow_timers) / 2);
        } else {
            expire_flow((lane - flow_timers) / 2);
        }
        break;
    case EventKind::send:
        if (ports_[port].wake <= now_) ports_[port].wake = never;
        transmit(port);
        break;
    }
}

void Plane::at(Time time, EventKind kind, std::uint32_t port, std::uint32_t lane) {
    events_.push(Event::make(time, kind, port, lane));
}

// As in the reference engine: the last tick at most limit, by the state before that instant.
void Plane::latch_until(Time limit) {
    if (tick_ == 0) return;
    const Time last = limit / tick_ * tick_;
    if (last > next_tick_) latch(last - tick_);
    latch(last);
    next_tick_ = last + tick_;
    ticks_ = last / tick_;
}

void Plane::latch(Time tick) {
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        const Port& port = ports_[p];
        const Time busy = port.busy_time + (port.busy ? tick - port.began : 0);
        latched_.queued[p] = port.waiting;
        latched_.paused[p] = port.paused;
        latched_.utilisation[p] =
            static_cast<double>(busy - busy_at_tick_[p]) / static_cast<double>(tick_);
        busy_at_tick_[p] = busy;
    }
}

const Observation& Plane::observation() {
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        observation_.queues[p].hold(ports_[p].waiting, ticks_);
    }
    return observation_;
}

std::vector<std::uint32_t> Plane::path(std::size_t flow) const {
    const auto first = paths_.begin() + flows_.at(flow).path;
    return {first, first + flows_[flow].hops};
}

}  // namespace kvfabric
