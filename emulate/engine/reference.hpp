// The reference engine: the whole fabric under one simulated clock, one time-ordered queue.
//
// It is the obvious engine, and stays as what faster ones are compared with. A frame is a packet
// of its pool; that it is on a link is all that carries it to the next node. What no real frame is
// asked is here: cut-through, hosts with a drain rate, where time went, deadlocks, what stands
// behind stops.
#pragma once

#include "deadlock.hpp"
#include "driver.hpp"

namespace kvfabric {

class Reference final : public Driver {
public:
    Reference(FabricSetting fabric, RouteSetting routes, DisciplineSetting discipline,
              TransportSetting transport, const std::vector<FaultSetting>& faults,
              std::uint64_t seed, Time tick)
        : Driver(std::move(fabric), std::move(routes), std::move(discipline), std::move(transport),
                 faults, seed, tick),
          deadlocks_(ports_.size(), discipline_.deadlock, tick) {}

    // The parts of every flow's time, and the waits of last packets by (flow, hop): at the NIC the
    // sender's turns and pauses, at switches those of the copy that finished the flow.
    std::vector<Blame> blames() const;
    std::vector<HopWait> hop_waits() const;

    const Innocence& innocence() const { return observation_.innocence; }

    // Circles of queues that wait for each other, in the order in which they were found.
    const std::vector<Deadlock>& deadlocks() const { return deadlocks_.found(); }

    // Payload bytes that are on a link, in service or in a queue, counted packet by packet.
    Bytes in_flight() const;

private:
    // The queues of the switches, as the watch over deadlocks sees them.
    struct Queues {
        const Reference& engine;
        std::uint8_t waiting(std::uint32_t port) const;
        Time still(std::uint32_t port, int priority) const;
        std::uint32_t node(std::uint32_t port) const { return engine.ports_[port].node; }
        std::uint32_t reverse(std::uint32_t port) const { return engine.ports_[port].reverse; }
        bool holds(std::uint32_t port, int priority, std::uint32_t in) const;
    };

    void accept(const Flow&) override {}
    void write(PacketId) override {}
    void come(std::uint32_t port, PacketId id) override;
    void tell(std::uint32_t port, const PauseFrame& frame, Time in) override;
    void note_mark(std::uint32_t port, PacketId id) override;
    void lose(PacketId id) override;
    void handle_own(const Event& event) override;
    void ticked(Time first, Time last) override;

    std::uint32_t hop_of(const Packet& packet) const;

    // Cut-through.
    void head(std::uint32_t port);
    bool passes(const Flight& flight, std::uint32_t out) const;

    // Hosts with a drain rate (reference_drain.cpp).
    void stow(std::uint32_t port, PacketId id);
    void drain(std::uint32_t port);
    void drained(std::uint32_t port);

    // What stands behind stops (reference_innocence.cpp).
    void watch_stopped(const std::vector<std::uint32_t>& stopped, std::int64_t ticks);
    Standing standing(std::uint32_t port, int priority) const;
    std::uint32_t fullest(std::uint32_t ingress, int priority) const;

    DeadlockWatch deadlocks_;
};

}  // namespace kvfabric
