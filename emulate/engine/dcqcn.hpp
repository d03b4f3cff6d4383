// The reaction point of DCQCN: one flow's sending rate.
//
// Zhu et al., Congestion control for large-scale RDMA deployments, SIGCOMM 2015, with the named
// parameters of ConnectX firmware (NVIDIA DOCA, DCQCN CC parameters). Rates are bit/s; alpha is a
// fraction with 20 bits. Nothing runs before the first CNP, when the rate is the line's. Timers
// that have expired are replayed in order before anything else of the same instant: alpha, then the
// increase, then a pending cut. A CNP cuts at once if the last cut is old enough, else it is
// remembered and cuts when it is; or all cuts lie on a grid that begins one period after the first
// CNP, as in the simulators that check once a period. Increases after a cut recover to the target
// until one of the two counters has counted F; then the target grows, by the additive step until both
// have passed F, then by the hyper step. Without a byte counter the timer's count alone decides, as in the HPCC simulator.
#pragma once

#include <algorithm>

#include "time.hpp"

namespace kvfabric {

struct DcqcnSetting {
    Time alpha_period = 0;
    Time cut_period = 0;
    Time increase_period = 0;
    Bytes increase_bytes = 0;        // 0: no byte counter
    std::int64_t keep_q10 = 0;       // 1 - g, 10 fractional bits
    std::int64_t initial_q10 = 0;    // alpha at the first CNP, 10 fractional bits
    int gd_shift = 1;                // cut by alpha / 2^shift
    std::int64_t least_percent = 0;  // a cut leaves at least this much of the rate
    int recovery = 1;                // F
    bool clamp = false;              // every cut sets the target to the present rate
    bool clamp_after_timer = false;  // so does a cut after an increase by timer
    bool cut_grid = false;           // cuts lie whole periods after the first CNP
    bool retimed = true;             // a waiting packet follows the present rate
    std::int64_t least_bps = 0;
    std::int64_t additive_bps = 0;
    std::int64_t hyper_bps = 0;
};

class Dcqcn {
public:
    Dcqcn() = default;
    explicit Dcqcn(std::int64_t line_bps) : line_(line_bps), current_(line_bps), target_(line_bps) {}

    std::int64_t rate() const { return current_; }
    std::int64_t target() const { return target_; }
    std::int64_t alpha_q20() const { return alpha_; }
    bool limited() const { return current_ < line_; }

    // When the rate may grow without anything being sent.
    Time next_increase() const { return active_ && limited() ? increase_at_ : never; }

    // Replays the timers that have expired by now.
    void advance(const DcqcnSetting& s, Time now) {
        if (due_ <= now) [[unlikely]] replay(s, now);
    }

    // The rate at an instant not before any other that it has been asked for.
    std::int64_t rate_at(const DcqcnSetting& s, Time now) const {
        Dcqcn then = *this;
        then.advance(s, now);
        return then.current_;
    }

    // A CNP has arrived.
    void cnp(const DcqcnSetting& s, Time now) {
        advance(s, now);
        const bool first = !active_;
        if (first) {
            active_ = true;
            alpha_ = s.initial_q10 << 10;
            alpha_at_ = now + s.alpha_period;
            cut_at_ = s.cut_grid ? now + s.cut_period : now;
        }
        // Where the first CNP begins the grid, alpha's first update does not count it again.
        cnp_seen_ = !(first && s.cut_grid);
        if (s.cut_grid) {
            skip(cut_at_, s.cut_period, now);
            pending_ = true;
        } else if (now >= cut_at_) {
            cut(s, now);
        } else {
            pending_ = true;
        }
        due_ = next_timer();
    }

    // A frame of so many wire bytes has started.
    void sent(const DcqcnSetting& s, Time now, Bytes wire) {
        if (!active_ || s.increase_bytes == 0) return;
        advance(s, now);
        sent_ += wire;
        while (sent_ >= s.increase_bytes) {
            sent_ -= s.increase_bytes;
            increase(s, byte_stage_, timer_stage_);
            ++byte_stage_;
        }
    }

private:
    // Nothing is left for a timer to change.
    bool quiet() const {
        return alpha_ == 0 && !cnp_seen_ && !pending_ && current_ == line_ && target_ == line_;
    }

    Time next_timer() const {
        return std::min({alpha_at_, pending_ ? cut_at_ : never, increase_at_});
    }

    void replay(const DcqcnSetting& s, Time now) {
        Time next = due_;
        for (; next <= now; next = next_timer()) {
            if (quiet()) {
                skip(alpha_at_, s.alpha_period, now);
                skip(increase_at_, s.increase_period, now);
            } else if (alpha_at_ == next) {
                update_alpha(s);
            } else if (increase_at_ == next) {
                increase_at_ += s.increase_period;
                increase(s, timer_stage_, byte_stage_);
                ++timer_stage_;
            } else {
                cut(s, next);
            }
        }
        due_ = next;
    }

    static void skip(Time& at, Time period, Time now) {
        if (at <= now) at += ((now - at) / period + 1) * period;
    }

    void update_alpha(const DcqcnSetting& s) {
        alpha_at_ += s.alpha_period;
        alpha_ = alpha_ * s.keep_q10 >> 10;
        if (cnp_seen_) alpha_ += (1024 - s.keep_q10) << 10;
        cnp_seen_ = false;
    }

    void cut(const DcqcnSetting& s, Time now) {
        if (s.clamp || (s.clamp_after_timer && timer_stage_ > 0)) target_ = current_;
        const std::int64_t reduced = current_ - (current_ * alpha_ >> (20 + s.gd_shift));
        const std::int64_t bound = current_ * s.least_percent / 100;
        current_ = std::max({reduced, bound, std::min(s.least_bps, line_)});
        pending_ = false;
        cut_at_ = now + s.cut_period;
        timer_stage_ = byte_stage_ = 0;
        sent_ = 0;
        increase_at_ = now + s.increase_period;
    }

    void increase(const DcqcnSetting& s, int own, int other) {
        const bool alone = s.increase_bytes == 0;
        const int high = alone ? own : std::max(own, other);
        const int low = alone ? own : std::min(own, other);
        if (low > s.recovery) {
            target_ += s.hyper_bps;
        } else if (high >= s.recovery) {
            target_ += s.additive_bps;
        }
        target_ = std::min(target_, line_);
        current_ = (current_ + target_ + 1) / 2;
    }

    std::int64_t line_ = 0;
    std::int64_t current_ = 0;
    std::int64_t target_ = 0;
    std::int64_t alpha_ = 0;
    Time due_ = never;  // when the first timer expires
    Time alpha_at_ = never;
    Time cut_at_ = 0;
    Time increase_at_ = never;
    Bytes sent_ = 0;
    int timer_stage_ = 0;
    int byte_stage_ = 0;
    bool active_ = false;
    bool cnp_seen_ = false;
    bool pending_ = false;
};

}  // namespace kvfabric
