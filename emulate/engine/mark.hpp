// Random early marking (ECN) on the instantaneous queue.
//
// Never at or below Kmin, with probability Pmax * (q - Kmin) / (Kmax - Kmin) up to Kmax, always
// above it (Zhu et al., Congestion control for large-scale RDMA deployments, SIGCOMM 2015, figure
// 5). Whole numbers only: the probability is a 32-bit fraction compared with a 32-bit draw.
#pragma once

#include "time.hpp"

namespace kvfabric {

class Marker {
public:
    Marker() = default;
    Marker(Bytes kmin, Bytes kmax, std::uint64_t pmax_q32)
        : kmin_(kmin), kmax_(kmax), pmax_q32_(pmax_q32) {}

    // No longer queue than this is ever marked.
    Bytes unmarked() const { return kmin_; }

    // False when no draw can lead to a mark.
    bool possible(Bytes queue) const { return queue > kmin_; }

    bool mark(Bytes queue, std::uint64_t hash) const {
        if (queue <= kmin_) return false;
        if (queue > kmax_) return true;
        // draw < pmax * above / range, rounded down, of sizes whose product takes more than 64 bits.
        const auto above = static_cast<Wide>(queue - kmin_);
        const auto range = static_cast<Wide>(kmax_ - kmin_);
        return ((hash >> 32) + 1) * range <= pmax_q32_ * above;
    }

private:
    __extension__ using Wide = unsigned __int128;

    Bytes kmin_ = never;
    Bytes kmax_ = never;
    std::uint64_t pmax_q32_ = 0;
};

}  // namespace kvfabric
