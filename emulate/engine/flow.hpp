// One queue pair: what it was asked for, the state of both its ends, and what is counted about it.
#pragma once

#include "blame.hpp"
#include "dcqcn.hpp"
#include "gobackn.hpp"
#include "issue.hpp"
#include "nic.hpp"
#include "pace.hpp"
#include "segment.hpp"
#include "setting.hpp"

namespace kvfabric {

struct Flow {
    FlowSetting setting;
    Segment segment;
    GoBackNSender sender;
    GoBackNReceiver receiver;
    Dcqcn rate;
    Pacer pacer;
    Place place;  // at its NIC
    SenderBlame blame;
    Posting posting;
    std::int64_t posted = 0;  // by the line of its NIC
    bool offered = false;     // to that line
    Time cnp_after = 0;      // the receiver's next CNP: not before
    std::uint16_t answers = 0;  // ACKs, NAKs and CNPs so far
    Time timer = never;      // when the retransmission timer's event is due
    std::uint32_t path = 0;  // into the engine's table of paths
    std::uint32_t back = 0;
    std::uint8_t hops = 0;
    bool submitted = false;

    Time ideal = 0;
    Time finish = -1;
    Time sender_done = -1;
    std::int32_t accepted = -1;   // the attempt of its last packet that the receiver took
    Time marked_at = -1;          // the last mark, by (time, port), of any of its packets
    std::int64_t marked_by = -1;  // the port of that mark
    std::int64_t marked = 0;
    std::int64_t cnps = 0;
    Bytes resent = 0;
    std::int64_t timeouts = 0;
    std::int64_t spurious = 0;
    std::int64_t lost = 0;
    std::int64_t lost_before = 0;  // packets lost up to the last timeout
};

}  // namespace kvfabric
