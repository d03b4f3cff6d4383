// What is kept of queues and pauses over a run, in bounded memory.
//
// A port's queue is sampled at every tick, by the bytes that wait before that instant's events: a
// histogram by powers of two, and a series of at most so many points whose span doubles when they
// are full. A queue that does not change is not looked at: the ticks that have passed meanwhile are
// added when it does. Of pauses, the first ones are kept whole, each with its cause; the others are
// counted. Of what stands behind them, innocence.hpp keeps two sums.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <span>
#include <vector>

#include "innocence.hpp"
#include "time.hpp"

namespace kvfabric {

// The samples of one span of a series.
struct SeriesPoint {
    Bytes sum = 0;
    Bytes most = 0;
};

// The samples of one port's queue.
class QueueRecord {
public:
    // Bin b counts the samples of 2^(b-1) up to below 2^b bytes, bin 0 the empty ones.
    static constexpr std::size_t bin_count = 64;

    // Points is a power of two.
    explicit QueueRecord(std::int64_t points) : points_(points) {}

    // So many bytes have been waiting since the last call; so many ticks have passed in all.
    void hold(Bytes waiting, std::int64_t ticks) {
        if (ticks == seen_) return;
        if (waiting > 0) add(waiting, ticks);
        seen_ = ticks;
    }

    std::int64_t samples(std::size_t bin) const {
        if (bin > 0) return kept_ ? kept_->bins[bin] : 0;
        std::int64_t empty = seen_;
        if (kept_) {
            for (const std::int64_t count : kept_->bins) empty -= count;
        }
        return empty;
    }

    // The series on points of 2^shift ticks, at least as wide as it is kept.
    std::vector<SeriesPoint> series(int shift) const {
        if (!kept_) return {};
        std::vector<SeriesPoint> points = kept_->points;
        for (int s = kept_->shift; s < shift; ++s) halve(points);
        return points;
    }

private:
    struct Kept {
        std::array<std::int64_t, bin_count> bins{};
        std::vector<SeriesPoint> points;
        int shift = 0;
    };

    void add(Bytes waiting, std::int64_t ticks) {
        if (!kept_) {
            kept_ = std::make_unique<Kept>();
            kept_->points.resize(static_cast<std::size_t>(points_));
        }
        const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(waiting)));
        kept_->bins[bin] += ticks - seen_;
        for (; (ticks - 1) >> kept_->shift >= points_; ++kept_->shift) halve(kept_->points);
        for (std::int64_t tick = seen_; tick < ticks;) {
            const std::int64_t place = tick >> kept_->shift;
            const std::int64_t end = std::min(ticks, (place + 1) << kept_->shift);
            SeriesPoint& point = kept_->points[static_cast<std::size_t>(place)];
            point.sum += waiting * (end - tick);
            point.most = std::max(point.most, waiting);
            tick = end;
        }
    }

    static void halve(std::vector<SeriesPoint>& points) {
        const std::size_t half = points.size() / 2;
        for (std::size_t i = 0; i < half; ++i) {
            const SeriesPoint& a = points[2 * i];
            const SeriesPoint& b = points[2 * i + 1];
            points[i] = {a.sum + b.sum, std::max(a.most, b.most)};
        }
        std::fill(points.begin() + static_cast<std::ptrdiff_t>(half), points.end(), SeriesPoint{});
    }

    std::unique_ptr<Kept> kept_;
    std::int64_t seen_ = 0;
    std::int64_t points_ = 0;
};

// How long a port was idle while something waited there.
class BlockedTime {
public:
    // The port has found nothing that it may send.
    void idle(Time now, bool waiting) {
        if (!waiting) {
            end(now);
        } else if (since_ == never) {
            since_ = now;
        }
    }

    // The port sends.
    void end(Time now) {
        if (since_ == never) return;
        spent_ += now - since_;
        since_ = never;
    }

    Time spent(Time now) const { return spent_ + (since_ == never ? 0 : now - since_); }

private:
    Time since_ = never;
    Time spent_ = 0;
};

// One stop of one priority of a port by its peer, from the decision to stop to that to go on.
struct PauseSpan {
    Time from = 0;
    Time until = -1;           // -1: still stopped
    std::uint32_t port = 0;    // the one that is stopped
    std::uint32_t cause = 0;   // the egress of the peer that held most of the stopped group's bytes
    std::uint8_t priority = 0;
};

inline bool in_pause_order(const PauseSpan& a, const PauseSpan& b) {
    return a.from != b.from ? a.from < b.from
           : a.port != b.port ? a.port < b.port : a.priority < b.priority;
}

// The stops of all ports, or of the ports of one node.
class PauseLog {
public:
    static constexpr std::uint32_t none = 0xffffffff;

    PauseLog(std::size_t ports, std::size_t most)
        : open_(ports * 8, none), cause_(ports * 8, none), most_(most) {}

    void begin(std::uint32_t port, int priority, std::uint32_t cause, Time now) {
        cause_[place(port, priority)] = cause;
        // Those of the last instant that is kept are all kept, so that ties are cut in order.
        if (spans_.size() >= most_ && now > spans_.back().from) {
            ++dropped_;
            return;
        }
        open_[place(port, priority)] = static_cast<std::uint32_t>(spans_.size());
        spans_.push_back({now, -1, port, cause, static_cast<std::uint8_t>(priority)});
    }

    void end(std::uint32_t port, int priority, Time now) {
        std::uint32_t& open = open_[place(port, priority)];
        if (open == none) return;
        spans_[open].until = now;
        open = none;
    }

    // The cause of the last stop, kept or not; none before the first.
    std::uint32_t cause(std::uint32_t port, int priority) const {
        return cause_[place(port, priority)];
    }

    // The first ones, by (instant, port, priority).
    std::vector<PauseSpan> spans() const {
        std::vector<PauseSpan> rows = spans_;
        std::sort(rows.begin(), rows.end(), in_pause_order);
        if (rows.size() > most_) rows.resize(most_);
        return rows;
    }

    // How many stops there were, kept or not.
    std::int64_t count() const { return static_cast<std::int64_t>(spans_.size()) + dropped_; }

private:
    static std::size_t place(std::uint32_t port, int priority) {
        return std::size_t{port} * 8 + static_cast<std::size_t>(priority);
    }

    std::vector<PauseSpan> spans_;
    std::vector<std::uint32_t> open_;   // of each port and priority
    std::vector<std::uint32_t> cause_;  // likewise
    std::size_t most_ = 0;
    std::int64_t dropped_ = 0;
};

// All of a run.
class Observation {
public:
    static constexpr std::size_t most_spans = 1 << 17;

    explicit Observation(std::size_t ports) : pauses(ports, most_spans), innocence(ports) {
        queues.reserve(ports);
        for (std::size_t p = 0; p < ports; ++p) queues.emplace_back(points(ports));
    }

    // Points of each series: 512, and fewer above 8,192 ports, so that all take 64 MiB at most.
    static std::int64_t points(std::size_t ports) {
        constexpr std::size_t most = std::size_t{1} << 22;
        const std::size_t each = std::bit_floor(most / std::max<std::size_t>(1, ports));
        return static_cast<std::int64_t>(std::clamp<std::size_t>(each, 32, 512));
    }

    // Ticks a point, as a power of two, at which all series end within their points.
    int shift(std::int64_t ticks) const {
        int shift = 0;
        while ((ticks - 1) >> shift >= points(queues.size())) ++shift;
        return shift;
    }

    std::vector<QueueRecord> queues;  // of each port
    PauseLog pauses;
    Innocence innocence;
};

}  // namespace kvfabric
