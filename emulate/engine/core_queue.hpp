// The frames that wait at one port in one priority: a ring that doubles when it is full.
#pragma once

#include <cstddef>
#include <memory>

#include "core_frame.hpp"
#include "core_memory.hpp"

namespace kvfabric {

// A frame that has left its queue, and the bytes behind it there.
struct Waited {
    Frame frame;
    Bytes wire;
    Bytes behind;
    bool usual;  // its kind tells all about it
};

class FrameQueue {
public:
    bool empty() const { return count_ == 0; }
    std::uint32_t size() const { return count_; }
    const Frame& front() const { return frames_[first_]; }
    const Frame& operator[](std::uint32_t place) const {
        return frames_[(first_ + place) & mask_];
    }

    // The arena outlives the queue.
    [[gnu::always_inline]] void push(Frame frame, Arena& arena) {
        if (count_ == size_) [[unlikely]] grow(arena);
        frames_[(first_ + count_) & mask_] = frame;
        ++count_;
    }

    Frame pop() {
        const Frame frame = frames_[first_];
        first_ = (first_ + 1) & mask_;
        --count_;
        return frame;
    }

    // Asks for the memory of the first frame.
    void fetch() const { fetch_lines(frames_ + first_, sizeof(Frame)); }

    std::size_t bytes() const { return size_ * sizeof(Frame); }

    Bytes wire = 0;  // of all that wait

private:
    [[gnu::noinline]] void grow(Arena& arena) {
        const std::uint32_t size = size_ == 0 ? 4 : size_ * 2;
        auto* const frames = static_cast<Frame*>(arena.take(size * sizeof(Frame)));
        std::uninitialized_default_construct_n(frames, size);
        for (std::uint32_t i = 0; i < count_; ++i) frames[i] = (*this)[i];
        if (size_ > 0) arena.give(frames_, bytes());
        frames_ = frames;
        first_ = 0;
        size_ = size;
        mask_ = size - 1;
    }

    Frame* frames_ = nullptr;
    std::uint32_t first_ = 0;
    std::uint32_t count_ = 0;
    std::uint32_t size_ = 0;
    std::uint32_t mask_ = 0;
};
static_assert(sizeof(FrameQueue) <= 32);

}  // namespace kvfabric
