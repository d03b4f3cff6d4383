#include "codec.hpp"

#include <algorithm>
#include <cstring>

#include "checksum.hpp"

namespace kvfabric {

namespace {

constexpr std::uint16_t type_ip = 0x0800;
constexpr std::uint16_t type_arp = 0x0806;
constexpr std::uint16_t type_control = 0x8808;
constexpr std::uint16_t class_pause = 0x0101;
constexpr std::uint64_t pause_mac = 0x0180c2000001;
constexpr std::uint8_t udp = 17;
constexpr std::uint8_t tcp = 6;
constexpr std::uint8_t ecn_capable = 2;  // ECT(0)
constexpr std::uint8_t ecn_congested = 3;
constexpr std::uint8_t becn = 0x40;
constexpr std::uint8_t ack_syndrome = 0x1f;   // without a count of credits
constexpr std::uint8_t nak_syndrome = 0x60;   // packet sequence error
constexpr std::size_t aeth_bytes = 4;
constexpr std::size_t cnp_bytes = 16;

template <std::size_t N>
void put(std::uint8_t* at, std::uint64_t value) {
    for (std::size_t i = 0; i < N; ++i) at[i] = static_cast<std::uint8_t>(value >> 8 * (N - 1 - i));
}

template <std::size_t N>
std::uint64_t get(const std::uint8_t* at) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < N; ++i) value = value << 8 | at[i];
    return value;
}

std::uint16_t get16(const std::uint8_t* at) { return static_cast<std::uint16_t>(get<2>(at)); }
std::uint32_t get32(const std::uint8_t* at) { return static_cast<std::uint32_t>(get<4>(at)); }

std::uint8_t code(const RoceFrame& frame) {
    switch (frame.kind) {
    case FrameKind::ack:
    case FrameKind::nak: return opcode::acknowledge;
    case FrameKind::cnp: return opcode::cnp;
    case FrameKind::data: break;
    }
    const bool room = frame.payload >= static_cast<Bytes>(reth_bytes);
    if (frame.first && frame.last) return room ? opcode::write_only : opcode::send_only;
    if (frame.first) return room ? opcode::write_first : opcode::send_first;
    return frame.last ? opcode::write_last : opcode::write_middle;
}

// What follows the BTH; returns its bytes without pad.
std::size_t body(const RoceFrame& frame, std::uint8_t* out) {
    if (frame.kind == FrameKind::cnp) {
        std::memset(out, 0, cnp_bytes);
        return cnp_bytes;
    }
    if (frame.kind != FrameKind::data) {
        out[0] = frame.kind == FrameKind::ack ? ack_syndrome : nak_syndrome;
        put<3>(out + 1, frame.messages & number_mask);
        return aeth_bytes;
    }
    const auto payload = static_cast<std::size_t>(frame.payload);
    std::memset(out, 0, (payload + 3) & ~std::size_t{3});
    if (frame.first && payload >= reth_bytes) {
        put<8>(out, frame.offset);
        put<4>(out + 8, frame.flow);
        put<4>(out + 12, static_cast<std::uint64_t>(std::min<Bytes>(frame.message, 0xffffffff)));
    }
    return payload;
}

void read_roce(const std::uint8_t* frame, std::size_t length, Headers& out) {
    const std::uint8_t* bth = frame + bth_at;
    const std::uint8_t code = bth[0];
    out.flow = static_cast<std::uint32_t>(get<3>(bth + 5));
    out.asks = (bth[8] & 0x80) != 0;
    out.sequence = static_cast<std::uint32_t>(get<3>(bth + 9));
    out.pad = bth[1] >> 4 & 3;
    out.what = Headers::What::roce;
    if (code == opcode::cnp) {
        out.kind = FrameKind::cnp;
    } else if (code == opcode::acknowledge) {
        const bool good = frame[body_at] >> 5 == 0;
        out.kind = good ? FrameKind::ack : FrameKind::nak;
        if (good) out.sequence = (out.sequence + 1) & number_mask;
        out.messages = static_cast<std::uint32_t>(get<3>(frame + body_at + 1));
    } else {
        out.payload = static_cast<Bytes>(length - body_at - icrc_bytes) - out.pad;
        out.wire -= out.pad;
    }
}

void read_ip(const std::uint8_t* frame, std::size_t length, Headers& out) {
    const std::uint8_t* ip = frame + ip_at;
    if (length < ip_at + 20 || ip[0] >> 4 != 4) return;
    out.what = Headers::What::ip;
    out.priority = ip[1] >> 2;
    out.ecn = ip[1] & 3;
    out.attempt = get16(ip + 4);
    out.source_ip = get32(ip + 12);
    out.destination_ip = get32(ip + 16);
    const std::size_t header = std::size_t{4} * (ip[0] & 15);
    const bool whole = (get16(ip + 6) & 0x3fff) == 0;
    if ((ip[9] != udp && ip[9] != tcp) || !whole || length < ip_at + header + 8) return;
    const std::uint8_t* ports = ip + header;
    const std::size_t end = std::min(length, ip_at + get16(ip + 2));
    const bool roce = ip[9] == udp && get16(ports + 2) == roce_port && header == 20 &&
                      end >= body_at + icrc_bytes + aeth_bytes;
    out.entropy = get16(ports);
    if (roce) {
        read_roce(frame, end, out);
    } else {
        out.entropy = get32(ports) ^ ip[9];
    }
}

void read_pause(const std::uint8_t* frame, std::size_t length, Headers& out) {
    const std::uint8_t* body = frame + ethernet_bytes;
    if (length < ethernet_bytes + 20 || get16(body) != class_pause) return;
    out.what = Headers::What::pause;
    out.pause.told = body[3];
    for (std::size_t i = 0; i < 8; ++i) out.pause.quanta[i] = get16(body + 4 + 2 * i);
}

}  // namespace

std::size_t build(const Ends& ends, const RoceFrame& frame, std::uint8_t* out) {
    put<6>(out, ends.destination_mac);
    put<6>(out + 6, ends.source_mac);
    put<2>(out + 12, type_ip);
    const std::size_t bytes = body(frame, out + body_at);
    const std::size_t padded = (bytes + 3) & ~std::size_t{3};
    const std::size_t length = body_at + padded + icrc_bytes;
    const bool data = frame.kind == FrameKind::data;

    std::uint8_t* ip = out + ip_at;
    ip[0] = 0x45;
    ip[1] = static_cast<std::uint8_t>(frame.priority << 2 | (data ? ecn_capable : 0));
    put<2>(ip + 2, length - ip_at);
    put<2>(ip + 4, frame.attempt);
    put<2>(ip + 6, 0x4000);
    ip[8] = 64;
    ip[9] = udp;
    put<4>(ip + 12, ends.source_ip);
    put<4>(ip + 16, ends.destination_ip);
    put<2>(ip + 10, header_checksum(ip));

    std::uint8_t* datagram = out + udp_at;
    put<2>(datagram, ends.source_port);
    put<2>(datagram + 2, roce_port);
    put<2>(datagram + 4, length - udp_at);
    put<2>(datagram + 6, 0);

    std::uint32_t number = frame.sequence;
    if (frame.kind == FrameKind::ack) number -= 1;
    if (frame.kind == FrameKind::cnp) number = 0;
    std::uint8_t* bth = out + bth_at;
    bth[0] = code(frame);
    bth[1] = static_cast<std::uint8_t>((padded - bytes) << 4);
    put<2>(bth + 2, 0xffff);
    bth[4] = frame.kind == FrameKind::cnp ? becn : 0;
    put<3>(bth + 5, frame.flow & number_mask);
    bth[8] = frame.asks ? 0x80 : 0;
    put<3>(bth + 9, number & number_mask);

    const std::uint32_t check = icrc(out, length);
    for (std::size_t i = 0; i < icrc_bytes; ++i) {
        out[length - icrc_bytes + i] = static_cast<std::uint8_t>(check >> 8 * i);
    }
    return length;
}

std::size_t build(std::uint64_t source_mac, const PauseFrame& frame, std::uint8_t* out) {
    std::memset(out, 0, least_length);
    put<6>(out, pause_mac);
    put<6>(out + 6, source_mac);
    put<2>(out + 12, type_control);
    put<2>(out + 14, class_pause);
    put<2>(out + 16, frame.told);
    for (std::size_t i = 0; i < 8; ++i) put<2>(out + 18 + 2 * i, frame.quanta[i]);
    return least_length;
}

Headers parse(const std::uint8_t* frame, std::size_t length) {
    Headers out;
    out.wire = static_cast<Bytes>(std::max(length, least_length)) + fcs_preamble_gap;
    if (length < ethernet_bytes) return out;
    const std::uint16_t type = get16(frame + 12);
    if (type == type_ip) {
        read_ip(frame, length, out);
    } else if (type == type_control) {
        read_pause(frame, length, out);
    } else if (type == type_arp && length >= ethernet_bytes + 28) {
        out.what = Headers::What::arp;
        out.source_ip = get32(frame + ethernet_bytes + 14);
        out.destination_ip = get32(frame + ethernet_bytes + 24);
    }
    return out;
}

std::uint64_t destination_mac(const std::uint8_t* frame) { return get<6>(frame); }

void mark_congestion(std::uint8_t* frame) {
    std::uint8_t* ip = frame + ip_at;
    // RFC 1624: from the change alone, so that a wrong checksum stays wrong.
    std::uint32_t sum = static_cast<std::uint16_t>(~get16(ip + 10));
    sum += static_cast<std::uint16_t>(~get16(ip));
    ip[1] |= ecn_congested;
    sum += get16(ip);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    put<2>(ip + 10, static_cast<std::uint16_t>(~sum));
}

std::uint32_t icrc(const std::uint8_t* frame, std::size_t length) {
    // A link-level header of ones, and ones in place of what switches may change.
    std::array<std::uint8_t, 8 + body_at - ip_at> head{};
    std::uint8_t* ip = head.data() + 8;
    std::memset(head.data(), 0xff, 8);
    std::memcpy(ip, frame + ip_at, body_at - ip_at);
    ip[1] = 0xff;
    ip[8] = 0xff;
    std::memset(ip + 10, 0xff, 2);
    std::memset(ip + 20 + 6, 0xff, 2);
    ip[28 + 4] = 0xff;
    Crc32 crc;
    crc.add(head.data(), head.size());
    crc.add(frame + body_at, length - body_at - icrc_bytes);
    return crc.value();
}

bool intact(const std::uint8_t* frame, std::size_t length) {
    const std::size_t end = std::min(length, ip_at + get16(frame + ip_at + 2));
    if (end < body_at + icrc_bytes) return false;
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < icrc_bytes; ++i) {
        found |= static_cast<std::uint32_t>(frame[end - icrc_bytes + i]) << 8 * i;
    }
    return found == icrc(frame, end);
}

}  // namespace kvfabric
