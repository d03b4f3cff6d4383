// Pauses, timers and wake-ups at the ports of the fast core.
#include "core_link.hpp"

namespace kvfabric {

// All events but the end of a frame and its arrival.
void Core::handle(Worker& worker, CoreNode& node, CorePort& port, EventKind kind) {
    if (!node.is_host) catch_up(worker, node, port, worker.key);
    if (kind == EventKind::pause) {
        if (by_credits()) {
            take_credits(worker, node, port);
            return;
        }
        ++worker.totals.events;
        obey(worker, node, port);
        look(worker, node, port);
        return;
    }
    ++worker.totals.events;
    const std::uint32_t lane = take_timer(node).lane();
    if (kind == EventKind::drained) {
        drained(worker, node, port);
    } else if (kind == EventKind::send && lane >= late_credits) {
        --worker.totals.events;
        send_credits(worker, port, worker.now, lane - late_credits);
    } else if (kind == EventKind::send) {
        if (rest_[port.id].wake <= worker.now) rest_[port.id].wake = never;
        look(worker, node, port);
    } else if (lane < refresh) {
        if (expire_pause(worker, node, port, static_cast<int>(lane))) look(worker, node, port);
    } else if (lane < watch) {
        if (refresh_pause(worker, node, port, static_cast<int>(lane - refresh))) {
            look(worker, node, port);
        }
    } else if (lane < storm) {
        bark(worker, node, port, static_cast<int>(lane - watch));
    } else if (lane == storm) {
        rage(worker, node, port);
    } else if (lane == post) {
        end_post(worker, node, port);
    } else if (((lane - flow_timers) & 1) == 0) {
        release(worker, node, (lane - flow_timers) / 2);
    } else {
        expire_flow(worker, node, (lane - flow_timers) / 2);
    }
}

// A frame starts, whatever it is and however its port is.
void Core::start_any(Worker& worker, CorePort& port, Frame frame, int priority, Bytes wire,
                     std::uint16_t ingress) {
    start<false>(worker, port, frame, priority, wire, ingress);
}

// The port may be free.
void Core::look(Worker& worker, CoreNode& node, CorePort& port) {
    if (node.is_host) {
        pull(worker, node, port);
    } else {
        node.line(port.local);
        serve(worker, port);
    }
}

// The ticks that have passed since the port changed. Of those all but the first saw it as it is.
void Core::record_ticks(CorePort& port) {
    observation_.queues[port.id].hold(port.waiting, ticks_);
    PortTick& at = at_tick_[port.id];
    const auto busy = [&](Time tick) { return port.busy_time - port.busy_after(tick); };
    const Time last = ticks_ * tick_;
    const Time before = port.seen == ticks_ - 1 ? at.busy : busy(last - tick_);
    at = {port.waiting, busy(last), busy(last) - before};
    port.seen = ticks_;
}

// Another worker's port is told of when this phase is over.
void Core::tell_other(Worker& worker, CorePort& port, std::uint64_t word) {
    worker.woken[worker.phase][port.worker].push_back(&port);
    std::uint64_t& least = worker.woken_least[port.of];
    least = std::min(least, word & ~flag_mask);
}

// A frame is on its way to a port, which may know of none.
void Core::announce(Worker& worker, CorePort& port, std::uint64_t head) {
    if (port.worker != worker.index) {
        tell_other(worker, port, head);
    } else if (idle(port.arrival_key)) {
        port.arrival_key = arrival_key(port, head);
        port.refresh();
        worker.nodes[port.of].lower(port.slot, port.arrival_key);
    }
}

// Something is on its way to a port: its next events follow from what is in flight.
void Core::wake(Worker& worker, CorePort& port, std::uint64_t word) {
    if (port.worker != worker.index) {
        tell_other(worker, port, word);
        return;
    }
    CoreNode& node = nodes_[port.node];
    if (const std::uint64_t head = port.in.peek(worker.arena); head != flight_empty) {
        port.arrival_key = arrival_key(port, head);
        port.refresh();
    }
    told_next(worker, node, port);
    worker.nodes[node.of].set(node.slot, node.next());
}

// What a frame meets that starts at a port which is not plain.
void Core::leave_idleness(Worker& worker, CorePort& port, Frame frame, Bytes wire) {
    CorePortRest& rest = rest_[port.id];
    if ((port.odd & blocked) != 0) {
        port.odd &= static_cast<std::uint8_t>(~blocked);
        rest.blocked.end(worker.now);
    }
    if (by_credits()) rest.credits[slot(frame.priority())].take(wire - preamble_and_gap);
}

// One frame tells the present state of every class that changed or is due.
void Core::start_pause(Worker& worker, CorePort& port) {
    CorePortRest& rest = rest_[port.id];
    record(port);
    const Time end = serialise(worker, port, pause_wire);
    port.sent_key = key(end, EventKind::sent, port.local);
    port.serving_wire = static_cast<std::uint32_t>(pause_wire);
    port.began = worker.now;
    stay_idle(worker, port, false);
    port.busy_time += end - worker.now;
    port.sent_bytes += pause_wire;
    ++port.sent_packets;
    port.refresh();
    ++worker.totals.pause_frames;
    ++rest.pause_frames;
    const std::uint64_t word = static_cast<std::uint64_t>(end + rest.pause_flight - epoch_)
                                   << stamp_shift |
                               std::uint64_t{port.notify} << 8 | port.stopping | port.storming;
    port.notify = 0;
    if ((port.odd & faulty) != 0 &&
        faults_[rest_[port.id].fault].down(worker.now, end + fabric_.delay[port.id])) {
        return;
    }
    tell(worker, port, word);
}

// Word of a pause or of credits travels to the peer.
void Core::tell(Worker& worker, CorePort& port, std::uint64_t word) {
    CorePortRest& rest = rest_[port.id];
    rest.pauses_out.push(word, 0, worker.arena);
    if (rest.latest_pause <= worker.limit[port.peer_class]) {
        wake(worker, *port.peer, word);
    }
    rest.latest_pause = word;
}

// A pause frame takes effect at the scheduler of the port.
void Core::obey(Worker& worker, CoreNode& node, CorePort& port) {
    CorePortRest& rest = rest_[port.id];
    const std::uint64_t word = rest.pauses_in.pop().head;
    told_next(worker, node, port);
    if (node.is_host) touch(worker, port);
    const auto told = static_cast<std::uint8_t>(word >> 8);
    const auto stopped = static_cast<std::uint8_t>(word);
    if ((told & stopped) != 0) ++rest.pauses;
    for (int priority = 0; priority < 8; ++priority) {
        if ((told & bit(priority)) == 0) continue;
        PauseReceiver& receiver = rest.obeys[slot(priority)];
        if ((stopped & bit(priority)) != 0) {
            if (!receiver.paused()) rest.still[slot(priority)] = worker.now;
            receiver.stop(worker.now, rest.pause);
            if (port.once_stopped == 0) worker.stoppable.push_back(port.id);
            port.once_stopped |= bit(priority);
            port.paused |= bit(priority);
            rest.watchdogs[slot(priority)].stopped(worker.now);
            if ((rest.expiry_due & bit(priority)) == 0) {
                rest.expiry_due |= bit(priority);
                at(node, receiver.until(), EventKind::timer, port.id,
                   expiry + static_cast<std::uint32_t>(priority));
            }
        } else {
            receiver.resume(worker.now);
            port.paused &= static_cast<std::uint8_t>(~bit(priority));
        }
        guard(worker, node, port, priority);
    }
}

// True when the class may send again.
bool Core::expire_pause(Worker& worker, CoreNode& node, CorePort& port, int priority) {
    CorePortRest& rest = rest_[port.id];
    PauseReceiver& receiver = rest.obeys[slot(priority)];
    if (node.is_host) touch(worker, port);
    rest.expiry_due &= static_cast<std::uint8_t>(~bit(priority));
    if (receiver.expire(worker.now)) {
        port.paused &= static_cast<std::uint8_t>(~bit(priority));
        guard(worker, node, port, priority);
        return true;
    }
    if (receiver.paused()) {
        rest.expiry_due |= bit(priority);
        at(node, receiver.until(), EventKind::timer, port.id,
           expiry + static_cast<std::uint32_t>(priority));
    }
    return false;
}

// True when the peer has to be stopped again.
bool Core::refresh_pause(Worker& worker, CoreNode& node, CorePort& port, int priority) {
    PauseSender& sender = rest_[port.id].stops[slot(priority)];
    if (!sender.expire(worker.now)) return false;
    port.notify |= bit(priority);
    at(node, sender.next(), EventKind::timer, port.id,
       refresh + static_cast<std::uint32_t>(priority));
    return true;
}

void Core::at(CoreNode& node, Time time, EventKind kind, std::uint32_t port,
              std::uint32_t lane) {
    node.timers.push(Event::make(time, kind, port, lane));
    time_next(node);
}

Event Core::take_timer(CoreNode& node) {
    const Event event = node.timers.top();
    node.timers.pop();
    time_next(node);
    return event;
}

// The port's next word of its peer.
void Core::told_next(Worker& worker, CoreNode& node, CorePort& port) {
    CorePortRest& rest = rest_[port.id];
    const std::uint64_t next = rest.pauses_in.peek(worker.arena);
    rest.pause_key = next == flight_empty
                         ? idle_key
                         : (next & ~flag_mask) | key(epoch_, EventKind::pause, port.local);
    pauses_next(node);
}

// The node's next pause, and with it its next rare event.
void Core::pauses_next(CoreNode& node) {
    node.pause_key = idle_key;
    for (std::uint32_t i = 0; i < node.count; ++i) {
        node.pause_key = std::min(node.pause_key, rest_[node.first + i].pause_key);
    }
    time_next(node);
}

// The key of the node's next timer or pause; idle while that is further away than a key can tell.
void Core::time_next(CoreNode& node) {
    node.rare_key = node.pause_key;
    if (node.timers.empty()) return;
    const Event& next = node.timers.top();
    if (next.time - epoch_ >= farthest) {
        far_.store(true, std::memory_order_relaxed);
        return;
    }
    node.rare_key = std::min(node.rare_key,
                             key(next.time, next.kind(),
                                 static_cast<std::uint16_t>(next.port() - node.first)));
}

}  // namespace kvfabric
