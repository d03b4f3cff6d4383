// One direction of a link, at its sending end: what waits, what is in service and in flight, what
// stops it, and what is counted about it.
#pragma once

#include <array>
#include <vector>

#include "blame.hpp"
#include "credit.hpp"
#include "issue.hpp"
#include "mark.hpp"
#include "nic.hpp"
#include "observe.hpp"
#include "pause.hpp"
#include "pool.hpp"
#include "schedule.hpp"
#include "watchdog.hpp"
#include "wire.hpp"

namespace kvfabric {

struct Queue {
    PacketList list;
    Bytes wire = 0;  // waiting, without the frame in service
    Trail::Line trail;
};

struct Port {
    Serialiser serialiser;
    std::int64_t per_byte_q16 = 0;  // at the full rate
    Time delay = 0;    // propagation and, at a switch, the pipeline
    Time pause = 0;    // how long a full pause lasts
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
    std::vector<PauseFrame> heard;  // that have not taken effect
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

    // How long a pause lasts at the full rate.
    Time lasts(std::int64_t quanta) const {
        return per_byte_q16 * (quanta * quantum_bytes) >> fraction_bits;
    }

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

}  // namespace kvfabric
