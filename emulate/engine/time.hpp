// Time, sizes and the serialiser of one port.
//
// Time is integer picoseconds, sizes are bytes. A rate is held as picoseconds per byte with 16
// fractional bits, and the fraction left by one frame is carried into the next frame of the same
// busy period: a 450 GB/s link is 2.22 ps a byte and must not drift. A port that was idle begins
// with no remainder, so that a lone flow takes the same time whatever was sent before it, and a
// frame never ends earlier than it would on an idle port.
#pragma once

#include <cstdint>
#include <limits>

namespace kvfabric {

using Time = std::int64_t;
using Bytes = std::int64_t;

inline constexpr Time never = std::numeric_limits<Time>::max();
inline constexpr int fraction_bits = 16;

// Picoseconds per byte with 16 fractional bits, rounded to nearest.
constexpr std::int64_t ps_per_byte_q16(std::int64_t rate_bps) {
    constexpr std::int64_t bit_seconds = 8'000'000'000'000LL << fraction_bits;
    return (bit_seconds + rate_bps / 2) / rate_bps;
}

class Serialiser {
public:
    Serialiser() = default;
    explicit Serialiser(std::int64_t rate_bps) : per_byte_(ps_per_byte_q16(rate_bps)) {}

    // From the next frame on, at another rate.
    void pace(std::int64_t per_byte) { per_byte_ = per_byte; }

    // The instant at which a frame that starts now has left. What is left of the frame before counts
    // when there was no break.
    Time finish(Time now, Bytes wire) {
        rest_ &= -std::int64_t{now == end_};
        end_ = now;
        return follow(wire);
    }

    // The same for one that starts as the frame before it leaves.
    Time follow(Bytes wire) {
        const std::int64_t total = wire * per_byte_ + rest_;
        rest_ = total & ((1 << fraction_bits) - 1);
        end_ += total >> fraction_bits;
        return end_;
    }

    // When the last frame left, or is due to leave.
    Time end() const { return end_; }

    // Picoseconds for a number of bytes, without the remainder.
    Time duration(Bytes wire) const { return (wire * per_byte_) >> fraction_bits; }

    // Bytes of the present frame that have not left yet, rounded up.
    Bytes left(Time now) const {
        const std::int64_t span = (end_ - now) << fraction_bits;
        return span <= 0 ? 0 : (span + per_byte_ - 1) / per_byte_;
    }

    std::int64_t per_byte() const { return per_byte_; }

private:
    std::int64_t per_byte_ = 0;
    std::int64_t rest_ = 0;
    Time end_ = -1;
};

}  // namespace kvfabric
