// Deadlocks in the reference engine: looked for at the ticks, among queues that stand still.
#include "reference.hpp"

namespace kvfabric {

namespace {

std::uint8_t bit(std::size_t priority) { return static_cast<std::uint8_t>(1 << priority); }

}  // namespace

// Nothing has happened between the ticks first and last; each circle is told once, at the first tick
// at which all of its queues have stood still for longer than the limit.
void Reference::find_deadlocks(Time first, Time last) {
    std::vector<Stuck> queues;
    for (std::uint32_t p = 0; p < ports_.size(); ++p) {
        const Port& port = ports_[p];
        if (port.at_host || port.backlog == 0) continue;
        for (std::size_t priority = 0; priority < 8; ++priority) {
            const bool stopped =
                (port.paused & bit(priority)) != 0 || port.credits[priority].stalled();
            if ((port.backlog & ~port.deadlocked & bit(priority)) == 0 || !stopped) continue;
            const Time due = port.moved[priority] + discipline_.deadlock;
            const Time tick = std::max(first, (due / tick_ + 1) * tick_);
            if (tick > last) continue;
            queues.push_back({p, static_cast<std::uint8_t>(priority), tick, {}});
        }
    }
    if (queues.size() < 2) return;
    std::vector<Time> ticks;
    for (Stuck& queue : queues) {
        for (std::size_t other = 0; other < queues.size(); ++other) {
            if (waits_for(queue, queues[other])) queue.waits.push_back(other);
        }
        ticks.push_back(queue.from);
    }
    std::sort(ticks.begin(), ticks.end());
    ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
    for (const Time tick : ticks) {
        for (;;) {
            const std::vector<std::size_t> found = circle(queues, tick);
            if (found.empty()) break;
            Deadlock deadlock{tick, queues[found.front()].priority, {}};
            for (const std::size_t place : found) {
                deadlock.ports.push_back(queues[place].port);
                ports_[queues[place].port].deadlocked |= bit(queues[place].priority);
                queues[place].from = never;
            }
            deadlocks_.push_back(deadlock);
        }
    }
}

// The other queue is at the peer of the first and holds a frame that came in by its link.
bool Reference::waits_for(const Stuck& queue, const Stuck& other) const {
    const std::uint32_t in = ports_[queue.port].reverse;
    if (ports_[other.port].node != ports_[in].node || other.priority != queue.priority) return false;
    PacketId id = ports_[other.port].queue[other.priority].list.head();
    while (id != none && packets_[id].ingress != in) id = packets_[id].next;
    return id != none;
}

}  // namespace kvfabric
