// When one flow may start its next packet at its rate.
//
// A packet starts no earlier than its predecessor's start plus that one's wire time at the present
// rate: a flow that waits is timed again when its rate changes, as the HPCC simulator does it for
// HPCC. Kept at the old rate, as it does it for DCQCN and a setting has it, one packet at a floor of
// 1 Mb/s holds its flow for 33 ms. A flow at the line's rate is not paced; with its time kept it only
// joins its line when its packet has left, and never a picosecond later.
#pragma once

#include "dcqcn.hpp"

namespace kvfabric {

class Pacer {
public:
    // The instant to ask again, at most now when the next packet may start: an increase of the
    // rate can only make it earlier, a cut is seen when the instant comes.
    Time ask(Dcqcn& rate, const DcqcnSetting& setting, Time now) {
        if (wire_ == 0) return now;
        rate.advance(setting, now);
        if (!setting.retimed) return std::max(next_, now);
        if (!rate.limited()) return now;
        if (paced_bps_ != rate.rate()) {
            paced_bps_ = rate.rate();
            next_ = start_ + gap(wire_, paced_bps_);
        }
        return next_ <= now ? now : std::min(next_, rate.next_increase());
    }

    // A packet of so many wire bytes has started.
    void sent(Dcqcn& rate, const DcqcnSetting& setting, Time now, Bytes wire) {
        start_ = now;
        wire_ = wire;
        paced_bps_ = 0;
        rate.sent(setting, now, wire);
        if (!setting.retimed) next_ = now + (rate.limited() ? gap(wire, rate.rate())
                                                            : Serialiser(rate.rate()).duration(wire));
    }

private:
    // Whole picoseconds between the starts of two frames at a rate, rounded up.
    static Time gap(Bytes wire, std::int64_t rate_bps) {
        constexpr std::int64_t bit_ps = 8'000'000'000'000LL;
        return (wire * bit_ps + rate_bps - 1) / rate_bps;
    }

    Time start_ = 0;  // of the last packet
    Bytes wire_ = 0;  // of the last packet, 0 before the first
    Time next_ = 0;   // at paced_bps_
    std::int64_t paced_bps_ = 0;
};

}  // namespace kvfabric
