// The driver of switches and NICs, under any clock.
//
// It holds what waits, is in service and is on a link, asks the decision classes (buffer, pause,
// mark, schedule, rate, go-back-N), which are handed the time, and does what they say at the
// instants they name. What a frame is, and how it gets to the next node, belongs to the world that
// derives from it: packets under the simulated clock (Reference), bytes and sockets under the real
// one (Plane). Switches store and forward, queue at the output and share their memory; the fixed
// pipeline latency is charged after the scheduler. Hosts send what their NIC pulls from its queue
// pairs. Every event's order and every draw follows from what it is about, never from the order in
// which things were put in; so the same input gives the same bytes.
#pragma once

#include <optional>
#include <vector>

#include "buffer.hpp"
#include "event.hpp"
#include "fault.hpp"
#include "flow.hpp"
#include "observe.hpp"
#include "pool.hpp"
#include "port.hpp"
#include "route.hpp"
#include "setting.hpp"
#include "total.hpp"

namespace kvfabric {

class Driver {
public:
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    // Takes all flows, or none: returns the index of the first one without a route, or -1. What
    // should have been released before the present time is released now.
    std::int64_t submit(const std::vector<FlowSetting>& flows);

    // Runs to the first instant at most until at which some flow completed.
    Time advance(Time until);

    const std::vector<std::uint32_t>& completed() const { return completed_; }
    const std::vector<Flow>& flows() const { return flows_; }
    const std::vector<Port>& ports() const { return ports_; }
    const Totals& totals() const { return totals_; }
    const LinkState& latched() const { return latched_; }
    Time now() const { return now_; }
    std::int64_t ticks() const { return ticks_; }

    // The ports that a flow's packets cross.
    std::vector<std::uint32_t> path(std::size_t flow) const {
        const auto first = paths_.begin() + flows_.at(flow).path;
        return {first, first + flows_[flow].hops};
    }

    // The sender's rate now, or when its last ACK came.
    std::int64_t rate_bps(std::size_t flow) const;

    // What was kept of queues and pauses, up to the present time.
    const Observation& observation();
    std::int64_t stops() const { return observation_.pauses.count(); }

protected:
    Driver(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
           TransportSetting transport, const std::vector<FaultSetting>& faults, std::uint64_t seed,
           Time tick);
    ~Driver() = default;

    // Lanes of one port, by kind of event: timers, and what a link brings.
    enum Lane : std::uint32_t {
        expiry = 0,
        refresh = 8,
        watch = 16,
        storm = 24,
        post = 25,
        flow_timers = 32
    };
    enum ArrivalLane : std::uint32_t { whole = 0, header = 1, telling = 2 };
    enum class Cause { buffer, fault, watchdog };

    static std::uint8_t bit(std::int64_t priority) { return static_cast<std::uint8_t>(1 << priority); }
    static std::size_t slot(std::int64_t value) { return static_cast<std::size_t>(value); }

    // The world of the frames.

    // A flow is about to be taken; throws when it cannot be carried.
    virtual void accept(const Flow& flow) = 0;

    // A NIC has made a frame.
    virtual void write(PacketId id) = 0;

    // A frame's last bit is in at the far end of its link; that end's port.
    virtual void come(std::uint32_t port, PacketId id) = 0;

    // A port has sent a pause frame; its last bit will be in at the peer.
    virtual void tell(std::uint32_t port, const PauseFrame& frame, Time in) = 0;

    // A port has marked a frame.
    virtual void note_mark(std::uint32_t port, PacketId id) = 0;

    // A frame is lost. It is to be given back.
    virtual void lose(PacketId id) = 0;

    // Events that only this world has.
    virtual void handle_own(const Event& event) = 0;

    // Nothing has happened between two ticks, and both have passed.
    virtual void ticked(Time first, Time last) = 0;

    // Flows and the loop (driver.cpp).
    bool resolve(Flow& flow);
    void step();
    void handle(const Event& event);
    void at(Time time, EventKind kind, std::uint32_t port, std::uint32_t lane);
    void latch_until(Time limit);
    void latch(Time tick);

    // A port and its link (driver_port.cpp).
    void transmit(std::uint32_t port);
    Bytes head_bytes(const Port& port, int priority) const;
    void start(std::uint32_t port, PacketId id);
    Time serialise(Port& port, Bytes wire);
    void sent(std::uint32_t port);
    void arrive(std::uint32_t port);
    void enqueue(std::uint32_t port, PacketId id);
    PacketId dequeue(std::uint32_t port, int priority);
    void drop(std::uint32_t port, PacketId id, Cause cause);

    // Pause frames, sent and obeyed (driver_pause.cpp).
    void stop_if_over(std::uint32_t ingress, int priority);
    void resume_if_under(std::uint32_t ingress, int priority);
    void refresh_pause(std::uint32_t port, int priority);
    void start_pause(std::uint32_t port);
    void hear(std::uint32_t port, const PauseFrame& frame, Time in);
    void obey(std::uint32_t port);
    void stop(std::uint32_t port, int priority, Time pause);
    void expire_pause(std::uint32_t port, int priority);

    // A switch (driver_switch.cpp).
    bool forward(std::uint32_t port, std::uint32_t out, PacketId id, bool by_header);
    void mark(std::uint32_t port, PacketId id, Bytes queue);
    void departed(const Packet& packet, std::uint32_t ingress, std::uint32_t egress);
    void guard(std::uint32_t port, int priority);
    void bark(std::uint32_t port, int priority);

    // Credits of virtual lanes (driver_credit.cpp).
    bool by_credits() const { return transport_.credits > 0; }
    std::uint8_t with_credits(std::uint32_t port, std::uint8_t classes);
    void repay(std::uint32_t ingress, const Packet& packet);
    void credit(std::uint32_t port, std::uint32_t lane);

    // What befalls links (driver_fault.cpp).
    void befall(const std::vector<FaultSetting>& faults);
    bool loses(std::uint32_t port, const Packet& packet, Time arrival) const;
    void rage(std::uint32_t port);

    // A host and its NIC (driver_host.cpp).
    void release(std::uint32_t flow);
    Time ask(std::uint32_t flow, Time time);
    Time posted(const Flow& flow) const;
    bool full(const Flow& flow) const;
    void offer(std::uint32_t flow);
    void post_next(std::uint32_t port);
    void end_post(std::uint32_t port);
    void placed(std::uint32_t flow, Time time);
    void touch(std::uint32_t port);
    Time held(const Flow& flow, Time time) const;
    void went_back(Flow& flow);
    std::uint8_t line_up(std::uint32_t port);
    void sleep(std::uint32_t port);
    void send(std::uint32_t port, int priority);
    bool asks(const Flow& flow, Sequence sequence) const;
    void receive(PacketId id);
    void receive_data(const Packet& packet);
    void answer(std::uint32_t flow, FrameKind kind, Bytes wire, std::uint8_t priority);
    void receive_ack(const Packet& packet);
    void arm(std::uint32_t flow);
    void expire_flow(std::uint32_t flow);
    void settle(std::uint32_t flow);

    FabricSetting fabric_;
    DisciplineSetting discipline_;
    TransportSetting transport_;
    Router router_;
    std::uint64_t seed_ = 0;
    std::vector<Port> ports_;
    std::vector<std::optional<SharedBuffer>> buffers_;  // of each node
    std::vector<DcqcnSetting> control_;                 // of each port
    std::vector<LinkFault> faults_;
    std::vector<Flow> flows_;
    std::vector<std::uint32_t> paths_;
    PacketPool packets_;
    Trail trail_;
    Observation observation_;
    EventQueue events_;
    std::vector<std::uint32_t> completed_;
    Totals totals_;
    Time now_ = 0;
    Time tick_ = 0;
    Time next_tick_ = 0;
    std::int64_t ticks_ = 0;  // that have passed
    LinkState latched_;
    std::vector<Time> busy_at_tick_;

private:
    // The queue pairs of a NIC, as it sees them.
    struct Pairs {
        Driver& driver;
        Place& place(std::uint32_t flow) { return driver.flows_[flow].place; }
        Time ask(std::uint32_t flow, Time time) { return driver.ask(flow, time); }
        void placed(std::uint32_t flow, Time time) { driver.placed(flow, time); }
    };
};

}  // namespace kvfabric
