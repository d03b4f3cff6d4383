// Queues that wait for each other in a circle, and so for ever.
//
// A queue that its peer stops waits for every queue at the peer that holds frames which came in by
// its link. A circle of such waits among queues that have stood still for long is a deadlock (Hu et
// al., Deadlocks in datacenter networks, HotNets 2016). It is found depth first in the order of the
// queues' numbers, so that the same circle is always told from the same queue on.
#pragma once

#include <algorithm>
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

}  // namespace kvfabric
