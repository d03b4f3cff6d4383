// The frames on one direction of a link, from their start to their last bit in: first in, first out.
#pragma once

#include <cstddef>
#include <vector>

#include "pool.hpp"

namespace kvfabric {

struct Flight {
    Time arrival = 0;  // of the last bit
    PacketId id = none;
    std::int64_t per_byte_q16 = 0;
    bool lost = false;  // by a fault of the link
    bool gone = false;  // cut through: on its way out of the next node already
};

// A ring that grows by doubling.
class Wire {
public:
    bool empty() const { return count_ == 0; }
    std::size_t size() const { return count_; }
    const Flight& front() const { return flights_[first_]; }

    // The one behind so many others.
    Flight& operator[](std::size_t place) { return flights_[at(place)]; }
    const Flight& operator[](std::size_t place) const { return flights_[at(place)]; }

    void push(const Flight& flight) {
        if (count_ == flights_.size()) grow();
        flights_[at(count_)] = flight;
        ++count_;
    }
    Flight pop() {
        const Flight flight = flights_[first_];
        first_ = at(1);
        --count_;
        return flight;
    }

private:
    std::size_t at(std::size_t place) const { return (first_ + place) & (flights_.size() - 1); }

    void grow() {
        std::vector<Flight> wider(flights_.empty() ? 4 : 2 * flights_.size());
        for (std::size_t i = 0; i < count_; ++i) wider[i] = flights_[at(i)];
        flights_ = std::move(wider);
        first_ = 0;
    }

    std::vector<Flight> flights_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
};

}  // namespace kvfabric
