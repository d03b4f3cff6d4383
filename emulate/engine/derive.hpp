// What each switch and each port gets of the settings.
#pragma once

#include "buffer.hpp"
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

}  // namespace kvfabric
