// How late frames left, as a histogram: exact up to 16 ns, then eight classes an octave.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "clock.hpp"

namespace kvfabric {

class Lateness {
public:
    void add(Nanoseconds late) {
        const std::size_t place = index(std::max<Nanoseconds>(0, late));
        if (place >= counts_.size()) counts_.resize(place + 1);
        ++counts_[place];
    }

    const std::vector<std::int64_t>& counts() const { return counts_; }

    // The least lateness of a class; it ends where the next begins.
    static Nanoseconds least(std::size_t place) {
        if (place < steps) return static_cast<Nanoseconds>(place);
        return static_cast<Nanoseconds>(steps + place % steps) << (place / steps - 1);
    }

private:
    static constexpr std::size_t steps = 8;

    static std::size_t index(Nanoseconds late) {
        const auto value = static_cast<std::size_t>(late);
        if (value < steps) return value;
        const auto shift = static_cast<std::size_t>(std::bit_width(value)) - 4;
        return steps * (shift + 1) + (value >> shift) - steps;
    }

    std::vector<std::int64_t> counts_;
};

}  // namespace kvfabric
