// Who visits the nodes of the fast core: one worker a thread, and what they tell each other.
#pragma once

#include <queue>

#include "core_ahead.hpp"
#include "core_flow.hpp"
#include "core_tree.hpp"
#include "total.hpp"

namespace kvfabric {

// Of a node, by its links to the nearest host: an even number, as hosts have it, or an odd one.
enum NodeClass : std::size_t { even = 0, odd = 1 };
inline constexpr std::array classes{even, odd};

// The least time, as a key, from an event at a node of one class to one that it causes at
// another node, of a class or a host.
struct Lookahead {
    std::array<std::uint64_t, 2> to{idle_key, idle_key};
    std::uint64_t to_host = idle_key;
};

// What a worker knows between two phases: its next events by class, those that it has caused
// at others' nodes among them, and when a flow may complete.
struct Outlook {
    std::array<std::uint64_t, 2> least{idle_key, idle_key};
    Time possible = never;
    std::int64_t ending = 0;
};

// A flow may complete at a host: the last frame of one is on its way there.
struct Possible {
    Time time = never;
    std::uint32_t node = 0;

    auto operator<=>(const Possible&) const = default;
};

// Who visits some of the nodes, and what it has counted.
struct alignas(64) Worker {
    Time now = 0;
    std::uint64_t key = 0;  // of the present event
    std::uint32_t index = 0;
    std::array<KeyTree, 2> nodes;                    // by class
    std::array<std::uint64_t, 2> limit{};            // by class: visited up to
    std::array<std::vector<std::uint32_t>, 2> node;  // by class and place in the tree
    std::priority_queue<Possible, std::vector<Possible>, std::greater<>> possible;
    std::int64_t ending = 0;  // last packets sent to their last switch, less those gone from it
    VisitList ahead;
    std::vector<std::uint32_t> completed;
    std::vector<FlowFact> facts;
    std::vector<FlowMark> marks;  // of each flow
    std::vector<StopFact> stops;
    std::vector<std::uint32_t> stoppable;  // ports that have been stopped for the first time
    std::vector<std::uint64_t> words;  // of credits, at one port and instant
    Arena arena;
    Trail trail;
    Totals totals;
    std::int64_t spans = 0;
    std::int64_t visits = 0;

    // For the others, in turn by phase: ports of theirs where something is on its way.
    std::array<Outlook, 2> outlook;
    std::array<std::vector<std::vector<CorePort*>>, 2> woken;
    std::array<std::uint64_t, 2> woken_least{idle_key, idle_key};  // by class
    std::size_t phase = 0;

    Time next_possible() const { return possible.empty() ? never : possible.top().time; }
};

}  // namespace kvfabric
