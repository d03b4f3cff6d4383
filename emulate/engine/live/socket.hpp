// One interface of a network namespace, as a packet socket: whole frames in batches, both ways.
//
// packet(7): frames that the machine itself sends are not seen, and each has the kernel's time of
// arrival. A NIC's socket lets only RoCEv2 and MAC control frames through: the rest is for its
// host. The queueing discipline is not bypassed: veth has none, and captures at the sending end
// would miss what bypasses it.
#pragma once

#include <string>
#include <vector>

#include "clock.hpp"
#include "descriptor.hpp"
#include "store.hpp"

namespace kvfabric {

struct Arrival {
    Nanoseconds stamp = 0;  // CLOCK_REALTIME
    std::uint32_t port = 0;
    PacketId id = none;
};

struct SocketSetting {
    std::uint32_t port = 0;   // of the fabric
    std::string space;        // file of its namespace
    std::string interface;
    bool nic = false;
};

class FrameSocket {
public:
    static constexpr std::size_t batch = 64;

    // Throws std::system_error with the interface and what could not be done.
    explicit FrameSocket(const SocketSetting& setting);

    int number() const { return socket_.number(); }
    std::uint32_t port() const { return port_; }

    // Appends up to one batch of frames; those longer than most are counted and left out. Returns
    // how many there were.
    std::size_t receive(FrameStore& store, std::size_t most, std::vector<Arrival>& into);

    // Puts a frame up for the next flush, due at an instant.
    void put(PacketId id, Time due) { waiting_.push_back({id, due}); }
    bool idle() const { return waiting_.empty(); }

    // Sends what waits and gives it back to the store. Sent is told of each frame's due instant
    // once its batch has left.
    template <typename Sent>
    void flush(FrameStore& store, Sent&& sent) {
        for (std::size_t first = 0; first < waiting_.size(); first += batch) {
            const std::size_t count = std::min(batch, waiting_.size() - first);
            transmit(store, first, count);
            sent(&waiting_[first], count);
            for (std::size_t i = 0; i < count; ++i) store.give(waiting_[first + i].id);
        }
        waiting_.clear();
    }

    struct Outgoing {
        PacketId id;
        Time due;
    };

    // Frames that the kernel had no room for, either way, since the socket was opened.
    std::int64_t drops();
    std::int64_t oversized() const { return oversized_; }
    std::int64_t received() const { return received_; }
    std::int64_t sent() const { return sent_; }

private:
    void transmit(FrameStore& store, std::size_t first, std::size_t count);

    std::uint32_t port_ = 0;
    Descriptor socket_;
    std::vector<Outgoing> waiting_;
    std::vector<PacketId> spare_;  // places for the next frames
    std::int64_t drops_ = 0;
    std::int64_t oversized_ = 0;
    std::int64_t received_ = 0;
    std::int64_t sent_ = 0;
};

}  // namespace kvfabric
