// When a process stood still, or had more to do than time: spans in which it ran later than it
// asked to, with the processor time that it used in them.
//
// One that used its processor was behind with its work; one that did not was not let run. Which
// process of a run stood still at what instant tells a machine that stood still as a whole from one
// processor that was taken away.
#pragma once

#include <algorithm>
#include <vector>

#include "clock.hpp"

namespace kvfabric {

struct Stall {
    Nanoseconds from = 0;  // of CLOCK_MONOTONIC: when it asked to run
    Nanoseconds until = 0;
    Nanoseconds ran = 0;  // processor time, to a millisecond

    Nanoseconds length() const { return until - from; }
};

class StallLog {
public:
    // The process runs now, and asked to at `due`.
    void run(Nanoseconds due, Nanoseconds now) {
        longest_ = std::max(longest_, now - due);
        if (now - due < least && now - looked_ < least) return;
        const Nanoseconds used = machine_time(CLOCK_THREAD_CPUTIME_ID);
        if (now - due >= least) add({due, now, looked_ > 0 ? used - used_ : 0});
        looked_ = now;
        used_ = used;
    }

    Nanoseconds longest() const { return longest_; }

    // The longest of a millisecond or more, by time; those that met are one.
    std::vector<Stall> spans() const {
        std::vector<Stall> rows = kept_;
        if (last_.until > 0) rows.push_back(last_);
        std::sort(rows.begin(), rows.end(),
                  [](const Stall& a, const Stall& b) { return a.from < b.from; });
        return rows;
    }

private:
    static constexpr Nanoseconds least = 1'000'000;
    static constexpr std::size_t most = 1024;

    void add(const Stall& found) {
        if (found.from <= last_.until) {
            last_.from = std::min(last_.from, found.from);
            last_.until = std::max(last_.until, found.until);
            last_.ran += found.ran;
            return;
        }
        if (last_.until > 0) keep(last_);
        last_ = found;
    }

    void keep(const Stall& one) {
        if (kept_.size() < most) {
            kept_.push_back(one);
            return;
        }
        const auto shortest = std::min_element(
            kept_.begin(), kept_.end(),
            [](const Stall& a, const Stall& b) { return a.length() < b.length(); });
        if (shortest->length() < one.length()) *shortest = one;
    }

    std::vector<Stall> kept_;
    Stall last_;  // until 0: none
    Nanoseconds longest_ = 0;
    Nanoseconds looked_ = 0;  // when the processor time was last read
    Nanoseconds used_ = 0;
};

}  // namespace kvfabric
