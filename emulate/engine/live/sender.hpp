// Frames on a packet socket at their instants: the sender of bursts, without any switch or NIC.
//
// It sleeps until the next frame is due and sends all that are due by then in one call. A frame's
// lateness is from its instant to the return of the call that sent it. Where the interface's queue
// is full it waits for room, which shows as lateness.
#pragma once

#include <cstdint>
#include <vector>

#include "clock.hpp"

namespace kvfabric {

struct DueFrame {
    const std::uint8_t* data;
    std::size_t length;
    Nanoseconds at;  // CLOCK_MONOTONIC, never before the frame above
};

// Throws std::system_error where the socket does not take a frame.
std::vector<Nanoseconds> send_on_time(int socket, const std::vector<DueFrame>& frames);

}  // namespace kvfabric
