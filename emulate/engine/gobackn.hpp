// Go-back-N of one flow: the sender's and the receiver's side.
//
// As RoCE NICs do (InfiniBand specification, 9.7): the receiver takes packets in order only, and
// answers the first packet beyond a gap with one NAK; the sender then starts again at the packet
// that is missing. If nothing is acknowledged for the retransmission time, it starts again too, and
// the first packet after that asks for an ACK whatever its number, as in Linux's qib and hfi1: the
// receiver may have taken many that did not ask. That timer runs while the class is paused, and
// expires again if nothing can be sent again.
#pragma once

#include "time.hpp"

namespace kvfabric {

using Sequence = std::uint32_t;

class GoBackNSender {
public:
    explicit GoBackNSender(Sequence packets = 0) : packets_(packets) {}

    bool more() const { return next_ < packets_; }
    bool at_last() const { return next_ + 1 == packets_; }
    bool done() const { return acked_ == packets_; }
    Sequence next() const { return next_; }
    Sequence acked() const { return acked_; }
    Sequence outstanding() const { return next_ - acked_; }
    std::uint16_t attempt() const { return attempt_; }
    Time deadline() const { return deadline_; }

    // The next packet asks for an ACK.
    bool asks() const { return asks_; }

    // The next packet has started: true when it had been sent before.
    bool take(Time now, Time timeout) {
        if (deadline_ == never) deadline_ = now + timeout;
        const bool again = next_ < highest_;
        ++next_;
        if (next_ > highest_) highest_ = next_;
        asks_ = false;
        return again;
    }

    // All packets before expected have arrived: true when some of them were to be sent again.
    bool acknowledge(Sequence expected, Time now, Time timeout) {
        if (expected <= acked_) return false;
        acked_ = expected;
        deadline_ = acked_ == highest_ ? never : now + timeout;
        if (next_ >= acked_) return false;
        next_ = acked_;
        return true;
    }

    // The receiver misses the packet expected: true when there is something to send again.
    bool reject(Sequence expected, Time now, Time timeout) {
        if (expected < acked_) return false;
        acknowledge(expected, now, timeout);
        return back(now, timeout);
    }

    // The timer may have expired: true when it had.
    bool expire(Time now, Time timeout) {
        if (now < deadline_ || !back(now, timeout)) return false;
        asks_ = true;
        return true;
    }

private:
    bool back(Time now, Time timeout) {
        if (highest_ == acked_) return false;
        next_ = acked_;
        ++attempt_;
        deadline_ = now + timeout;
        return true;
    }

    Sequence packets_ = 0;
    Sequence next_ = 0;
    Sequence acked_ = 0;
    Sequence highest_ = 0;
    std::uint16_t attempt_ = 0;
    bool asks_ = false;
    Time deadline_ = never;
};

class GoBackNReceiver {
public:
    enum class Verdict { accepted, duplicate, gap, gap_again };

    Sequence expected() const { return expected_; }

    Verdict receive(Sequence sequence) {
        if (sequence == expected_) {
            ++expected_;
            asked_ = false;
            return Verdict::accepted;
        }
        if (sequence < expected_) return Verdict::duplicate;
        if (asked_) return Verdict::gap_again;
        asked_ = true;
        return Verdict::gap;
    }

private:
    Sequence expected_ = 0;
    bool asked_ = false;
};

}  // namespace kvfabric
