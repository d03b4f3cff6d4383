// What stands behind stops in the reference engine, looked at when ticks are latched.
#include <bit>

#include "reference.hpp"

namespace kvfabric {

// So many ticks see what is latched.
void Reference::watch_stopped(const std::vector<std::uint32_t>& stopped, std::int64_t ticks) {
    for (const std::uint32_t p : stopped) {
        unsigned classes = latched_.paused[p] & ports_[p].backlog;
        for (; classes != 0; classes &= classes - 1) {
            const int priority = std::countr_zero(classes);
            observation_.innocence.add(p, priority, standing(p, priority), ticks);
        }
    }
}

Standing Reference::standing(std::uint32_t port_id, int priority) const {
    const Port& port = ports_[port_id];
    const Queue& queue = port.queue[static_cast<std::size_t>(priority)];
    Standing all{queue.wire, 0};
    if (ports_[port.reverse].at_host) return all;
    const std::uint32_t cause = by_credits() ? fullest(port.reverse, priority)
                                             : observation_.pauses.cause(port_id, priority);
    if (by_credits() && cause == PauseLog::none) return all;
    for (PacketId id = queue.list.head(); id != none; id = packets_[id].next) {
        const std::uint32_t egress = hop_of(packets_[id]);
        const bool stopped = (latched_.paused[egress] >> priority & 1) != 0;
        if (!stopped && egress != cause) all.innocent += packets_[id].wire;
    }
    return all;
}

// The egress that holds most bytes of a lane that came in by the port, the lowest of equals: the
// credits that lack are there. None when they are on their way back.
std::uint32_t Reference::fullest(std::uint32_t ingress, int priority) const {
    const std::uint32_t node = ports_[ingress].node;
    const auto first = static_cast<std::uint32_t>(fabric_.first[node]);
    const auto end = static_cast<std::uint32_t>(fabric_.first[node + 1]);
    std::uint32_t most_of = PauseLog::none;
    Bytes most = 0;
    for (std::uint32_t p = first; p < end; ++p) {
        const Port& port = ports_[p];
        Bytes held = 0;
        const auto count = [&](const Packet& packet, std::uint32_t came_by) {
            if (packet.priority == priority && came_by == ingress) held += packet.wire;
        };
        // where the next node cuts through, the frame in service is there already, too
        if (port.serving != none) count(packets_[port.serving], port.came_by);
        const PacketList& list = port.queue[static_cast<std::size_t>(priority)].list;
        for (PacketId id = list.head(); id != none; id = packets_[id].next) {
            count(packets_[id], packets_[id].ingress);
        }
        if (held > most) {
            most = held;
            most_of = p;
        }
    }
    return most_of;
}

}  // namespace kvfabric
