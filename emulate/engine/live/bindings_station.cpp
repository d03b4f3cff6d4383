// The two processes of a run as Python classes: all its switches, or the NICs of all its hosts.
#include <arpa/inet.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sched.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <tuple>

#include "../bindings_port.hpp"
#include "bindings_live.hpp"
#include "station.hpp"

using namespace nanobind::literals;

namespace kvfabric {

namespace {

// Port of the fabric, file of the namespace, interface, MAC address; the last three are empty of a
// wire in memory.
using PortRow = std::tuple<std::uint32_t, std::string, std::string, std::string>;

// Node of the fabric, IPv4 address, MAC address.
using HostRow = std::tuple<std::int32_t, std::string, std::string>;

std::uint64_t mac_address(const std::string& text) {
    std::array<unsigned, 6> part{};
    int read = 0;
    const int count = std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &part[0], &part[1],
                                  &part[2], &part[3], &part[4], &part[5], &read);
    if (count != 6 || static_cast<std::size_t>(read) != text.size()) {
        throw std::invalid_argument("MAC address " + text + ": write it as 02:00:00:00:00:01");
    }
    std::uint64_t address = 0;
    for (const unsigned each : part) address = address << 8 | each;
    return address;
}

std::uint32_t ip_address(const std::string& text) {
    in_addr address{};
    if (inet_pton(AF_INET, text.c_str(), &address) != 1) {
        throw std::invalid_argument("IPv4 address " + text + ": write it as 10.0.0.1");
    }
    return ntohl(address.s_addr);
}

PlaneSetting plane_setting(const FabricSetting& fabric, bool switches,
                           const std::vector<PortRow>& ports, const std::vector<HostRow>& hosts,
                           Bytes mtu) {
    PlaneSetting setting;
    for (const std::uint8_t is_switch : fabric.is_switch) {
        setting.owned.push_back((is_switch != 0) == switches ? 1 : 0);
    }
    setting.address.assign(fabric.is_switch.size(), 0);
    setting.mac.assign(fabric.node.size(), 0);
    for (const auto& [node, ip, mac] : hosts) {
        const auto place = static_cast<std::size_t>(node);
        setting.address.at(place) = ip_address(ip);
        setting.mac.at(static_cast<std::size_t>(fabric.first.at(place))) = mac_address(mac);
    }
    for (const auto& [port, space, interface, mac] : ports) {
        if (!interface.empty()) setting.mac.at(port) = mac_address(mac);
    }
    setting.frame_bytes = mtu + static_cast<Bytes>(ethernet_bytes);
    return setting;
}

StationSetting station_setting(bool switches, const std::vector<PortRow>& ports,
                               std::int64_t dilation, Bytes mtu, const std::string& state) {
    StationSetting setting;
    for (const auto& [port, space, interface, mac] : ports) {
        if (!interface.empty()) setting.sockets.push_back({port, space, interface, !switches});
    }
    setting.dilation = dilation;
    setting.mtu = static_cast<std::size_t>(mtu);
    setting.state = state;
    return setting;
}

struct Process {
    Process(bool switches, const FabricSetting& fabric, const RouteSetting& routes,
            const DisciplineSetting& discipline, const TransportSetting& transport,
            const std::vector<FaultSetting>& faults, const std::vector<PortRow>& ports,
            const std::vector<HostRow>& hosts, std::uint64_t seed, std::int64_t dilation,
            Time tick, Bytes mtu, const std::string& state)
        : plane(fabric, routes, discipline, transport, faults, seed, tick,
                plane_setting(fabric, switches, ports, hosts, mtu)),
          station(plane, station_setting(switches, ports, dilation, mtu, state)) {}

    Plane plane;
    Station station;
};

struct Switch : Process {
    using Process::Process;
};
struct Agent : Process {
    using Process::Process;
};

nb::dict own_ports(const Plane& plane) {
    std::vector<std::int64_t> numbers;
    std::vector<const Port*> ports;
    for (std::size_t p = 0; p < plane.ports().size(); ++p) {
        if (!plane.owns(plane.ports()[p].node)) continue;
        numbers.push_back(static_cast<std::int64_t>(p));
        ports.push_back(&plane.ports()[p]);
    }
    nb::dict table = port_columns(ports, plane.now());
    table["port"] = array_of(std::move(numbers));
    return table;
}

nb::dict late_table(const Station& station) {
    struct Row {
        std::int64_t rate;
        Nanoseconds from;
        Nanoseconds to;
        std::int64_t frames;
    };
    std::vector<Row> rows;
    for (const auto& [rate, late] : station.lateness()) {
        for (std::size_t place = 0; place < late.counts().size(); ++place) {
            if (late.counts()[place] == 0) continue;
            rows.push_back({rate, Lateness::least(place), Lateness::least(place + 1),
                            late.counts()[place]});
        }
    }
    nb::dict table;
    table["rate_bps"] = column(rows, [](const Row& r) { return r.rate; });
    table["from_ns"] = column(rows, [](const Row& r) { return r.from; });
    table["to_ns"] = column(rows, [](const Row& r) { return r.to; });
    table["frames"] = column(rows, [](const Row& r) { return r.frames; });
    return table;
}

nb::dict stall_spans(const Station& station) {
    const std::vector<Stall> rows = station.stalls().spans();
    nb::dict table;
    table["from_ns"] = column(rows, [](const Stall& s) { return s.from; });
    table["until_ns"] = column(rows, [](const Stall& s) { return s.until; });
    table["ran_ns"] = column(rows, [](const Stall& s) { return s.ran; });
    return table;
}

nb::dict tables(Process& process) {
    Plane& plane = process.plane;
    nb::dict all;
    all["late"] = late_table(process.station);
    all["stalls"] = stall_spans(process.station);
    all["ports"] = own_ports(plane);
    all["pauses"] = pause_table(pause_totals(plane));
    all["stops"] = stop_table(plane.observation());
    all["flows"] = plane_flows(plane);
    return all;
}

nb::dict counters(Process& process) {
    Station& station = process.station;
    const Plane& plane = process.plane;
    nb::dict all = plane_totals(plane);
    all["frames_in"] = station.frames_in();
    all["frames_out"] = station.frames_out();
    all["longest_stall_ns"] = station.stalls().longest();
    all["socket_drops"] = station.socket_drops();
    all["oversized"] = station.oversized();
    all["late_submissions"] = plane.late_flows();
    all["latest_submission_ps"] = plane.latest();
    all["realtime"] = sched_getscheduler(0) == SCHED_FIFO ? 1 : 0;
    return all;
}

template <typename Kind>
void bind_process(nb::module_& m, const char* name, bool switches) {
    nb::class_<Kind>(m, name)
        .def(
            "__init__",
            [switches](Kind* self, const FabricSetting& fabric, const RouteSetting& routes,
                       const DisciplineSetting& discipline, const TransportSetting& transport,
                       const std::vector<FaultSetting>& faults, const std::vector<PortRow>& ports,
                       const std::vector<HostRow>& hosts, std::uint64_t seed,
                       std::int64_t dilation, Time tick_ps, Bytes mtu_bytes,
                       const std::string& state) {
                new (self) Kind(switches, fabric, routes, discipline, transport, faults, ports,
                                hosts, seed, dilation, tick_ps, mtu_bytes, state);
            },
            nb::kw_only(), "fabric"_a, "routes"_a, "discipline"_a, "transport"_a,
            "faults"_a = std::vector<FaultSetting>{}, "ports"_a, "hosts"_a, "seed"_a, "dilation"_a,
            "tick_ps"_a, "mtu_bytes"_a, "state"_a = "")
        .def(
            "run",
            [](Kind& self, std::int64_t start_ns, int channel) {
                const nb::gil_scoped_release release;
                self.station.run(start_ns, channel);
            },
            "start_ns"_a, "channel"_a)
        .def("tables", [](Kind& self) { return tables(self); },
             nb::sig("def tables(self) -> dict[str, dict[str, NDArray[numpy.generic]]]"))
        .def("counters", [](Kind& self) { return counters(self); },
             nb::sig("def counters(self) -> dict[str, int]"));
}

}  // namespace

void bind_station(nb::module_& m) {
    bind_process<Switch>(m, "Switch", true);
    bind_process<Agent>(m, "Agent", false);
}

}  // namespace kvfabric
