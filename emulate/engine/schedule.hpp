// Which of a port's eight priorities sends next: strict ones first, the others by deficit.
//
// Deficit weighted round robin (Shreedhar and Varghese, Efficient fair queuing using deficit round
// robin, SIGCOMM 1995). Strict priorities go first, the highest number first. A class that is alone
// is served without touching its deficit; a class that empties loses what it saved.
#pragma once

#include <array>
#include <bit>

#include "time.hpp"

namespace kvfabric {

inline constexpr Bytes quantum_per_weight = 256;

class Scheduler {
public:
    Scheduler() = default;
    Scheduler(std::uint8_t strict, const std::array<std::uint8_t, 8>& weight) : strict_(strict) {
        for (std::size_t i = 0; i < 8; ++i) quantum_[i] = weight[i] * quantum_per_weight;
    }

    // The class to serve, given which are eligible (at least one) and the bytes of each head.
    template <typename HeadBytes>
    int pick(std::uint8_t eligible, HeadBytes&& head_bytes) {
        const auto first = static_cast<std::uint8_t>(eligible & strict_);
        if (first != 0) return std::bit_width(first) - 1;
        if ((eligible & (eligible - 1)) == 0) return std::countr_zero(eligible);
        for (;;) {
            const auto turn = static_cast<std::size_t>(turn_);
            if ((eligible >> turn_ & 1) != 0) {
                if (fresh_) deficit_[turn] += quantum_[turn];
                fresh_ = false;
                const Bytes head = head_bytes(turn_);
                if (deficit_[turn] >= head) {
                    deficit_[turn] -= head;
                    return turn_;
                }
            }
            turn_ = (turn_ + 1) & 7;
            fresh_ = true;
        }
    }

    // The class has no frame left.
    void emptied(int priority) { deficit_[static_cast<std::size_t>(priority)] = 0; }

private:
    std::array<Bytes, 8> quantum_{};
    std::array<Bytes, 8> deficit_{};
    std::uint8_t strict_ = 0;
    int turn_ = 0;
    bool fresh_ = true;
};

}  // namespace kvfabric
