// When the descriptors of queue pairs are posted.
//
// Posting a descriptor takes a fixed time. By default every queue pair has a thread of its own that
// posts one after the other from the flow's release on. One thread for all of a NIC takes them
// first come, first served, by (release, flow). A send queue of limited depth holds so many
// descriptors that are posted and not yet acknowledged; a queue pair without room waits, or is
// passed over by the common thread, until an ACK completes one.
#pragma once

#include <algorithm>
#include <queue>

#include "time.hpp"

namespace kvfabric {

inline constexpr std::int64_t no_limit = never;

// The descriptors of one queue pair: descriptor d is posted at from + issue * (d + 1).
class Posting {
public:
    // The first depth of them have room.
    void begin(Time from, std::int64_t depth) {
        from_ = from;
        limit_ = depth;
    }

    bool room(std::int64_t descriptor) const { return descriptor < limit_; }

    // When a descriptor has been posted; never while it has no room.
    Time at(std::int64_t descriptor, Time issue) const {
        return room(descriptor) ? from_ + issue * (descriptor + 1) : never;
    }

    // So many descriptors are complete in all: the next ones are posted, now or after those before.
    void complete(std::int64_t count, std::int64_t depth, Time issue, Time now) {
        if (depth == no_limit || count + depth <= limit_) return;
        from_ = std::max(from_, now - issue * limit_);
        limit_ = count + depth;
    }

private:
    Time from_ = 0;
    std::int64_t limit_ = 0;
};

// One thread for the queue pairs of a NIC whose send queues are limited.
class PostingLine {
public:
    // A queue pair has a descriptor to post, and room for it. Once, until it has been posted.
    void offer(Time release, std::uint32_t flow) { waiting_.push({release, flow}); }

    // Takes the next one, unless the thread is at work: when it will have been posted, or never.
    Time start(Time issue, Time now) {
        if (busy_ || waiting_.empty()) return never;
        busy_ = true;
        flow_ = waiting_.top().flow;
        waiting_.pop();
        return now + issue;
    }

    // The descriptor at work has been posted: its queue pair.
    std::uint32_t end() {
        busy_ = false;
        return flow_;
    }

private:
    struct Offer {
        Time release;
        std::uint32_t flow;
        bool operator<(const Offer& other) const {  // a priority queue has the greatest on top
            return release != other.release ? release > other.release : flow > other.flow;
        }
    };

    std::priority_queue<Offer> waiting_;
    std::uint32_t flow_ = 0;
    bool busy_ = false;
};

// One thread for the queue pairs of a NIC whose send queues have no limit: first come, first
// served, so that all of a flow's work is known at its release.
class PostingThread {
public:
    // When the thread begins with a flow that is released now and takes so long.
    Time take(Time now, Time work) {
        const Time from = std::max(free_, now);
        free_ = from + work;
        return from;
    }

private:
    Time free_ = 0;
};

}  // namespace kvfabric
