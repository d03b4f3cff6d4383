// The Python face of the engine: settings in as plain numbers and arrays, tables out as arrays.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings_array.hpp"
#include "bindings_decision.hpp"
#include "bindings_flow.hpp"
#include "bindings_port.hpp"
#include "core.hpp"
#include "ideal.hpp"
#include "reference.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvfabric {

namespace {

FabricSetting fabric_setting(const In<std::int32_t>& first, const In<std::int32_t>& node,
                             const In<std::int32_t>& reverse, const In<std::int64_t>& rate_bps,
                             const In<std::int64_t>& delay_ps, const In<std::uint8_t>& is_switch,
                             const In<std::int64_t>& buffer_bytes,
                             const In<std::int64_t>& latency_ps) {
    return {values(first),    values(node),      values(reverse),      values(rate_bps),
            values(delay_ps), values(is_switch), values(buffer_bytes), values(latency_ps)};
}

RouteSetting route_setting(std::int32_t groups, const In<std::int32_t>& group,
                           const In<std::int32_t>& first, const In<std::int32_t>& ports,
                           const In<std::int32_t>& host_first,
                           const In<std::int32_t>& host_ports) {
    return {values(group),      values(first),      values(ports),
            values(host_first), values(host_ports), groups};
}

DisciplineSetting discipline_setting(
    std::uint8_t lossless, std::uint8_t strict, bool mark_at_dequeue, bool cut_through,
    Time watch_detect_ps, Time watch_restore_ps, Time deadlock_ps,
    const std::array<std::uint8_t, 8>& weight, std::int64_t alpha_q16,
    std::int64_t egress_alpha_q16, Bytes reserve_bytes, Bytes xon_offset_bytes,
    const In<std::int64_t>& headroom_bytes, const In<std::int64_t>& kmin_bytes,
    const In<std::int64_t>& kmax_bytes, const In<std::uint64_t>& pmax_q32,
    const In<std::int64_t>& response_ps) {
    return {lossless,           strict,
            mark_at_dequeue,    cut_through,
            watch_detect_ps,    watch_restore_ps,
            deadlock_ps,
            weight,
            alpha_q16,          egress_alpha_q16,
            reserve_bytes,      xon_offset_bytes,
            values(headroom_bytes), values(kmin_bytes),
            values(kmax_bytes), values(pmax_q32),
            values(response_ps)};
}

TransportSetting transport_setting(Bytes mtu, std::int64_t ack_every, std::int64_t window,
                                   Time timeout_ps, Time issue_ps, std::int64_t send_queue,
                                   bool one_issuer, std::int64_t drain_bps,
                                   Bytes receive_bytes, bool ack_message, Time cnp_interval_ps,
                                   Bytes credit_bytes, std::uint8_t cnp_priority,
                                   std::int8_t ack_priority, bool controlled,
                                   const DcqcnSetting& dcqcn, const In<std::int64_t>& least_bps,
                                   const In<std::int64_t>& additive_bps,
                                   const In<std::int64_t>& hyper_bps) {
    return {mtu,          ack_every,         window,     timeout_ps,
            issue_ps,     send_queue == 0 ? no_limit : send_queue, one_issuer, drain_bps, receive_bytes,
            ack_message,
            cnp_interval_ps, credit_bytes, cnp_priority, ack_priority, controlled,
            dcqcn,        values(least_bps), values(additive_bps), values(hyper_bps)};
}

DcqcnSetting dcqcn_setting(Time alpha_period_ps, Time cut_period_ps, Time increase_period_ps,
                           Bytes increase_bytes, std::int64_t keep_q10, std::int64_t initial_q10,
                           int gd_shift, std::int64_t least_percent, int recovery, bool clamp,
                           bool clamp_after_timer, std::int64_t least_bps,
                           std::int64_t additive_bps, std::int64_t hyper_bps, bool cut_grid,
                           bool retimed) {
    return {alpha_period_ps, cut_period_ps, increase_period_ps, increase_bytes,   keep_q10,
            initial_q10,     gd_shift,      least_percent,      recovery,         clamp,
            clamp_after_timer, cut_grid,    retimed,            least_bps,        additive_bps,
            hyper_bps};
}

std::vector<FaultSetting> fault_settings(const In<std::uint8_t>& kind,
                                         const In<std::uint32_t>& port,
                                         const In<std::int64_t>& from_ps,
                                         const In<std::int64_t>& until_ps,
                                         const In<std::int64_t>& value) {
    std::vector<FaultSetting> faults;
    for (std::size_t i = 0; i < kind.size(); ++i) {
        faults.push_back(
            {static_cast<FaultKind>(kind(i)), port(i), from_ps(i), until_ps(i), value(i)});
    }
    return faults;
}

template <typename Engine>
nb::tuple advance(Engine& engine, Time until_ps) {
    Time now = 0;
    {
        nb::gil_scoped_release release;
        now = engine.advance(until_ps);
    }
    std::vector<std::int64_t> done(engine.completed().begin(), engine.completed().end());
    std::sort(done.begin(), done.end());
    return nb::make_tuple(now, array_of(std::move(done)));
}

template <typename Engine>
std::vector<std::uint32_t> path(const Engine& engine, std::size_t flow) {
    return engine.path(flow);
}

template <typename Engine>
nb::dict flow_table(Engine& engine) {
    std::vector<const Flow*> flows;
    std::vector<Blame> blames;
    const std::vector<Blame> all = engine.blames();
    const auto& rows = engine.flows();
    for (const Flow& flow : rows) {
        if (!flow.submitted) continue;
        flows.push_back(&flow);
        blames.push_back(all[static_cast<std::size_t>(flow.setting.flow)]);
    }
    nb::dict table = flow_columns(engine, flows);
    table["spurious_timeouts"] = column(flows, [](const Flow* f) { return f->spurious; });
    table["lost_packets"] = column(flows, [](const Flow* f) { return f->lost; });
    table["last_mark_port"] = column(flows, [](const Flow* f) { return f->marked_by; });
    table["blame_wire_ps"] = column(blames, [](const Blame& b) { return b.wire; });
    table["blame_queued_ps"] = column(blames, [](const Blame& b) { return b.queued; });
    table["blame_paused_ps"] = column(blames, [](const Blame& b) { return b.paused; });
    table["blame_source_ps"] = column(blames, [](const Blame& b) { return b.source; });
    table["blame_issue_ps"] = column(blames, [](const Blame& b) { return b.issue; });
    table["blame_pacing_ps"] = column(blames, [](const Blame& b) { return b.pacing; });
    table["blame_window_ps"] = column(blames, [](const Blame& b) { return b.window; });
    table["blame_retransmission_ps"] =
        column(blames, [](const Blame& b) { return b.retransmission; });
    return table;
}

template <typename Engine>
nb::dict totals(Engine& engine) {
    nb::dict table = total_columns(engine.totals());
    table["bytes_in_flight"] = engine.in_flight();
    table["stops"] = engine.stops();
    const Standing standing = engine.innocence().total();
    table["paused_bytes"] = standing.paused;
    table["innocent_bytes"] = standing.innocent;
    return table;
}

nb::dict effort(const Core& engine) {
    const Effort effort = engine.effort();
    nb::dict table;
    table["lookahead_ps"] = effort.lookahead;
    table["threads"] = effort.threads;
    table["spans"] = effort.spans;
    table["visits"] = effort.visits;
    table["flow_bytes"] = effort.flow_bytes;
    table["frame_bytes"] = effort.frame_bytes;
    table["port_bytes"] = effort.port_bytes;
    return table;
}

Time ideal_ps(Bytes bytes, std::int64_t descriptors, Bytes mtu, Time issue_ps,
              const std::vector<std::int64_t>& rates_bps, const std::vector<Time>& delays_ps,
              bool recurrence, bool cut_through) {
    std::vector<Hop> hops;
    for (std::size_t i = 0; i < rates_bps.size(); ++i) {
        hops.push_back({rates_bps[i], delays_ps.at(i)});
    }
    const Segment segment(bytes, descriptors, mtu);
    return recurrence ? ideal_by_recurrence(segment, hops, issue_ps, cut_through)
                      : ideal(segment, hops, issue_ps, cut_through);
}

template <typename Engine>
std::vector<std::tuple<Time, int, std::vector<std::uint32_t>>> deadlocks(const Engine& engine) {
    std::vector<std::tuple<Time, int, std::vector<std::uint32_t>>> rows;
    for (const Deadlock& d : engine.deadlocks()) rows.emplace_back(d.time, d.priority, d.ports);
    return rows;
}

template <typename Engine>
nb::class_<Engine> bind_engine(nb::module_& m, const char* name) {
    return nb::class_<Engine>(m, name)
        .def(nb::init<FabricSetting, RouteSetting, DisciplineSetting, TransportSetting,
                      const std::vector<FaultSetting>&, std::uint64_t, Time>(),
             nb::kw_only(), "fabric"_a, "routes"_a, "discipline"_a, "transport"_a, "faults"_a,
             "seed"_a, "tick_ps"_a)
        .def("submit", &submit<Engine>, nb::kw_only(), "flow"_a, "handoff"_a, "source"_a, "destination"_a,
             "bytes"_a, "descriptors"_a, "entropy"_a, "path"_a, "priority"_a, "release_ps"_a)
        .def("advance", &advance<Engine>, "until_ps"_a,
             nb::sig("def advance(self, until_ps: int) -> tuple[int, NDArray[numpy.int64]]"))
        .def("path", &path<Engine>, "flow"_a)
        .def("observe", &observe<Engine>, nb::sig("def observe(self) -> dict[str, NDArray[numpy.generic]]"))
        .def("flow_table", &flow_table<Engine>,
             nb::sig("def flow_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("hop_table", [](Engine& e) { return hop_table(e.hop_waits()); },
             nb::sig("def hop_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("pause_table", [](Engine& e) { return pause_table(pause_totals(e)); },
             nb::sig("def pause_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("stop_table", [](Engine& e) { return stop_table(e.observation()); },
             nb::sig("def stop_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("innocence_table", [](const Engine& e) { return innocence_table(e.innocence()); },
             nb::sig("def innocence_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("occupancy_table", [](Engine& e) { return occupancy_table(e.observation()); },
             nb::sig("def occupancy_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("series_table", [](Engine& e) { return series_table(e.observation(), e.ticks()); },
             nb::sig("def series_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("port_table", &port_table<Engine>,
             nb::sig("def port_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("deadlocks", &deadlocks<Engine>)
        .def("totals", &totals<Engine>, nb::sig("def totals(self) -> dict[str, int]"));
}

}  // namespace

}  // namespace kvfabric

NB_MODULE(_engine, m) {
    using namespace kvfabric;
    m.attr("DATA_OVERHEAD") = data_overhead;
    m.attr("ACK_WIRE") = ack_wire;
    m.attr("CNP_WIRE") = cnp_wire;
    m.attr("PAUSE_WIRE") = pause_wire;
    m.attr("STORED_LESS") = preamble_and_gap;
    m.attr("CREDIT_BLOCK") = credit_block;
    m.attr("CREDIT_WIRE") = credit_wire;

    nb::class_<FabricSetting>(m, "FabricSetting");
    nb::class_<RouteSetting>(m, "RouteSetting");
    nb::class_<DisciplineSetting>(m, "DisciplineSetting");
    nb::class_<TransportSetting>(m, "TransportSetting");
    nb::class_<DcqcnSetting>(m, "DcqcnSetting");
    nb::class_<FaultSetting>(m, "FaultSetting");
    nb::enum_<FaultKind>(m, "FaultKind", nb::is_arithmetic())
        .value("down", FaultKind::down)
        .value("degraded", FaultKind::degraded)
        .value("lossy", FaultKind::lossy)
        .value("storm", FaultKind::storm);
    m.def("fabric_setting", &fabric_setting, nb::kw_only(), "first"_a, "node"_a, "reverse"_a,
          "rate_bps"_a, "delay_ps"_a, "is_switch"_a, "buffer_bytes"_a, "latency_ps"_a);
    m.def("route_setting", &route_setting, nb::kw_only(), "groups"_a, "group"_a, "first"_a,
          "ports"_a, "host_first"_a, "host_ports"_a);
    m.def("discipline_setting", &discipline_setting, nb::kw_only(), "lossless"_a, "strict"_a,
          "mark_at_dequeue"_a, "cut_through"_a,
          "watch_detect_ps"_a, "watch_restore_ps"_a, "deadlock_ps"_a, "weight"_a, "alpha_q16"_a, "egress_alpha_q16"_a, "reserve_bytes"_a,
          "xon_offset_bytes"_a, "headroom_bytes"_a, "kmin_bytes"_a, "kmax_bytes"_a, "pmax_q32"_a,
          "response_ps"_a);
    m.def("dcqcn_setting", &dcqcn_setting, nb::kw_only(), "alpha_period_ps"_a, "cut_period_ps"_a,
          "increase_period_ps"_a, "increase_bytes"_a, "keep_q10"_a, "initial_q10"_a, "gd_shift"_a,
          "least_percent"_a, "recovery"_a, "clamp"_a, "clamp_after_timer"_a, "least_bps"_a,
          "additive_bps"_a, "hyper_bps"_a, "cut_grid"_a = false, "retimed"_a = true);
    m.def("transport_setting", &transport_setting, nb::kw_only(), "mtu"_a, "ack_every"_a,
          "window"_a, "timeout_ps"_a, "issue_ps"_a, "send_queue"_a, "one_issuer"_a, "drain_bps"_a, "receive_bytes"_a, "ack_message"_a, "cnp_interval_ps"_a, "credit_bytes"_a,
          "cnp_priority"_a, "ack_priority"_a,
          "controlled"_a, "dcqcn"_a, "least_bps"_a, "additive_bps"_a, "hyper_bps"_a);

    m.def("fault_settings", &fault_settings, nb::kw_only(), "kind"_a, "port"_a, "from_ps"_a,
          "until_ps"_a, "value"_a);

    bind_decisions(m);

    bind_engine<Reference>(m, "Reference");
    bind_engine<Core>(m, "Core")
        .def("use_threads", &Core::use_threads, "threads"_a)
        .def("effort", &effort, nb::sig("def effort(self) -> dict[str, int]"));

    m.def("ideal_ps", &ideal_ps, nb::kw_only(), "bytes"_a, "descriptors"_a, "mtu"_a, "issue_ps"_a,
          "rates_bps"_a, "delays_ps"_a, "recurrence"_a, "cut_through"_a = false);
}
