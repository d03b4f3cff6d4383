// Priority flow control (IEEE 802.1Qbb): the side that stops a sender, and the side that obeys.
//
// A pause time is counted in quanta of 512 bit times at the link's rate. A stopped sender is
// stopped again at half of that time, so that it never starts again by itself while the group is
// over its threshold.
#pragma once

#include <algorithm>
#include <array>

#include "time.hpp"

namespace kvfabric {

inline constexpr std::uint16_t most_quanta = 65535;
inline constexpr Bytes quantum_bytes = 64;

// What a pause frame says.
struct PauseFrame {
    std::uint8_t told = 0;  // class enable vector
    std::array<std::uint16_t, 8> quanta{};  // of each class; 0: go on
};

// One ingress group (port, priority): decides when to send XOFF and XON.
class PauseSender {
public:
    explicit PauseSender(Time pause = 0) : refresh_(pause / 2) {}

    bool stopped() const { return stopped_; }
    Time next() const { return next_; }

    // The group is over its threshold: true when an XOFF must be sent now.
    bool stop(Time now) {
        if (stopped_) return false;
        stopped_ = true;
        next_ = now + refresh_;
        return true;
    }

    // The group may go on: true when an XON must be sent now.
    bool resume() {
        if (!stopped_) return false;
        stopped_ = false;
        next_ = never;
        return true;
    }

    // A refresh may be due: true when an XOFF must be sent again.
    bool expire(Time now) {
        if (!stopped_ || now < next_) return false;
        next_ += refresh_;
        return true;
    }

private:
    Time refresh_ = 0;
    Time next_ = never;
    bool stopped_ = false;
};

// One egress class (port, priority) that obeys its peer.
class PauseReceiver {
public:
    bool paused() const { return paused_; }
    Time until() const { return until_; }

    // An XOFF takes effect.
    void stop(Time now, Time pause) {
        if (!paused_) {
            since_ = now;
            ++times_;
        }
        paused_ = true;
        until_ = now + pause;
    }

    // An XON takes effect: true when the class was paused.
    bool resume(Time now) {
        if (!paused_) return false;
        longest_ = longest(now);
        spent_ += now - since_;
        paused_ = false;
        return true;
    }

    // The pause time may have run out: true when the class may send again.
    bool expire(Time now) { return paused_ && now >= until_ && resume(now); }

    // Time spent stopped up to now.
    Time spent(Time now) const { return spent_ + (paused_ ? now - since_ : 0); }

    // The longest time without a break, up to now.
    Time longest(Time now) const { return std::max(longest_, paused_ ? now - since_ : 0); }

    // How often it was stopped while it was not.
    std::int64_t times() const { return times_; }

private:
    Time until_ = 0;
    Time since_ = 0;
    Time spent_ = 0;
    Time longest_ = 0;
    std::int64_t times_ = 0;
    bool paused_ = false;
};

}  // namespace kvfabric
