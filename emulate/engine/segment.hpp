// How one flow is cut into packets.
//
// A flow is carried by work requests (descriptors) of equal size, the first ones a byte longer when
// the size does not divide; each is a message of its own, cut at the MTU, so that the last packet
// of each may be short.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "gobackn.hpp"
#include "time.hpp"

namespace kvfabric {

class Segment {
public:
    Segment() = default;
    Segment(Bytes bytes, std::int64_t descriptors, Bytes mtu)
        : bytes_(bytes), mtu_(mtu), small_(bytes / descriptors), longer_(bytes % descriptors),
          descriptors_(descriptors),
          small_packets_(packets_of(small_)), long_packets_(packets_of(small_ + 1)) {
        const std::int64_t count =
            longer_ * long_packets_ + (descriptors - longer_) * small_packets_;
        if (count > std::numeric_limits<Sequence>::max()) {
            throw std::length_error("a flow of more than 2^32 packets");
        }
        packets_ = static_cast<Sequence>(count);
    }

    Sequence packets() const { return packets_; }
    Bytes bytes() const { return bytes_; }

    // How many work requests have all their packets before this one.
    std::int64_t complete(Sequence sequence) const {
        return sequence < packets_ ? descriptor(sequence) : descriptors_;
    }

    // True for the last packet of its work request.
    bool ends_message(Sequence sequence) const {
        return complete(sequence + 1) > descriptor(sequence);
    }

    std::int64_t descriptors() const { return descriptors_; }

    // The work request that a packet belongs to, from 0.
    std::int64_t descriptor(Sequence sequence) const {
        const std::int64_t boundary = longer_ * long_packets_;
        if (sequence < boundary) return sequence / long_packets_;
        return longer_ + (sequence - boundary) / small_packets_;
    }

    // Bytes of a work request, and of those before it.
    Bytes message(std::int64_t descriptor) const { return descriptor < longer_ ? small_ + 1 : small_; }
    Bytes offset(std::int64_t descriptor) const {
        return descriptor * small_ + std::min(descriptor, longer_);
    }

    // Payload bytes of a packet.
    Bytes payload(Sequence sequence) const {
        const std::int64_t boundary = longer_ * long_packets_;
        const bool first = sequence < boundary;
        const std::int64_t count = first ? long_packets_ : small_packets_;
        const std::int64_t within = (first ? sequence : sequence - boundary) % count;
        return std::min(mtu_, (first ? small_ + 1 : small_) - within * mtu_);
    }

    // True when all packets but the last one are full.
    bool uniform() const {
        return packets_ <= 1 || (longer_ == 0 && (small_ % mtu_ == 0 || packets_ == small_packets_));
    }

private:
    std::int64_t packets_of(Bytes bytes) const {
        return std::max<std::int64_t>(1, (bytes + mtu_ - 1) / mtu_);
    }

    Bytes bytes_ = 0;
    Bytes mtu_ = 1;
    Bytes small_ = 0;
    std::int64_t longer_ = 0;
    std::int64_t descriptors_ = 1;
    std::int64_t small_packets_ = 1;
    std::int64_t long_packets_ = 1;
    Sequence packets_ = 0;
};

}  // namespace kvfabric
