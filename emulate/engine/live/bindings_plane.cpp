// The plane as a Python class: settings and flows in as arrays, tables out as arrays.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "../bindings_array.hpp"
#include "../bindings_flow.hpp"
#include "../bindings_port.hpp"
#include "bindings_live.hpp"
#include "plane.hpp"

using namespace nanobind::literals;

namespace kvfabric {

nb::dict plane_flows(const Plane& plane) {
    std::vector<const Flow*> flows;
    for (const Flow& flow : plane.flows()) {
        if (flow.submitted) flows.push_back(&flow);
    }
    return flow_columns(plane, flows);
}

nb::dict plane_totals(const Plane& plane) {
    const Strays& s = plane.strays();
    nb::dict table = total_columns(plane.totals());
    table["stops"] = plane.stops();
    table["unrouted"] = s.unrouted;
    table["damaged"] = s.damaged;
    table["unknown"] = s.unknown;
    table["foreign"] = s.foreign;
    table["late_flows"] = plane.late_flows();
    table["latest_flow_ps"] = plane.latest();
    return table;
}

namespace {

nb::tuple advance(Plane& plane, Time until) {
    const Time now = plane.advance(until);
    std::vector<std::int64_t> done(plane.completed().begin(), plane.completed().end());
    std::sort(done.begin(), done.end());
    return nb::make_tuple(now, array_of(std::move(done)));
}

// A frame from outside, at the present time.
void inject(Plane& plane, std::uint32_t port, const nb::bytes& frame) {
    FrameStore& store = plane.store();
    if (frame.size() > store.capacity()) throw std::length_error("frame: above frame_bytes");
    if (port >= plane.ports().size() || !plane.owns(plane.ports()[port].node)) {
        throw std::invalid_argument("port: not of an owned node");
    }
    const PacketId id = store.take();
    std::memcpy(store.bytes(id), frame.c_str(), frame.size());
    store.set_length(id, frame.size());
    plane.take_in(port, id);
}

}  // namespace

void bind_plane(nb::module_& m) {
    nb::class_<Plane>(m, "Plane")
        .def(
            "__init__",
            [](Plane* self, const FabricSetting& fabric, const RouteSetting& routes,
               const DisciplineSetting& discipline, const TransportSetting& transport,
               const std::vector<FaultSetting>& faults, std::uint64_t seed, Time tick_ps,
               const In<std::uint8_t>& owned, const In<std::uint32_t>& address,
               const In<std::uint64_t>& mac, Bytes frame_bytes) {
                new (self) Plane(fabric, routes, discipline, transport, faults, seed, tick_ps,
                                 {values(owned), values(address), values(mac), frame_bytes});
            },
            nb::kw_only(), "fabric"_a, "routes"_a, "discipline"_a, "transport"_a, "faults"_a,
            "seed"_a, "tick_ps"_a, "owned"_a, "address"_a, "mac"_a, "frame_bytes"_a = 9600)
        .def("submit", &submit<Plane>, nb::kw_only(), "flow"_a, "handoff"_a, "source"_a,
             "destination"_a, "bytes"_a, "descriptors"_a, "entropy"_a, "path"_a, "priority"_a,
             "release_ps"_a)
        .def("advance", &advance, "until_ps"_a,
             nb::sig("def advance(self, until_ps: int) -> tuple[int, NDArray[numpy.int64]]"))
        .def("inject", &inject, "port"_a, "frame"_a)
        .def("path", &Plane::path, "flow"_a)
        .def("source_port", &Plane::source_port, "flow"_a)
        .def_prop_ro("now_ps", &Plane::now)
        .def_prop_ro("next_ps", &Plane::next)
        .def_prop_ro("unfinished", &Plane::unfinished)
        .def("observe", &observe<Plane>,
             nb::sig("def observe(self) -> dict[str, NDArray[numpy.generic]]"))
        .def("flow_table", &plane_flows,
             nb::sig("def flow_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("port_table", &port_table<Plane>,
             nb::sig("def port_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("pause_table", [](const Plane& p) { return pause_table(pause_totals(p)); },
             nb::sig("def pause_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("stop_table", [](Plane& p) { return stop_table(p.observation()); },
             nb::sig("def stop_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("occupancy_table", [](Plane& p) { return occupancy_table(p.observation()); },
             nb::sig("def occupancy_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("series_table", [](Plane& p) { return series_table(p.observation(), p.ticks()); },
             nb::sig("def series_table(self) -> dict[str, NDArray[numpy.int64]]"))
        .def("totals", &plane_totals, nb::sig("def totals(self) -> dict[str, int]"));
}

}  // namespace kvfabric
