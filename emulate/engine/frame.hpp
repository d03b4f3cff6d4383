// Bytes on the wire of each kind of frame.
//
// RoCEv2 over untagged Ethernet and IPv4: preamble and start delimiter 8, Ethernet 14, IPv4 20,
// UDP 8, BTH 12, ICRC 4, FCS 4, inter-frame gap 12 (IEEE 802.3; InfiniBand specification, annex
// A17). The 16 bytes of RETH in the first packet of a write are neglected. A switch stores a frame
// without preamble and gap.
#pragma once

#include <algorithm>

#include "time.hpp"

namespace kvfabric {

inline constexpr Bytes preamble_and_gap = 8 + 12;
inline constexpr Bytes roce_headers = 14 + 20 + 8 + 12 + 4 + 4;
inline constexpr Bytes data_overhead = preamble_and_gap + roce_headers;

// ACK and NAK: BTH and the 4 bytes of AETH.
inline constexpr Bytes ack_wire = data_overhead + 4;

// CNP: BTH and 16 reserved bytes (annex A17.9.2).
inline constexpr Bytes cnp_wire = data_overhead + 16;

// Priority flow control frame: the least Ethernet frame (IEEE 802.1Qbb).
inline constexpr Bytes pause_wire = preamble_and_gap + 64;

// What a switch must have of a frame to forward it: preamble and 64 bytes.
inline constexpr Bytes header_wire = 8 + 64;

// The shortest frame: one byte of payload.
inline constexpr Bytes least_wire = std::min(data_overhead + 1, ack_wire);

static_assert(data_overhead == 82);
static_assert(ack_wire - preamble_and_gap >= 64, "an ACK is above the least Ethernet frame");

enum class FrameKind : std::uint8_t { data, ack, nak, cnp };

}  // namespace kvfabric
