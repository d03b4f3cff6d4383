// What is in flight on one direction of a link: a ring with one writer and one reader.
//
// The sending port puts entries in, the receiving port takes them out, and the two may run on
// different threads: an entry's first word is written last, the reader empties every slot that it
// has read, and the slot behind the newest entry always is empty. A ring that is full grows by a
// second block of twice the size: the writer leaves word of it behind its newest entry and goes on
// there; the reader gives the first block back when it comes to that word.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "core_frame.hpp"
#include "core_memory.hpp"

namespace kvfabric {

// First words that are no entry: nothing here yet, and the rest is in the block that the second
// word leads to.
inline constexpr std::uint64_t flight_empty = ~std::uint64_t{0};
inline constexpr std::uint64_t flight_moved = flight_empty - 1;

struct FlightSlot {
    std::atomic<std::uint64_t> head{flight_empty};
    std::uint64_t body = 0;

    static FlightSlot* block(Arena& arena, std::uint32_t size) {
        auto* const slots = static_cast<FlightSlot*>(arena.take(size * sizeof(FlightSlot)));
        std::uninitialized_default_construct_n(slots, size);
        return slots;
    }
    FlightSlot* next() const { return reinterpret_cast<FlightSlot*>(body); }
};
static_assert(sizeof(FlightSlot) == 16);

class FlightReader {
public:
    // To be called once. The arenas outlive the ring.
    void open(Arena& arena) { enter(FlightSlot::block(arena, first_size), first_size); }

    // The first word of the oldest entry, or flight_empty.
    std::uint64_t peek(Arena& arena) {
        std::uint64_t head = front_->head.load(std::memory_order_acquire);
        while (head == flight_moved) [[unlikely]] {
            FlightSlot* const old = slots_;
            const auto size = static_cast<std::uint32_t>(end_ - slots_);
            enter(front_->next(), 2 * size);
            arena.give(old, size * sizeof(FlightSlot));
            head = front_->head.load(std::memory_order_acquire);
        }
        return head;
    }

    // Where the oldest entry is, once it has been peeked at.
    const FlightSlot* front() const { return front_; }

    // Changes the second word of the oldest entry, once it has been peeked at, and whether it is hollow.
    void amend(std::uint64_t body, bool hollow) {
        const std::uint64_t head = front_->head.load(std::memory_order_relaxed) & ~hollow_flag;
        front_->head.store(hollow ? head | hollow_flag : head, std::memory_order_relaxed);
        front_->body = body;
    }

    // Takes out the oldest entry; there is one, and it has been peeked at.
    Frame pop() {
        FlightSlot* const slot = front_;
        const Frame frame{slot->head.load(std::memory_order_relaxed), slot->body};
        slot->head.store(flight_empty, std::memory_order_release);
        front_ = slot + 1 == end_ ? slots_ : slot + 1;
        return frame;
    }

    // What is in the ring: entries, and the bytes of all its blocks.
    struct Content {
        std::int64_t entries = 0;
        std::size_t bytes = 0;
    };

    // Hands every entry's first word, which may be changed, and its second one to see.
    template <typename See>
    Content each(See&& see) const {
        Content all;
        FlightSlot* slots = slots_;
        auto size = static_cast<std::uint32_t>(end_ - slots_);
        all.bytes = size * sizeof(FlightSlot);
        for (FlightSlot* slot = front_;;) {
            const std::uint64_t head = slot->head.load();
            if (head == flight_empty) return all;
            if (head == flight_moved) {
                slot = slots = slot->next();
                size *= 2;
                all.bytes += size * sizeof(FlightSlot);
                continue;
            }
            see(slot->head, slot->body);
            ++all.entries;
            if (++slot == slots + size) slot = slots;
        }
    }

    Content content() const {
        return each([](const std::atomic<std::uint64_t>&, std::uint64_t) {});
    }

private:
    friend class FlightWriter;

    static constexpr std::uint32_t first_size = 4;

    void enter(FlightSlot* slots, std::uint32_t size) {
        front_ = slots_ = slots;
        end_ = slots + size;
    }

    FlightSlot* front_ = nullptr;
    FlightSlot* slots_ = nullptr;
    FlightSlot* end_ = nullptr;
};

class FlightWriter {
public:
    // To be called once, before the first entry.
    void open(const FlightReader& reader) {
        tail_ = slots_ = reader.slots_;
        end_ = reader.end_;
    }

    void push(std::uint64_t head, std::uint64_t body, Arena& arena) {
        FlightSlot* slot = tail_;
        FlightSlot* next = slot + 1 == end_ ? slots_ : slot + 1;
        if (next->head.load(std::memory_order_acquire) != flight_empty) [[unlikely]] {
            slot = widen(arena);
            next = slot + 1;
        }
        tail_ = next;
        slot->body = body;
        slot->head.store(head, std::memory_order_release);
    }

    // Asks for the memory of the next entry.
    void fetch() const { fetch_lines(tail_, 32); }

private:
    // One slot stays free: the one that says that there is nothing behind the newest entry.
    FlightSlot* widen(Arena& arena) {
        const auto size = static_cast<std::uint32_t>(2 * (end_ - slots_));
        FlightSlot* const last = tail_;
        slots_ = FlightSlot::block(arena, size);
        end_ = slots_ + size;
        last->body = reinterpret_cast<std::uint64_t>(slots_);
        last->head.store(flight_moved, std::memory_order_release);
        return slots_;
    }

    FlightSlot* tail_ = nullptr;
    FlightSlot* slots_ = nullptr;
    FlightSlot* end_ = nullptr;
};

}  // namespace kvfabric
