// Frames as bytes: RoCEv2, priority flow control, and what else a switch must be able to forward.
//
// Ethernet II, IPv4 without options (DSCP is the priority, ECN as RFC 3168 has it, identification
// the attempt: a frame that may not be fragmented may carry anything there, RFC 6864), UDP to port
// 4791, BTH, and RETH, AETH or the reserved bytes of a CNP (InfiniBand specification, 9.2 and 9.3,
// annex A17). A flow is one queue pair on both sides, numbered by the flow; packet numbers begin at
// 0. The RETH of a write takes the first 16 bytes of its payload, so that a frame has the size the
// packet core counts; a message too short for it is a send. Pad bytes are on the wire and are not
// counted. Lengths are without preamble, FCS and gap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../frame.hpp"
#include "../pause.hpp"
#include "../time.hpp"

namespace kvfabric {

inline constexpr std::size_t ethernet_bytes = 14;
inline constexpr std::size_t ip_at = ethernet_bytes;
inline constexpr std::size_t udp_at = ip_at + 20;
inline constexpr std::size_t bth_at = udp_at + 8;
inline constexpr std::size_t body_at = bth_at + 12;
inline constexpr std::size_t icrc_bytes = 4;
inline constexpr std::size_t least_length = 60;
inline constexpr std::size_t reth_bytes = 16;
inline constexpr std::uint16_t roce_port = 4791;
inline constexpr Bytes fcs_preamble_gap = 4 + preamble_and_gap;

// Numbers of queue pairs and packets have 24 bits.
inline constexpr std::uint32_t number_mask = 0xffffff;

namespace opcode {
inline constexpr std::uint8_t send_first = 0x00;
inline constexpr std::uint8_t send_only = 0x04;
inline constexpr std::uint8_t write_first = 0x06;
inline constexpr std::uint8_t write_middle = 0x07;
inline constexpr std::uint8_t write_last = 0x08;
inline constexpr std::uint8_t write_only = 0x0a;
inline constexpr std::uint8_t acknowledge = 0x11;
inline constexpr std::uint8_t cnp = 0x81;
}  // namespace opcode

// Who sends to whom.
struct Ends {
    std::uint64_t source_mac = 0;
    std::uint64_t destination_mac = 0;
    std::uint32_t source_ip = 0;
    std::uint32_t destination_ip = 0;
    std::uint16_t source_port = 0;  // of UDP
};

// A RoCEv2 frame to be built.
struct RoceFrame {
    FrameKind kind = FrameKind::data;
    std::uint8_t priority = 0;
    std::uint16_t attempt = 0;
    std::uint32_t flow = 0;
    std::uint32_t sequence = 0;  // of an ACK or NAK: the packet expected next
    std::uint32_t messages = 0;  // of an ACK or NAK: complete at the receiver
    Bytes payload = 0;
    bool first = false;  // of its message
    bool last = false;
    bool asks = false;   // for an ACK
    std::uint64_t offset = 0;  // of the message in the flow
    Bytes message = 0;         // its bytes
};

// What the headers of a frame say.
struct Headers {
    enum class What : std::uint8_t { roce, pause, ip, arp, other };

    What what = What::other;
    FrameKind kind = FrameKind::data;
    std::uint8_t priority = 0;  // DSCP
    std::uint8_t ecn = 0;
    std::uint8_t pad = 0;
    bool asks = false;
    std::uint16_t attempt = 0;
    std::uint32_t source_ip = 0;
    std::uint32_t destination_ip = 0;
    std::uint32_t entropy = 0;  // what else decides the path
    std::uint32_t flow = 0;
    std::uint32_t sequence = 0;
    std::uint32_t messages = 0;
    Bytes payload = 0;  // of RoCEv2 data, without pad
    Bytes wire = 0;     // as the packet core counts it
    PauseFrame pause;
};

// The length of a data frame with so much payload.
constexpr std::size_t data_length(Bytes payload) {
    return body_at + ((static_cast<std::size_t>(payload) + 3) & ~std::size_t{3}) + icrc_bytes;
}

// Writes the frame; returns its length. The payload is zeros.
std::size_t build(const Ends& ends, const RoceFrame& frame, std::uint8_t* out);
std::size_t build(std::uint64_t source_mac, const PauseFrame& frame, std::uint8_t* out);

// A frame that is cut short in its headers counts as another kind.
Headers parse(const std::uint8_t* frame, std::size_t length);

std::uint64_t destination_mac(const std::uint8_t* frame);

// Sets congestion experienced in the header of an IPv4 frame whose transport knows it, and corrects its checksum.
void mark_congestion(std::uint8_t* frame);

// The ICRC of a whole RoCEv2 frame as it should be, and whether it is.
std::uint32_t icrc(const std::uint8_t* frame, std::size_t length);
bool intact(const std::uint8_t* frame, std::size_t length);

}  // namespace kvfabric
