// Tables of flows and totals that every driver of switches and NICs has, as columns.
#pragma once

#include "bindings_table.hpp"
#include "flow.hpp"
#include "total.hpp"

namespace kvfabric {

template <typename Engine>
nb::dict flow_columns(Engine& engine, const std::vector<const Flow*>& flows) {
    nb::dict table;
    const auto put = [&](const char* name, auto number) {
        table[name] = column(flows, [&](const Flow* flow) { return number(*flow); });
    };
    put("flow", [](const Flow& f) { return f.setting.flow; });
    put("handoff", [](const Flow& f) { return f.setting.handoff; });
    put("source", [](const Flow& f) { return f.setting.source; });
    put("destination", [](const Flow& f) { return f.setting.destination; });
    put("bytes", [](const Flow& f) { return f.setting.bytes; });
    put("release_ps", [](const Flow& f) { return f.setting.release; });
    put("finish_ps", [](const Flow& f) { return f.finish; });
    put("sender_done_ps", [](const Flow& f) { return f.sender_done; });
    put("ideal_ps", [](const Flow& f) { return f.ideal; });
    put("hops", [](const Flow& f) { return f.hops; });
    put("packets", [](const Flow& f) { return f.segment.packets(); });
    put("marked", [](const Flow& f) { return f.marked; });
    put("resent_bytes", [](const Flow& f) { return f.resent; });
    put("timeouts", [](const Flow& f) { return f.timeouts; });
    put("cnps", [](const Flow& f) { return f.cnps; });
    put("rate_bps", [&](const Flow& f) { return engine.rate_bps(static_cast<std::size_t>(f.setting.flow)); });
    return table;
}

inline nb::dict total_columns(const Totals& t) {
    nb::dict table;
    table["events"] = t.events;
    table["packet_hops"] = t.packet_hops;
    table["drops_buffer"] = t.drops_buffer;
    table["drops_lossless"] = t.drops_lossless;
    table["drops_fault"] = t.drops_fault;
    table["drops_watchdog"] = t.drops_watchdog;
    table["bytes_sent"] = t.bytes_sent;
    table["bytes_delivered"] = t.bytes_delivered;
    table["bytes_discarded"] = t.bytes_discarded;
    table["bytes_dropped"] = t.bytes_dropped;
    table["pause_frames"] = t.pause_frames;
    table["acks"] = t.acks;
    table["naks"] = t.naks;
    table["cnps"] = t.cnps;
    return table;
}

}  // namespace kvfabric
