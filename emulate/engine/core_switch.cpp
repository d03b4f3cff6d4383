// Switches in the fast core.
#include "core_link.hpp"

namespace kvfabric {

// The last bit of a quiet frame has left, some time ago.
[[gnu::always_inline]] inline void Core::settle_quiet(Worker& worker, CoreNode& node,
                                                      CorePort& port) {
    const int priority = finish(worker, port);
    node.buffer->release(port.serving_ingress, priority, port.local,
                         Bytes{port.serving_wire} - preamble_and_gap);
}

// The last bit of a frame is in.
[[gnu::always_inline]] inline void Core::forward(Worker& worker, CoreNode& node, CorePort& in) {
    Frame frame = take_arrival(worker, in);
    if (frame.lost()) [[unlikely]] return;
    const bool data = is_data(frame.shape());
    const CoreRoute& route = routes_[frame.flow()];
    CorePort& out = ports_[paths_[(data ? route.there : route.back) + frame.hop()]];
    const Bytes wire = wire_of(frame);
    const int priority = frame.priority();
    if (discipline_.watch_detect > 0 && rest_[out.id].watchdogs[slot(priority)].dropping())
        [[unlikely]] {
        drop(worker, out, frame, wire, Cause::watchdog);
        return;
    }
    if (out.left_by(worker.now)) settle_quiet(worker, node, out);
    SharedBuffer& buffer = *node.buffer;
    const Bytes stored = wire - preamble_and_gap;
    bool over = false;
    if (node.exact || !buffer.admit_surely(in.local, priority, out.local, stored)) [[unlikely]] {
        if (!node.exact) grow_exact(worker, node);
        if (!by_credits() && !buffer.admit(in.local, priority, out.local, stored)) {
            drop(worker, out, frame, wire, Cause::buffer);
            return;
        }
        over = !by_credits() && buffer.over(in.local, priority) &&
               (in.stopping & bit(priority)) == 0;
    }
    frame.next_hop();
    frame.stamp(in.local);
    FrameQueue& queue = out.queues[priority];
    if (data && !discipline_.mark_at_dequeue) {
        const bool own = out.serving == priority;
        if (queue.wire + (own ? out.serving_wire : 0) > out.unmarked) {
            mark(worker, out, frame, queue.wire + (own ? out.serialiser.left(worker.now) : 0));
        }
    }
    out.most_waiting = std::max(out.most_waiting, out.waiting + wire);
    const bool at_once =
        !out.busy() && !by_credits() && ((out.paused >> priority & 1) | out.notify) == 0 &&
        &in != &out;
    if (frame.shape() == Shape::last) [[unlikely]] {
        join_trail(worker, out, frame);
        if (at_once) leave_trail(worker, out, priority);
    }
    if (!at_once) {
        observation_.queues[out.id].hold(out.waiting, ticks_);
        queue.push(frame);
        queue.wire += wire;
        out.waiting += wire;
        out.backlog |= bit(priority);
        if ((out.paused & bit(priority)) != 0) [[unlikely]] guard(worker, node, out, priority);
    }
    if (over) [[unlikely]] {
        stop(worker, node, in, priority,
             holder(node, in, priority, out, at_once ? stored : 0));
    }
    if (at_once) {
        start(worker, out, frame, wire, !node.exact && out.backlog == 0);
    } else if (out.quiet) {
        heed(out);
    } else if (!out.busy()) {
        serve(worker, node, out);
    }
}

// The egress that holds most bytes of an ingress group, the lowest of equals; out holds as many
// more as have come in and not been put anywhere yet.
std::uint32_t Core::holder(const CoreNode& node, const CorePort& in, int priority,
                           const CorePort& out, Bytes stored) const {
    std::uint32_t most_of = 0;
    Bytes most = -1;
    for (std::uint32_t i = 0; i < node.count; ++i) {
        const CorePort& port = node.ports[i];
        Bytes held = &port == &out ? stored : 0;
        if (port.serving == priority && port.serving_ingress == in.local) {
            held += Bytes{port.serving_wire} - preamble_and_gap;
        }
        const FrameQueue& queue = port.queues[priority];
        for (std::uint32_t f = 0; f < queue.size(); ++f) {
            if (queue[f].stamp() == in.local) held += wire_of(queue[f]) - preamble_and_gap;
        }
        if (held > most) {
            most = held;
            most_of = port.id;
        }
    }
    return most_of;
}

// The group is over its threshold: the peer must stop.
void Core::stop(Worker& worker, CoreNode& node, CorePort& in, int priority,
                std::uint32_t cause) {
    worker.stops.push_back(
        {worker.now, true, static_cast<std::uint8_t>(priority), in.peer->id, cause});
    PauseSender& sender = rest_[in.id].stops[slot(priority)];
    sender.stop(worker.now);
    ++node.stopping;
    in.stopping |= bit(priority);
    in.notify |= bit(priority);
    at(node, sender.next(), EventKind::timer, in.id,
       refresh + static_cast<std::uint32_t>(priority));
    serve(worker, node, in);
}

// From now on, to the end of the visit at least, memory is free at the instant at which it is.
void Core::grow_exact(Worker& worker, CoreNode& node) {
    node.exact = true;
    for (std::uint32_t i = 0; i < node.count; ++i) {
        CorePort& port = node.ports[i];
        if (port.left_by(worker.now)) {
            settle_quiet(worker, node, port);
        } else if (port.quiet) {
            heed(port);
        }
    }
}

// A frame has left the switch: its memory is free, and its group may go on.
[[gnu::always_inline]] inline void Core::depart(Worker& worker, CoreNode& node, CorePort& port,
                                                int priority, std::uint16_t ingress,
                                                Bytes wire) {
    if (by_credits()) [[unlikely]] {
        repay(worker, node.ports[ingress], priority, wire);
        return;
    }
    SharedBuffer& buffer = *node.buffer;
    buffer.release(ingress, priority, port.local, wire - preamble_and_gap);
    CorePort& in = node.ports[ingress];
    if ((in.stopping >> priority & 1) == 0 || !buffer.under(ingress, priority)) return;
    rest_[in.id].stops[slot(priority)].resume();
    worker.stops.push_back(
        {worker.now, false, static_cast<std::uint8_t>(priority), in.peer->id, 0});
    --node.stopping;
    in.stopping &= static_cast<std::uint8_t>(~bit(priority));
    in.notify |= bit(priority);
    serve(worker, node, in);
}

// Takes the first frame out of a queue.
inline Frame Core::dequeue(Worker& worker, CorePort& port, int priority) {
    FrameQueue& queue = port.queues[priority];
    const Frame frame = queue.pop();
    const Bytes wire = wire_of(frame);
    observation_.queues[port.id].hold(port.waiting, ticks_);
    queue.wire -= wire;
    port.waiting -= wire;
    if (frame.shape() == Shape::last) [[unlikely]] leave_trail(worker, port, priority);
    if (queue.empty()) {
        port.backlog &= static_cast<std::uint8_t>(~bit(priority));
        rest_[port.id].scheduler.emptied(priority);
    }
    return frame;
}

// The port may be free: pause frames first, then what the scheduler picks.
void Core::serve(Worker& worker, CoreNode& node, CorePort& port) {
    if (port.left_by(worker.now)) settle_quiet(worker, node, port);
    if (port.busy()) {
        if (port.quiet && (port.backlog | port.notify) != 0) heed(port);
        return;
    }
    if (port.notify != 0) {
        start_pause(worker, port);
        return;
    }
    auto eligible = static_cast<std::uint8_t>(port.backlog & ~port.paused);
    if (by_credits()) [[unlikely]] eligible = with_credits(worker, port, eligible);
    if (eligible == 0) {
        stay_idle(worker, port, port.backlog != 0);
        return;
    }
    Scheduler& scheduler = rest_[port.id].scheduler;
    const int priority = scheduler.pick(
        eligible, [&](int p) { return wire_of(port.queues[p].front()); });
    Frame frame = dequeue(worker, port, priority);
    const Bytes wire = wire_of(frame);
    const FrameQueue& queue = port.queues[priority];
    if (discipline_.mark_at_dequeue && is_data(frame.shape()) &&
        queue.wire > port.unmarked) {
        mark(worker, port, frame, queue.wire);
    }
    start(worker, port, frame, wire, !node.exact && port.backlog == 0);
}

// A copy of a flow's last packet waits at the port from now on.
void Core::join_trail(Worker& worker, const CorePort& port, const Frame& frame) {
    const int priority = frame.priority();
    worker.trail.joined(lines_[port.id * 8 + slot(priority)], frame.flow(),
                        static_cast<std::uint16_t>(frame.number()),
                        static_cast<std::uint8_t>(frame.hop() - 1), port.id, worker.now,
                        held(port.id, priority, worker.now));
}

void Core::leave_trail(Worker& worker, const CorePort& port, int priority) {
    worker.trail.left(lines_[port.id * 8 + slot(priority)], worker.now,
                      held(port.id, priority, worker.now));
}

// A queue has been stopped or has gone on, or a frame waits in it.
void Core::guard(Worker& worker, CoreNode& node, CorePort& port, int priority) {
    if (discipline_.watch_detect == 0 || node.is_host) return;
    CorePortRest& rest = rest_[port.id];
    Watchdog& watchdog = rest.watchdogs[slot(priority)];
    watchdog.watch(worker.now, ((port.paused & port.backlog) >> priority & 1) != 0);
    if ((rest.watch_due & bit(priority)) != 0 || watchdog.next() == never) return;
    rest.watch_due |= bit(priority);
    at(node, watchdog.next(), EventKind::timer, port.id,
       watch + static_cast<std::uint32_t>(priority));
}

// The watchdog gives a queue up, or takes it back.
void Core::bark(Worker& worker, CoreNode& node, CorePort& port, int priority) {
    CorePortRest& rest = rest_[port.id];
    rest.watch_due &= static_cast<std::uint8_t>(~bit(priority));
    if (rest.watchdogs[slot(priority)].expire(worker.now) == Watchdog::Verdict::drop) {
        while (!port.queues[priority].empty()) {
            const Frame frame = dequeue(worker, port, priority);
            const Bytes wire = wire_of(frame);
            depart(worker, node, port, priority, static_cast<std::uint16_t>(frame.stamp()), wire);
            drop(worker, port, frame, wire, Cause::watchdog);
        }
    }
    guard(worker, node, port, priority);
    serve(worker, node, port);
}

void Core::mark(Worker& worker, CorePort& port, Frame& frame, Bytes queue) {
    CorePortRest& rest = rest_[port.id];
    if (!rest.marker.possible(queue)) return;
    const std::uint64_t hash = draw(seed_, Purpose::mark, frame.flow(), sequence_of(frame),
                                    frame.attempt(), port.id);
    if (!rest.marker.mark(queue, hash)) return;
    frame.mark();
    ++rest.marked;
    FlowMark& last = worker.marks[frame.flow()];
    last = std::max(last, FlowMark{worker.now, port.id});
}

// The frame is gone. For want of memory in a lossless class, that is an error of the run.
void Core::drop(Worker& worker, CorePort& port, const Frame& frame, Bytes wire, Cause cause) {
    ++rest_[port.id].drops;
    const bool lossless = (discipline_.lossless >> frame.priority() & 1) != 0;
    if (cause == Cause::watchdog) {
        ++worker.totals.drops_watchdog;
    } else {
        ++(lossless ? worker.totals.drops_lossless : worker.totals.drops_buffer);
    }
    worker.facts.push_back({worker.now, frame.flow(), false});
    if (is_data(frame.shape())) worker.totals.bytes_dropped += wire - data_overhead;
}

void Core::visit_switch(Worker& worker, CoreNode& node, std::uint64_t limit) {
    node.exact = node.stopping > 0 || by_credits();
    for (;;) {
        const std::uint64_t next = node.next();
        if (next >= limit) break;
        worker.now = time_of(next);
        CorePort& port = node.ports[next & local_mask];
        const auto kind = static_cast<EventKind>(next >> kind_shift & 15);
        if (kind == EventKind::arrival) {
            forward(worker, node, port);
        } else if (kind == EventKind::sent) {
            if (const int priority = finish(worker, port); priority < 8) {
                depart(worker, node, port, priority, port.serving_ingress, port.serving_wire);
            }
            serve(worker, node, port);
            if (port.sent_key == idle_key) port.refresh();
        } else {
            handle(worker, node, port, kind);
        }
    }
    worker.nodes[switches].set(node.slot, node.next());
}

}  // namespace kvfabric
