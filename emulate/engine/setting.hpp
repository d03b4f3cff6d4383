// What the engine is told at the start: the fabric, the routes, the discipline, the transport.
//
// Plain arrays and numbers, checked by the Python face. A port is one direction of a link; a
// node's ports are contiguous. Per-port arrays have one entry a port.
#pragma once

#include <array>
#include <vector>

#include "dcqcn.hpp"
#include "issue.hpp"
#include "time.hpp"

namespace kvfabric {

struct FabricSetting {
    std::vector<std::int32_t> first;      // nodes + 1
    std::vector<std::int32_t> node;       // of each port
    std::vector<std::int32_t> reverse;    // of each port
    std::vector<std::int64_t> rate_bps;   // of each port
    std::vector<Time> delay;              // of each port
    std::vector<std::uint8_t> is_switch;  // of each node
    std::vector<Bytes> buffer;            // of each node
    std::vector<Time> latency;            // of each node
};

struct RouteSetting {
    std::vector<std::int32_t> group;       // destination group of each host, -1 for a switch
    std::vector<std::int32_t> first;       // nodes * groups + 1
    std::vector<std::int32_t> ports;       // equal-cost next hops
    std::vector<std::int32_t> host_first;  // nodes + 1
    std::vector<std::int32_t> host_ports;  // ports that lead straight to a host
    std::int32_t groups = 0;
};

struct DisciplineSetting {
    std::uint8_t lossless = 0;  // one bit a priority
    std::uint8_t strict = 0;    // one bit a priority
    bool mark_at_dequeue = false;
    bool cut_through = false;
    Time watch_detect = 0;  // 0: no watchdog
    Time watch_restore = 0;
    Time deadlock = 0;  // how long the queues of a circle have stood still
    std::array<std::uint8_t, 8> weight{};
    std::int64_t alpha_q16 = 0;
    std::int64_t egress_alpha_q16 = 0;
    Bytes reserve = 0;
    Bytes xon_offset = 0;
    std::vector<Bytes> headroom;  // of each port
    std::vector<Bytes> kmin;      // of each port
    std::vector<Bytes> kmax;      // of each port
    std::vector<std::uint64_t> pmax_q32;  // of each port
    std::vector<Time> response;   // of each port: pause frame in to last frame begun
};

struct TransportSetting {
    Bytes mtu = 4096;
    std::int64_t ack_every = 1;
    std::int64_t window = 0;  // packets in flight of one flow, 0: no limit
    Time timeout = 0;
    Time issue = 0;         // for each descriptor
    std::int64_t depth = no_limit;  // of a send queue: descriptors posted and not acknowledged
    bool one_issuer = false;        // one thread posts for all queue pairs of a NIC
    std::int64_t drain_bps = 0;     // of the host behind each NIC port, 0: as frames come
    Bytes receive_bytes = 0;        // of each NIC port that is drained
    bool ack_message = false;       // the last packet of each descriptor is acknowledged
    Time cnp_interval = 0;  // least time between two CNPs of one flow
    Bytes credits = 0;      // of each virtual lane of a link, 0: not by credits
    std::uint8_t cnp_priority = 6;
    std::int8_t ack_priority = -1;  // of ACKs and NAKs, -1: that of their flow
    bool controlled = false;
    DcqcnSetting dcqcn;                // without the rates
    std::vector<std::int64_t> least_bps;     // of each port
    std::vector<std::int64_t> additive_bps;  // of each port
    std::vector<std::int64_t> hyper_bps;     // of each port

    // One thread passes over queue pairs without room.
    bool posts_in_line() const { return one_issuer && depth != no_limit && issue > 0; }

    // The class of a flow's ACKs and NAKs.
    std::uint8_t ack_class(std::uint8_t of_flow) const {
        return ack_priority < 0 ? of_flow : static_cast<std::uint8_t>(ack_priority);
    }
};

struct FlowSetting {
    std::int64_t flow = 0;
    std::int64_t handoff = 0;
    std::int32_t source = 0;
    std::int32_t destination = 0;
    Bytes bytes = 0;
    std::int64_t descriptors = 1;
    std::uint32_t entropy = 0;
    std::int32_t path = -1;
    std::uint8_t priority = 0;
    Time release = 0;
};

}  // namespace kvfabric
