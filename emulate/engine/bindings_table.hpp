// Tables of the engine as named columns.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <vector>

#include "blame.hpp"
#include "observe.hpp"

namespace kvfabric {

namespace nb = nanobind;

// A numpy array that owns a copy of the values.
template <typename T>
nb::object array_of(std::vector<T> from) {
    auto* kept = new std::vector<T>(std::move(from));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// One column of a table: a number of each item that is kept.
template <typename Items, typename Number>
nb::object column(const Items& items, Number number) {
    std::vector<std::int64_t> out;
    out.reserve(items.size());
    for (const auto& item : items) out.push_back(static_cast<std::int64_t>(number(item)));
    return array_of(std::move(out));
}

// What one priority of one port was stopped by its peer.
struct PauseTotal {
    std::size_t port;
    std::size_t priority;
    Time spent;
    std::int64_t times;
    Time longest;
};

nb::dict hop_table(const std::vector<HopWait>& waits);
nb::dict pause_table(const std::vector<PauseTotal>& rows);
nb::dict stop_table(const Observation& observation);
nb::dict innocence_table(const Innocence& innocence);
nb::dict occupancy_table(const Observation& observation);

// The series of all queues on the points that so many ticks ask for; points without bytes are left
// out.
nb::dict series_table(const Observation& observation, std::int64_t ticks);

}  // namespace kvfabric
