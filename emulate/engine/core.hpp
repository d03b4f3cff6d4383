// The fast engine: the same results as the reference's, without a global queue of events.
//
// A node can be affected only by what its links carry, and a link carries nothing sooner than its
// propagation and the shortest frame's wire time. So time advances in spans: two classes of nodes,
// hosts and every other layer of switches, and the layers between, run in turn up to the instant
// before which nothing that is not on its way can reach them. In a span
// every node with work is visited once; a visit handles the node's events in the order of (time,
// kind, port, lane), which is all that the order of events can be seen by. A span ends at ticks of
// observation. Where a flow may complete, its host goes on alone: advance returns with the other
// nodes behind, and they catch up when somebody asks. docs/packet-core.md tells more.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "core_barrier.hpp"
#include "core_drain.hpp"
#include "core_flow.hpp"
#include "core_port.hpp"
#include "core_worker.hpp"
#include "deadlock.hpp"
#include "derive.hpp"
#include "fault.hpp"
#include "flow.hpp"
#include "hash.hpp"
#include "observe.hpp"
#include "port.hpp"
#include "route.hpp"
#include "total.hpp"

namespace kvfabric {

class Core {
public:
    Core(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
         TransportSetting transport, const std::vector<FaultSetting>& faults, std::uint64_t seed,
         Time tick);
    ~Core();
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

    // Spreads the nodes over so many threads; only before the first flow.
    void use_threads(std::uint32_t threads);

    // Takes all flows, or none: returns the index of the first one without a route, or -1.
    std::int64_t submit(const std::vector<FlowSetting>& flows);

    // Runs to the first instant at most until at which some flow completed.
    Time advance(Time until);

    const std::vector<std::uint32_t>& completed() const { return completed_; }
    const LinkState& latched();
    Time now() const { return now_; }
    std::int64_t ticks() const { return ticks_; }

    // The sender's rate now, or when its last ACK came.
    std::int64_t rate_bps(std::size_t flow);

    // What was kept of queues and pauses, up to the present time.
    const Observation& observation();
    std::int64_t stops() { return observation().pauses.count(); }
    const Innocence& innocence() const { return observation_.innocence; }

    // Circles of queues that wait for each other, in the order in which they were found.
    const std::vector<Deadlock>& deadlocks() const { return deadlocks_.found(); }

    // Tables as the reference has them, put together when asked for.
    std::vector<Flow> flows();
    std::vector<Port> ports();
    Totals totals();

    // The ports that a flow's packets cross.
    std::vector<std::uint32_t> path(std::size_t flow) const;

    // The parts of every flow's time, and the waits of last packets by (flow, hop).
    std::vector<Blame> blames();
    std::vector<HopWait> hop_waits();

    // What it took so far, and what it holds: the least lookahead, spans, visits, bytes of memory.
    Effort effort() const;

    // Payload bytes that are on a link, in service or in a queue, counted packet by packet.
    Bytes in_flight();

private:
    enum Lane : std::uint32_t {
        expiry = 0,
        refresh = 8,
        watch = 16,
        storm = 24,
        post = 25,
        flow_timers = 32
    };
    // Of a send event: credits that a key could not tell when they were due; 0, the port may send.
    static constexpr std::uint32_t late_credits = 1;

    enum class Cause { buffer, watchdog };
    // The longest time that a key can tell.
    static constexpr Time farthest = (Time{1} << (64 - stamp_shift)) - 2;

    // The queue pairs of a NIC, as it sees them.
    struct Pairs {
        Core& core;
        Place& place(std::uint32_t flow) { return core.senders_[flow].place; }
        Time ask(std::uint32_t flow, Time time) { return core.ask(flow, time); }
        void placed(std::uint32_t flow, Time time) { core.placed(flow, time); }
    };

    // The queues of the switches, as the watch over deadlocks sees them.
    struct Queues {
        const Core& core;
        std::uint8_t waiting(std::uint32_t port) const;
        Time still(std::uint32_t port, int priority) const;
        std::uint32_t node(std::uint32_t port) const { return core.ports_[port].node; }
        std::uint32_t reverse(std::uint32_t port) const { return core.ports_[port].peer->id; }
        bool holds(std::uint32_t port, int priority, std::uint32_t in) const;
    };

    // The tables (core.cpp).
    void add_node(std::size_t node);
    void classify();
    void add_port(std::size_t port);
    void take(const CoreFlow& flow, const CoreRoute& route);
    std::vector<HopWait> switch_waits() const;
    std::int64_t put_out(const CorePort& port) const;

    // Time and spans (core_span.cpp).
    std::uint64_t key(Time time, EventKind kind, std::uint16_t local) const {
        return static_cast<std::uint64_t>(time - epoch_) << stamp_shift |
               std::uint64_t{static_cast<std::uint8_t>(kind)} << kind_shift | local;
    }
    std::uint64_t stamp(Time time) const {
        return static_cast<std::uint64_t>(time - epoch_) << stamp_shift;
    }
    std::uint64_t arrival_key(const CorePort& port, std::uint64_t head) const {
        return (head & ~flag_mask) |
               std::uint64_t{static_cast<std::uint8_t>(EventKind::arrival)} << kind_shift |
               port.local;
    }
    Time time_of(std::uint64_t key) const {
        return epoch_ + static_cast<Time>(key >> stamp_shift);
    }
    Time next_event();
    void take_up();
    bool complete(Time reach);
    void bring(CoreNode& node, Time time);
    void hear_all();
    void align();
    Time run_until(Time end);
    Time run(Worker& worker, Time end);
    Outlook look_out(Worker& worker);
    void hear(Worker& worker);
    void visit(Worker& worker, NodeClass of, std::uint64_t limit);
    void fetch_ahead(Worker& worker, std::size_t visit, std::uint64_t limit) const;
    std::uint64_t horizon(const Outlook& outlook, NodeClass of) const;
    void share_out(std::uint32_t threads);
    void work(std::uint32_t worker);
    Worker& worker_of(const CoreNode& node) { return *workers_[node.worker]; }
    void rebase(Time epoch);
    void latch_until(Time limit);
    void latch_stopped();
    void gather();

    // What a visit does (core_switch.cpp, core_host.cpp).
    void visit_switch(Worker& worker, CoreNode& node, std::uint64_t limit);
    void visit_host(Worker& worker, CoreNode& node, std::uint64_t limit);

    // A port (core_port.cpp).
    template <bool plain, bool follows = false>
    void start(Worker& worker, CorePort& port, Frame frame, int priority, Bytes wire,
               std::uint16_t ingress);
    void start_any(Worker& worker, CorePort& port, Frame frame, int priority, Bytes wire,
                   std::uint16_t ingress = 0);
    void heed(CorePort& port);
    void stay_idle(Worker& worker, CorePort& port, bool waiting);
    void leave_idleness(Worker& worker, CorePort& port, Frame frame, Bytes wire);
    void record(CorePort& port);
    void record_ticks(CorePort& port);
    void record_all();
    void wait(Worker& worker, CorePort& port, Frame frame, int priority, Bytes wire);
    void emptied(CorePort& port, int priority);
    void start_pause(Worker& worker, CorePort& port);
    int finish(CorePort& port);
    template <bool few = false>
    Frame take_arrival(Worker& worker, CorePort& port);
    void wake(Worker& worker, CorePort& port, std::uint64_t word);
    void announce(Worker& worker, CorePort& port, std::uint64_t head);
    void tell_other(Worker& worker, CorePort& port, std::uint64_t word);
    void handle(Worker& worker, CoreNode& node, CorePort& port, EventKind kind);
    void look(Worker& worker, CoreNode& node, CorePort& port);
    void obey(Worker& worker, CoreNode& node, CorePort& port);
    bool expire_pause(Worker& worker, CoreNode& node, CorePort& port, int priority);
    bool refresh_pause(Worker& worker, CoreNode& node, CorePort& port, int priority);
    void at(CoreNode& node, Time time, EventKind kind, std::uint32_t port, std::uint32_t lane);
    Event take_timer(CoreNode& node);
    void time_next(CoreNode& node);
    void told_next(Worker& worker, CoreNode& node, CorePort& port);
    void pauses_next(CoreNode& node);
    std::uint32_t flow_of(Frame frame) const;
    bool delivers(const CorePort& port) const;
    bool delivers_next(Frame frame) const;
    Bytes known_wire(Frame frame) const;
    Bytes wire_of(Frame frame) const;
    CorePort& way(Frame frame);
    Sequence sequence_of(Frame frame) const;

    // What stands behind stops (core_innocence.cpp).
    void watch_stopped(std::int64_t ticks);
    Standing standing(const CorePort& port, int priority) const;
    std::uint32_t fullest(const CorePort& in, int priority) const;

    // What befalls links (core_fault.cpp).
    void befall(const std::vector<FaultSetting>& faults);
    bool loses(const CorePort& port, Frame frame, Time start, Time arrival) const;
    void rage(Worker& worker, CoreNode& node, CorePort& port);
    void lose(Worker& worker, CorePort& port, Frame frame);
    Time serialise(Worker& worker, CorePort& port, Bytes wire);

    // Credits of virtual lanes (core_credit.cpp).
    bool by_credits() const { return transport_.credits > 0; }
    Bytes head_bytes(const CorePort& port, int priority) const;
    std::uint8_t with_credits(Worker& worker, CorePort& port, std::uint8_t classes);
    void repay(Worker& worker, CorePort& ingress, int priority, Bytes wire);
    void send_credits(Worker& worker, CorePort& ingress, Time sent, std::uint32_t credits);
    void take_credits(Worker& worker, CoreNode& node, CorePort& port);
    void tell(Worker& worker, CorePort& port, std::uint64_t word);

    // A switch (core_switch.cpp).
    template <bool few>
    void visit_ports(Worker& worker, CoreNode& node, std::uint64_t limit);
    template <bool few>
    void forward(Worker& worker, CoreNode& node, CorePort& in);
    void pass(Worker& worker, CoreNode& node, CorePort& in, Frame frame);
    bool admit(Worker& worker, CoreNode& node, const CorePort& in, int priority,
               const CorePort& out, Bytes stored);
    void enqueue(Worker& worker, CoreNode& node, CorePort& port, Frame frame, int priority,
                 Bytes wire);
    void depart(Worker& worker, CoreNode& node, CorePort& port, int priority,
                std::uint16_t ingress, Bytes wire);
    void join_stopped(Worker& worker, CoreNode& node, CorePort& port, int priority);
    Waited dequeue(Worker& worker, CorePort& port, int priority);
    void let_go(CoreNode& node, CorePort& port);
    void catch_up(Worker& worker, CoreNode& node, CorePort& port, std::uint64_t bound);
    void replay(Worker& worker, CoreNode& node, CorePort& port, std::uint64_t bound);
    void start_waiting(Worker& worker, CoreNode& node, std::uint64_t limit);
    void catch_up_all(Worker& worker, CoreNode& node);
    void serve(Worker& worker, CorePort& port);
    template <bool follows>
    void serve_next(Worker& worker, CorePort& port);
    void join_trail(Worker& worker, const CorePort& port, Frame frame);
    void leave_trail(Worker& worker, const CorePort& port, int priority);
    Frame mark(Worker& worker, CorePort& port, Frame frame, Bytes queue);
    Frame mark_coming(Worker& worker, CorePort& out, Frame frame, int priority);
    void drop(Worker& worker, CorePort& port, Frame frame, Bytes wire, Cause cause,
              std::uint32_t turn = 0);
    void guard(Worker& worker, CoreNode& node, CorePort& port, int priority);
    void bark(Worker& worker, CoreNode& node, CorePort& port, int priority);

    // Groups that are stopped (core_stop.cpp).
    void stop(Worker& worker, CoreNode& node, CorePort& in, int priority, std::uint32_t cause);
    void go_on(Worker& worker, CoreNode& node, CorePort& in, int priority);
    std::uint32_t fullest_of(const CoreNode& node, const CorePort& in, int priority,
                             const CorePort& out, Bytes stored, std::uint64_t& holders) const;
    void watch_ends(CoreNode& node, std::uint64_t& watched, std::uint64_t holders);
    void leave_ends(CoreNode& node, std::uint64_t& watched);

    // A host (core_host.cpp).
    void serviced(Worker& worker, CorePort& port, Nic& nic);
    void release(Worker& worker, CoreNode& node, std::uint32_t flow);
    Time ask(std::uint32_t flow, Time time);
    Time allowed(std::uint32_t flow) const;
    Time posted(std::uint32_t flow) const;
    bool full(std::uint32_t flow) const;
    void offer(Worker& worker, CoreNode& node, std::uint32_t flow);
    void post_next(Worker& worker, CoreNode& node, std::uint32_t port);
    void end_post(Worker& worker, CoreNode& node, CorePort& port);
    void placed(std::uint32_t flow, Time time);
    void touch(Worker& worker, const CorePort& port);
    void went_back(Worker& worker, CoreSender& sender);
    std::uint8_t line_up(Worker& worker, CorePort& port, Nic& nic);
    void pull(Worker& worker, CoreNode& node, CorePort& port);
    void send_next(Worker& worker, CoreNode& node, CorePort& port, CorePortRest& rest);
    void send(Worker& worker, CoreNode& node, CorePort& port, Nic& nic, int priority);
    void receive_data(Worker& worker, CoreNode& node, Frame frame);
    Shape shape_of(std::uint32_t flow, const CoreSender& sender) const;
    void answer(Worker& worker, CoreNode& node, std::uint32_t flow, Shape shape,
                std::uint8_t priority);
    void receive_answer(Worker& worker, CoreNode& node, Frame frame);
    void arm(CoreNode& node, std::uint32_t flow);
    void expire_flow(Worker& worker, CoreNode& node, std::uint32_t flow);
    void settle(Worker& worker, CoreNode& node, std::uint32_t flow);

    // Frames that are seen at their header (core_cut.cpp).
    Frame herald(Worker& worker, CorePort& port, Frame frame);
    Frame set_out(Worker& worker, CorePort& port, Frame frame);
    void take_odd(Worker& worker, CorePort& port, Frame frame);
    bool goes_on(Worker& worker, CorePort& in, Frame frame);
    bool passes(const Worker& worker, const CorePort& out, Frame frame,
                std::int64_t per_byte) const;

    // Hosts with a drain rate (core_drain.cpp).
    void stow(Worker& worker, CoreNode& node, CorePort& port, Frame frame);
    void drained(Worker& worker, CoreNode& node, CorePort& port);

    // How long a priority of a port has been stopped by now.
    Time held(const CorePort& port, int priority, Time now) const {
        if ((port.once_stopped >> priority & 1) == 0) return 0;
        const CorePortRest& rest = rest_[port.id];
        const auto slot = static_cast<std::size_t>(priority);
        return by_credits() ? rest.credits[slot].spent(now) : rest.obeys[slot].spent(now);
    }

    FabricSetting fabric_;
    DisciplineSetting discipline_;
    TransportSetting transport_;
    Router router_;
    std::uint64_t seed_ = 0;
    Arena arena_;  // of what is there from the start
    bool wide_ = false;  // more ports than a cache holds
    bool limited_ = false;  // flows, by a window, a send queue or issue
    bool acks_open_ = false;  // an ACK may let its flow send
    std::vector<CorePort, LargePages<CorePort>> ports_;
    std::vector<CorePortRest, LargePages<CorePortRest>> rest_;   // of each port
    std::vector<FrameQueue, LargePages<FrameQueue>> queues_;   // of each port and priority
    std::vector<Trail::Line> lines_;   // of each port and priority: last packets in its queue
    std::vector<ReceiveBuffer> receives_;  // of each port, when hosts have a drain rate
    std::vector<CoreNode> nodes_;
    std::vector<DcqcnSetting> control_;  // of each port
    std::vector<LinkFault> faults_;
    std::array<Bytes, frame_kinds> kind_wire_{};  // 0: the frame has to ask its flow, or is odd

    std::vector<CoreRoute> routes_;  // of each flow, as the next ones
    std::vector<CoreSender> senders_;
    std::vector<CoreReceiver> receivers_;
    std::vector<CoreFlow> flows_;
    std::vector<std::uint32_t> paths_;  // ports of each way of each flow, and behind them the flow
    std::vector<std::uint32_t> submitted_;  // flows since time went on last

    Observation observation_;
    DeadlockWatch deadlocks_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::thread> threads_;  // of all workers but the first
    std::optional<Barrier> barrier_;
    std::atomic<std::uint32_t> started_ = 0;  // runs; the threads wait for the next
    std::atomic<bool> over_ = false;
    Time end_ = 0;
    std::array<Lookahead, 2> lookahead_;  // by class
    Time epoch_ = 0;
    std::atomic<bool> far_ = false;  // some timer lies beyond what a key can tell
    std::vector<std::uint32_t> completed_;
    Time now_ = 0;
    bool behind_ = false;  // some node may not have come to the present instant
    Time tick_ = 0;
    Time next_tick_ = 0;
    std::int64_t ticks_ = 0;  // that have passed
    LinkState latched_;  // of ports that are looked at, up to date; of all when asked for
    std::vector<PortTick> at_tick_;  // of each port
    std::vector<std::uint32_t> stoppable_;  // ports that have ever been stopped, in order
    std::vector<std::uint32_t> stopped_;    // those that were at the last tick, in order
};

}  // namespace kvfabric
