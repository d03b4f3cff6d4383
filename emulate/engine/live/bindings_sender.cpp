// The sender as a Python function: frames as one block of bytes, lateness out as an array.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <vector>

#include "../bindings_table.hpp"
#include "bindings_live.hpp"
#include "sender.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvfabric {

namespace {

using Column = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

auto send_frames(int socket, const nb::bytes& frames, const Column& length, const Column& at_ns) {
    if (length.shape(0) != at_ns.shape(0)) {
        throw std::invalid_argument("length and at_ns: give each frame one of both");
    }
    std::vector<DueFrame> due;
    due.reserve(length.shape(0));
    const auto* data = reinterpret_cast<const std::uint8_t*>(frames.c_str());
    std::size_t used = 0;
    for (std::size_t i = 0; i < length.shape(0); ++i) {
        const std::int64_t bytes = length(i);
        if (bytes < 1 || static_cast<std::size_t>(bytes) > frames.size() - used) {
            throw std::invalid_argument("length: must be above 0, in all those of the frames");
        }
        if (i > 0 && at_ns(i) < at_ns(i - 1)) {
            throw std::invalid_argument("at_ns: must never decrease");
        }
        due.push_back({data + used, static_cast<std::size_t>(bytes), at_ns(i)});
        used += static_cast<std::size_t>(bytes);
    }
    std::vector<Nanoseconds> late;
    {
        const nb::gil_scoped_release release;
        late = send_on_time(socket, due);
    }
    return array_of(std::move(late));
}

}  // namespace

void bind_sender(nb::module_& m) {
    m.def("send_frames", &send_frames, nb::kw_only(), "socket"_a, "frames"_a, "length"_a, "at_ns"_a,
          nb::sig("def send_frames(*, socket: int, frames: bytes, length: NDArray[numpy.int64], "
                  "at_ns: NDArray[numpy.int64]) -> NDArray[numpy.int64]"));
}

}  // namespace kvfabric
