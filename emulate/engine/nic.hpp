// Which queue pair of one NIC port sends next.
//
// A queue pair is in line (it may send), waiting for an instant (pacing, the issue of a work
// request) or blocked (its window is full, it has nothing to send). The line of each priority is
// first in, first out in the order of becoming able to send; a queue pair that has sent goes to its
// end if it may send at once. Of those that wait, each is asked again when its instant comes, in
// the order of (instant, flow): then it joins the line, or waits for a later instant. The head of
// a line is asked once more at its turn, since its rate may have been cut. So no packet costs more
// than the logarithm of the queue pairs that wait, and the result does not depend on how late
// advance is called, as long as it is called before a queue pair changes.
//
// The driver keeps the places and answers for its queue pairs: place(flow) is where a Place is
// kept, ask(flow, time) the instant to ask again: at most time when it may send, never when only an
// event at the queue pair can unblock it. It is told by placed(flow, time) when a queue pair has
// joined the line, waits, or is blocked.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "time.hpp"

namespace kvfabric {

inline constexpr std::uint32_t no_flow = 0xffffffff;

// A queue pair's place at its NIC.
struct Place {
    enum class State : std::uint8_t { blocked, lined, waiting };

    Time when = never;              // of one that waits
    std::uint32_t after = no_flow;  // the one behind it in line
    std::uint8_t priority = 0;
    State state = State::blocked;
};

class Nic {
public:
    // The priorities with a queue pair in line.
    std::uint8_t lined() const { return lined_; }

    // No queue pair can send or will without an event of its own.
    bool idle() const { return lined_ == 0 && first_ == never; }

    // The first in line of a priority that has one.
    std::uint32_t head(int priority) const { return lines_[slot(priority)].head; }

    // Asks those whose instant has come by now: true when there are any. To be called before any
    // queue pair changes, or what the port may send.
    template <typename Pairs>
    bool advance(Pairs& pairs, Time now) {
        if (first_ > now) [[likely]] return false;
        ask_waiting(pairs, now);
        return true;
    }

    // A queue pair has changed: it may be able to send, or earlier than it was.
    template <typename Pairs>
    void review(Pairs& pairs, std::uint32_t flow, Time now) {
        if (pairs.place(flow).state != Place::State::lined) {
            put(pairs, flow, pairs.ask(flow, now), now);
        }
    }

    // The head of a priority has sent a packet. One that is alone in its line, and may send again,
    // stays where it is.
    template <typename Pairs>
    void sent(Pairs& pairs, int priority, Time now) {
        const Line& line = lines_[slot(priority)];
        const std::uint32_t flow = line.head;
        const Time when = pairs.ask(flow, now);
        if (when <= now && flow == line.tail) return;
        put(pairs, take(pairs, priority), when, now);
    }

    // The port may send: which of the given priorities have a head that may.
    template <typename Pairs>
    std::uint8_t ready(Pairs& pairs, std::uint8_t of, Time now) {
        advance(pairs, now);
        unsigned ready = lined_ & of;
        for (unsigned left = ready; left != 0; left &= left - 1) {
            const int priority = std::countr_zero(left);
            const Time when = pairs.ask(head(priority), now);
            if (when > now && !pass_over(pairs, priority, when, now)) [[unlikely]] {
                ready &= ~(1U << priority);
            }
        }
        return static_cast<std::uint8_t>(ready);
    }

    // Takes the head out of its line.
    template <typename Pairs>
    std::uint32_t take(Pairs& pairs, int priority) {
        Line& line = lines_[slot(priority)];
        const std::uint32_t flow = line.head;
        Place& place = pairs.place(flow);
        place.state = Place::State::blocked;
        line.head = place.after;
        if (line.head == no_flow) lined_ &= static_cast<std::uint8_t>(~(1 << priority));
        return flow;
    }

    // The next instant at which one that waits is to be asked.
    template <typename Pairs>
    Time next(Pairs& pairs) {
        while (first_ != never && !live(pairs.place(waiting_.front().flow), waiting_.front())) {
            pop();
        }
        return first_;
    }

private:
    struct Line {
        std::uint32_t head = no_flow;
        std::uint32_t tail = no_flow;
    };
    struct Waiting {
        Time when;
        std::uint32_t flow;
        bool operator<(const Waiting& other) const {  // std heaps have the greatest in front
            return when != other.when ? when > other.when : flow > other.flow;
        }
    };

    static std::size_t slot(int priority) { return static_cast<std::size_t>(priority); }

    // False for an entry left behind by one that got an earlier instant.
    static bool live(const Place& place, const Waiting& entry) {
        return place.state == Place::State::waiting && place.when == entry.when;
    }

    template <typename Pairs>
    [[gnu::noinline]] void ask_waiting(Pairs& pairs, Time now) {
        while (first_ <= now) {
            const Waiting first = pop();
            Place& place = pairs.place(first.flow);
            if (!live(place, first)) continue;
            place.state = Place::State::blocked;
            put(pairs, first.flow, pairs.ask(first.flow, first.when), first.when);
        }
    }

    // The head of a line is to be asked later, at that instant: true when one behind it may send.
    template <typename Pairs>
    [[gnu::noinline]] bool pass_over(Pairs& pairs, int priority, Time when, Time now) {
        do {
            put(pairs, take(pairs, priority), when, now);
            if ((lined_ >> priority & 1) == 0) return false;
            when = pairs.ask(head(priority), now);
        } while (when > now);
        return true;
    }

    // A queue pair, not in line, is to be asked again at that instant. One that waits keeps its
    // instant unless it has got an earlier one.
    template <typename Pairs>
    [[gnu::noinline]] void put(Pairs& pairs, std::uint32_t flow, Time when, Time now) {
        Place& place = pairs.place(flow);
        if (when <= now) {
            append(pairs, place, flow);
        } else if (place.state == Place::State::blocked ? when != never : when < place.when) {
            place.state = Place::State::waiting;
            place.when = when;
            waiting_.push_back({when, flow});
            std::push_heap(waiting_.begin(), waiting_.end());
            first_ = waiting_.front().when;
        }
        pairs.placed(flow, now);
    }

    template <typename Pairs>
    void append(Pairs& pairs, Place& place, std::uint32_t flow) {
        Line& line = lines_[slot(place.priority)];
        place.state = Place::State::lined;
        place.after = no_flow;
        if (line.head == no_flow) {
            line.head = flow;
            lined_ |= static_cast<std::uint8_t>(1 << place.priority);
        } else {
            pairs.place(line.tail).after = flow;
        }
        line.tail = flow;
    }

    Waiting pop() {
        const Waiting first = waiting_.front();
        std::pop_heap(waiting_.begin(), waiting_.end());
        waiting_.pop_back();
        first_ = waiting_.empty() ? never : waiting_.front().when;
        return first;
    }

    std::uint8_t lined_ = 0;
    Time first_ = never;  // when the first of those that wait is to be asked
    std::vector<Waiting> waiting_;
    std::array<Line, 8> lines_{};
};

}  // namespace kvfabric
