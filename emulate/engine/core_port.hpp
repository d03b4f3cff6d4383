// Ports and nodes of the fast core: what an event touches lies close together.
//
// A port is one direction of a link at its sending end, as everywhere; it also holds the reading
// end of what its peer sends. Its next events are held as keys: the time since the engine's epoch
// in the upper 44 bits, then the kind and the port's number at its node, so that the least key of a
// node is its next event in the order of (time, kind, port). What is rarely needed lies apart.
#pragma once

#include <array>
#include <optional>

#include "buffer.hpp"
#include "core_flight.hpp"
#include "core_queue.hpp"
#include "core_tree.hpp"
#include "event.hpp"
#include "issue.hpp"
#include "mark.hpp"
#include "nic.hpp"
#include "observe.hpp"
#include "pause.hpp"
#include "schedule.hpp"

namespace kvfabric {

inline constexpr int kind_shift = 16;
inline constexpr std::uint64_t local_mask = (std::uint64_t{1} << kind_shift) - 1;

struct alignas(64) CorePort {
    // The next events here.
    std::uint64_t sent_key = idle_key;  // idle_key: it sends nothing, or nothing follows then
    std::uint64_t arrival_key = idle_key;
    std::uint64_t pause_key = idle_key;
    std::uint64_t* keys = nullptr;  // of its node
    std::uint32_t leaves = 1;
    std::uint32_t node = 0;
    std::uint32_t id = 0;
    CorePort* peer = nullptr;
    FrameQueue* queues = nullptr;  // of its priorities
    FlightReader in;

    Serialiser serialiser;
    Time delay = 0;  // propagation and, at a switch, the pipeline
    FlightWriter out;
    std::uint64_t latest = 0;  // first word of the last frame that started
    std::uint16_t local = 0;   // its number at its node
    std::uint8_t backlog = 0;  // priorities with waiting frames
    std::uint8_t paused = 0;   // priorities stopped by the peer
    std::uint8_t stopping = 0;  // priorities of which this port has stopped the peer
    std::uint8_t notify = 0;    // priorities whose pause state must be told to the peer
    std::uint8_t storming = 0;  // priorities stopped whatever the buffer says
    std::int32_t fault = -1;    // into the engine's faults, -1 for none
    bool peer_at_host = false;

    // The frame in service.
    bool pausing = false;  // it is a pause frame
    bool quiet = false;    // nothing follows from its end but that the port is free: no event
    std::uint8_t serving = 8;  // its priority, 8 for none or a pause frame
    std::uint16_t serving_ingress = 0;
    std::uint32_t serving_wire = 0;
    std::uint32_t serving_flow = no_flow;  // of data at a host
    Time began = 0;

    Bytes waiting = 0;
    Bytes most_waiting = 0;
    Bytes sent_bytes = 0;
    std::int64_t sent_packets = 0;
    Time busy_time = 0;
    Marker marker;
    std::int64_t marked = 0;
    std::int64_t drops = 0;
    std::int64_t lost = 0;  // of what the peer sent, to a fault

    // Also true when the frame has left, and nobody has had to know yet.
    bool busy() const { return sent_key != idle_key || quiet; }
    Time busy_by(Time now) const {
        return busy_time + (busy() ? std::min(now, serialiser.end()) - began : 0);
    }
    bool left_by(Time now) const { return quiet && serialiser.end() <= now; }
    void refresh() {
        set_leaf(keys, leaves, local, std::min({sent_key, arrival_key, pause_key}));
    }
};

// What a port needs for pauses and for choosing among classes.
struct CorePortRest {
    Scheduler scheduler;
    std::array<PauseReceiver, 8> obeys;
    std::array<PauseSender, 8> stops;  // of the ingress groups of this port
    std::uint8_t expiry_due = 0;       // priorities whose pause has a timer
    FlightReader pauses_in{2};
    FlightWriter pauses_out;
    std::uint64_t latest_pause = 0;
    std::int64_t per_byte_q16 = 0;  // at the full rate
    Time pause = 0;         // how long a full pause lasts at this rate
    Time pause_flight = 0;  // pause frame out to the peer's scheduler stopped
    std::int64_t pauses = 0;
    BlockedTime blocked;
    Nic nic;            // at a host
    Time wake = never;  // when it asks its queue pairs again
    PostingThread thread;
};

struct CoreNode {
    std::vector<std::uint64_t> keys;  // of its ports
    std::uint64_t timer_key = idle_key;
    std::uint32_t leaves = 1;
    std::uint32_t first = 0;  // its first port
    std::uint32_t count = 0;
    std::uint32_t slot = 0;    // its place in its worker's tournament
    bool is_host = false;
    std::uint16_t stopping = 0;  // ingress groups that it has stopped
    bool exact = false;  // every frame's end is an event: some limit of its memory is near
    EventQueue timers;  // and sends
    std::optional<SharedBuffer> buffer;

    std::uint64_t next() const { return std::min(keys[1], timer_key); }
};

}  // namespace kvfabric
