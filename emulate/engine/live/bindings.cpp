// The live drivers' Python face: module emulate._live.
#include <nanobind/nanobind.h>

#include <exception>
#include <system_error>

#include "bindings_live.hpp"

namespace {

// What the operating system refuses is an OSError, with its number.
void translate(const std::exception_ptr& error, void*) {
    try {
        std::rethrow_exception(error);
    } catch (const std::system_error& refused) {
        const nanobind::object what = nanobind::make_tuple(refused.code().value(), refused.what());
        PyErr_SetObject(PyExc_OSError, what.ptr());
    }
}

}  // namespace

NB_MODULE(_live, m) {
    nanobind::register_exception_translator(translate);
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
