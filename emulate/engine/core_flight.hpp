// What is in flight on one direction of a link: a ring with one writer and one reader.
//
// The sending port puts entries in, the receiving port takes them out, and the two may run on
// different threads: an entry's first word is written last, and the slot behind the newest entry
// always says that there is none. A ring that is full grows by a second block of twice the size:
// the writer leaves word of it behind its newest entry and goes on there; the reader gives the
// first block back when it comes to that word.
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
    void open(Arena& arena) { slots_ = FlightSlot::block(arena, mask_ + 1); }

    // The first word of the oldest entry, or flight_empty.
    std::uint64_t peek(Arena& arena) {
        std::uint64_t head = front()->head.load(std::memory_order_acquire);
        while (head == flight_moved) [[unlikely]] {
            FlightSlot* const old = slots_;
            slots_ = front()->next();
            arena.give(old, (mask_ + 1) * sizeof(FlightSlot));
            mask_ = 2 * mask_ + 1;
            head = front()->head.load(std::memory_order_acquire);
        }
        return head;
    }

    // Where the oldest entry is, once it has been peeked at.
    const FlightSlot* front() const {
        return &slots_[index_.load(std::memory_order_relaxed) & mask_];
    }

    // Changes the second word of the oldest entry, once it has been peeked at, and whether it is hollow.
    void amend(std::uint64_t body, bool hollow) {
        FlightSlot& slot = slots_[index_.load(std::memory_order_relaxed) & mask_];
        const std::uint64_t head = slot.head.load(std::memory_order_relaxed) & ~hollow_flag;
        slot.head.store(hollow ? head | hollow_flag : head, std::memory_order_relaxed);
        slot.body = body;
    }

    // The oldest entry, and the first word of the one behind it, or flight_empty.
    struct Taken {
        Frame frame;
        std::uint64_t next;
    };

    // Takes out the oldest entry; there is one, and it has been peeked at.
    Taken pop(Arena& arena) {
        const std::uint64_t index = index_.load(std::memory_order_relaxed);
        const FlightSlot& slot = slots_[index & mask_];
        const Frame frame{slot.head.load(std::memory_order_relaxed), slot.body};
        index_.store(index + 1, std::memory_order_release);
        const std::uint64_t next = slots_[(index + 1) & mask_].head.load(std::memory_order_acquire);
        return {frame, next == flight_moved ? peek(arena) : next};
    }

    // How many entries have been taken out.
    std::int64_t taken() const { return static_cast<std::int64_t>(index_.load()); }

    // Hands every entry's first word, which may be changed, and its second one to see. Returns the
    // bytes of all blocks.
    template <typename See>
    std::size_t each(See&& see) const {
        FlightSlot* slots = slots_;
        std::uint32_t mask = mask_;
        std::size_t total = mask + std::size_t{1};
        for (std::uint64_t i = index_.load();; ++i) {
            FlightSlot& slot = slots[i & mask];
            const std::uint64_t head = slot.head.load();
            if (head == flight_empty) return total * sizeof(FlightSlot);
            if (head == flight_moved) {
                slots = slot.next();
                mask = 2 * mask + 1;
                total += mask + std::size_t{1};
                --i;
                continue;
            }
            see(slot.head, slot.body);
        }
    }

private:
    friend class FlightWriter;

    FlightSlot* slots_ = nullptr;
    std::uint32_t mask_ = 3;
    std::atomic<std::uint64_t> index_{0};
};

class FlightWriter {
public:
    // To be called once, before the first entry.
    void open(const FlightReader& reader) {
        slots_ = reader.slots_;
        full_ = mask_ = reader.mask_;
    }

    void push(std::uint64_t head, std::uint64_t body, const FlightReader& reader, Arena& arena) {
        if (tail_ == full_) [[unlikely]] make_room(reader, arena);
        FlightSlot& slot = slots_[tail_++ & mask_];
        slots_[tail_ & mask_].head.store(flight_empty, std::memory_order_relaxed);
        slot.body = body;
        slot.head.store(head, std::memory_order_release);
    }

    // Asks for the memory of the next entry.
    void fetch() const { fetch_lines(&slots_[tail_ & mask_], 32); }

private:
    // One slot stays free: the one that says that there is nothing behind the newest entry.
    void make_room(const FlightReader& reader, Arena& arena) {
        const auto first = static_cast<std::uint32_t>(reader.index_.load(std::memory_order_acquire));
        if (tail_ - first < mask_) {
            full_ = first + mask_;
            return;
        }
        FlightSlot& last = slots_[tail_ & mask_];
        mask_ = 2 * mask_ + 1;
        full_ = tail_ + mask_;
        slots_ = FlightSlot::block(arena, mask_ + 1);
        last.body = reinterpret_cast<std::uint64_t>(slots_);
        last.head.store(flight_moved, std::memory_order_release);
    }

    FlightSlot* slots_ = nullptr;
    std::uint32_t mask_ = 0;
    std::uint32_t tail_ = 0;
    std::uint32_t full_ = 0;  // the tail at which there may be no room
};

}  // namespace kvfabric
