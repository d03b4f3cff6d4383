// The live drivers' Python face: module emulate._live.
#include <nanobind/nanobind.h>

#include "bindings_live.hpp"

NB_MODULE(_live, m) {
    // The settings are types of the packet engine's module, made by its functions.
    const nanobind::module_ engine = nanobind::module_::import_("emulate._engine");
    for (const char* name : {"fabric_setting", "route_setting", "discipline_setting",
                             "dcqcn_setting", "transport_setting", "fault_settings"}) {
        m.attr(name) = engine.attr(name);
    }
    kvfabric::bind_plane(m);
    kvfabric::bind_station(m);
    kvfabric::bind_codec(m);
    kvfabric::bind_sender(m);
}
