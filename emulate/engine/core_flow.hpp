// A flow in the fast core: what switches need, the two ends apart, and what is rarely looked at.
//
// The ends may be worked on by different threads, so that each has cache lines of its own.
#pragma once

#include <array>

#include "blame.hpp"
#include "dcqcn.hpp"
#include "gobackn.hpp"
#include "nic.hpp"
#include "pace.hpp"
#include "segment.hpp"
#include "setting.hpp"

namespace kvfabric {

// Where a flow's paths begin in the engine's table of paths, and what its last packet is.
struct CoreRoute {
    std::uint32_t there = 0;
    std::uint32_t back = 0;
    std::uint32_t last_wire = 0;
    Sequence last = 0;
};

struct alignas(64) CoreSender {
    GoBackNSender window;
    Place place;  // at its NIC
    Time timer = never;  // when the retransmission timer's event is due
    std::uint32_t port = 0;
    std::uint8_t priority = 0;
    bool uniform = false;  // all packets but the last are full
    std::uint32_t step = 0;  // in the table of paths, of what follows that port
    SenderBlame blame;
    Pacer pacer;
    Dcqcn rate;
    Posting posting;
    std::int64_t posted = 0;  // by the line of its NIC
    bool offered = false;     // to that line
    Time release = 0;
    Time done = -1;
    Bytes resent = 0;
    std::int64_t timeouts = 0;
};

// What a packet that is sent without a rate looks at; its ACK looks at the first 64 only.
inline constexpr std::size_t hot_sender = 128;

struct alignas(64) CoreReceiver {
    GoBackNReceiver window;
    std::uint32_t port = 0;  // by which it answers
    std::uint32_t step = 0;  // in the table of paths, of what follows that port
    std::uint8_t priority = 0;
    std::uint16_t answers = 0;  // ACKs, NAKs and CNPs so far
    Time cnp_after = 0;  // its next CNP: not before
    Time finish = -1;
    std::int32_t accepted = -1;  // the attempt of its last packet that was taken
    std::int64_t marked = 0;
    std::int64_t cnps = 0;
};

struct CoreFlow {
    FlowSetting setting;
    Segment segment;
    Time ideal = 0;
    std::int64_t lost = 0;
    std::int64_t lost_before = 0;  // packets lost up to the last timeout
    std::int64_t spurious = 0;
    std::uint8_t hops = 0;
    bool submitted = false;
};

// The last mark, by (time, port), of any packet of a flow.
struct FlowMark {
    Time at = -1;
    std::int64_t port = -1;

    bool operator<(const FlowMark& other) const {
        return at != other.at ? at < other.at : port < other.port;
    }
};

// A port has been stopped, or told to go on. Those of one instant and port stay as they came.
struct StopFact {
    Time time = 0;
    bool begins = false;
    std::uint8_t priority = 0;
    std::uint32_t port = 0;
    std::uint32_t cause = 0;

    bool operator<(const StopFact& other) const { return time < other.time; }
};

// A loss or a timeout of a flow: which timeouts were spurious follows once all of them are known.
struct FlowFact {
    Time time = 0;
    std::uint32_t turn = 0;  // among those of an instant: 0 of frames that come in, 1 + port of timers
    std::uint32_t flow = 0;
    bool timeout = false;

    bool operator<(const FlowFact& other) const {
        return time != other.time ? time < other.time : turn < other.turn;
    }
};

}  // namespace kvfabric
