// What a host with a drain rate has not taken from one of its NIC's ports yet.
#pragma once

#include <deque>

#include "core_frame.hpp"
#include "time.hpp"

namespace kvfabric {

struct Stowed {
    Frame frame;
    Time drained = 0;
};

struct ReceiveBuffer {
    std::deque<Stowed> frames;
    Serialiser drain;
};

}  // namespace kvfabric
