// The one time-ordered queue of a driver of switches and NICs.
//
// Events are ordered by (time, kind, port, lane), which is (time, kind, node, port, lane), since a
// node's ports are contiguous; the order in which they were put in never decides. What an event is
// about is in its key alone: an entry is 16 bytes, in a heap of four children a node.
#pragma once

#include <cstddef>
#include <vector>

#include "time.hpp"

namespace kvfabric {

enum class EventKind : std::uint8_t {
    pause = 0,
    sent = 1,
    drained = 2,
    arrival = 3,
    timer = 4,
    send = 5
};

struct Event {
    Time time = 0;
    std::uint64_t key = 0;

    static Event make(Time time, EventKind kind, std::uint32_t port, std::uint32_t lane) {
        return {time, static_cast<std::uint64_t>(kind) << 61 | std::uint64_t{port} << 32 | lane};
    }
    EventKind kind() const { return static_cast<EventKind>(key >> 61); }
    std::uint32_t port() const { return static_cast<std::uint32_t>(key >> 32 & 0x1fffffff); }
    std::uint32_t lane() const { return static_cast<std::uint32_t>(key); }

    bool operator<(const Event& other) const {
        return time != other.time ? time < other.time : key < other.key;
    }
};

class EventQueue {
public:
    bool empty() const { return heap_.empty(); }
    const Event& top() const { return heap_.front(); }
    std::size_t size() const { return heap_.size(); }

    void push(Event event) {
        std::size_t hole = heap_.size();
        heap_.push_back(event);
        while (hole > 0) {
            const std::size_t parent = (hole - 1) / 4;
            if (!(event < heap_[parent])) break;
            heap_[hole] = heap_[parent];
            hole = parent;
        }
        heap_[hole] = event;
    }

    void pop() {
        const Event last = heap_.back();
        heap_.pop_back();
        const std::size_t count = heap_.size();
        if (count == 0) return;
        std::size_t hole = 0;
        for (;;) {
            const std::size_t first = hole * 4 + 1;
            if (first >= count) break;
            const std::size_t end = first + 4 < count ? first + 4 : count;
            std::size_t best = first;
            for (std::size_t child = first + 1; child < end; ++child) {
                if (heap_[child] < heap_[best]) best = child;
            }
            if (!(heap_[best] < last)) break;
            heap_[hole] = heap_[best];
            hole = best;
        }
        heap_[hole] = last;
    }

private:
    std::vector<Event> heap_;
};

}  // namespace kvfabric
