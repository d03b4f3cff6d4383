// A plane under the machine's clock: one process of a run, all switches or all NICs.
//
// It sleeps until the plane's next instant or until something comes in, whichever is first. What
// comes in is taken in the order and at the instants at which the kernel received it, what was due
// meanwhile before it at its own instants: deadlines advance from deadlines, never from the
// present.
// A frame that leaves is as late as its batch has left after its due instant.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "channel.hpp"
#include "clock.hpp"
#include "lateness.hpp"
#include "plane.hpp"
#include "socket.hpp"
#include "stall.hpp"
#include "state.hpp"

namespace kvfabric {

struct StationSetting {
    std::vector<SocketSetting> sockets;
    std::int64_t dilation = 1;
    std::size_t mtu = 9600;  // of the interfaces
    std::string state;       // file, empty: none
};

class Station final : public Outlet {
public:
    // The plane must outlive the station. Throws std::system_error where a socket cannot be opened.
    Station(Plane& plane, const StationSetting& setting);

    // Works until the peer of the channel shuts it down.
    void run(Nanoseconds start, int channel);

    void send(std::uint32_t port, PacketId id, Time due) override;

    // By the rate of the port that frames left by.
    const std::map<std::int64_t, Lateness>& lateness() const { return lateness_; }
    const StallLog& stalls() const { return stalls_; }
    std::int64_t frames_in() const;
    std::int64_t frames_out() const;
    std::int64_t oversized() const;
    std::int64_t socket_drops();

private:
    Time virtual_of(Nanoseconds stamp) const;
    bool sleep();
    void take_arrivals();
    void flush();
    void submit(const std::vector<FlowSetting>& flows);
    void report(Channel& channel);

    Plane& plane_;
    std::int64_t dilation_;
    std::size_t most_bytes_;
    DilatedClock clock_;
    std::vector<std::unique_ptr<FrameSocket>> sockets_;
    std::vector<FrameSocket*> by_port_;  // of each port, null: none
    std::vector<FrameSocket*> ready_;    // with frames to be read
    std::vector<FrameSocket*> dirty_;    // with frames to be sent
    std::vector<Arrival> arrivals_;
    std::vector<Time> seen_;             // of each flow
    std::unique_ptr<StateFile> state_;
    std::int64_t state_ticks_ = -1;
    std::map<std::int64_t, Lateness> lateness_;
    std::vector<Lateness*> lateness_of_;  // of each port
    Descriptor epoll_;
    Descriptor timer_;
    Nanoseconds real_offset_ = 0;  // CLOCK_REALTIME less CLOCK_MONOTONIC
    StallLog stalls_;
};

}  // namespace kvfabric
