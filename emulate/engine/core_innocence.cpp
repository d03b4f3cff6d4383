// What stands behind stops in the fast core, looked at when ticks are latched.
#include <bit>

#include "core_link.hpp"

namespace kvfabric {

// So many ticks see what is latched.
void Core::watch_stopped(std::int64_t ticks) {
    for (const std::uint32_t p : stopped_) {
        const CorePort& port = ports_[p];
        unsigned classes = latched_.paused[p] & port.backlog;
        for (; classes != 0; classes &= classes - 1) {
            const int priority = std::countr_zero(classes);
            observation_.innocence.add(port.id, priority, standing(port, priority), ticks);
        }
    }
}

Standing Core::standing(const CorePort& port, int priority) const {
    const FrameQueue& queue = port.queues[priority];
    Standing all{queue.wire, 0};
    if (port.peer_at_host) return all;
    const std::uint32_t cause = by_credits() ? fullest(*port.peer, priority)
                                             : observation_.pauses.cause(port.id, priority);
    if (by_credits() && cause == PauseLog::none) return all;
    for (std::uint32_t f = 0; f < queue.size(); ++f) {
        Frame frame = queue[f];
        const std::uint32_t egress = paths_[frame.step()];
        const bool stopped = (latched_.paused[egress] >> priority & 1) != 0;
        if (!stopped && egress != cause) all.innocent += wire_of(frame);
    }
    return all;
}

// The egress that holds most bytes of a lane that came in by the port, the lowest of equals: the
// credits that lack are there. None when they are on their way back.
std::uint32_t Core::fullest(const CorePort& in, int priority) const {
    const CoreNode& node = nodes_[in.node];
    std::uint32_t most_of = PauseLog::none;
    Bytes most = 0;
    for (std::uint32_t i = 0; i < node.count; ++i) {
        const CorePort& port = node.ports[i];
        Bytes held = 0;
        if (port.busy() && port.serving == priority && port.serving_ingress == in.local) {
            held = port.serving_wire;
        }
        const FrameQueue& queue = port.queues[priority];
        for (std::uint32_t f = 0; f < queue.size(); ++f) {
            if (queue[f].stamp() == in.local) held += wire_of(queue[f]);
        }
        if (held > most) {
            most = held;
            most_of = port.id;
        }
    }
    return most_of;
}

}  // namespace kvfabric
