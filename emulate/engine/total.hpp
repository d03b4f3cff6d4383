// What is counted of a whole run, and the state of its links at the last tick.
#pragma once

#include <vector>

#include "time.hpp"

namespace kvfabric {

struct Totals {
    std::int64_t events = 0;
    std::int64_t packet_hops = 0;
    std::int64_t drops_buffer = 0;
    std::int64_t drops_lossless = 0;
    std::int64_t drops_fault = 0;
    std::int64_t drops_watchdog = 0;
    Bytes bytes_sent = 0;
    Bytes bytes_delivered = 0;
    Bytes bytes_discarded = 0;
    Bytes bytes_dropped = 0;
    std::int64_t pause_frames = 0;
    std::int64_t acks = 0;
    std::int64_t naks = 0;
    std::int64_t cnps = 0;
};

inline Totals& operator+=(Totals& all, const Totals& some) {
    all.events += some.events;
    all.packet_hops += some.packet_hops;
    all.drops_buffer += some.drops_buffer;
    all.drops_lossless += some.drops_lossless;
    all.drops_fault += some.drops_fault;
    all.drops_watchdog += some.drops_watchdog;
    all.bytes_sent += some.bytes_sent;
    all.bytes_delivered += some.bytes_delivered;
    all.bytes_discarded += some.bytes_discarded;
    all.bytes_dropped += some.bytes_dropped;
    all.pause_frames += some.pause_frames;
    all.acks += some.acks;
    all.naks += some.naks;
    all.cnps += some.cnps;
    return all;
}

// What is known of every port at the last tick: what waited before that instant's events, the
// priorities that were stopped, and the share of the time since the tick before in which it sent.
struct LinkState {
    std::vector<Bytes> queued;
    std::vector<std::uint8_t> paused;
    std::vector<double> utilisation;
};

// What the engine did for its results, and what it holds.
struct Effort {
    Time lookahead = 0;       // the least time from an event at one node to its effect at another
    std::int64_t threads = 0;
    std::int64_t spans = 0;   // of hosts or of switches, of all threads
    std::int64_t visits = 0;  // of nodes
    std::int64_t flow_bytes = 0;   // of memory for each flow
    std::int64_t frame_bytes = 0;  // of memory for frames in flight and in queues
    std::int64_t port_bytes = 0;   // of memory for each port
};

}  // namespace kvfabric
