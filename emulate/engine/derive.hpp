// What each switch, each port and each flow gets of the settings.
#pragma once

#include "buffer.hpp"
#include "ideal.hpp"
#include "setting.hpp"

namespace kvfabric {

// The shared buffer of one switch.
inline BufferSetting buffer_setting(const FabricSetting& fabric,
                                    const DisciplineSetting& discipline, std::size_t node) {
    BufferSetting setting;
    setting.total = fabric.buffer[node];
    setting.reserve = discipline.reserve;
    setting.xon_offset = discipline.xon_offset;
    setting.alpha_q16 = discipline.alpha_q16;
    setting.egress_q16 = discipline.egress_alpha_q16;
    setting.lossless = discipline.lossless;
    setting.headroom.assign(discipline.headroom.begin() + fabric.first[node],
                            discipline.headroom.begin() + fabric.first[node + 1]);
    return setting;
}

// DCQCN at each port's rate.
inline std::vector<DcqcnSetting> controls(const TransportSetting& transport) {
    std::vector<DcqcnSetting> all;
    for (std::size_t port = 0; port < transport.least_bps.size(); ++port) {
        DcqcnSetting setting = transport.dcqcn;
        setting.least_bps = transport.least_bps[port];
        setting.additive_bps = transport.additive_bps[port];
        setting.hyper_bps = transport.hyper_bps[port];
        all.push_back(setting);
    }
    return all;
}

// The time of a flow alone on its path, up to the end of its drain.
inline Time ideal_time(const FabricSetting& fabric, const DisciplineSetting& discipline,
                       const TransportSetting& transport, const Segment& segment,
                       std::span<const std::uint32_t> path) {
    std::vector<Hop> hops;
    for (const std::uint32_t port : path) {
        const auto node = static_cast<std::size_t>(fabric.node[port]);
        hops.push_back({fabric.rate_bps[port], fabric.delay[port] + fabric.latency[node]});
    }
    if (transport.drain_bps > 0) hops.push_back({transport.drain_bps, 0});
    return ideal(segment, hops, transport.issue, discipline.cut_through);
}

}  // namespace kvfabric
