// Single frames as Python bytes, so that other implementations of the formats can be compared.
#include <nanobind/stl/array.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "bindings_live.hpp"
#include "codec.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvfabric {

namespace {

nb::bytes bytes_of(const std::vector<std::uint8_t>& frame, std::size_t length) {
    return nb::bytes(frame.data(), length);
}

const std::uint8_t* data(const nb::bytes& frame) {
    return reinterpret_cast<const std::uint8_t*>(frame.c_str());
}

nb::bytes roce_frame(std::uint64_t source_mac, std::uint64_t destination_mac,
                     std::uint32_t source_ip, std::uint32_t destination_ip,
                     std::uint16_t source_port, const nb::str& kind, std::uint8_t priority,
                     std::uint32_t flow, std::uint32_t sequence, std::uint16_t attempt,
                     Bytes payload, bool first, bool last, bool asks, std::uint64_t offset,
                     Bytes message, std::uint32_t messages) {
    const std::string_view name = kind.c_str();
    constexpr std::array<std::string_view, 4> kinds{"data", "ack", "nak", "cnp"};
    const auto found = std::find(kinds.begin(), kinds.end(), name);
    if (found == kinds.end()) throw std::invalid_argument("kind: write data, ack, nak or cnp");
    RoceFrame frame;
    frame.kind = static_cast<FrameKind>(found - kinds.begin());
    frame.priority = priority;
    frame.attempt = attempt;
    frame.flow = flow;
    frame.sequence = sequence;
    frame.messages = messages;
    frame.payload = payload;
    frame.first = first;
    frame.last = last;
    frame.asks = asks;
    frame.offset = offset;
    frame.message = message;
    std::vector<std::uint8_t> out(data_length(payload) + 64);
    const Ends ends{source_mac, destination_mac, source_ip, destination_ip, source_port};
    return bytes_of(out, build(ends, frame, out.data()));
}

nb::bytes pause_frame(std::uint64_t source_mac, std::uint8_t told,
                      const std::array<std::uint16_t, 8>& quanta) {
    std::vector<std::uint8_t> out(least_length);
    return bytes_of(out, build(source_mac, {told, quanta}, out.data()));
}

nb::dict headers(const nb::bytes& frame) {
    const Headers h = parse(data(frame), frame.size());
    constexpr std::array<const char*, 5> whats{"roce", "pause", "ip", "arp", "other"};
    constexpr std::array<const char*, 4> kinds{"data", "ack", "nak", "cnp"};
    nb::dict out;
    out["what"] = whats[static_cast<std::size_t>(h.what)];
    out["kind"] = kinds[static_cast<std::size_t>(h.kind)];
    out["priority"] = h.priority;
    out["ecn"] = h.ecn;
    out["attempt"] = h.attempt;
    out["source_ip"] = h.source_ip;
    out["destination_ip"] = h.destination_ip;
    out["entropy"] = h.entropy;
    out["flow"] = h.flow;
    out["sequence"] = h.sequence;
    out["messages"] = h.messages;
    out["asks"] = h.asks;
    out["payload"] = h.payload;
    out["wire"] = h.wire;
    out["told"] = h.pause.told;
    out["quanta"] = nb::cast(h.pause.quanta);
    return out;
}

nb::bytes congested(const nb::bytes& frame) {
    std::vector<std::uint8_t> out(data(frame), data(frame) + frame.size());
    if (parse(out.data(), out.size()).ecn != 0) mark_congestion(out.data());
    return bytes_of(out, out.size());
}

}  // namespace

void bind_codec(nb::module_& m) {
    m.def("roce_frame", &roce_frame, nb::kw_only(), "source_mac"_a, "destination_mac"_a,
          "source_ip"_a, "destination_ip"_a, "source_port"_a, "kind"_a, "priority"_a, "flow"_a,
          "sequence"_a, "attempt"_a = 0, "payload"_a = 0, "first"_a = false, "last"_a = false,
          "asks"_a = false, "offset"_a = 0, "message"_a = 0, "messages"_a = 0);
    m.def("pause_frame", &pause_frame, nb::kw_only(), "source_mac"_a, "told"_a, "quanta"_a);
    m.def("headers", &headers, "frame"_a,
          nb::sig("def headers(frame: bytes) -> dict[str, object]"));
    m.def("intact", [](const nb::bytes& f) {
        return headers(f)["what"].equal(nb::str("roce")) && intact(data(f), f.size());
    }, "frame"_a);
    m.def("congested", &congested, "frame"_a);
}

}  // namespace kvfabric
