// Groups of the fast core that are stopped, and that go on.
#include "core_link.hpp"

namespace kvfabric {

// A stopped group goes on at the end of one of its frames: from now on they are events at some ports
// that hold any and are not watched yet.
void Core::watch_ends(CoreNode& node, std::uint64_t& watched, std::uint64_t holders) {
    watched |= holders;
    for (std::uint32_t i = 0; i < node.count; ++i) {
        CorePort& port = node.ports[i];
        if ((holders & holder_bit(port)) != 0 && port.watchers++ == 0) heed(port);
    }
}

// The group has gone on.
void Core::leave_ends(CoreNode& node, std::uint64_t& watched) {
    for (std::uint32_t i = 0; i < node.count; ++i) {
        CorePort& port = node.ports[i];
        if ((watched & holder_bit(port)) == 0 || --port.watchers > 0) continue;
        port.heeded = false;
        port.refresh();
        node.line(port.local);
    }
    watched = 0;
}

// The egress that holds most bytes of a group, the lowest of equals, and all that hold any; out holds
// as many more as have come in and not been put anywhere yet.
std::uint32_t Core::fullest_of(const CoreNode& node, const CorePort& in, int priority,
                               const CorePort& out, Bytes stored, std::uint64_t& holders) const {
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
        if (held > 0) holders |= holder_bit(port);
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
    if (!node.is_host) catch_up(worker, node, in, worker.key);
    in.stopping |= bit(priority);
    in.notify |= bit(priority);
    at(node, sender.next(), EventKind::timer, in.id,
       refresh + static_cast<std::uint32_t>(priority));
    look(worker, node, in);
}

// The group is under its threshold again: the peer may go on.
void Core::go_on(Worker& worker, CoreNode& node, CorePort& in, int priority) {
    rest_[in.id].stops[slot(priority)].resume();
    leave_ends(node, rest_[in.id].holders[slot(priority)]);
    worker.stops.push_back(
        {worker.now, false, static_cast<std::uint8_t>(priority), in.peer->id, 0});
    in.stopping &= static_cast<std::uint8_t>(~bit(priority));
    in.notify |= bit(priority);
    look(worker, node, in);
}

}  // namespace kvfabric
