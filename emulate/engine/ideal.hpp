// The time of one flow alone on an idle fabric.
//
// Per frame and hop: a frame starts when it has arrived whole, its work request has been issued and
// the frame before it has left. With cut-through it starts when its header is in, if the port is
// idle by then and no faster than the one before; on equal rates, every frame does. When all frames but the last are equal, every hop takes whole
// picoseconds a byte and nothing is waited for at the source, the recurrence has a closed form:
// up to the frame before the last, a hop's departures are spaced by the slowest hop so far.
#pragma once

#include <span>
#include <vector>

#include "frame.hpp"
#include "segment.hpp"

namespace kvfabric {

struct Hop {
    std::int64_t rate_bps = 0;
    Time delay = 0;  // last bit out here to last bit in at the next node
};

inline Time ideal_by_recurrence(const Segment& segment, std::span<const Hop> hops, Time issue,
                                bool cut_through = false) {
    std::vector<Serialiser> ports;
    for (const Hop& hop : hops) ports.emplace_back(hop.rate_bps);
    Time arrival = 0;
    Time header = never;
    for (Sequence i = 0; i < segment.packets(); ++i) {
        const Bytes wire = segment.payload(i) + data_overhead;
        arrival = issue == 0 ? 0 : issue * (segment.descriptor(i) + 1);
        for (std::size_t h = 0; h < hops.size(); ++h) {
            const bool cuts = cut_through && h > 0 && ports[h].end() <= header &&
                              ports[h].per_byte() >= ports[h - 1].per_byte();
            const Time start = cuts ? header : std::max(arrival, ports[h].end());
            header = start + ports[h].duration(header_wire) + hops[h].delay;
            arrival = ports[h].finish(start, wire) + hops[h].delay;
        }
    }
    return arrival;
}

// The frames follow each other without a gap through ports of one rate that all cut through.
inline Time ideal_cut(const Segment& segment, std::span<const Hop> hops) {
    __extension__ using Wide = __int128;
    const Serialiser port(hops.front().rate_bps);
    const Bytes wire = segment.bytes() + data_overhead * segment.packets();
    // With its fraction, a time beyond 140 s takes more than 64 bits.
    Time time = static_cast<Time>(static_cast<Wide>(wire) * port.per_byte() >> fraction_bits) -
                port.duration(header_wire);
    for (const Hop& hop : hops) time += port.duration(header_wire) + hop.delay;
    return time;
}

inline Time ideal(const Segment& segment, std::span<const Hop> hops, Time issue,
                  bool cut_through = false) {
    if (cut_through) {
        bool equal = issue == 0;
        for (const Hop& hop : hops) equal = equal && hop.rate_bps == hops.front().rate_bps;
        return equal ? ideal_cut(segment, hops)
                     : ideal_by_recurrence(segment, hops, issue, cut_through);
    }
    bool whole = issue == 0 && segment.uniform();
    for (const Hop& hop : hops) {
        whole = whole && ps_per_byte_q16(hop.rate_bps) % (1 << fraction_bits) == 0;
    }
    if (!whole) return ideal_by_recurrence(segment, hops, issue);
    const Sequence full_frames = segment.packets() - 1;
    const Bytes full = segment.payload(0) + data_overhead;
    const Bytes last = segment.payload(full_frames) + data_overhead;
    Time first_arrival = 0;
    Time slowest = 0;
    Time arrival = 0;
    for (const Hop& hop : hops) {
        const Serialiser port(hop.rate_bps);
        const Time each = port.duration(full);
        slowest = std::max(slowest, each);
        const Time left =
            full_frames == 0 ? 0 : first_arrival + each + slowest * (full_frames - 1);
        arrival = std::max(arrival, left) + port.duration(last) + hop.delay;
        first_arrival += each + hop.delay;
    }
    return arrival;
}

}  // namespace kvfabric
