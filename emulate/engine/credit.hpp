// Credits of one virtual lane of one link: the sending end (InfiniBand specification, 7.9).
//
// The receiver advertises its buffer in blocks of 64 bytes; a frame starts only when there are
// credits for all of its blocks, and takes them. They come back once the frame has left the
// receiver, so that no frame ever meets a full buffer. A lane stalls from the moment at which the
// idle port passes its head over for want of credits until credits for that head are there: what
// InfiniBand's XmitWait counts.
#pragma once

#include "time.hpp"

namespace kvfabric {

inline constexpr Bytes credit_block = 64;

// A flow control packet with its delimiters.
inline constexpr Bytes credit_wire = 8;

constexpr std::int64_t credit_blocks(Bytes frame) {
    return (frame + credit_block - 1) / credit_block;
}

class CreditSender {
public:
    explicit CreditSender(std::int64_t blocks = 0) : blocks_(blocks) {}

    std::int64_t blocks() const { return blocks_; }
    bool stalled() const { return stalled_; }
    std::int64_t stalls() const { return stalls_; }

    bool enough(Bytes frame) const { return blocks_ >= credit_blocks(frame); }

    // The port is idle and this frame is first in its lane: may it start?
    bool may(Time now, Bytes frame) {
        wanted_ = credit_blocks(frame);
        if (blocks_ >= wanted_) {
            resume(now);
            return true;
        }
        if (!stalled_) {
            stalled_ = true;
            since_ = now;
            ++stalls_;
        }
        return false;
    }

    // The frame has started.
    void take(Bytes frame) { blocks_ -= credit_blocks(frame); }

    // Credits have come back.
    void give(Time now, std::int64_t blocks) {
        blocks_ += blocks;
        if (blocks_ >= wanted_) resume(now);
    }

    // Since when it has been stalled.
    Time since() const { return since_; }

    // Time spent stalled up to now.
    Time spent(Time now) const { return spent_ + (stalled_ ? now - since_ : 0); }

private:
    void resume(Time now) {
        if (!stalled_) return;
        stalled_ = false;
        spent_ += now - since_;
    }

    std::int64_t blocks_ = 0;
    std::int64_t wanted_ = 0;
    std::int64_t stalls_ = 0;
    Time since_ = 0;
    Time spent_ = 0;
    bool stalled_ = false;
};

}  // namespace kvfabric
