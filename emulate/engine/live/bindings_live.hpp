// What is bound where, of the module emulate._live.
#pragma once

#include <nanobind/nanobind.h>

#include "plane.hpp"

namespace kvfabric {

void bind_plane(nanobind::module_& m);
void bind_station(nanobind::module_& m);
void bind_codec(nanobind::module_& m);
void bind_sender(nanobind::module_& m);

// Tables of a plane.
nanobind::dict plane_flows(const Plane& plane);
nanobind::dict plane_totals(const Plane& plane);

}  // namespace kvfabric
