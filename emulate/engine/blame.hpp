// Where the time of a flow went, from its release to its last byte at the receiver.
//
// The time is parted to the picosecond: up to the first start of its last packet by the states of
// its sender, then by the hops of the copy of that packet that the receiver accepted. What lies
// between is retransmission: everything is once the last packet has been sent in vain, and from a
// go-back until a packet is sent for the first time again. While a class waits and is stopped, the
// time is paused, whatever else the port does; time in service, on cables and in pipelines is wire.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "time.hpp"

namespace kvfabric {

// The parts of a flow's time, in picoseconds; all -1 as long as it has not finished.
struct Blame {
    Time wire = -1;
    Time queued = -1;   // behind other frames, its own too, at switches
    Time paused = -1;   // at its NIC and at switches
    Time source = -1;   // for its turn at its NIC
    Time issue = -1;    // for the issue of its descriptors
    Time pacing = -1;   // for its rate, that is for congestion control
    Time window = -1;   // for an ACK to open its window
    Time retransmission = -1;
};

// The states of one sender. Held is the time that its class has been stopped at the port so far.
class SenderBlame {
public:
    enum class State : std::uint8_t { turn, service, issue, pacing, window, over };

    // The release.
    void begin(Time now, Time held) {
        since_ = now;
        held_ = held;
    }

    // The sender waits for something from now on, or from the end of its frame in service.
    void enter(State state, Time now, Time held) {
        if (state_ == State::service) {
            next_ = state;
        } else if (state_ != state && state_ != State::over) {
            charge(now, held);
            state_ = state;
        }
    }

    // A packet starts: again when it had been sent before, last when none is behind it.
    void start(Time now, Time held, bool again, bool last) {
        if (state_ == State::over) return;
        charge(now, held);
        again_ = again;
        next_ = State::turn;
        state_ = last ? State::over : State::service;
    }

    // The frame in service has left.
    void end(Time now, Time held) {
        if (state_ != State::service) return;
        charge(now, held);
        state_ = next_;
    }

    // The sender goes back.
    void back(Time now, Time held) {
        if (state_ == State::over) return;
        charge(now, held);
        again_ = true;
    }

    // What it has been charged, up to the first start of its last packet.
    Blame parts() const {
        return {.wire = in(State::service),
                .queued = 0,
                .paused = paused_,
                .source = in(State::turn) - paused_,
                .issue = in(State::issue),
                .pacing = in(State::pacing),
                .window = in(State::window),
                .retransmission = retransmission_};
    }

private:
    static std::size_t slot(State state) { return static_cast<std::size_t>(state); }
    Time in(State state) const { return spent_[slot(state)]; }

    void charge(Time now, Time held) {
        if (again_) [[unlikely]] {
            retransmission_ += now - since_;
        } else {
            spent_[slot(state_)] += now - since_;
            if (state_ == State::turn) paused_ += held - held_;
        }
        since_ = now;
        held_ = held;
    }

    Time since_ = 0;
    Time held_ = 0;
    State state_ = State::turn;
    State next_ = State::turn;
    bool again_ = false;
    Time paused_ = 0;              // of its turn
    std::array<Time, 5> spent_{};  // in each state but over
    Time retransmission_ = 0;
};

// What one copy of a flow's last packet waited at one hop.
struct HopWait {
    std::uint32_t flow = 0;
    std::uint32_t port = 0;
    std::uint16_t attempt = 0;
    std::uint8_t hop = 0;
    Time queued = 0;
    Time paused = 0;
};

inline bool in_hop_order(const HopWait& a, const HopWait& b) {
    return a.flow != b.flow ? a.flow < b.flow : a.hop < b.hop;
}

// The start of one copy of a flow's last packet at its NIC.
struct CopyStart {
    std::uint32_t flow = 0;
    std::uint16_t attempt = 0;
    Time start = 0;
};

// The ways of all copies of last packets through one engine, or one node.
class Trail {
public:
    // The copies that wait in one first-in-first-out queue.
    struct Line {
        std::uint32_t head = none;
        std::uint32_t tail = none;
    };

    void started(const CopyStart& copy) { starts_.push_back(copy); }

    // A copy joins a queue.
    void joined(Line& line, std::uint32_t flow, std::uint16_t attempt, std::uint8_t hop,
                std::uint32_t port, Time now, Time held) {
        const auto place = static_cast<std::uint32_t>(waits_.size());
        waits_.push_back({{flow, port, attempt, hop, now, held}, none});
        (line.head == none ? line.head : waits_[line.tail].behind) = place;
        line.tail = place;
    }

    // The first copy of a queue leaves it.
    void left(Line& line, Time now, Time held) {
        Wait& wait = waits_[line.head];
        wait.hop.paused = held - wait.hop.paused;
        wait.hop.queued = now - wait.hop.queued - wait.hop.paused;
        line.head = wait.behind;
    }

    const std::vector<CopyStart>& starts() const { return starts_; }

    // The hops of the copies that were accepted, by (flow, hop); accepted(flow) is that attempt,
    // or -1. Attempts are counted to 2^16: of copies of one number the last was accepted.
    template <typename Accepted>
    std::vector<HopWait> hops(Accepted&& accepted) const {
        std::vector<HopWait> rows;
        for (const Wait& wait : waits_) {
            if (accepted(wait.hop.flow) == wait.hop.attempt) rows.push_back(wait.hop);
        }
        std::stable_sort(rows.begin(), rows.end(), in_hop_order);
        const auto one = [](const HopWait& a, const HopWait& b) {
            return a.flow == b.flow && a.hop == b.hop;
        };
        rows.erase(rows.begin(), std::unique(rows.rbegin(), rows.rend(), one).base());
        return rows;
    }

private:
    static constexpr std::uint32_t none = 0xffffffff;

    struct Wait {
        HopWait hop;  // until it has left: the instant, and the time held, of joining
        std::uint32_t behind = none;
    };

    std::vector<CopyStart> starts_;
    std::vector<Wait> waits_;
};

// The whole of one flow: its sender's parts, the start of the accepted copy, that copy's waits.
inline Blame blame(const SenderBlame& sender, Time release, Time start, Time finish,
                   std::span<const HopWait> hops) {
    Blame all = sender.parts();
    const Time charged = all.wire + all.paused + all.source + all.issue + all.pacing +
                         all.window + all.retransmission;
    all.retransmission += start - release - charged;
    all.wire += finish - start;
    for (const HopWait& hop : hops) {
        all.queued += hop.queued;
        all.paused += hop.paused;
        all.wire -= hop.queued + hop.paused;
    }
    return all;
}

}  // namespace kvfabric
