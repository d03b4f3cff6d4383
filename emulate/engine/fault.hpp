// What befalls one direction of a link, and when.
//
// All of it is known from the start, so that the fate of a frame is known when it starts. A frame
// is on the wire from its start to its last bit in, and is lost when that span meets a span in
// which the link is down; in a lossy span it is lost when a draw falls below the share. A degraded
// span slows the frames that start in it. The draw is the driver's.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "time.hpp"

namespace kvfabric {

enum class FaultKind : std::uint8_t { down, degraded, lossy, storm };

struct FaultSetting {
    FaultKind kind = FaultKind::down;
    std::uint32_t port = 0;   // the sending end
    Time from = 0;
    Time until = never;       // exclusive
    std::int64_t value = 0;   // degraded: bit/s; lossy: share lost, 32 fractional bits
};

class LinkFault {
public:
    // Spans of one kind must be added in order of time and must not overlap.
    void add(const FaultSetting& fault) {
        const std::int64_t value = fault.kind == FaultKind::degraded
                                       ? ps_per_byte_q16(fault.value)
                                       : fault.value;
        spans_[static_cast<std::size_t>(fault.kind)].push_back({fault.from, fault.until, value});
    }

    // The link is down at some moment of [start, arrival).
    bool down(Time start, Time arrival) const {
        return meeting(FaultKind::down, start, arrival) != nullptr;
    }

    // Of 2^32: how many draws lose a frame that is on the wire in [start, arrival).
    std::uint64_t loss_q32(Time start, Time arrival) const {
        const Span* span = meeting(FaultKind::lossy, start, arrival);
        return span == nullptr ? 0 : static_cast<std::uint64_t>(span->value);
    }

    // Picoseconds a byte, with 16 fractional bits, of a frame that starts now.
    std::int64_t per_byte_q16(Time now, std::int64_t nominal) const {
        const Span* span = meeting(FaultKind::degraded, now, now + 1);
        return span == nullptr ? nominal : span->value;
    }

    // The port sends XOFF now whatever its buffer says.
    bool storming(Time now) const { return meeting(FaultKind::storm, now, now + 1) != nullptr; }

    // When a storming port has to tell its peer again: at half of its pause time, and at the end.
    Time storm_again(Time now, Time refresh) const {
        const Span* span = meeting(FaultKind::storm, now, now + 1);
        return span == nullptr ? never : std::min(span->until, now + refresh);
    }

    // The first instant from start on at which something that needs so long on the wire is not lost
    // to a link that is down.
    Time up(Time start, Time flight) const {
        while (const Span* span = meeting(FaultKind::down, start, start + flight)) {
            if (span->until == never) return never;
            start = span->until;
        }
        return start;
    }

private:
    struct Span {
        Time from;
        Time until;
        std::int64_t value;
    };

    // The first span that meets [start, end).
    const Span* meeting(FaultKind kind, Time start, Time end) const {
        const std::vector<Span>& spans = spans_[static_cast<std::size_t>(kind)];
        const auto found = std::upper_bound(
            spans.begin(), spans.end(), start,
            [](Time time, const Span& span) { return time < span.until; });
        return found == spans.end() || found->from >= end ? nullptr : &*found;
    }

    std::array<std::vector<Span>, 4> spans_;
};

}  // namespace kvfabric
