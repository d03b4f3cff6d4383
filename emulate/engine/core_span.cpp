// Time in the fast core: spans, ticks, and the epoch that keys count from.
#include "core.hpp"

namespace kvfabric {

namespace {

// Half of what a key can tell: no span goes beyond it, so that what a span causes can be told.
constexpr Time longest_reach = Time{1} << (63 - stamp_shift);

}  // namespace

Time Core::advance(Time until) {
    completed_.clear();
    for (;;) {
        const Time next = next_event();
        if (next > until) break;
        if (next >= next_tick_) latch_until(next);
        const Time end =
            run_until(std::min({until + 1, next_tick_, epoch_ + longest_reach}));
        gather();
        if (!completed_.empty()) return now_ = end - 1;
    }
    now_ = std::max(now_, until);
    if (now_ >= next_tick_) latch_until(now_);
    return now_;
}

// The time of the next event, never when there is none. The epoch is moved up to it when keys
// come near their end.
Time Core::next_event() {
    std::uint64_t least = std::min(worker_.nodes[switches].least(), worker_.nodes[hosts].least());
    Time next = least == idle_key ? never : time_of(least);
    if (least == idle_key && far_) {
        for (const CoreNode& node : nodes_) {
            if (!node.timers.empty()) next = std::min(next, node.timers.top().time);
        }
    }
    if (next != never && next - epoch_ >= longest_reach / 2) rebase(next);
    return next;
}

// Runs every node up to the end, or to just after the first instant before it at which a flow may
// complete; returns which.
Time Core::run_until(Time end) {
    Worker& worker = worker_;
    for (;;) {
        bool ran = false;
        for (const Class of : {hosts, switches}) {
            if (!worker.possible.empty()) end = std::min(end, worker.possible.top() + 1);
            const std::uint64_t end_key = stamp(end);
            if (worker.nodes[of].least() >= end_key) continue;
            const std::uint64_t limit = std::min(end_key, horizon(of));
            if (worker.nodes[of].least() >= limit) continue;
            worker.limit[of] = std::max(worker.limit[of], limit);
            ran = true;
            ++worker.spans;
            worker.nodes[of].below(limit, [&](std::size_t place) {
                CoreNode& node = nodes_[worker.node[of][place]];
                ++worker.visits;
                if (of == hosts) {
                    visit_host(worker, node, limit);
                } else {
                    visit_switch(worker, node, limit);
                }
            });
        }
        log_stops();
        if (!ran) break;
    }
    while (!worker.possible.empty() && worker.possible.top() < end) worker.possible.pop();
    return end;
}

// How far the nodes of a class can go: nothing that is not on its way reaches them before, and no
// flow can complete before unless it is known already.
std::uint64_t Core::horizon(Class of) const {
    const std::uint64_t at_switch = worker_.nodes[switches].least();
    const std::uint64_t at_host = worker_.nodes[hosts].least();
    const auto after = [](std::uint64_t key, std::uint64_t ahead) {
        return key > idle_key - ahead ? idle_key : (key & ~flag_mask) + ahead;
    };
    const auto& ahead = lookahead_;
    const std::uint64_t first_switch = std::min(at_switch, after(at_host, ahead[hosts][switches]));
    const std::uint64_t first_host = std::min(at_host, after(at_switch, ahead[switches][hosts]));
    return std::min({after(first_switch, ahead[switches][of]), after(first_host, ahead[hosts][of]),
                     after(first_switch, ahead[switches][hosts]),
                     after(first_host, ahead[hosts][hosts])});
}

// Counts keys and what is in flight from another instant on: at most the next event's.
void Core::rebase(Time epoch) {
    const std::uint64_t shift = stamp(epoch);
    const auto moved = [shift](std::uint64_t word) { return word < shift ? 0 : word - shift; };
    const auto move_key = [&](std::uint64_t& word) {
        if (word != idle_key) word = moved(word);
    };
    const auto move_entry = [&](std::atomic<std::uint64_t>& head, std::uint64_t) {
        head.store(moved(head.load()));
    };
    epoch_ = epoch;
    far_ = false;
    for (std::uint64_t& limit : worker_.limit) limit = moved(limit);
    for (CorePort& port : ports_) {
        port.in.each(move_entry);
        rest_[port.id].pauses_in.each(move_entry);
        move_key(port.sent_key);
        move_key(port.arrival_key);
        move_key(rest_[port.id].pause_key);
        port.latest = moved(port.latest);
        rest_[port.id].latest_pause = moved(rest_[port.id].latest_pause);
        port.refresh();
    }
    for (CoreNode& node : nodes_) {
        pauses_next(node);
        worker_.nodes[node.is_host ? hosts : switches].set(node.slot, node.next());
    }
}

// All switches have been visited up to one instant: what they have stopped is known in order.
void Core::log_stops() {
    if (worker_.stops.empty()) return;
    std::sort(worker_.stops.begin(), worker_.stops.end());
    for (const StopFact& fact : worker_.stops) {
        if (fact.begins) {
            observation_.pauses.begin(fact.port, fact.priority, fact.cause, fact.time);
        } else {
            observation_.pauses.end(fact.port, fact.priority, fact.time);
        }
    }
    worker_.stops.clear();
}

// Takes over what the worker has found. Every node stands at the same instant.
void Core::gather() {
    completed_.swap(worker_.completed);
    worker_.completed.clear();
    std::sort(worker_.facts.begin(), worker_.facts.end());
    for (const FlowFact& fact : worker_.facts) {
        CoreFlow& flow = flows_[fact.flow];
        if (!fact.timeout) {
            ++flow.lost;
            continue;
        }
        if (flow.lost == flow.lost_before) ++flow.spurious;
        flow.lost_before = flow.lost;
    }
    worker_.facts.clear();
}

// Latches the last tick at most limit. Only the state before that instant's events counts; when
// several ticks have passed without an event, the one before the last gives the time base.
void Core::latch_until(Time limit) {
    if (tick_ == 0) return;
    const Time last = limit / tick_ * tick_;
    if (last > next_tick_) latch(last - tick_);
    latch(last);
    next_tick_ = last + tick_;
    ticks_ = last / tick_;
}

void Core::latch(Time tick) {
    for (std::size_t p = 0; p < ports_.size(); ++p) {
        const CorePort& port = ports_[p];
        const Time busy = port.busy_time - port.busy_after(tick);
        latched_.queued[p] = port.waiting;
        latched_.paused[p] = port.paused;
        for (int lane = 0; by_credits() && lane < 8; ++lane) {
            if (rest_[p].credits[static_cast<std::size_t>(lane)].stalled()) {
                latched_.paused[p] |= static_cast<std::uint8_t>(1 << lane);
            }
        }
        latched_.utilisation[p] =
            static_cast<double>(busy - busy_at_tick_[p]) / static_cast<double>(tick_);
        busy_at_tick_[p] = busy;
    }
}

}  // namespace kvfabric
