// Arrays from Python, and the settings that every engine takes.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <vector>

#include "setting.hpp"

namespace kvfabric {

namespace nb = nanobind;

template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
std::vector<T> values(const In<T>& array) {
    return {array.data(), array.data() + array.size()};
}

template <typename Engine>
std::int64_t submit(Engine& engine, const In<std::int64_t>& flow,
                    const In<std::int64_t>& handoff, const In<std::int32_t>& source,
                    const In<std::int32_t>& destination, const In<std::int64_t>& bytes,
                    const In<std::int64_t>& descriptors, const In<std::uint32_t>& entropy,
                    const In<std::int32_t>& path, const In<std::uint8_t>& priority,
                    const In<std::int64_t>& release_ps) {
    std::vector<FlowSetting> flows;
    flows.reserve(flow.size());
    for (std::size_t i = 0; i < flow.size(); ++i) {
        flows.push_back({flow(i), handoff(i), source(i), destination(i), bytes(i), descriptors(i),
                         entropy(i), path(i), priority(i), release_ps(i)});
    }
    return engine.submit(flows);
}

}  // namespace kvfabric
