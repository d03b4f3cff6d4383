// What happens at a port of the fast core, be it a switch's or a host's: frames that start, that
// have left and that arrive, and the peer's word that this port is the next to have an event.
#pragma once

#include "core.hpp"

namespace kvfabric {

inline std::uint8_t bit(int priority) { return static_cast<std::uint8_t>(1 << priority); }

inline std::size_t slot(int priority) { return static_cast<std::size_t>(priority); }

// A port's bit among those of its switch; of more than 64 ports, several have one.
inline std::uint64_t holder_bit(const CorePort& port) {
    return std::uint64_t{1} << port.local % 64;
}

// The flow of a frame, known at the end of its path.
inline std::uint32_t Core::flow_of(Frame frame) const {
    std::size_t step = frame.step();
    while ((paths_[step] & path_end) == 0) ++step;
    return paths_[step] & ~path_end;
}

// Is the port a switch's, towards a host?
inline bool Core::delivers(const CorePort& port) const {
    return port.peer_at_host && !nodes_[port.node].is_host;
}

// Is the next node of a frame on its way the last switch of its path?
inline bool Core::delivers_next(Frame frame) const {
    const std::uint32_t to = paths_[frame.step()];
    return (to & path_end) == 0 && delivers(ports_[to]);
}

// What a frame's kind tells, 0 if nothing: of the last frame of a flow, for one, and what is odd.
inline Bytes Core::known_wire(Frame frame) const { return kind_wire_[frame.kind()]; }

inline Bytes Core::wire_of(Frame frame) const {
    if (const Bytes known = known_wire(frame); known != 0) [[likely]] return known;
    const Shape shape = frame.shape();
    if (frame.odd() && !is_data(shape)) return kind_wire_[static_cast<std::size_t>(shape)];
    const std::uint32_t flow = flow_of(frame);
    if (shape == Shape::last) return routes_[flow].last_wire;
    return flows_[flow].segment.payload(frame.number()) + data_overhead;
}

inline Sequence Core::sequence_of(Frame frame) const {
    return frame.shape() == Shape::last ? routes_[flow_of(frame)].last : frame.number();
}

// The port by which a frame leaves the node that it is at.
[[gnu::always_inline]] inline CorePort& Core::way(Frame frame) {
    return ports_[paths_[frame.step()]];
}

// When the last bit of a frame that starts now has left.
inline Time Core::serialise(Worker& worker, CorePort& port, Bytes wire) {
    if ((port.odd & faulty) != 0) [[unlikely]] {
        port.serialiser.pace(faults_[rest_[port.id].fault].per_byte_q16(
            worker.now, rest_[port.id].per_byte_q16));
    }
    return port.serialiser.finish(worker.now, wire);
}

// The port sends a frame: when it arrives, and whether it is lost on the way, is known now.
// Of a frame at a switch, the ingress is the number of the port that it came in by.
// Plain: nothing is odd about the port, and the frame is not the last of its flow.
// Follows: it starts as the one before it leaves.
template <bool plain, bool follows>
[[gnu::always_inline]] inline void Core::start(Worker& worker, CorePort& port, Frame frame,
                                               int priority, Bytes wire, std::uint16_t ingress) {
    if (!plain) record(port);
    if (!plain && port.odd != 0) [[unlikely]] leave_idleness(worker, port, frame, wire);
    const Time now = worker.now;
    const Time end = follows ? port.serialiser.follow(wire)
                     : plain ? port.serialiser.finish(now, wire)
                             : serialise(worker, port, wire);
    const std::uint64_t left = stamp(end);
    const std::uint64_t arrival = left + port.delay_key;
    port.serving = static_cast<std::uint8_t>(priority);
    port.serving_ingress = ingress;
    port.serving_wire = static_cast<std::uint32_t>(wire);
    port.began = now;
    port.busy_time += end - now;
    port.sent_bytes += wire;
    ++port.sent_packets;
    port.sent_key = left | sent_bits | port.local;
    if (port.heeded) port.refresh();
    frame.head = arrival | (frame.head & flag_mask);
    const bool last = !plain && frame.shape() == Shape::last;
    if (last && delivers_next(frame)) [[unlikely]] ++worker.ending;
    if (!plain && (port.odd & (faulty | heralded)) != 0) [[unlikely]] {
        frame = set_out(worker, port, frame);
    }
    port.out.push(frame.head, frame.body, worker.arena);
    // If the peer may have taken the frame before this one, it may not know of this one.
    if (port.latest <= worker.limit[port.peer_class]) {
        announce(worker, *port.peer, frame.head);
    }
    port.latest = frame.head;
    if (last && port.peer_at_host) [[unlikely]] {
        worker.possible.push({time_of(arrival), port.peer->node});
        if (delivers(port)) --worker.ending;
    }
}

// The last bit has left: the frame's priority, or 8 when it was a pause frame.
[[gnu::always_inline]] inline int Core::finish(CorePort& port) {
    const int priority = port.serving;
    port.sent_key = idle_key;
    port.serving = 8;
    return priority;
}

// The port has found nothing that it may send.
inline void Core::stay_idle(Worker& worker, CorePort& port, bool waiting) {
    if (waiting == ((port.odd & blocked) != 0)) return;
    port.odd ^= blocked;
    rest_[port.id].blocked.idle(worker.now, waiting);
}

// The ends of the port's frames are events from now on.
inline void Core::heed(CorePort& port) {
    port.heeded = true;
    port.refresh();
}

// What waits and what has been sent is recorded before it changes.
[[gnu::always_inline]] inline void Core::record(CorePort& port) {
    if (port.seen != ticks_) [[unlikely]] record_ticks(port);
}

// A frame begins to wait at the port.
[[gnu::always_inline]] inline void Core::wait(Worker& worker, CorePort& port, Frame frame,
                                              int priority, Bytes wire) {
    FrameQueue& queue = port.queues[priority];
    record(port);
    queue.push(frame, worker.arena);
    queue.wire += wire;
    port.waiting += wire;
    port.backlog |= bit(priority);
}

// The class has no frame left; a scheduler that never had a choice has nothing saved for it.
inline void Core::emptied(CorePort& port, int priority) {
    if (port.shared) [[unlikely]] rest_[port.id].scheduler.emptied(priority);
}

// What was in service has left without an event: its memory is free.
[[gnu::always_inline]] inline void Core::let_go(CoreNode& node, CorePort& port) {
    if (const int priority = finish(port); priority < 8) {
        node.buffer->release(port.serving_ingress, priority, port.local,
                             Bytes{port.serving_wire} - preamble_and_gap);
    }
}

// What has happened at a port whose frames' ends are no events, before the bound.
[[gnu::always_inline]] inline void Core::catch_up(Worker& worker, CoreNode& node, CorePort& port,
                                                  std::uint64_t bound) {
    if (port.sent_key >= bound) return;
    if ((port.backlog | port.notify) != 0) {
        replay(worker, node, port, bound);
    } else {
        let_go(node, port);
    }
}

template <bool few>
[[gnu::always_inline]] inline Frame Core::take_arrival(Worker& worker, CorePort& port) {
    const Frame frame = port.in.pop();
    port.arrival_key = arrival_key(port, port.in.peek(worker.arena));
    port.refresh<few>();
    return frame;
}

}  // namespace kvfabric
