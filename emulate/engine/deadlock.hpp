// Queues that wait for each other in a circle, and so for ever.
//
// A queue that its peer stops waits for every queue at the peer that holds frames which came in by
// its link. A circle of such waits among queues that have been stopped with frames waiting for long,
// without a break, is a deadlock (Hu et al., Deadlocks in datacenter networks, HotNets 2016). It is
// found depth first in the order of the queues' numbers, so that the same circle is always told from
// the same queue on. It is looked for at ticks, when every node stands at the same instant.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "time.hpp"

namespace kvfabric {

struct Deadlock {
    Time time = 0;
    std::uint8_t priority = 0;
    std::vector<std::uint32_t> ports;  // each waits for the next, the last for the first
};

// One queue that stands still, and those it waits for, by their places in the list.
struct Stuck {
    std::uint32_t port = 0;
    std::uint8_t priority = 0;
    Time from = 0;  // counts as stuck from then on
    std::vector<std::size_t> waits;
};

// Some circle among the queues that are stuck at that time, as places in the list; empty when there
// is none.
inline std::vector<std::size_t> circle(const std::vector<Stuck>& queues, Time time) {
    std::vector<std::uint8_t> done(queues.size(), 0);
    std::vector<std::size_t> path;
    std::vector<std::size_t> ahead;
    for (std::size_t start = 0; start < queues.size(); ++start) {
        if (done[start] != 0 || queues[start].from > time) continue;
        path.assign(1, start);
        ahead.assign(1, 0);
        while (!path.empty()) {
            const std::vector<std::size_t>& waits = queues[path.back()].waits;
            if (ahead.back() == waits.size()) {
                done[path.back()] = 1;
                path.pop_back();
                ahead.pop_back();
                continue;
            }
            const std::size_t wanted = waits[ahead.back()++];
            const auto seen = std::find(path.begin(), path.end(), wanted);
            if (seen != path.end()) return {seen, path.end()};
            if (done[wanted] != 0 || queues[wanted].from > time) continue;
            path.push_back(wanted);
            ahead.push_back(0);
        }
    }
    return {};
}

// Finds the circles of one fabric, and keeps them: each is told once, at the first tick at which all
// of its queues have stood still for longer than the limit.
//
// The engine shows its queues. Of a port: waiting(port), the priorities with frames waiting, none at
// a host; still(port, priority), since when the queue has been stopped with frames waiting; node(port)
// and reverse(port), the other direction of its link; holds(port, priority, in): is there a frame that
// came in by that port?
class DeadlockWatch {
public:
    DeadlockWatch(std::size_t ports, Time limit, Time tick)
        : told_(ports, 0), limit_(limit), tick_(tick) {}

    const std::vector<Deadlock>& found() const { return found_; }

    // Nothing has happened between the ticks first and last; stopped has the priorities of each
    // port that its peer stops, and ports has those where there are any, in order.
    template <typename Queues>
    void look(const Queues& queues, const std::vector<std::uint32_t>& ports,
              const std::vector<std::uint8_t>& stopped, Time first, Time last) {
        std::vector<Stuck> stuck;
        for (const std::uint32_t port : ports) {
            unsigned left = stopped[port] & queues.waiting(port) & ~told_[port];
            for (; left != 0; left &= left - 1) {
                const auto priority = static_cast<std::uint8_t>(std::countr_zero(left));
                const Time due = queues.still(port, priority) + limit_;
                const Time tick = std::max(first, (due / tick_ + 1) * tick_);
                if (tick <= last) stuck.push_back({port, priority, tick, {}});
            }
        }
        if (stuck.size() < 2) return;
        std::vector<Time> ticks;
        for (Stuck& queue : stuck) {
            for (std::size_t other = 0; other < stuck.size(); ++other) {
                if (waits(queues, queue, stuck[other])) queue.waits.push_back(other);
            }
            ticks.push_back(queue.from);
        }
        std::sort(ticks.begin(), ticks.end());
        ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
        for (const Time tick : ticks) tell(stuck, tick);
    }

private:
    // The other queue is at the peer of the first and holds a frame that came in by its link.
    template <typename Queues>
    static bool waits(const Queues& queues, const Stuck& queue, const Stuck& other) {
        const std::uint32_t in = queues.reverse(queue.port);
        return queues.node(other.port) == queues.node(in) && other.priority == queue.priority &&
               queues.holds(other.port, other.priority, in);
    }

    void tell(std::vector<Stuck>& stuck, Time tick) {
        for (;;) {
            const std::vector<std::size_t> places = circle(stuck, tick);
            if (places.empty()) return;
            Deadlock deadlock{tick, stuck[places.front()].priority, {}};
            for (const std::size_t place : places) {
                Stuck& queue = stuck[place];
                deadlock.ports.push_back(queue.port);
                told_[queue.port] |= static_cast<std::uint8_t>(1 << queue.priority);
                queue.from = never;
            }
            found_.push_back(deadlock);
        }
    }

    std::vector<Deadlock> found_;
    std::vector<std::uint8_t> told_;  // of each port: the priorities that are in a circle
    Time limit_;
    Time tick_;
};

}  // namespace kvfabric
