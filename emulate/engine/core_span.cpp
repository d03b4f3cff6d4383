// Time in the fast core: spans, ticks, and the epoch that keys count from.
#include <algorithm>

#include "core_link.hpp"

namespace kvfabric {

namespace {

// Half of what a key can tell: no span goes beyond it, so that what a span causes can be told.
constexpr Time longest_reach = Time{1} << (63 - stamp_shift);

}  // namespace

Time Core::advance(Time until) {
    completed_.clear();
    take_up();
    for (;;) {
        const Time next = next_event();
        if (next > until) break;
        if (next >= next_tick_) latch_until(next);
        if (complete(run_until(std::min({until + 1, next_tick_, epoch_ + longest_reach})))) {
            return now_;
        }
    }
    now_ = std::max(now_, until);
    behind_ = false;
    gather();
    if (now_ >= next_tick_) latch_until(now_);
    return now_;
}

// The releases of new flows become events. One may be now, after what its host has to do up to now.
void Core::take_up() {
    const auto port_of = [&](std::uint32_t flow) { return senders_[flow].port; };
    for (const std::uint32_t flow : submitted_) {
        if (behind_) bring(nodes_[ports_[port_of(flow)].node], now_);
    }
    hear_all();
    for (const std::uint32_t flow : submitted_) {
        CoreNode& node = nodes_[ports_[port_of(flow)].node];
        at(node, senders_[flow].release, EventKind::timer, port_of(flow), flow_timers + 2 * flow);
        worker_of(node).nodes[even].set(node.slot, node.next());
    }
    submitted_.clear();
}

// Tries, in order, the completions that are possible before what all hosts can reach: only the
// hosts where they are go on. True at the first instant at which a flow completes.
bool Core::complete(Time reach) {
    while (completed_.empty()) {
        Time time = never;
        for (const auto& worker : workers_) time = std::min(time, worker->next_possible());
        if (time >= reach) return false;
        for (const auto& worker : workers_) {
            while (worker->next_possible() == time) {
                const std::uint32_t node = worker->possible.top().node;
                worker->possible.pop();
                bring(nodes_[node], time);
            }
        }
        hear_all();
        for (const auto& worker : workers_) {
            completed_.insert(completed_.end(), worker->completed.begin(), worker->completed.end());
            worker->completed.clear();
        }
        now_ = time;
    }
    behind_ = true;
    return true;
}

// One host alone goes on to just after an instant that all hosts can reach.
void Core::bring(CoreNode& node, Time time) {
    const std::uint64_t limit = stamp(time + 1);
    for (const auto& worker : workers_) worker->limit[even] = std::max(worker->limit[even], limit);
    Worker& worker = worker_of(node);
    ++worker.visits;
    visit_host(worker, node, limit);
}

// All nodes come to the present instant, and what they have found is taken over.
void Core::align() {
    if (!behind_) return;
    run_until(now_ + 1);
    behind_ = false;
    gather();
}

// The time of the next event, never when there is none. The epoch is moved up to it when keys
// come near their end.
Time Core::next_event() {
    std::uint64_t least = idle_key;
    for (const auto& worker : workers_) {
        least = std::min({least, worker->nodes[even].least(), worker->nodes[odd].least()});
    }
    Time next = idle(least) ? never : time_of(least);
    if (idle(least) && far_) {
        for (const CoreNode& node : nodes_) {
            if (!node.timers.empty()) next = std::min(next, node.timers.top().time);
        }
    }
    if (next != never && next - epoch_ >= longest_reach / 2) rebase(next);
    return next;
}

// Runs the nodes of a worker up to the end, or until a flow may complete before what the hosts can
// reach; returns which. No switch passes such an instant. All workers take the same decisions from
// the same outlooks.
Time Core::run(Worker& worker, Time end) {
    NodeClass of = even;
    for (;;) {
        const Outlook outlook = look_out(worker);
        const auto reach = [&] {
            const Time most = of == odd ? std::min(end - 1, outlook.possible) + 1 : end;
            return std::min(stamp(most), horizon(outlook, of));
        };
        std::uint64_t limit = reach();
        if (outlook.least[of] >= limit) {
            of = of == even ? odd : even;
            limit = reach();
        }
        hear(worker);
        if (outlook.least[of] >= limit) return end;
        if (of == even && outlook.possible < time_of(limit)) return time_of(limit);
        visit(worker, of, limit);
        of = of == even ? odd : even;
    }
}

// What all workers know. This worker's own outlook is told before the barrier, and stays as it is
// until all have read it.
Outlook Core::look_out(Worker& worker) {
    Outlook& own = worker.outlook[worker.phase];
    for (const NodeClass of : classes) {
        own.least[of] = std::min(worker.nodes[of].least(), worker.woken_least[of]);
    }
    own.possible = worker.next_possible();
    own.ending = worker.ending;
    if (workers_.size() == 1) return own;
    barrier_->wait();
    Outlook all;
    for (const auto& other : workers_) {
        const Outlook& theirs = other->outlook[worker.phase];
        for (const NodeClass of : classes) {
            all.least[of] = std::min(all.least[of], theirs.least[of]);
        }
        all.possible = std::min(all.possible, theirs.possible);
        all.ending += theirs.ending;
    }
    return all;
}

// Takes up what the others have told in the phase that is over, and begins another.
void Core::hear(Worker& worker) {
    if (workers_.size() == 1) return;
    for (const auto& other : workers_) {
        for (CorePort* port : other->woken[worker.phase][worker.index]) wake(worker, *port, 0);
    }
    worker.phase ^= 1;
    for (auto& woken : worker.woken[worker.phase]) woken.clear();
    worker.woken_least = {idle_key, idle_key};
}

void Core::hear_all() {
    for (const auto& worker : workers_) hear(*worker);
}

// Visits every node of a class that has an event before the limit.
void Core::visit(Worker& worker, NodeClass of, std::uint64_t limit) {
    worker.limit[of] = std::max(worker.limit[of], limit);
    ++worker.spans;
    worker.ahead.clear();
    for (const std::uint32_t place : worker.nodes[of].below(limit)) {
        worker.ahead.add(nodes_[worker.node[of][place]]);
    }
    worker.visits += static_cast<std::int64_t>(worker.ahead.nodes());
    for (std::size_t i = 0; i < worker.ahead.nodes(); ++i) {
        if (wide_) fetch_ahead(worker, i, limit);
        CoreNode& node = worker.ahead.node(i);
        if (node.is_host) {
            visit_host(worker, node, limit);
        } else {
            visit_switch(worker, node, limit);
        }
    }
}

// Asks for the memory of the visits that follow: of each frame that is due first at a port the
// port, then the frame, then where it goes, each one visit after the other.
void Core::fetch_ahead(Worker& worker, std::size_t visit, std::uint64_t limit) const {
    VisitList& ahead = worker.ahead;
    const auto frame = [](const CorePort& port) {
        const FlightSlot& slot = *port.in.front();
        return Frame{slot.head.load(std::memory_order_relaxed), slot.body};
    };
    const auto step = [&](const CorePort& port) { return &paths_[frame(port).step()]; };
    ahead.list(visit + 5, limit);
    for (const CorePort* port : ahead.due(visit + 4)) fetch_lines(port, sizeof(PortEntry));
    for (const CorePort* port : ahead.due(visit + 3)) fetch_lines(port->in.front(), 80);
    for (const CorePort* port : ahead.due(visit + 2)) {
        if (!frame(*port).hollow()) fetch_lines(step(*port), 4);
    }
    for (const CorePort* port : ahead.due(visit + 1)) {
        const Frame f = frame(*port);
        if (f.hollow()) continue;
        const std::uint32_t to = *step(*port);
        if ((to & path_end) == 0) {
            fetch_lines(ports_[to].exit(), port_exit);
            fetch_lines(&queues_[to * 8 + slot(f.priority())], sizeof(FrameQueue));
            continue;
        }
        const std::uint32_t flow = to & ~path_end;
        if (is_data(f.shape())) {
            fetch_lines(&receivers_[flow], sizeof(CoreReceiver));
        } else {
            fetch_lines(&senders_[flow], hot_sender);
        }
        fetch_lines(port->exit(), port_exit);
        fetch_lines(&rest_[port->id].nic, sizeof(Nic));
    }
    if (ahead.node(visit).is_host) return;
    for (const CorePort* port : ahead.due(visit)) {
        const Frame f = frame(*port);
        if (f.hollow()) continue;
        const CorePort& to = ports_[*step(*port)];
        const SharedBuffer& buffer = *ahead.node(visit).buffer;
        buffer.fetch(port->local, f.priority());
        buffer.fetch(to.serving_ingress, f.priority());
        to.queues[f.priority()].fetch();
        to.out.fetch();
        fetch_lines(to.peer, 64);
    }
}

// How far the nodes of a class can go: nothing that is not on its way reaches them before, and no
// flow can complete before unless it is known already.
std::uint64_t Core::horizon(const Outlook& outlook, NodeClass of) const {
    const auto after = [](std::uint64_t key, std::uint64_t ahead) {
        return key > idle_key - ahead ? idle_key : (key & ~flag_mask) + ahead;
    };
    const auto& [from_even, from_odd] = lookahead_;
    const auto [at_even, at_odd] = outlook.least;
    const std::uint64_t first_even = std::min(at_even, after(at_odd, from_odd.to[even]));
    const std::uint64_t first_odd = std::min(at_odd, after(at_even, from_even.to[odd]));
    // The last switch of a path is odd: a flow's last frame is there, or has to come there first.
    const std::uint64_t last_there =
        outlook.ending > 0 ? first_odd
                           : std::min(after(first_even, from_even.to[odd]),
                                      after(first_odd, from_odd.to[odd]));
    return std::min({after(first_even, from_even.to[of]), after(first_odd, from_odd.to[of]),
                     after(first_even, from_even.to_host), after(last_there, from_odd.to_host)});
}

// Counts keys and what is in flight from another instant on: at most the next event's.
void Core::rebase(Time epoch) {
    // After a longer break than a key can tell all that is known lies in the past.
    const std::uint64_t shift = epoch - epoch_ < farthest ? stamp(epoch) : idle_key;
    const auto moved = [shift](std::uint64_t word) { return word < shift ? 0 : word - shift; };
    const auto move_key = [&](std::uint64_t& word) {
        if (!idle(word)) word = moved(word);
    };
    const auto move_entry = [&](std::atomic<std::uint64_t>& head, std::uint64_t) {
        head.store(moved(head.load()));
    };
    epoch_ = epoch;
    far_ = false;
    for (const auto& worker : workers_) {
        for (std::uint64_t& limit : worker->limit) limit = moved(limit);
    }
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
        move_key(node.start_key);
        pauses_next(node);
        worker_of(node).nodes[node.of].set(node.slot, node.next());
    }
}

// Takes over what the workers have found. Every node stands at the same instant.
void Core::gather() {
    std::vector<FlowFact> facts;
    std::vector<StopFact> stops;
    const auto move_all = [](auto& from, auto& to) {
        to.insert(to.end(), from.begin(), from.end());
        from.clear();
    };
    for (const auto& worker : workers_) {
        move_all(worker->facts, facts);
        move_all(worker->stops, stops);
    }
    std::sort(facts.begin(), facts.end());
    for (const FlowFact& fact : facts) {
        CoreFlow& flow = flows_[fact.flow];
        if (!fact.timeout) {
            ++flow.lost;
            continue;
        }
        if (flow.lost == flow.lost_before) ++flow.spurious;
        flow.lost_before = flow.lost;
    }
    std::stable_sort(stops.begin(), stops.end());
    for (const StopFact& fact : stops) {
        if (fact.begins) {
            observation_.pauses.begin(fact.port, fact.priority, fact.cause, fact.time);
        } else {
            observation_.pauses.end(fact.port, fact.priority, fact.time);
        }
    }
}

// The ticks up to the last one at most limit are over. Only the state before that instant's events
// counts: a port records it before it changes, and at once only what is stopped is looked at.
void Core::latch_until(Time limit) {
    if (tick_ == 0) return;
    gather();
    const Time last = limit / tick_ * tick_;
    latch_stopped();
    watch_stopped(last / tick_ - ticks_);
    deadlocks_.look(Queues{*this}, stopped_, latched_.paused, next_tick_, last);
    next_tick_ = last + tick_;
    ticks_ = last / tick_;
}

void Core::latch_stopped() {
    const auto known = static_cast<std::ptrdiff_t>(stoppable_.size());
    for (const auto& worker : workers_) {
        stoppable_.insert(stoppable_.end(), worker->stoppable.begin(), worker->stoppable.end());
        worker->stoppable.clear();
    }
    std::sort(stoppable_.begin() + known, stoppable_.end());
    std::inplace_merge(stoppable_.begin(), stoppable_.begin() + known, stoppable_.end());
    stopped_.clear();
    for (const std::uint32_t p : stoppable_) {
        std::uint8_t stopped = ports_[p].paused;
        for (int lane = 0; by_credits() && lane < 8; ++lane) {
            if (rest_[p].credits[slot(lane)].stalled()) stopped |= bit(lane);
        }
        latched_.paused[p] = stopped;
        if (stopped != 0) stopped_.push_back(p);
    }
}

std::uint8_t Core::Queues::waiting(std::uint32_t port) const {
    const CorePort& at = core.ports_[port];
    return core.nodes_[at.node].is_host ? std::uint8_t{0} : at.backlog;
}

Time Core::Queues::still(std::uint32_t port, int priority) const {
    const CorePortRest& rest = core.rest_[port];
    const auto slot = static_cast<std::size_t>(priority);
    return core.by_credits() ? rest.credits[slot].since() : rest.still[slot];
}

bool Core::Queues::holds(std::uint32_t port, int priority, std::uint32_t in) const {
    const FrameQueue& queue = core.ports_[port].queues[priority];
    for (std::uint32_t f = 0; f < queue.size(); ++f) {
        if (queue[f].stamp() == core.ports_[in].local) return true;
    }
    return false;
}

}  // namespace kvfabric
