#include "driver.hpp"

#include "derive.hpp"
#include "hash.hpp"

namespace kvfabric {

namespace {

// Of each switch, and of each host that is drained.
std::vector<std::optional<SharedBuffer>> shared_buffers(const FabricSetting& fabric,
                                                        const DisciplineSetting& discipline,
                                                        const TransportSetting& transport) {
    std::vector<std::optional<SharedBuffer>> buffers(fabric.is_switch.size());
    for (std::size_t node = 0; node < buffers.size(); ++node) {
        const bool host = fabric.is_switch[node] == 0;
        if (host && transport.drain_bps == 0) continue;
        BufferSetting setting = buffer_setting(fabric, discipline, node);
        const std::int64_t ports = fabric.first[node + 1] - fabric.first[node];
        if (host) setting.total = transport.receive_bytes * ports;
        buffers[node].emplace(setting);
    }
    return buffers;
}

}  // namespace

Driver::Driver(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
               TransportSetting transport, const std::vector<FaultSetting>& faults,
               std::uint64_t seed, Time tick)
    : fabric_(std::move(fabric)), discipline_(std::move(discipline)),
      transport_(std::move(transport)), router_(fabric_, std::move(routes)), seed_(mix(seed)),
      ports_(fabric_.node.size()), buffers_(shared_buffers(fabric_, discipline_, transport_)),
      control_(controls(transport_)), observation_(ports_.size()), tick_(tick), next_tick_(tick) {
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        Port& port = ports_[p];
        const std::size_t node = slot(fabric_.node[p]);
        port.node = static_cast<std::uint32_t>(node);
        port.reverse = static_cast<std::uint32_t>(fabric_.reverse[p]);
        port.at_host = fabric_.is_switch[node] == 0;
        if (transport_.drain_bps > 0) port.drain = Serialiser(transport_.drain_bps);
        port.serialiser = Serialiser(fabric_.rate_bps[p]);
        port.per_byte_q16 = port.serialiser.per_byte();
        port.delay = fabric_.delay[p] + fabric_.latency[node];
        port.pause = port.lasts(most_quanta);
        port.response = std::max<Time>(0, discipline_.response[p] - fabric_.latency[node]);
        port.scheduler = Scheduler(discipline_.strict, discipline_.weight);
        port.marker = Marker(discipline_.kmin[p], discipline_.kmax[p], discipline_.pmax_q32[p]);
        port.stops.fill(PauseSender(port.pause));
        if (discipline_.watch_detect > 0) {
            port.watchdogs.fill(Watchdog(discipline_.watch_detect, discipline_.watch_restore));
        }
        port.credits.fill(CreditSender(transport_.credits / credit_block));
    }
    latched_.queued.assign(ports_.size(), 0);
    latched_.paused.assign(ports_.size(), 0);
    latched_.utilisation.assign(ports_.size(), 0.0);
    busy_at_tick_.assign(ports_.size(), 0);
    befall(faults);
}

std::int64_t Driver::submit(const std::vector<FlowSetting>& flows) {
    const std::size_t before = paths_.size();
    std::vector<Flow> taken;
    for (std::size_t row = 0; row < flows.size(); ++row) {
        Flow flow;
        flow.setting = flows[row];
        if (!resolve(flow)) {
            paths_.resize(before);
            return static_cast<std::int64_t>(row);
        }
        accept(flow);
        taken.push_back(flow);
    }
    for (const Flow& flow : taken) {
        const std::size_t number = slot(flow.setting.flow);
        if (number >= flows_.size()) flows_.resize(number + 1);
        flows_[number] = flow;
        at(std::max(now_, flow.setting.release), EventKind::timer, paths_[flow.path],
           flow_timers + 2 * static_cast<std::uint32_t>(number));
    }
    return -1;
}

// The paths of a flow there and back, its packets and its ideal time; false without a route.
bool Driver::resolve(Flow& flow) {
    const FlowSetting& setting = flow.setting;
    const std::optional<Ways> ways = router_.ways(setting, seed_, paths_);
    if (!ways) return false;
    flow.path = ways->there;
    flow.back = ways->back;
    flow.hops = ways->hops;
    flow.segment = Segment(setting.bytes, setting.descriptors, transport_.mtu);
    flow.sender = GoBackNSender(flow.segment.packets());
    flow.rate = Dcqcn(fabric_.rate_bps[paths_[flow.path]]);
    flow.place.priority = setting.priority;
    flow.submitted = true;
    flow.ideal = ideal_time(fabric_, discipline_, transport_, flow.segment,
                            std::span(paths_).subspan(flow.path, flow.hops));
    return true;
}

Time Driver::advance(Time until) {
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

void Driver::step() {
    const Event event = events_.top();
    if (event.time >= next_tick_) latch_until(event.time);
    events_.pop();
    now_ = event.time;
    ++totals_.events;
    handle(event);
}

void Driver::handle(const Event& event) {
    const std::uint32_t port = event.port();
    const std::uint32_t lane = event.lane();
    switch (event.kind()) {
    case EventKind::pause:
        by_credits() ? credit(port, lane) : obey(port);
        break;
    case EventKind::sent:
        sent(port);
        break;
    case EventKind::drained:
        handle_own(event);
        break;
    case EventKind::arrival:
        lane == whole ? arrive(port) : handle_own(event);
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

void Driver::at(Time time, EventKind kind, std::uint32_t port, std::uint32_t lane) {
    events_.push(Event::make(time, kind, port, lane));
}

// Latches the last tick at most limit. Only the state before that instant's events counts; when
// several ticks have passed without an event, the one before the last gives the time base.
void Driver::latch_until(Time limit) {
    if (tick_ == 0) return;
    const Time last = limit / tick_ * tick_;
    if (last > next_tick_) latch(last - tick_);
    latch(last);
    ticked(next_tick_, last);
    next_tick_ = last + tick_;
    ticks_ = last / tick_;
}

void Driver::latch(Time tick) {
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        const Port& port = ports_[p];
        const Time busy = port.busy_time + (port.busy ? tick - port.began : 0);
        latched_.queued[p] = port.waiting;
        latched_.paused[p] = port.paused;
        for (std::size_t lane = 0; lane < 8; ++lane) {
            if (port.credits[lane].stalled()) latched_.paused[p] |= static_cast<std::uint8_t>(1 << lane);
        }
        latched_.utilisation[p] =
            static_cast<double>(busy - busy_at_tick_[p]) / static_cast<double>(tick_);
        busy_at_tick_[p] = busy;
    }
}

std::int64_t Driver::rate_bps(std::size_t flow) const {
    const Flow& f = flows_[flow];
    return f.rate.rate_at(control_[paths_[f.path]], f.sender_done < 0 ? now_ : f.sender_done);
}

const Observation& Driver::observation() {
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        observation_.queues[p].hold(ports_[p].waiting, ticks_);
    }
    return observation_;
}

}  // namespace kvfabric
