// The part of the Python face that shows the decision classes.
#pragma once

#include <nanobind/nanobind.h>

namespace kvfabric {

void bind_decisions(nanobind::module_& m);

}  // namespace kvfabric
