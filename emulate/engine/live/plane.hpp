// The frames of the nodes that one process owns: switches, NICs, or a whole fabric.
//
// The same decision classes and the same order of events as in the reference engine, over frames
// that are bytes: what a node knows of a frame it reads from the frame. A link between two owned
// nodes is a wire in memory, unless its ends have outlets; what leaves by an outlet is handed over
// when its last bit would be in at the peer, for a peer that is reached at once. The driver hands
// over the time, and what comes in. With all nodes owned and no outlets the plane is a simulator,
// and gives the instants of the reference engine.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../reference.hpp"
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

struct Completion {
    std::int64_t flow;
    std::int64_t handoff;
    Time finish;
};

// What only real frames meet.
struct Strays {
    std::int64_t unrouted = 0;  // no owned way to where they go
    std::int64_t damaged = 0;   // RoCEv2 with a wrong ICRC, at a host
    std::int64_t unknown = 0;   // of queue pairs that are not here
    std::int64_t foreign = 0;   // not of this transport: carried in the lossy class
};

class Plane {
public:
    Plane(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
          TransportSetting transport, const std::vector<FaultSetting>& faults,
          std::uint64_t seed, Time tick, PlaneSetting setting);
    Plane(const Plane&) = delete;
    Plane& operator=(const Plane&) = delete;

    // The port's frames leave by it.
    void attach(std::uint32_t port, Outlet& outlet);

    // Throws when an owned port has neither an outlet nor an owned peer.
    void require_links() const;

    // Takes all flows, or none: returns the index of the first one without a route, or -1. A
    // release before the present time is late: the flow is released now.
    std::int64_t submit(const std::vector<FlowSetting>& flows);

    // The simulated clock: to the first instant at most until at which some flow completed.
    Time advance(Time until);

    // The real clock: everything up to until.
    void run(Time until);

    // When it wants to be called again.
    Time next() const { return events_.empty() ? never : events_.top().time; }

    // A frame's last bit is in at an owned port, at the present time. It is the plane's.
    void take_in(std::uint32_t port, PacketId id);

    // Since the last call.
    std::vector<Completion> take_completions() { return std::exchange(completed_, {}); }

    FrameStore& store() { return store_; }
    const FabricSetting& fabric() const { return fabric_; }
    const std::vector<Flow>& flows() const { return flows_; }
    const std::vector<Port>& ports() const { return ports_; }
    const Totals& totals() const { return totals_; }
    const Strays& strays() const { return strays_; }
    const LinkState& latched() const { return latched_; }
    const Observation& observation();
    std::int64_t stops() const { return observation_.pauses.count(); }
    std::int64_t ticks() const { return ticks_; }
    Time now() const { return now_; }
    std::int64_t late_flows() const { return late_flows_; }
    Time latest() const { return latest_; }
    std::int64_t unfinished() const { return unfinished_; }
    bool owns(std::size_t node) const { return setting_.owned[node] != 0; }
    Bytes mtu() const { return transport_.mtu; }

    // The ports that a flow's packets cross, and the UDP source port that leads them there.
    std::vector<std::uint32_t> path(std::size_t flow) const;
    std::uint16_t source_port(std::size_t flow) const { return pairs_.at(flow).there.source_port; }

private:
    // The queue pairs of a NIC, as it sees them.
    struct Pairs {
        Plane& plane;
        Place& place(std::uint32_t flow) { return plane.flows_[flow].place; }
        Time ask(std::uint32_t flow, Time time) { return plane.ask(flow, time); }
        void placed(std::uint32_t, Time) {}
    };

    // The addresses of one queue pair's frames, and of its answers.
    struct Pair {
        Ends there;
        Ends back;
    };

    struct Heard {
        Time effect = 0;
        PauseFrame frame;
    };

    // What is beside each port of the fabric.
    struct Jack {
        Outlet* outlet = nullptr;
        Wire telling;  // pause frames on their way
        std::vector<Heard> heard;  // that have not taken effect
    };

    enum Lane : std::uint32_t {
        expiry = 0,
        refresh = 8,
        watch = 16,
        storm = 24,
        post = 25,
        flow_timers = 32
    };
    enum ArrivalLane : std::uint32_t { whole = 0, pausing = 1 };
    enum class Cause { buffer, fault, watchdog };

    static std::size_t slot(std::int64_t value) { return static_cast<std::size_t>(value); }
    static std::uint8_t bit(int priority) { return static_cast<std::uint8_t>(1 << priority); }

    // The loop (plane.cpp).
    void step();
    void handle(const Event& event);
    void at(Time time, EventKind kind, std::uint32_t port, std::uint32_t lane);
    void latch_until(Time limit);
    void latch(Time tick);

    // A port and its link (plane_port.cpp).
    void transmit(std::uint32_t port);
    Bytes head_bytes(const Port& port, int priority) const;
    void start(std::uint32_t port, PacketId id);
    Time serialise(Port& port, Bytes wire);
    void start_pause(std::uint32_t port);
    void sent(std::uint32_t port);
    void sent_pause(std::uint32_t port);
    void arrive(std::uint32_t port, ArrivalLane lane);
    void enqueue(std::uint32_t port, PacketId id);
    PacketId dequeue(std::uint32_t port, int priority);
    void hear(std::uint32_t port, const PauseFrame& frame);
    void obey(std::uint32_t port);
    void expire_pause(std::uint32_t port, int priority);
    void refresh_pause(std::uint32_t port, int priority);
    void drop(std::uint32_t port, PacketId id, Cause cause);

    // A switch (plane_switch.cpp).
    std::int32_t way(std::int32_t node, const Headers& headers, const std::uint8_t* frame);
    void forward(std::uint32_t port, PacketId id, const Headers& headers);
    void mark(std::uint32_t port, Packet& packet, PacketId id, Bytes queue);
    void departed(const Packet& packet, std::uint32_t ingress, std::uint32_t egress);
    void stop_if_over(std::uint32_t ingress, int priority);
    void resume_if_under(std::uint32_t ingress, int priority);
    void befall(const std::vector<FaultSetting>& faults);
    bool loses(std::uint32_t port, const Packet& packet, Time arrival) const;
    void rage(std::uint32_t port);
    void guard(std::uint32_t port, int priority);
    void bark(std::uint32_t port, int priority);

    // Queue pairs as they are handed over (plane_pair.cpp).
    bool resolve(Flow& flow, Pair& pair);
    std::uint16_t find_port(const Flow& flow);
    bool leads(std::int32_t source, std::int32_t destination, std::uint32_t source_port,
               std::uint32_t path);
    void refuse_long(const Flow& flow) const;

    // A host and its NIC (plane_host.cpp).
    void release(std::uint32_t flow);
    Time ask(std::uint32_t flow, Time time);
    Time posted(const Flow& flow) const;
    bool full(const Flow& flow) const;
    void offer(std::uint32_t flow);
    void post_next(std::uint32_t port);
    void end_post(std::uint32_t port);
    void touch(std::uint32_t port);
    std::uint8_t line_up(std::uint32_t port);
    void sleep(std::uint32_t port);
    void send(std::uint32_t port, int priority);
    void receive(PacketId id, const Headers& headers);
    void receive_data(std::uint32_t flow, const Headers& headers);
    void answer(std::uint32_t flow, FrameKind kind, std::uint8_t priority);
    void receive_ack(std::uint32_t flow, const Headers& headers);
    void arm(std::uint32_t flow);
    void expire_flow(std::uint32_t flow);
    void settle(std::uint32_t flow);

    FabricSetting fabric_;
    DisciplineSetting discipline_;
    TransportSetting transport_;
    PlaneSetting setting_;
    Router router_;
    std::uint64_t seed_ = 0;
    int plain_ = 0;  // the class of frames that are not of this transport
    std::vector<Port> ports_;
    std::vector<Jack> jacks_;
    std::vector<std::optional<SharedBuffer>> buffers_;  // of each owned switch
    std::vector<DcqcnSetting> control_;                 // of each port
    std::vector<LinkFault> faults_;
    AddressTable by_ip_;
    AddressTable by_mac_;
    std::vector<Flow> flows_;
    std::vector<Pair> pairs_;
    std::vector<std::uint32_t> paths_;
    FrameStore store_;
    Observation observation_;
    EventQueue events_;
    std::vector<Completion> completed_;
    Totals totals_;
    Strays strays_;
    std::int64_t unfinished_ = 0;
    std::int64_t late_flows_ = 0;
    Time latest_ = 0;
    Time now_ = 0;
    Time tick_ = 0;
    Time next_tick_ = 0;
    std::int64_t ticks_ = 0;  // that have passed
    LinkState latched_;
    std::vector<Time> busy_at_tick_;
};

}  // namespace kvfabric
