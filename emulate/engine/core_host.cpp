// Hosts and their NICs in the fast core.
#include "core_link.hpp"

namespace kvfabric {

// When to ask the flow again; at most the time given when it may send its next packet then.
[[gnu::always_inline]] inline Time Core::ask(std::uint32_t flow, Time time) {
    CoreSender& sender = senders_[flow];
    if (!sender.window.more()) return never;
    if (limited_) [[unlikely]] {
        if (const Time when = allowed(flow); when > time) return when;
    }
    if (!transport_.controlled) return time;
    return sender.pacer.ask(sender.rate, control_[sender.port], time);
}

// Everything at a NIC that was due has happened before something changes there.
void Core::touch(Worker& worker, const CorePort& port) {
    Pairs pairs{*this};
    rest_[port.id].nic.advance(pairs, worker.now);
}

// The last bit of a frame of this host has left.
[[gnu::always_inline]] inline void Core::serviced(Worker& worker, CorePort& port, Nic& nic) {
    Pairs pairs{*this};
    nic.advance(pairs, worker.now);
    if (port.serving_flow == no_flow) return;
    CoreSender& sender = senders_[port.serving_flow];
    sender.blame.end(worker.now, held(port, sender.priority, worker.now));
    port.serving_flow = no_flow;
}

// The flow's release: its queue pair joins the NIC, and the NIC looks once every event of this
// instant has been seen.
void Core::release(Worker& worker, CoreNode& node, std::uint32_t flow) {
    CoreSender& sender = senders_[flow];
    const std::uint32_t port = sender.port;
    touch(worker, ports_[port]);
    sender.blame.begin(worker.now, held(ports_[port], sender.priority, worker.now));
    const Time work = transport_.issue * flows_[flow].segment.descriptors();
    const bool queues = transport_.one_issuer && !transport_.posts_in_line();
    sender.posting.begin(queues ? rest_[port].thread.take(worker.now, work) : worker.now,
                         transport_.depth);
    offer(worker, node, flow);
    Pairs pairs{*this};
    rest_[port].nic.review(pairs, flow, worker.now);
    at(node, worker.now, EventKind::send, port, 0);
}

// When the descriptor of the flow's next packet has been posted, never while that waits for an
// event.
Time Core::posted(std::uint32_t flow) const {
    const CoreSender& sender = senders_[flow];
    const std::int64_t descriptor = flows_[flow].segment.descriptor(sender.window.next());
    if (transport_.posts_in_line()) return descriptor < sender.posted ? 0 : never;
    return sender.posting.at(descriptor, transport_.issue);
}

// Only an ACK can let the flow send.
bool Core::full(std::uint32_t flow) const {
    const CoreSender& sender = senders_[flow];
    if (transport_.window > 0 && sender.window.outstanding() >= transport_.window) return true;
    return transport_.depth != no_limit &&
           !sender.posting.room(flows_[flow].segment.descriptor(sender.window.next()));
}

// When window, send queue and issue let the flow send its next packet; never before an event.
Time Core::allowed(std::uint32_t flow) const {
    if (full(flow)) return never;
    return transport_.issue > 0 ? posted(flow) : 0;
}

// What the flow waits for at its new place, in the order in which ask looks.
void Core::placed(std::uint32_t flow, Time time) {
    using State = SenderBlame::State;
    CoreSender& sender = senders_[flow];
    State state = State::turn;
    if (sender.place.state != Place::State::lined && sender.window.more()) {
        const bool ready = transport_.issue == 0 || posted(flow) <= time;
        state = full(flow) ? State::window : ready ? State::pacing : State::issue;
    }
    sender.blame.enter(state, time, held(ports_[sender.port], sender.priority, time));
}

void Core::went_back(Worker& worker, CoreSender& sender) {
    sender.blame.back(worker.now, held(ports_[sender.port], sender.priority, worker.now));
}

// The thread of the flow's NIC may have something to post.
void Core::offer(Worker& worker, CoreNode& node, std::uint32_t flow) {
    CoreSender& sender = senders_[flow];
    if (!transport_.posts_in_line() || sender.offered) return;
    if (sender.posted == flows_[flow].segment.descriptors() ||
        !sender.posting.room(sender.posted)) {
        return;
    }
    sender.offered = true;
    rest_[sender.port].line.offer(sender.release, flow);
    post_next(worker, node, sender.port);
}

void Core::post_next(Worker& worker, CoreNode& node, std::uint32_t port) {
    const Time end = rest_[port].line.start(transport_.issue, worker.now);
    if (end != never) at(node, end, EventKind::timer, port, post);
}

// A descriptor has been posted by the thread of a NIC.
void Core::end_post(Worker& worker, CoreNode& node, CorePort& port) {
    touch(worker, port);
    const std::uint32_t flow = rest_[port.id].line.end();
    senders_[flow].offered = false;
    ++senders_[flow].posted;
    offer(worker, node, flow);
    post_next(worker, node, port.id);
    Pairs pairs{*this};
    rest_[port.id].nic.review(pairs, flow, worker.now);
    pull(worker, node, port);
}

// The priorities with a queue pair that may send now and that no answer goes before.
[[gnu::always_inline]] inline std::uint8_t Core::line_up(Worker& worker, CorePort& port,
                                                         Nic& nic) {
    Pairs pairs{*this};
    const auto of = static_cast<std::uint8_t>(~(port.paused | port.backlog));
    const unsigned before = nic.lined() & of;
    const std::uint8_t ready = nic.ready(pairs, of, worker.now);
    if (ready != before) [[unlikely]] {
        for (unsigned gone = before & ~unsigned{nic.lined()}; gone != 0; gone &= gone - 1) {
            emptied(port, std::countr_zero(gone));
        }
    }
    return ready;
}

// Keeps at most one timer event of a flow waiting; it looks at the deadline when it is due.
[[gnu::always_inline]] inline void Core::arm(CoreNode& node, std::uint32_t flow) {
    CoreSender& sender = senders_[flow];
    if (sender.timer != never || sender.window.deadline() == never) return;
    sender.timer = sender.window.deadline();
    at(node, sender.timer, EventKind::timer, sender.port, flow_timers + 2 * flow + 1);
}

[[gnu::always_inline]] inline Shape Core::shape_of(std::uint32_t flow,
                                                   const CoreSender& sender) const {
    if (sender.window.at_last()) return Shape::last;
    if (sender.uniform) [[likely]] return Shape::full;
    return flows_[flow].segment.payload(sender.window.next()) == transport_.mtu ? Shape::full
                                                                                : Shape::part;
}

// The first in line of a priority sends one packet.
[[gnu::always_inline]] inline void Core::send(Worker& worker, CoreNode& node, CorePort& port,
                                              Nic& nic, int priority) {
    const std::uint32_t flow = nic.head(priority);
    CoreSender& sender = senders_[flow];
    const Shape shape = shape_of(flow, sender);
    Frame frame = Frame::make(sender.step, shape, sender.window.next(), sender.priority,
                              sender.window.attempt());
    if (sender.window.asks()) [[unlikely]] frame.ask();
    const Bytes wire = wire_of(frame);
    const Bytes payload = wire - data_overhead;
    if (transport_.controlled) {
        sender.pacer.sent(sender.rate, control_[port.id], worker.now, wire);
    }
    const bool again = sender.window.take(worker.now, transport_.timeout);
    if (again) sender.resent += payload;
    const bool last = shape == Shape::last;
    if (last) worker.trail.started({flow, sender.window.attempt(), worker.now});
    port.serving_flow = flow;
    sender.blame.start(worker.now, held(port, priority, worker.now), again, last);
    worker.totals.bytes_sent += payload;
    Pairs pairs{*this};
    nic.sent(pairs, priority, worker.now);
    if (((nic.lined() | port.backlog) >> priority & 1) == 0) emptied(port, priority);
    arm(node, flow);
    port.heeded = true;
    start<false>(worker, port, frame, priority, wire, 0);
}

[[gnu::noinline]] void Core::send_next(Worker& worker, CoreNode& node, CorePort& port,
                                       CorePortRest& rest) {
    if (port.notify != 0) [[unlikely]] {
        port.heeded = true;
        start_pause(worker, port);
        return;
    }
    const std::uint8_t ready = line_up(worker, port, rest.nic);
    auto eligible = static_cast<std::uint8_t>((port.backlog & ~port.paused) | ready);
    if (by_credits()) [[unlikely]] eligible = with_credits(worker, port, eligible);
    if (eligible == 0) {
        Pairs pairs{*this};
        const Time next = rest.nic.next(pairs);
        if (next < rest.wake) {
            rest.wake = next;
            at(node, next, EventKind::send, port.id, 0);
        }
        stay_idle(worker, port, (port.backlog | rest.nic.lined()) != 0);
        return;
    }
    int priority = std::countr_zero(eligible);
    if ((eligible & (eligible - 1)) != 0) {
        port.shared = true;
        priority = rest.scheduler.pick(eligible, [&](int p) { return head_bytes(port, p); });
    }
    if ((port.backlog & bit(priority)) == 0) {
        send(worker, node, port, rest.nic, priority);
        return;
    }
    FrameQueue& queue = port.queues[priority];
    const Frame frame = queue.pop();
    const Bytes wire = wire_of(frame);
    record(port);
    queue.wire -= wire;
    port.waiting -= wire;
    if (queue.empty()) {
        port.backlog &= static_cast<std::uint8_t>(~bit(priority));
        if ((rest.nic.lined() & bit(priority)) == 0) emptied(port, priority);
    }
    port.heeded = port.backlog != 0 || !rest.nic.idle();
    start<false>(worker, port, frame, priority, wire, 0);
}

// The port may be free: what the scheduler picks; of one class, answers go before data.
void Core::pull(Worker& worker, CoreNode& node, CorePort& port) {
    if (port.busy()) {
        if (port.heeded) return;
        if (!port.left_by(worker.now)) {
            if ((port.backlog | port.notify) != 0 || !rest_[port.id].nic.idle()) heed(port);
            return;
        }
        finish(port);
    }
    send_next(worker, node, port, rest_[port.id]);
}

// Queues an ACK, NAK or CNP at the receiver, ahead of its own data.
[[gnu::always_inline]] inline void Core::answer(Worker& worker, CoreNode& node,
                                                std::uint32_t flow, Shape shape,
                                                std::uint8_t priority) {
    CoreReceiver& receiver = receivers_[flow];
    CorePort& port = ports_[receiver.port];
    const Frame frame =
        Frame::make(receiver.step, shape, receiver.window.expected(), priority, receiver.answers++);
    const Bytes wire = wire_of(frame);
    if (port.left_by(worker.now)) finish(port);
    port.most_waiting = std::max(port.most_waiting, port.waiting + wire);
    const std::uint8_t others = port.notify | port.backlog | (port.paused & bit(priority));
    if (!port.busy() && others == 0 && !by_credits() && rest_[port.id].nic.idle()) {
        port.heeded = false;
        start<false>(worker, port, frame, priority, wire, 0);
        return;
    }
    wait(worker, port, frame, priority, wire);
    if (!port.engaged()) pull(worker, node, port);
}

void Core::receive_data(Worker& worker, CoreNode& node, Frame frame) {
    const std::uint32_t flow = flow_of(frame);
    CoreReceiver& receiver = receivers_[flow];
    const Bytes payload = wire_of(frame) - data_overhead;
    const Sequence sequence = sequence_of(frame);
    if (frame.marked()) {
        if (receiver.window.expected() == sequence) ++receiver.marked;
        if (transport_.controlled && worker.now >= receiver.cnp_after) {
            receiver.cnp_after = worker.now + transport_.cnp_interval;
            ++receiver.cnps;
            ++worker.totals.cnps;
            answer(worker, node, flow, Shape::cnp, transport_.cnp_priority);
        }
    }
    const GoBackNReceiver::Verdict verdict = receiver.window.receive(sequence);
    const bool accepted = verdict == GoBackNReceiver::Verdict::accepted;
    (accepted ? worker.totals.bytes_delivered : worker.totals.bytes_discarded) += payload;
    const bool last = frame.shape() == Shape::last;
    const bool gap = verdict == GoBackNReceiver::Verdict::gap;
    const bool asks =
        last || transport_.ack_every == 1 || frame.asks() ||
        (std::int64_t{sequence} + 1) % transport_.ack_every == 0 ||
        (transport_.ack_message && flows_[flow].segment.ends_message(sequence));
    if (gap || (asks && verdict != GoBackNReceiver::Verdict::gap_again)) {
        ++(gap ? worker.totals.naks : worker.totals.acks);
        answer(worker, node, flow, gap ? Shape::nak : Shape::ack,
               transport_.ack_class(receiver.priority));
    }
    if (accepted && last) {
        receiver.finish = worker.now;
        receiver.accepted = static_cast<std::int32_t>(frame.number());
        worker.completed.push_back(flow);
    }
}

// After the sender's state has changed: its end, or its place at the NIC and its timer.
[[gnu::always_inline]] inline void Core::settle(Worker& worker, CoreNode& node,
                                                std::uint32_t flow) {
    CoreSender& sender = senders_[flow];
    if (sender.window.done()) {
        if (sender.done < 0) sender.done = worker.now;
        // It may have been in line to send something again.
        pull(worker, node, ports_[sender.port]);
        return;
    }
    Pairs pairs{*this};
    rest_[sender.port].nic.review(pairs, flow, worker.now);
    pull(worker, node, ports_[sender.port]);
    arm(node, flow);
}

// An ACK that leaves the next packet as it was changes nothing at the NIC, unless ACKs let flows
// send.
[[gnu::always_inline]] inline void Core::receive_answer(Worker& worker, CoreNode& node,
                                                        Frame frame) {
    const std::uint32_t flow = flow_of(frame);
    CoreSender& sender = senders_[flow];
    Pairs pairs{*this};
    bool changed = rest_[sender.port].nic.advance(pairs, worker.now) || acks_open_;
    if (frame.shape() == Shape::cnp) {
        sender.rate.cnp(control_[sender.port], worker.now);
        return;
    }
    if (frame.shape() == Shape::ack) {
        changed |= sender.window.acknowledge(frame.number(), worker.now, transport_.timeout);
    } else {
        changed = true;
        if (sender.window.reject(frame.number(), worker.now, transport_.timeout)) {
            went_back(worker, sender);
        }
    }
    if (transport_.depth != no_limit) {
        sender.posting.complete(flows_[flow].segment.complete(sender.window.acked()),
                                transport_.depth, transport_.issue, worker.now);
        offer(worker, node, flow);
    }
    if (changed || sender.window.done()) settle(worker, node, flow);
}

void Core::expire_flow(Worker& worker, CoreNode& node, std::uint32_t flow) {
    CoreSender& sender = senders_[flow];
    sender.timer = never;
    touch(worker, ports_[sender.port]);
    if (sender.window.expire(worker.now, transport_.timeout)) {
        went_back(worker, sender);
        ++sender.timeouts;
        worker.facts.push_back({worker.now, 1 + sender.port, flow, true});
    }
    settle(worker, node, flow);
}

void Core::visit_host(Worker& worker, CoreNode& node, std::uint64_t limit) {
    for (;;) {
        const std::uint64_t next = node.next_event();
        if (next >= limit) break;
        worker.now = time_of(next);
        CorePort& port = node.ports[next & local_mask];
        const EventKind kind = kind_of(next);
        if (kind == EventKind::arrival) {
            const Frame frame = take_arrival(worker, port);
            if (frame.odd()) [[unlikely]] {
                take_odd(worker, port, frame);
                continue;
            }
            if (by_credits()) [[unlikely]] {
                repay(worker, port, frame.priority(), wire_of(frame));
            }
            if (is_data(frame.shape())) {
                if (transport_.drain_bps > 0) [[unlikely]] {
                    stow(worker, node, port, frame);
                } else {
                    receive_data(worker, node, frame);
                }
            } else {
                receive_answer(worker, node, frame);
            }
        } else if (kind == EventKind::sent) {
            CorePortRest& rest = rest_[port.id];
            if (finish(port) < 8) serviced(worker, port, rest.nic);
            send_next(worker, node, port, rest);
            if (!port.busy() || !port.heeded) port.refresh();
        } else {
            handle(worker, node, port, kind);
        }
    }
    worker.nodes[even].set(node.slot, node.next_event());
}

}  // namespace kvfabric
