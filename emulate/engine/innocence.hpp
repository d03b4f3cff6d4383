// What stands behind stops, and how much of it is bound elsewhere than where the stop comes from.
//
// A frame that waits in a stopped class is innocent when its own egress, the port by which it will
// leave the next switch, is free: not stopped itself in that class, and not the egress that the stop
// is blamed on, which held most bytes of the stopped group. The latter has to be said, since the root
// of a tree of pauses is congested and never stopped. A frame whose next node is its host has no
// further egress: the host stops it, and it is not innocent. Neither is one whose lane waits for
// credits that are on their way back, with nothing left at the next switch to blame. Kept are sums of
// bytes over the ticks.
#pragma once

#include <cstddef>
#include <vector>

#include "time.hpp"

namespace kvfabric {

// Bytes on the wire that wait in one stopped class, or their sum over ticks.
struct Standing {
    Bytes paused = 0;
    Bytes innocent = 0;
};

class Innocence {
public:
    explicit Innocence(std::size_t ports) : sums_(ports * 8) {}

    // So many ticks have seen this behind a stop of the class.
    void add(std::uint32_t port, int priority, const Standing& standing, std::int64_t ticks) {
        Standing& sum = sums_[std::size_t{port} * 8 + static_cast<std::size_t>(priority)];
        sum.paused += standing.paused * ticks;
        sum.innocent += standing.innocent * ticks;
    }

    // By port and priority.
    const std::vector<Standing>& sums() const { return sums_; }

    Standing total() const {
        Standing all;
        for (const Standing& sum : sums_) {
            all.paused += sum.paused;
            all.innocent += sum.innocent;
        }
        return all;
    }

private:
    std::vector<Standing> sums_;
};

}  // namespace kvfabric
