// Ports and nodes of the fast core: what an event touches lies close together.
//
// A port is one direction of a link at its sending end, as everywhere; it also holds the reading
// end of what its peer sends. Its next events are held as keys: the time since the engine's epoch
// in the upper 44 bits, then the kind and the port's number at its node, so that the least key of a
// node is its next event in the order of (time, kind, port). What is rarely needed lies apart.
#pragma once

#include <array>
#include <bit>
#include <optional>

#include "buffer.hpp"
#include "core_flight.hpp"
#include "core_leaf.hpp"
#include "core_queue.hpp"
#include "credit.hpp"
#include "event.hpp"
#include "issue.hpp"
#include "mark.hpp"
#include "nic.hpp"
#include "observe.hpp"
#include "pause.hpp"
#include "schedule.hpp"
#include "watchdog.hpp"

namespace kvfabric {

inline constexpr int kind_shift = 16;
inline constexpr std::uint64_t local_mask = (std::uint64_t{1} << kind_shift) - 1;

// No event: an arrival's key says so by its time alone.
inline bool idle(std::uint64_t key) { return key >> stamp_shift == idle_key >> stamp_shift; }

inline constexpr std::uint64_t sent_bits = std::uint64_t{static_cast<std::uint8_t>(EventKind::sent)}
                                           << kind_shift;

inline EventKind kind_of(std::uint64_t key) {
    return static_cast<EventKind>(key >> kind_shift & 15);
}

// What makes a port more than a plain queue.
enum Odd : std::uint8_t {
    faulty = 1,      // something befalls its link at some time
    blocked = 2,     // idle while frames wait
    by_credit = 4,   // it sends by credits
    watched = 8,     // it has watchdogs
    heralded = 16,   // its peer can send a frame on when its header is in
};

// What keeps a port from sending what waits as soon as it is free.
struct alignas(4) PortGate {
    std::uint8_t odd = 0;
    std::uint8_t notify = 0;  // priorities whose pause state must be told to the peer
    std::uint8_t paused = 0;  // priorities stopped by the peer
    std::uint8_t none = 0;

    bool plain() const { return std::bit_cast<std::uint32_t>(*this) == 0; }
};

// What comes in by a port, and when something happens there next: all that an arrival has to know.
struct alignas(64) PortEntry {
    std::uint64_t arrival_key = idle_key;
    Leaf leaf;  // its next event, at its node
    FlightReader in;
    std::uint32_t id = 0;
    std::uint32_t slot = 0;     // of its node, as its worker and class
    std::uint16_t local = 0;    // its number at its node
    std::uint16_t worker = 0;
    std::uint8_t of = 0;
    std::uint8_t stopping = 0;  // priorities of which this port has stopped the peer
    std::uint8_t storming = 0;  // priorities stopped whatever the buffer says
    bool heeded = false;        // the ends of its frames are events
};
static_assert(sizeof(PortEntry) == 64);

// Behind it stands what goes out.
struct CorePort : PortEntry, PortGate {
    std::uint8_t backlog = 0;   // priorities with waiting frames
    std::uint8_t serving = 8;   // of the frame in service its priority, 8 for none or a pause frame
    bool shared = false;        // its scheduler has had a choice
    std::uint8_t once_stopped = 0;  // priorities that the peer has ever stopped, all by credits
    std::uint64_t sent_key = idle_key;  // of the frame in service, idle_key: it sends nothing
    Serialiser serialiser;
    std::uint64_t delay_key = 0;  // propagation and, at a switch, the pipeline, as a key
    Bytes waiting = 0;
    Time busy_time = 0;  // of what has started, up to its end

    FlightWriter out;
    std::uint64_t latest = 0;  // first word of the last frame that started
    CorePort* peer = nullptr;
    FrameQueue* queues = nullptr;  // of its priorities
    bool peer_at_host = false;
    std::uint8_t peer_class = 0;
    std::uint16_t serving_ingress = 0;
    std::uint32_t serving_wire = 0;
    Time began = 0;

    Bytes most_waiting = 0;
    std::int64_t seen = 0;  // ticks for which what waits and has been sent is recorded
    Bytes sent_bytes = 0;  // of what has started
    std::int64_t sent_packets = 0;
    Bytes unmarked = 0;  // no longer queue than this is ever marked, on coming and
    Bytes unmarked_behind = 0;  // on leaving
    std::uint32_t serving_flow = no_flow;  // of data at a host
    std::uint32_t node = 0;
    std::uint32_t watchers = 0;  // stopped groups that wait for the ends of its frames

    const PortGate* exit() const { return this; }
    // Also true when the frame has left, and nobody has had to know yet.
    bool busy() const { return sent_key != idle_key; }
    // Of what has started, what is still to come after the events of this instant.
    Time busy_after(Time now) const {
        return std::max<Time>(0, serialiser.end() - now);
    }
    // Nothing starts before an event tells that its frame has left.
    bool engaged() const { return busy() && heeded; }
    bool serving_at(Time now) const { return busy() && !left_by(now); }
    bool left_by(Time now) const { return busy() && !heeded && serialiser.end() <= now; }
    template <bool few = false>
    void refresh() {
        leaf.set<few>(heeded ? std::min(arrival_key, sent_key) : arrival_key);
    }
};

static_assert(sizeof(CorePort) <= 256);
inline constexpr std::size_t port_exit = sizeof(CorePort) - sizeof(PortEntry);

// A port at the last tick for which it has been looked at.
struct PortTick {
    Bytes waiting = 0;
    Time busy = 0;  // in all
    Time sent = 0;  // of that, since the tick before
};

// What a port needs for pauses, for choosing among classes and for what is rare.
struct CorePortRest {
    Scheduler scheduler;
    Marker marker;
    std::array<PauseReceiver, 8> obeys;
    std::array<PauseSender, 8> stops;  // of the ingress groups of this port
    std::array<std::uint64_t, 8> holders{};  // of each of them that is stopped: egresses of its frames
    std::array<CreditSender, 8> credits;
    std::array<Watchdog, 8> watchdogs;
    std::uint8_t watch_due = 0;  // priorities whose watchdog has a timer
    std::uint8_t expiry_due = 0;       // priorities whose pause has a timer
    std::array<Time, 8> still{};  // stopped, or the first frame of an empty queue since then
    std::uint32_t fault = 0;           // into the engine's faults, if it is faulty
    std::uint64_t pause_key = idle_key;  // when the next pause frame takes effect
    FlightReader pauses_in;
    FlightWriter pauses_out;
    std::uint64_t latest_pause = 0;
    std::int64_t per_byte_q16 = 0;  // at the full rate
    Time pause = 0;         // how long a full pause lasts at this rate
    Time credit_flight = 0;  // credits out to the peer's scheduler
    Time pause_flight = 0;  // pause frame out to the peer's scheduler stopped
    std::int64_t pauses = 0;
    std::int64_t pause_frames = 0;  // that it has sent
    BlockedTime blocked;
    std::int64_t marked = 0;
    std::int64_t drops = 0;
    std::int64_t lost = 0;  // of what the peer sent, to a fault
    Nic nic;            // at a host
    Time wake = never;  // when it asks its queue pairs again
    PostingThread thread;
    PostingLine line;
};

struct CoreNode {
    Leaves leaves;  // of its ports
    std::uint64_t rare_key = idle_key;   // of timers, sends and pauses
    std::uint64_t pause_key = idle_key;  // the least of its ports'
    std::uint64_t start_key = idle_key;  // of the next frame that starts without an event
    CorePort* ports = nullptr;
    std::uint32_t first = 0;  // its first port
    std::uint32_t count = 0;
    std::uint32_t slot = 0;      // its place in its worker's tree
    std::uint32_t worker = 0;
    bool is_host = false;
    std::uint8_t of = 0;         // its class: is it an odd number of links from the nearest host?
    std::vector<std::uint64_t> lined;  // a bit a port: frames may wait behind one in service
    EventQueue timers;   // and sends
    std::optional<SharedBuffer> buffer;

    // The next event, and with it the next start.
    std::uint64_t next_event() const { return std::min(leaves.least(), rare_key); }
    std::uint64_t next() const { return std::min(next_event(), start_key); }
    void line(std::uint16_t port) { lined[port / 64u] |= std::uint64_t{1} << port % 64; }
};

}  // namespace kvfabric
