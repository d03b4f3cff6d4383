// What is in flight on one direction of a link: a ring with one writer and one reader.
//
// The sending port puts entries in, the receiving port takes them out, and the two may run on
// different threads: an entry's first word is written last, and the slot behind the newest entry
// always says that there is none. A ring that is full grows by a second block of twice the size:
// the writer leaves word of it behind its newest entry and goes on there; the reader frees the
// first block when it comes to that word.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "core_frame.hpp"

namespace kvfabric {

// First words that are no entry: nothing here yet, and the rest is in the next block.
inline constexpr std::uint64_t flight_empty = ~std::uint64_t{0};
inline constexpr std::uint64_t flight_moved = flight_empty - 1;

struct FlightBlock {
    struct Slot {
        std::atomic<std::uint64_t> head{flight_empty};
        std::uint64_t body = 0;
    };

    explicit FlightBlock(std::uint32_t size) : mask(size - 1), slots(new Slot[size]) {}
    Slot& at(std::uint32_t index) { return slots[index & mask]; }

    std::uint32_t mask;
    std::unique_ptr<Slot[]> slots;
    FlightBlock* next = nullptr;
};
static_assert(sizeof(FlightBlock::Slot) == 16);

class FlightReader {
public:
    explicit FlightReader(std::uint32_t size = 4) : block_(new FlightBlock(size)) {}
    FlightReader(const FlightReader&) = delete;
    FlightReader& operator=(const FlightReader&) = delete;
    ~FlightReader() {
        while (block_ != nullptr) drop_block();
    }

    // The first word of the oldest entry, or flight_empty.
    std::uint64_t peek() {
        std::uint64_t head = first();
        while (head == flight_moved) [[unlikely]] {
            drop_block();
            head = first();
        }
        return head;
    }

    // Takes out the oldest entry; there is one, and it has been peeked at.
    Frame pop() {
        const std::uint32_t index = index_.load(std::memory_order_relaxed);
        const FlightBlock::Slot& slot = block_->at(index);
        const Frame frame{slot.head.load(std::memory_order_relaxed), slot.body};
        index_.store(index + 1, std::memory_order_release);
        return frame;
    }

    // Hands every entry's first word, which may be changed, and its second one to see.
    template <typename See>
    void each(See&& see) const {
        FlightBlock* block = block_;
        for (std::uint32_t i = index_.load();; ++i) {
            const std::uint64_t head = block->at(i).head.load();
            if (head == flight_empty) return;
            if (head == flight_moved) {
                block = block->next;
                --i;
                continue;
            }
            see(block->at(i).head, block->at(i).body);
        }
    }

    std::size_t bytes() const {
        std::size_t total = 0;
        for (const FlightBlock* block = block_; block != nullptr; block = block->next) {
            total += sizeof(FlightBlock) + (block->mask + 1) * sizeof(FlightBlock::Slot);
        }
        return total;
    }

private:
    friend class FlightWriter;

    std::uint64_t first() const {
        return block_->at(index_.load(std::memory_order_relaxed))
            .head.load(std::memory_order_acquire);
    }
    void drop_block() {
        FlightBlock* old = block_;
        block_ = old->next;
        delete old;
    }

    FlightBlock* block_;
    std::atomic<std::uint32_t> index_{0};
};

class FlightWriter {
public:
    // To be called once, before the first entry.
    void open(const FlightReader& reader) {
        block_ = reader.block_;
        room_ = block_->mask;
    }

    void push(std::uint64_t head, std::uint64_t body, const FlightReader& reader) {
        if (room_ == 0) [[unlikely]] make_room(reader);
        block_->at(tail_ + 1).head.store(flight_empty, std::memory_order_relaxed);
        FlightBlock::Slot& slot = block_->at(tail_);
        slot.body = body;
        slot.head.store(head, std::memory_order_release);
        ++tail_;
        --room_;
    }

private:
    // One slot stays free: the one that says that there is nothing behind the newest entry.
    void make_room(const FlightReader& reader) {
        const std::uint32_t taken = tail_ - reader.index_.load(std::memory_order_acquire);
        if (taken < block_->mask) {
            room_ = block_->mask - taken;
            return;
        }
        FlightBlock* const full = block_;
        block_ = new FlightBlock((full->mask + 1) * 2);
        full->next = block_;
        full->at(tail_).head.store(flight_moved, std::memory_order_release);
        room_ = block_->mask;
    }

    FlightBlock* block_ = nullptr;
    std::uint32_t tail_ = 0;
    std::uint32_t room_ = 0;
};

}  // namespace kvfabric
