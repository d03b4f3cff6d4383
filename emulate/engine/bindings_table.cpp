// Tables of what was observed: the last packets' hops, pauses, queues.
#include "bindings_table.hpp"

namespace kvfabric {

nb::dict hop_table(const std::vector<HopWait>& waits) {
    nb::dict table;
    table["flow"] = column(waits, [](const HopWait& w) { return w.flow; });
    table["hop"] = column(waits, [](const HopWait& w) { return w.hop; });
    table["port"] = column(waits, [](const HopWait& w) { return w.port; });
    table["queued_ps"] = column(waits, [](const HopWait& w) { return w.queued; });
    table["paused_ps"] = column(waits, [](const HopWait& w) { return w.paused; });
    return table;
}

nb::dict pause_table(const std::vector<PauseTotal>& rows) {
    nb::dict table;
    table["port"] = column(rows, [](const PauseTotal& r) { return r.port; });
    table["priority"] = column(rows, [](const PauseTotal& r) { return r.priority; });
    table["paused_ps"] = column(rows, [](const PauseTotal& r) { return r.spent; });
    table["pauses"] = column(rows, [](const PauseTotal& r) { return r.times; });
    table["longest_ps"] = column(rows, [](const PauseTotal& r) { return r.longest; });
    return table;
}

nb::dict stop_table(const Observation& observation) {
    const std::vector<PauseSpan> spans = observation.pauses.spans();
    nb::dict table;
    table["port"] = column(spans, [](const PauseSpan& s) { return s.port; });
    table["priority"] = column(spans, [](const PauseSpan& s) { return s.priority; });
    table["from_ps"] = column(spans, [](const PauseSpan& s) { return s.from; });
    table["until_ps"] = column(spans, [](const PauseSpan& s) { return s.until; });
    table["cause_port"] = column(spans, [](const PauseSpan& s) { return s.cause; });
    return table;
}

nb::dict innocence_table(const Innocence& innocence) {
    struct Row {
        std::size_t place;
        Standing sum;
    };
    std::vector<Row> rows;
    for (std::size_t place = 0; place < innocence.sums().size(); ++place) {
        if (innocence.sums()[place].paused > 0) rows.push_back({place, innocence.sums()[place]});
    }
    nb::dict table;
    table["port"] = column(rows, [](const Row& r) { return r.place / 8; });
    table["priority"] = column(rows, [](const Row& r) { return r.place % 8; });
    table["paused_bytes"] = column(rows, [](const Row& r) { return r.sum.paused; });
    table["innocent_bytes"] = column(rows, [](const Row& r) { return r.sum.innocent; });
    return table;
}

nb::dict occupancy_table(const Observation& observation) {
    struct Row {
        std::size_t port;
        Bytes least;
        std::int64_t samples;
    };
    std::vector<Row> rows;
    for (std::size_t port = 0; port < observation.queues.size(); ++port) {
        const QueueRecord& queue = observation.queues[port];
        for (std::size_t bin = 0; bin < QueueRecord::bin_count; ++bin) {
            const std::int64_t samples = queue.samples(bin);
            if (samples == 0) continue;
            rows.push_back({port, bin == 0 ? 0 : Bytes{1} << (bin - 1), samples});
        }
    }
    nb::dict table;
    table["port"] = column(rows, [](const Row& r) { return r.port; });
    table["least_bytes"] = column(rows, [](const Row& r) { return r.least; });
    table["samples"] = column(rows, [](const Row& r) { return r.samples; });
    return table;
}

nb::dict series_table(const Observation& observation, std::int64_t ticks) {
    struct Row {
        std::size_t port;
        std::int64_t tick;
        std::int64_t samples;
        SeriesPoint point;
    };
    const int shift = observation.shift(ticks);
    std::vector<Row> rows;
    for (std::size_t port = 0; port < observation.queues.size(); ++port) {
        const std::vector<SeriesPoint> points = observation.queues[port].series(shift);
        for (std::size_t i = 0; i < points.size(); ++i) {
            if (points[i].most == 0) continue;
            const auto tick = static_cast<std::int64_t>(i) << shift;
            const std::int64_t samples = std::min(std::int64_t{1} << shift, ticks - tick);
            rows.push_back({port, tick, samples, points[i]});
        }
    }
    nb::dict table;
    table["port"] = column(rows, [](const Row& r) { return r.port; });
    table["tick"] = column(rows, [](const Row& r) { return r.tick; });
    table["samples"] = column(rows, [](const Row& r) { return r.samples; });
    table["sum_bytes"] = column(rows, [](const Row& r) { return r.point.sum; });
    table["max_bytes"] = column(rows, [](const Row& r) { return r.point.most; });
    return table;
}

}  // namespace kvfabric
