// The watch over one egress queue (port, priority) that its peer may have stopped for ever.
//
// When frames have waited in a stopped queue for the detection time without a break, the queue is
// given up: what waits in it is dropped, and so is what comes for it, until no XOFF has come for the
// restoration time (SONiC's pfcwd with action drop: both 200 ms, sonic-net/sonic-utilities
// pfcwd/main.py; there the state is polled, here the times are exact).
#pragma once

#include <algorithm>

#include "time.hpp"

namespace kvfabric {

class Watchdog {
public:
    enum class Verdict : std::uint8_t { none, drop, restore };

    explicit Watchdog(Time detect = never, Time restore = never)
        : detect_(detect), restore_(restore) {}

    bool dropping() const { return dropping_; }

    // When it wants to be asked again.
    Time next() const {
        if (dropping_) return last_stop_ + restore_;
        return since_ == never ? never : since_ + detect_;
    }

    // An XOFF has taken effect.
    void stopped(Time now) { last_stop_ = now; }

    // The queue has changed: stuck when it is stopped and frames wait.
    void watch(Time now, bool stuck) {
        if (!stuck || dropping_) {
            since_ = never;
        } else if (since_ == never) {
            since_ = now;
        }
    }

    // A time may be over.
    Verdict expire(Time now) {
        if (now < next()) return Verdict::none;
        dropping_ = !dropping_;
        since_ = never;
        // It may be long since the last XOFF took effect: not before now.
        last_stop_ = std::max(last_stop_, now - restore_);
        return dropping_ ? Verdict::drop : Verdict::restore;
    }

private:
    Time detect_ = never;
    Time restore_ = never;
    Time since_ = never;
    Time last_stop_ = 0;
    bool dropping_ = false;
};

}  // namespace kvfabric
