// The reference engine: the whole fabric under one simulated clock, one time-ordered queue.
//
// It is the obvious engine, and stays as what faster ones are compared with. Switches store and
// forward, queue at the output and share their memory; the fixed pipeline latency is charged after
// the scheduler. Hosts send what their NIC pulls from its queue pairs, and always receive. The
// decisions (buffer, pause, mark, schedule, rate, go-back-N) are classes of their own that are
// handed the time. Every event's order and every draw follows from what it is about, never from
// the order in which things were put in; so the same input gives the same bytes.
#pragma once

#include <optional>
#include <vector>

#include "blame.hpp"
#include "buffer.hpp"
#include "credit.hpp"
#include "deadlock.hpp"
#include "derive.hpp"
#include "event.hpp"
#include "fault.hpp"
#include "ideal.hpp"
#include "issue.hpp"
#include "mark.hpp"
#include "nic.hpp"
#include "observe.hpp"
#include "pace.hpp"
#include "pause.hpp"
#include "pool.hpp"
#include "route.hpp"
#include "schedule.hpp"
#include "setting.hpp"
#include "watchdog.hpp"
#include "wire.hpp"

namespace kvfabric {

// One queue pair, both ends of it, and what is counted about it.
struct Flow {
    FlowSetting setting;
    Segment segment;
    GoBackNSender sender;
    GoBackNReceiver receiver;
    Dcqcn rate;
    Pacer pacer;
    Place place;  // at its NIC
    SenderBlame blame;
    Posting posting;
    std::int64_t posted = 0;  // by the line of its NIC
    bool offered = false;     // to that line
    Time cnp_after = 0;      // the receiver's next CNP: not before
    std::uint16_t answers = 0;  // ACKs, NAKs and CNPs so far
    Time timer = never;      // when the retransmission timer's event is due
    std::uint32_t path = 0;  // into the engine's table of paths
    std::uint32_t back = 0;
    std::uint8_t hops = 0;
    std::uint8_t back_hops = 0;
    bool submitted = false;

    Time ideal = 0;
    Time finish = -1;
    Time sender_done = -1;
    std::int32_t accepted = -1;   // the attempt of its last packet that the receiver took
    Time marked_at = -1;          // the last mark, by (time, port), of any of its packets
    std::int64_t marked_by = -1;  // the port of that mark
    std::int64_t marked = 0;
    std::int64_t cnps = 0;
    Bytes resent = 0;
    std::int64_t timeouts = 0;
    std::int64_t spurious = 0;
    std::int64_t lost = 0;
    std::int64_t lost_before = 0;  // packets lost up to the last timeout
};

struct Queue {
    PacketList list;
    Bytes wire = 0;  // waiting, without the frame in service
    Trail::Line trail;
};

// One direction of a link, at its sending end.
struct Port {
    Serialiser serialiser;
    std::int64_t per_byte_q16 = 0;  // at the full rate
    Time delay = 0;    // propagation and, at a switch, the pipeline
    Time pause = 0;    // how long a full pause lasts at this rate
    Time response = 0;  // pause frame in to scheduler stopped
    std::uint32_t node = 0;
    std::uint32_t reverse = 0;
    PacketId serving = none;
    Time began = 0;
    Wire flying;
    std::size_t headed = 0;  // of them, those whose header is in
    std::uint32_t came_by = 0;  // the port by which the frame in service came in
    std::uint8_t backlog = 0;  // priorities with waiting frames
    std::uint8_t paused = 0;   // priorities stopped by the peer
    std::uint8_t notify = 0;   // priorities whose pause state must be told to the peer
    bool at_host = false;
    bool busy = false;
    bool pausing = false;  // the frame in service is a pause frame
    std::int32_t fault = -1;  // of the link in this direction, -1 when none
    std::uint8_t storming = 0;  // priorities that are told to stop whatever the buffer says
    std::uint8_t told = 0;    // its class enable vector
    std::uint8_t stopped = 0;  // those of them that are stopped
    std::array<Queue, 8> queue;
    Scheduler scheduler;
    Marker marker;
    std::array<PauseReceiver, 8> obeys;
    std::array<PauseSender, 8> stops;  // of the ingress groups of this port
    std::array<bool, 8> expiry_due{};
    std::array<CreditSender, 8> credits;
    std::array<Watchdog, 8> watchdogs;
    std::array<bool, 8> watch_due{};
    std::array<Time, 8> still{};  // stopped, or the first frame of an empty queue since then

    // How long a priority has been stopped by now, by pause or for want of credits.
    Time held(int priority, Time now) const {
        const auto slot = static_cast<std::size_t>(priority);
        return obeys[slot].spent(now) + credits[slot].spent(now);
    }

    Nic nic;            // at a host
    Time wake = never;  // when it asks its queue pairs again
    PostingThread thread;
    PostingLine line;

    // What a host has not drained yet.
    PacketList stowed;
    Trail::Line stowed_trail;
    Serialiser drain;
    bool draining = false;

    Bytes waiting = 0;
    Bytes most_waiting = 0;
    Bytes sent_bytes = 0;
    std::int64_t sent_packets = 0;
    Time busy_time = 0;
    BlockedTime blocked;
    std::int64_t pauses = 0;
    std::int64_t marked = 0;
    std::int64_t drops = 0;

    // How often the peer stopped the port.
    std::int64_t stops_met() const {
        std::int64_t count = pauses;
        for (const CreditSender& lane : credits) count += lane.stalls();
        return count;
    }
};

struct Totals {
    std::int64_t events = 0;
    std::int64_t packet_hops = 0;
    std::int64_t drops_buffer = 0;
    std::int64_t drops_lossless = 0;
    std::int64_t drops_fault = 0;
    std::int64_t drops_watchdog = 0;
    Bytes bytes_sent = 0;
    Bytes bytes_delivered = 0;
    Bytes bytes_discarded = 0;
    Bytes bytes_dropped = 0;
    std::int64_t pause_frames = 0;
    std::int64_t acks = 0;
    std::int64_t naks = 0;
    std::int64_t cnps = 0;
};

inline Totals& operator+=(Totals& all, const Totals& some) {
    all.events += some.events;
    all.packet_hops += some.packet_hops;
    all.drops_buffer += some.drops_buffer;
    all.drops_lossless += some.drops_lossless;
    all.drops_fault += some.drops_fault;
    all.drops_watchdog += some.drops_watchdog;
    all.bytes_sent += some.bytes_sent;
    all.bytes_delivered += some.bytes_delivered;
    all.bytes_discarded += some.bytes_discarded;
    all.bytes_dropped += some.bytes_dropped;
    all.pause_frames += some.pause_frames;
    all.acks += some.acks;
    all.naks += some.naks;
    all.cnps += some.cnps;
    return all;
}

struct LinkState {
    std::vector<Bytes> queued;
    std::vector<std::uint8_t> paused;
    std::vector<double> utilisation;
};

class Reference {
public:
    Reference(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
              TransportSetting transport, const std::vector<FaultSetting>& faults,
              std::uint64_t seed, Time tick);
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;

    // Takes all flows, or none: returns the index of the first one without a route, or -1.
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

    // The parts of every flow's time, and the waits of last packets by (flow, hop): at the NIC the
    // sender's turns and pauses, at switches those of the copy that finished the flow.
    std::vector<Blame> blames() const;
    std::vector<HopWait> hop_waits() const;

    // What was kept of queues and pauses, up to the present time.
    const Observation& observation();
    std::int64_t stops() const { return observation_.pauses.count(); }
    const Innocence& innocence() const { return observation_.innocence; }

    // Circles of queues that wait for each other, in the order in which they were found.
    const std::vector<Deadlock>& deadlocks() const { return deadlocks_.found(); }

    // Payload bytes that are on a link, in service or in a queue, counted packet by packet.
    Bytes in_flight() const;

private:
    // The queue pairs of a NIC, as it sees them.
    struct Pairs {
        Reference& engine;
        Place& place(std::uint32_t flow) { return engine.flows_[flow].place; }
        Time ask(std::uint32_t flow, Time time) { return engine.ask(flow, time); }
        void placed(std::uint32_t flow, Time time) { engine.placed(flow, time); }
    };

    // The queues of the switches, as the watch over deadlocks sees them.
    struct Queues {
        const Reference& engine;
        std::uint8_t waiting(std::uint32_t port) const;
        Time still(std::uint32_t port, int priority) const;
        std::uint32_t node(std::uint32_t port) const { return engine.ports_[port].node; }
        std::uint32_t reverse(std::uint32_t port) const { return engine.ports_[port].reverse; }
        bool holds(std::uint32_t port, int priority, std::uint32_t in) const;
    };

    enum Lane : std::uint32_t {
        expiry = 0,
        refresh = 8,
        watch = 16,
        storm = 24,
        post = 25,
        flow_timers = 32
    };
    enum ArrivalLane : std::uint32_t { whole = 0, header = 1 };
    enum class Cause { buffer, fault, watchdog };

    // The loop (reference.cpp).
    void handle(const Event& event);
    void at(Time time, EventKind kind, std::uint32_t port, std::uint32_t lane);
    void latch_until(Time limit);
    void latch(Time tick);

    // A port and its switch (reference_switch.cpp).
    void transmit(std::uint32_t port);
    Bytes head_bytes(const Port& port, int priority) const;
    void start(std::uint32_t port, PacketId id);
    Time serialise(Port& port, Bytes wire);
    void start_pause(std::uint32_t port);
    void sent(std::uint32_t port);
    void arrive(std::uint32_t port);
    void head(std::uint32_t port);
    bool passes(const Flight& flight, std::uint32_t out) const;
    bool forward(std::uint32_t port, PacketId id, bool by_header);
    void enqueue(std::uint32_t port, PacketId id);
    PacketId dequeue(std::uint32_t port, int priority);
    void mark(std::uint32_t port, Packet& packet, Bytes queue);
    void departed(const Packet& packet, std::uint32_t ingress, std::uint32_t egress);
    void stop_if_over(std::uint32_t ingress, int priority);
    void resume_if_under(std::uint32_t ingress, int priority);
    void obey(std::uint32_t port, std::uint32_t lane);
    void expire_pause(std::uint32_t port, int priority);
    void refresh_pause(std::uint32_t port, int priority);
    void drop(std::uint32_t port, PacketId id, Cause cause);
    void guard(std::uint32_t port, int priority);
    void bark(std::uint32_t port, int priority);

    // Hosts with a drain rate (reference_drain.cpp).
    void stow(std::uint32_t port, PacketId id);
    void drain(std::uint32_t port);
    void drained(std::uint32_t port);

    // Credits of virtual lanes (reference_credit.cpp).
    bool by_credits() const { return transport_.credits > 0; }
    std::uint8_t with_credits(std::uint32_t port, std::uint8_t classes);
    void repay(std::uint32_t ingress, const Packet& packet);
    void credit(std::uint32_t port, std::uint32_t lane);

    // What stands behind stops (reference_innocence.cpp).
    void watch_stopped(std::int64_t ticks);
    Standing standing(std::uint32_t port, int priority) const;
    std::uint32_t fullest(std::uint32_t ingress, int priority) const;

    // What befalls links (reference_fault.cpp).
    void befall(const std::vector<FaultSetting>& faults);
    bool loses(std::uint32_t port, const Packet& packet, Time arrival) const;
    void rage(std::uint32_t port);

    // A host and its NIC (reference_host.cpp).
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
    void receive(PacketId id);
    void receive_data(const Packet& packet);
    void answer(std::uint32_t flow, FrameKind kind, Bytes wire, std::uint8_t priority);
    void receive_ack(const Packet& packet);
    void arm(std::uint32_t flow);
    void expire_flow(std::uint32_t flow);
    void settle(std::uint32_t flow);

    std::uint32_t hop_of(const Packet& packet) const;

    FabricSetting fabric_;
    DisciplineSetting discipline_;
    TransportSetting transport_;
    Router router_;
    std::uint64_t seed_ = 0;
    std::vector<Port> ports_;
    std::vector<std::optional<SharedBuffer>> buffers_;  // of each node
    std::vector<DcqcnSetting> control_;                 // of each port
    std::vector<LinkFault> faults_;
    DeadlockWatch deadlocks_;
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
};

}  // namespace kvfabric
