// Virtual time by the machine's monotonic clock: slowed by a whole factor, the dilation.
//
// A fabric of 400 Gbit/s under a dilation of 10,000 is emulated at 40 Mbit/s; one nanosecond of the
// machine is then 0.1 ps of the fabric. Instants are rounded down, sleeps up.
#pragma once

#include <ctime>

#include "../time.hpp"

namespace kvfabric {

using Nanoseconds = std::int64_t;

// CLOCK_MONOTONIC or CLOCK_REALTIME.
inline Nanoseconds machine_time(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

class DilatedClock {
public:
    DilatedClock(std::int64_t dilation, Nanoseconds start) : dilation_(dilation), start_(start) {}

    // The virtual instant of a monotonic one; negative before the start.
    Time virtual_time(Nanoseconds monotonic) const {
        return static_cast<Time>(static_cast<Wide>(monotonic - start_) * 1000 / dilation_);
    }

    // The first monotonic instant at which the virtual one has come.
    Nanoseconds monotonic(Time time) const {
        if (time == never) return never;
        const Wide picoseconds = static_cast<Wide>(time) * dilation_;
        return start_ + static_cast<Nanoseconds>((picoseconds + 999) / 1000);
    }

    // How long a span of virtual time lasts.
    Nanoseconds lasts(Time span) const {
        return static_cast<Nanoseconds>(static_cast<Wide>(span) * dilation_ / 1000);
    }

    Time now() const { return virtual_time(machine_time(CLOCK_MONOTONIC)); }
    std::int64_t dilation() const { return dilation_; }

private:
    __extension__ using Wide = __int128;

    std::int64_t dilation_ = 1;
    Nanoseconds start_ = 0;
};

}  // namespace kvfabric
