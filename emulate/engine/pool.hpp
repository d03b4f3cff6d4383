// Packets, and the lists that hold them.
//
// A packet lives in one pool with a free list, and is in at most one list at a time, that of a
// queue, first in, first out.
#pragma once

#include <cstddef>
#include <vector>

#include "frame.hpp"
#include "gobackn.hpp"

namespace kvfabric {

using PacketId = std::uint32_t;
inline constexpr PacketId none = 0xffffffff;

struct Packet {
    PacketId next = none;
    std::uint32_t flow = 0;
    Sequence sequence = 0;    // of an ACK or NAK: the packet expected next
    std::uint32_t ingress = 0;  // the port by which it entered the present switch
    std::uint16_t wire = 0;   // bytes on the wire
    std::uint16_t attempt = 0;
    FrameKind kind = FrameKind::data;
    std::uint8_t priority = 0;
    std::uint8_t hop = 0;     // links begun
    bool last : 1 = false;    // of its flow, of data
    bool asks : 1 = false;    // for an ACK
    bool markable : 1 = false;  // its transport knows congestion marks
    bool marked : 1 = false;
};
static_assert(sizeof(Packet) == 24);

class PacketPool {
public:
    PacketId take() {
        if (free_ == none) {
            packets_.emplace_back();
            return static_cast<PacketId>(packets_.size() - 1);
        }
        const PacketId id = free_;
        free_ = packets_[id].next;
        packets_[id] = Packet{};
        return id;
    }
    void give(PacketId id) {
        packets_[id].next = free_;
        free_ = id;
    }
    Packet& operator[](PacketId id) { return packets_[id]; }
    const Packet& operator[](PacketId id) const { return packets_[id]; }

private:
    std::vector<Packet> packets_;
    PacketId free_ = none;
};

class PacketList {
public:
    bool empty() const { return head_ == none; }
    PacketId head() const { return head_; }

    void push(PacketPool& pool, PacketId id) {
        pool[id].next = none;
        if (head_ == none) {
            head_ = id;
        } else {
            pool[tail_].next = id;
        }
        tail_ = id;
    }
    PacketId pop(PacketPool& pool) {
        const PacketId id = head_;
        head_ = pool[id].next;
        return id;
    }

private:
    PacketId head_ = none;
    PacketId tail_ = none;
};

}  // namespace kvfabric
