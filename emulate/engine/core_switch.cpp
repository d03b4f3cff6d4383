// Switches in the fast core.
#include "core_link.hpp"

namespace kvfabric {

// A frame that comes to a queue may be marked for what is there before it.
[[gnu::always_inline]] inline Frame Core::mark_coming(Worker& worker, CorePort& out, Frame frame,
                                                      int priority) {
    if (out.waiting + out.serving_wire <= out.unmarked || !is_data(frame.shape())) [[likely]] {
        return frame;
    }
    const bool own = out.serving == priority;
    return mark(worker, out, frame,
                out.queues[priority].wire + (own ? out.serialiser.left(worker.now) : 0));
}

// The last bit of a frame is in, or the header of one that can go on at once. Most frames are
// whole, fit surely, and leave by a port that nothing stops.
template <bool few>
[[gnu::always_inline]] inline void Core::forward(Worker& worker, CoreNode& node, CorePort& in) {
    Frame frame = take_arrival<few>(worker, in);
    const Bytes wire = known_wire(frame);
    if (wire == 0) [[unlikely]] {
        if (frame.odd()) take_odd(worker, in, frame);
        if (!frame.odd() || goes_on(worker, in, frame)) pass(worker, node, in, frame);
        return;
    }
    if (in.stopping != 0) [[unlikely]] {
        pass(worker, node, in, frame);
        return;
    }
    CorePort& out = way(frame);
    const int priority = frame.priority();
    catch_up(worker, node, out, worker.key);
    if (!out.plain() || !node.buffer->admit_surely(in.local, priority, out.local,
                                                   wire - preamble_and_gap)) [[unlikely]] {
        pass(worker, node, in, frame);
        return;
    }
    frame.next_hop();
    if (out.busy()) {
        frame.stamp(in.local);
        frame = mark_coming(worker, out, frame, priority);
        out.most_waiting = std::max(out.most_waiting, out.waiting + wire);
        enqueue(worker, node, out, frame, priority, wire);
    } else {
        if (out.most_waiting < wire) [[unlikely]] out.most_waiting = wire;
        record(out);
        start<true>(worker, out, frame, priority, wire, in.local);
    }
}

// The same for any frame, whatever its way out has to do first.
void Core::pass(Worker& worker, CoreNode& node, CorePort& in, Frame frame) {
    const bool whole = !frame.header();
    frame.head &= ~header_flag;
    CorePort& out = way(frame);
    const Bytes wire = wire_of(frame);
    const int priority = frame.priority();
    if ((out.odd & watched) != 0 && rest_[out.id].watchdogs[slot(priority)].dropping()) {
        drop(worker, out, frame, wire, Cause::watchdog);
        return;
    }
    catch_up(worker, node, out, worker.key);
    const Bytes stored = wire - preamble_and_gap;
    const bool stopped = (in.stopping >> priority & 1) != 0;
    bool over = false;
    if (stopped || !node.buffer->admit_surely(in.local, priority, out.local, stored)) {
        if (!by_credits() && !admit(worker, node, in, priority, out, stored)) {
            if (whole) {
                drop(worker, out, frame, wire, Cause::buffer);
            } else {
                in.in.amend(frame.body, false);
            }
            return;
        }
        over = !by_credits() && !stopped && node.buffer->over(in.local, priority);
    }
    frame.next_hop();
    frame.stamp(in.local);
    frame = mark_coming(worker, out, frame, priority);
    out.most_waiting = std::max(out.most_waiting, out.waiting + wire);
    const bool at_once =
        !out.busy() && &in != &out &&
        ((out.paused >> priority & 1) | out.notify | (out.odd & by_credit)) == 0;
    if (frame.shape() == Shape::last) {
        join_trail(worker, out, frame);
        if (at_once) leave_trail(worker, out, priority);
    }
    if (!at_once) {
        enqueue(worker, node, out, frame, priority, wire);
        if ((out.paused & bit(priority)) != 0) join_stopped(worker, node, out, priority);
    }
    if (over) {
        std::uint64_t holders = 0;
        stop(worker, node, in, priority,
             fullest_of(node, in, priority, out, at_once ? stored : 0, holders));
        watch_ends(node, rest_[in.id].holders[slot(priority)], holders);
    } else if (stopped) {
        std::uint64_t& holders = rest_[in.id].holders[slot(priority)];
        if ((holders & holder_bit(out)) == 0) watch_ends(node, holders, holder_bit(out));
    }
    if (at_once) {
        // Stopped frames wait on when it has left.
        if (out.backlog != 0) node.line(out.local);
        start_any(worker, out, frame, priority, wire, in.local);
    } else if (!out.busy()) {
        serve(worker, out);
    }
}

// Counts the frame, when its group is stopped or some limit is near, with all memory that is free
// by now. False when there is no room for it.
bool Core::admit(Worker& worker, CoreNode& node, const CorePort& in, int priority,
                 const CorePort& out, Bytes stored) {
    const bool stopped = (in.stopping >> priority & 1) != 0;
    if (!stopped || !node.buffer->surely_full(in.local, priority, stored)) {
        catch_up_all(worker, node);
    }
    return node.buffer->admit(in.local, priority, out.local, stored);
}

// The frame waits.
[[gnu::always_inline]] inline void Core::enqueue(Worker& worker, CoreNode& node, CorePort& port,
                                                 Frame frame, int priority, Bytes wire) {
    wait(worker, port, frame, priority, wire);
    node.line(port.local);
}

// A frame has begun to wait in a stopped queue.
void Core::join_stopped(Worker& worker, CoreNode& node, CorePort& port, int priority) {
    if (port.queues[priority].size() == 1) rest_[port.id].still[slot(priority)] = worker.now;
    guard(worker, node, port, priority);
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
    if ((in.stopping >> priority & 1) == 0 || !buffer.perhaps_under(ingress, priority)) return;
    catch_up_all(worker, node);
    if (buffer.under(ingress, priority)) go_on(worker, node, in, priority);
}

// Takes the first frame out of a queue.
[[gnu::always_inline]] inline Waited Core::dequeue(Worker& worker, CorePort& port,
                                                   int priority) {
    FrameQueue& queue = port.queues[priority];
    const Frame frame = queue.pop();
    Bytes wire = known_wire(frame);
    const bool usual = wire != 0;
    if (!usual) [[unlikely]] wire = wire_of(frame);
    record(port);
    queue.wire -= wire;
    port.waiting -= wire;
    if (!usual && frame.shape() == Shape::last) [[unlikely]] leave_trail(worker, port, priority);
    if (queue.empty()) {
        port.backlog &= static_cast<std::uint8_t>(~bit(priority));
        emptied(port, priority);
    }
    return {frame, wire, queue.wire, usual};
}

// At all ports, before the present event.
void Core::catch_up_all(Worker& worker, CoreNode& node) {
    for (std::uint32_t i = 0; i < node.count; ++i) {
        catch_up(worker, node, node.ports[i], worker.key);
    }
}

// The port may be free: pause frames first, then what the scheduler picks.
void Core::serve(Worker& worker, CorePort& port) {
    if (!port.busy()) serve_next<false>(worker, port);
}

// Follows: it is free since a frame leaves at this instant.
template <bool follows>
[[gnu::always_inline]] inline void Core::serve_next(Worker& worker, CorePort& port) {
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
    int priority = std::countr_zero(eligible);
    if ((eligible & (eligible - 1)) != 0) {
        port.shared = true;
        priority = rest_[port.id].scheduler.pick(
            eligible, [&](int p) { return wire_of(port.queues[p].front()); });
    }
    auto [frame, wire, behind, usual] = dequeue(worker, port, priority);
    if (behind > port.unmarked_behind && is_data(frame.shape())) [[unlikely]] {
        frame = mark(worker, port, frame, behind);
    }
    const auto ingress = static_cast<std::uint16_t>(frame.stamp());
    if (usual && port.odd == 0) [[likely]] {
        start<true, follows>(worker, port, frame, priority, wire, ingress);
    } else {
        start_any(worker, port, frame, priority, wire, ingress);
    }
}

// In turn, what left the port and what started then.
void Core::replay(Worker& worker, CoreNode& node, CorePort& port, std::uint64_t bound) {
    const Time now = worker.now;
    do {
        worker.now = port.serialiser.end();
        let_go(node, port);
        serve_next<true>(worker, port);
    } while (port.sent_key < bound);
    worker.now = now;
}

// A copy of a flow's last packet waits at the port from now on.
void Core::join_trail(Worker& worker, const CorePort& port, Frame frame) {
    const int priority = frame.priority();
    const std::uint32_t flow = flow_of(frame);
    worker.trail.joined(lines_[port.id * 8 + slot(priority)], flow,
                        static_cast<std::uint16_t>(frame.number()),
                        static_cast<std::uint8_t>(frame.step() - 1 - routes_[flow].there),
                        port.id, worker.now,
                        held(port, priority, worker.now));
}

void Core::leave_trail(Worker& worker, const CorePort& port, int priority) {
    worker.trail.left(lines_[port.id * 8 + slot(priority)], worker.now,
                      held(port, priority, worker.now));
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
            const auto [frame, wire, behind, usual] = dequeue(worker, port, priority);
            depart(worker, node, port, priority, static_cast<std::uint16_t>(frame.stamp()), wire);
            drop(worker, port, frame, wire, Cause::watchdog, 1 + port.id);
        }
    }
    guard(worker, node, port, priority);
    look(worker, node, port);
}

Frame Core::mark(Worker& worker, CorePort& port, Frame frame, Bytes queue) {
    CorePortRest& rest = rest_[port.id];
    if (!rest.marker.possible(queue)) return frame;
    const std::uint32_t flow = flow_of(frame);
    const std::uint64_t hash = draw(seed_, Purpose::mark, flow, sequence_of(frame),
                                    frame.attempt(), port.id);
    if (!rest.marker.mark(queue, hash)) return frame;
    frame.mark();
    ++rest.marked;
    FlowMark& last = worker.marks[flow];
    last = std::max(last, FlowMark{worker.now, port.id});
    return frame;
}

// The frame is gone. For want of memory in a lossless class, that is an error of the run.
// Its turn among the facts of the instant is that of the event.
void Core::drop(Worker& worker, CorePort& port, Frame frame, Bytes wire, Cause cause,
                std::uint32_t turn) {
    ++rest_[port.id].drops;
    if (frame.shape() == Shape::last && delivers(port)) --worker.ending;
    const bool lossless = (discipline_.lossless >> frame.priority() & 1) != 0;
    if (cause == Cause::watchdog) {
        ++worker.totals.drops_watchdog;
    } else {
        ++(lossless ? worker.totals.drops_lossless : worker.totals.drops_buffer);
    }
    worker.facts.push_back({worker.now, turn, flow_of(frame), false});
    if (is_data(frame.shape())) worker.totals.bytes_dropped += wire - data_overhead;
}

void Core::visit_switch(Worker& worker, CoreNode& node, std::uint64_t limit) {
    if (node.leaves.few() != nullptr) {
        visit_ports<true>(worker, node, limit);
    } else {
        visit_ports<false>(worker, node, limit);
    }
    start_waiting(worker, node, limit);
    worker.nodes[node.of].set(node.slot, node.next());
}

// Few: there are two to eight ports.
template <bool few>
void Core::visit_ports(Worker& worker, CoreNode& node, std::uint64_t limit) {
    const LeafGroup* const group = node.leaves.few();
    const auto begin = [&](std::uint64_t key) -> CorePort& {
        worker.key = key;
        worker.now = time_of(key);
        return node.ports[key & local_mask];
    };
    for (;;) {
        const std::uint64_t next = few ? group->least() : node.leaves.least();
        if (node.rare_key < next) [[unlikely]] {
            const std::uint64_t rare = node.rare_key;
            if (rare >= limit) break;
            handle(worker, node, begin(rare), kind_of(rare));
            continue;
        }
        if (next >= limit) break;
        CorePort& port = begin(next);
        if (kind_of(next) == EventKind::arrival) {
            forward<few>(worker, node, port);
            continue;
        }
        if (const int priority = finish(port); priority < 8) {
            depart(worker, node, port, priority, port.serving_ingress, port.serving_wire);
        }
        serve(worker, port);
        if (!port.busy() || !port.heeded) port.refresh();
    }
}

// Starts what follows frames that have left before the limit without an event.
void Core::start_waiting(Worker& worker, CoreNode& node, std::uint64_t limit) {
    node.start_key = idle_key;
    for (std::size_t word = 0; word < node.lined.size(); ++word) {
        for (std::uint64_t left = node.lined[word]; left != 0; left &= left - 1) {
            CorePort& port = node.ports[word * 64 + static_cast<std::size_t>(std::countr_zero(left))];
            catch_up(worker, node, port, limit);
            if (port.busy() && !port.heeded && (port.backlog | port.notify) != 0) {
                node.start_key = std::min(node.start_key, port.sent_key);
            } else {
                node.lined[word] &= ~(left & -left);
            }
        }
    }
}

}  // namespace kvfabric
