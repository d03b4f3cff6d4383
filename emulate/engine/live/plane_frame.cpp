// Frames of a plane: what a NIC writes, what a switch or a host reads.
#include "plane.hpp"

namespace kvfabric {

void Plane::write(PacketId id) {
    const Packet& packet = packets_[id];
    const Segment& segment = flows_[packet.flow].segment;
    const bool data = packet.kind == FrameKind::data;
    RoceFrame frame;
    frame.kind = packet.kind;
    frame.priority = packet.priority;
    frame.attempt = packet.attempt;
    frame.flow = packet.flow;
    frame.sequence = packet.sequence;
    if (data) {
        const std::int64_t descriptor = segment.descriptor(packet.sequence);
        frame.payload = packet.wire - data_overhead;
        frame.first = packet.sequence == 0 || segment.ends_message(packet.sequence - 1);
        frame.last = segment.ends_message(packet.sequence);
        frame.asks = packet.asks;
        frame.offset = static_cast<std::uint64_t>(segment.offset(descriptor));
        frame.message = segment.message(descriptor);
    } else {
        frame.messages = static_cast<std::uint32_t>(segment.complete(packet.sequence));
    }
    store_.make_room(id);
    const Pair& pair = pairs_[packet.flow];
    store_.set_length(id, build(data ? pair.there : pair.back, frame, store_.bytes(id)));
}

void Plane::take_in(std::uint32_t port_id, PacketId id) {
    const Headers headers = parse(store_.bytes(id), store_.length(id));
    if (headers.what == Headers::What::pause) {
        hear(port_id, headers.pause, now_);
        packets_.give(id);
        return;
    }
    ++totals_.packet_hops;
    read(id, headers);
    if (ports_[port_id].at_host) {
        heeds(id, headers) ? receive(id) : packets_.give(id);
        return;
    }
    const auto node = static_cast<std::int32_t>(ports_[port_id].node);
    const std::int32_t out = way(node, headers, store_.bytes(id));
    if (out < 0) {
        ++strays_.unrouted;
        packets_.give(id);
        return;
    }
    if (!ours(headers)) ++strays_.foreign;
    forward(port_id, static_cast<std::uint32_t>(out), id, false);
}

// Is it of this transport? All else goes in the plain class.
bool Plane::ours(const Headers& headers) const {
    return headers.what == Headers::What::roce && headers.priority < 8;
}

// The packet of a frame: what its headers say. What has no queue pair draws by its addresses.
void Plane::read(PacketId id, const Headers& headers) {
    const bool roce = headers.what == Headers::What::roce;
    constexpr std::uint8_t congested = 3;
    Packet& packet = packets_[id];
    packet = {};
    packet.flow = roce ? headers.flow : headers.source_ip ^ headers.destination_ip;
    packet.sequence = headers.sequence;
    packet.attempt = headers.attempt;
    packet.wire = static_cast<std::uint16_t>(headers.wire);
    packet.kind = headers.kind;
    packet.priority = ours(headers) ? headers.priority : plain_;
    packet.asks = headers.asks;
    packet.markable = headers.ecn != 0;
    packet.marked = headers.ecn == congested;
}

// What is not of this transport is for the host's own protocols, which see it without us.
bool Plane::heeds(PacketId id, const Headers& headers) {
    if (headers.what != Headers::What::roce) return false;
    if (!intact(store_.bytes(id), store_.length(id))) {
        ++strays_.damaged;
        return false;
    }
    const bool known = headers.flow < flows_.size() && flows_[headers.flow].submitted;
    if (!known) ++strays_.unknown;
    return known;
}

// The port by which a frame leaves a node; -1 when it has no way. RoCEv2 goes by its addresses and
// its UDP source port, other IPv4 by addresses and ports, ARP to the owner of the address it asks
// for, and anything else by its Ethernet address; there is no flooding.
std::int32_t Plane::way(std::int32_t node, const Headers& headers, const std::uint8_t* frame) {
    std::int32_t to = -1;
    std::int32_t from = 0;
    if (headers.what == Headers::What::other) {
        to = by_mac_.node(destination_mac(frame));
    } else {
        to = by_ip_.node(headers.destination_ip);
        from = std::max(0, by_ip_.node(headers.source_ip));
    }
    if (to < 0 || to == node) return -1;
    const std::uint64_t tuple = tuple_hash(seed_, static_cast<std::uint64_t>(from),
                                           static_cast<std::uint64_t>(to), headers.entropy);
    return router_.next(node, to, tuple);
}

void Plane::note_mark(std::uint32_t, PacketId id) { mark_congestion(store_.bytes(id)); }

void Plane::lose(PacketId id) {
    const Headers headers = parse(store_.bytes(id), store_.length(id));
    if (headers.what == Headers::What::roce) totals_.bytes_dropped += headers.payload;
    packets_.give(id);
}

}  // namespace kvfabric
