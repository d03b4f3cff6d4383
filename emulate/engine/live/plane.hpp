// The frames of the nodes that one process owns: switches, NICs, or a whole fabric.
//
// The driver's switches and NICs, over frames that are bytes: what a node knows of a frame it reads
// from the frame. A link between two owned nodes is a wire in memory, unless its ends have outlets;
// what leaves by an outlet is handed over when its last bit would be in at the peer, for a peer that
// is reached at once. Whoever runs it hands over the time, and what comes in. With all nodes owned
// and no outlets the plane is a simulator, and gives the instants of the reference engine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../driver.hpp"
#include "address.hpp"
#include "codec.hpp"
#include "store.hpp"

namespace kvfabric {

struct PlaneSetting {
    std::vector<std::uint8_t> owned;     // of each node
    std::vector<std::uint32_t> address;  // of each node, IPv4; of hosts
    std::vector<std::uint64_t> mac;      // of each port
    Bytes frame_bytes = 9600;            // the longest frame
};

// What takes the frames that leave the process.
class Outlet {
public:
    Outlet() = default;
    Outlet(const Outlet&) = delete;
    Outlet& operator=(const Outlet&) = delete;
    virtual ~Outlet() = default;

    // The frame is due now; it is the outlet's to give back.
    virtual void send(std::uint32_t port, PacketId id, Time due) = 0;
};

// What only real frames meet.
struct Strays {
    std::int64_t unrouted = 0;  // no owned way to where they go
    std::int64_t damaged = 0;   // RoCEv2 with a wrong ICRC, at a host
    std::int64_t unknown = 0;   // of queue pairs that are not here
    std::int64_t foreign = 0;   // not of this transport: carried in the lossy class
};

class Plane final : public Driver {
public:
    Plane(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
          TransportSetting transport, const std::vector<FaultSetting>& faults,
          std::uint64_t seed, Time tick, PlaneSetting setting);

    // The port's frames leave by it.
    void attach(std::uint32_t port, Outlet& outlet);

    // Throws when an owned port has neither an outlet nor an owned peer.
    void require_links() const;

    // As the driver does; counts what comes after its release.
    std::int64_t submit(const std::vector<FlowSetting>& flows);

    // The real clock: everything up to until.
    void run(Time until);

    // When it wants to be called again.
    Time next() const { return events_.empty() ? never : events_.top().time; }

    // A frame's last bit is in at an owned port, at the present time. It is the plane's.
    void take_in(std::uint32_t port, PacketId id);

    // The flows that completed since the last call, or since the last advance began.
    std::vector<std::uint32_t> take_completed() { return std::exchange(completed_, {}); }

    FrameStore& store() { return store_; }
    const FabricSetting& fabric() const { return fabric_; }
    const Strays& strays() const { return strays_; }
    std::int64_t late_flows() const { return late_flows_; }
    Time latest() const { return latest_; }
    std::int64_t unfinished() const;
    bool owns(std::size_t node) const { return setting_.owned[node] != 0; }

    // The UDP source port that leads a flow's packets along its path.
    std::uint16_t source_port(std::size_t flow) const { return pairs_.at(flow).there.source_port; }

private:
    // The addresses of one queue pair's frames, and of its answers.
    struct Pair {
        Ends there;
        Ends back;
    };

    // What is beside each port of the fabric.
    struct Jack {
        Outlet* outlet = nullptr;
        Wire telling;  // pause frames on their way
    };

    void accept(const Flow& flow) override;
    void write(PacketId id) override;
    void come(std::uint32_t port, PacketId id) override;
    void tell(std::uint32_t port, const PauseFrame& frame, Time in) override;
    void note_mark(std::uint32_t port, PacketId id) override;
    void lose(PacketId id) override;
    void handle_own(const Event& event) override;
    void ticked(Time, Time) override {}

    // What a frame says (plane_frame.cpp).
    bool ours(const Headers& headers) const;
    void read(PacketId id, const Headers& headers);
    std::int32_t way(std::int32_t node, const Headers& headers, const std::uint8_t* frame);
    bool heeds(PacketId id, const Headers& headers);

    // Queue pairs as they are handed over (plane_pair.cpp).
    std::uint16_t find_port(const Flow& flow);
    bool leads(std::int32_t source, std::int32_t destination, std::uint32_t source_port,
               std::uint32_t path);
    void refuse_long(const Flow& flow) const;

    PlaneSetting setting_;
    std::uint8_t plain_ = 0;  // the class of frames that are not of this transport
    std::vector<Jack> jacks_;
    AddressTable by_ip_;
    AddressTable by_mac_;
    std::vector<Pair> pairs_;  // of each flow
    FrameStore store_;
    Strays strays_;
    std::int64_t late_flows_ = 0;
    Time latest_ = 0;
};

}  // namespace kvfabric
