// Tables of the ports of an engine, as columns.
#pragma once

#include "bindings_table.hpp"
#include "port.hpp"
#include "total.hpp"

namespace kvfabric {

template <typename Engine>
nb::dict observe(Engine& engine) {
    const LinkState& state = engine.latched();
    nb::dict table;
    table["queued_bytes"] = array_of(state.queued);
    table["paused"] = array_of(state.paused);
    table["utilisation"] = array_of(state.utilisation);
    return table;
}

inline nb::dict port_columns(const std::vector<const Port*>& ports, Time now) {
    nb::dict table;
    const auto put = [&](const char* name, auto number) {
        table[name] = column(ports, [&](const Port* port) { return number(*port); });
    };
    put("tx_bytes", [](const Port& p) { return p.sent_bytes; });
    put("tx_packets", [](const Port& p) { return p.sent_packets; });
    put("busy_ps", [](const Port& p) { return p.busy_time; });
    put("paused_ps", [now](const Port& p) {
        Time most = 0;
        for (int i = 0; i < 8; ++i) most = std::max(most, p.held(i, now));
        return most;
    });
    put("pauses", [](const Port& p) { return p.stops_met(); });
    put("marked", [](const Port& p) { return p.marked; });
    put("drops", [](const Port& p) { return p.drops; });
    put("max_queue_bytes", [](const Port& p) { return p.most_waiting; });
    put("blocked_ps", [now](const Port& p) { return p.blocked.spent(now); });
    return table;
}

template <typename Engine>
nb::dict port_table(Engine& engine) {
    const auto& rows = engine.ports();  // one engine makes them anew, the other keeps them
    std::vector<const Port*> ports;
    for (const Port& port : rows) ports.push_back(&port);
    return port_columns(ports, engine.now());
}

template <typename Engine>
std::vector<PauseTotal> pause_totals(Engine& engine) {
    const Time now = engine.now();
    const auto& ports = engine.ports();
    std::vector<PauseTotal> rows;
    for (std::size_t port = 0; port < ports.size(); ++port) {
        for (std::size_t priority = 0; priority < 8; ++priority) {
            const PauseReceiver& receiver = ports[port].obeys[priority];
            if (receiver.times() == 0) continue;
            rows.push_back({port, priority, receiver.spent(now), receiver.times(),
                            receiver.longest(now)});
        }
    }
    return rows;
}

}  // namespace kvfabric
