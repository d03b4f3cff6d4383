// The shared buffer of one switch: who may store a frame, and when a group must be stopped.
//
// A frame is counted once, from its last bit in to its last bit out, in its ingress group (port,
// priority) and its egress queue (port, priority). A lossless group fills its reserve, then the
// shared pool up to the dynamic threshold alpha * (pool - used) (Choudhury and Hahne, Dynamic
// queue length thresholds for shared-memory packet switches, ToN 1998), then its headroom; it
// drains in reverse. A lossy frame needs room under the dynamic threshold of its egress queue.
// Stopping is evaluated at the group's own arrivals and release at its own departures only. A
// group is released when its count above the reserve is 0, or when its headroom is empty and the
// count is at most threshold - offset.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "time.hpp"

namespace kvfabric {

struct BufferSetting {
    Bytes total = 0;
    Bytes reserve = 0;              // of each lossless group
    Bytes xon_offset = 0;
    std::int64_t alpha_q16 = 0;     // of a lossless group
    std::int64_t egress_q16 = 0;    // of a lossy queue
    std::uint8_t lossless = 0;      // one bit a priority
    std::vector<Bytes> headroom;    // of each port, for each lossless priority
    bool shares = true;             // does it have to know what of a lossless group is where?
};

class SharedBuffer {
public:
    explicit SharedBuffer(const BufferSetting& setting)
        : setting_(setting), groups_(setting.headroom.size() * 8), queues_(groups_.size(), 0) {
        pool_ = setting.total;
        plain_ = setting.shares ? std::uint8_t{0} : setting.lossless;
        std::size_t count = 0;
        for (int priority = 0; priority < 8; ++priority) {
            if (!lossless(priority)) continue;
            if (setting.shares) {
                share_of_[static_cast<std::size_t>(priority)] = count++ * ports() * ports();
            }
            for (const Bytes headroom : setting.headroom) pool_ -= headroom + setting.reserve;
        }
        shares_.assign(count * ports() * ports(), 0);
        most_ = setting.alpha_q16 * pool_ >> 16;
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            groups_[g].above = -reserve(static_cast<int>(g % 8));
        }
    }

    // Counts the frame and returns true, or returns false when there is no room for it.
    bool admit(std::size_t port, int priority, std::size_t egress, Bytes frame) {
        Group& group = groups_[index(port, priority)];
        if (!lossless(priority)) return admit_lossy(group, queues_[index(egress, priority)], frame);
        const Bytes reserved = std::clamp<Bytes>(-group.above, 0, frame);
        const Bytes rest = frame - reserved;
        const bool fits = group.shared() + rest <= threshold() && used_ + rest <= pool_;
        if (rest > 0 && !fits) {
            if (group.headroom + rest > setting_.headroom[port]) return false;
            group.headroom += rest;
            group.above += reserved;
        } else {
            group.above += frame;
            used_ += rest;
        }
        if (setting_.shares) share(port, priority, egress, frame);
        return true;
    }

    // Counts the frame if it surely fits and its group is surely not over then, whatever else has
    // left meanwhile without a word: what has left only makes room, and a group that is not stopped,
    // whose headroom is empty, keeps no memory of the order in which frames came and went.
    bool admit_surely(std::size_t port, int priority, std::size_t egress, Bytes frame) {
        Group& group = groups_[index(port, priority)];
        if (!plain(priority)) [[unlikely]] return admit_counted(group, port, priority, egress, frame);
        return admit_below(group, frame);
    }

    // True when a frame of a lossless group has to go to its headroom, whatever has left elsewhere
    // without a word.
    bool surely_full(std::size_t port, int priority, Bytes frame) const {
        return groups_[index(port, priority)].above + frame > std::max<Bytes>(0, most_);
    }

    // After an arrival: must the sender of this group stop?
    bool over(std::size_t port, int priority) const {
        if (!lossless(priority)) return false;
        const Group& group = groups_[index(port, priority)];
        return group.headroom > 0 || group.shared() > threshold();
    }

    // The last bit of a frame has left.
    void release(std::size_t port, int priority, std::size_t egress, Bytes frame) {
        Group& group = groups_[index(port, priority)];
        if (!plain(priority)) [[unlikely]] discount(port, priority, egress, frame);
        if (group.headroom > 0) [[unlikely]] {
            const Bytes from_headroom = std::min(frame, group.headroom);
            group.headroom -= from_headroom;
            frame -= from_headroom;
        }
        used_ -= std::min(frame, group.shared());
        group.above -= frame;
    }

    // Asks for the memory of a group.
    void fetch(std::size_t port, int priority) const {
        __builtin_prefetch(&groups_[index(port, priority)], 1);
    }

    // After a departure: may the sender of this group go on?
    bool under(std::size_t port, int priority) const {
        const Group& group = groups_[index(port, priority)];
        if (group.headroom > 0) return false;
        return group.shared() == 0 || group.shared() <= threshold() - setting_.xon_offset;
    }

    // False when the group could not go on whatever had left elsewhere without a word.
    bool perhaps_under(std::size_t port, int priority) const {
        const Group& group = groups_[index(port, priority)];
        return group.headroom == 0 &&
               (group.shared() == 0 || group.shared() <= most_ - setting_.xon_offset);
    }

    // The egress that holds most bytes of a lossless group, the lowest of equals.
    std::size_t holder(std::size_t port, int priority) const {
        const auto row = share_of_[static_cast<std::size_t>(priority)] + port * ports();
        const auto first = shares_.begin() + static_cast<std::ptrdiff_t>(row);
        const auto end = first + static_cast<std::ptrdiff_t>(ports());
        return static_cast<std::size_t>(std::max_element(first, end) - first);
    }

    // The present dynamic threshold of a lossless group.
    Bytes threshold() const { return limit(setting_.alpha_q16); }

    Bytes pool() const { return pool_; }
    Bytes used() const { return used_; }
    Bytes occupied(std::size_t port, int priority) const {
        const Group& group = groups_[index(port, priority)];
        return group.above + reserve(priority) + group.headroom;
    }
    Bytes headroom_used(std::size_t port, int priority) const {
        return groups_[index(port, priority)].headroom;
    }
    Bytes queued(std::size_t egress, int priority) const {
        return queues_[index(egress, priority)];
    }
    bool lossless(int priority) const { return (setting_.lossless >> priority & 1) != 0; }

private:
    // Reserve and shared bytes are one count, since the reserve fills first and drains last.
    struct Group {
        Bytes above = 0;  // its reserve: below 0 as long as that is not full
        Bytes headroom = 0;

        Bytes shared() const { return std::max<Bytes>(0, above); }
    };

    static std::size_t index(std::size_t port, int priority) {
        return port * 8 + static_cast<std::size_t>(priority);
    }

    std::size_t ports() const { return setting_.headroom.size(); }

    Bytes reserve(int priority) const { return lossless(priority) ? setting_.reserve : 0; }

    // Of a lossless group, the bytes at each egress.
    void share(std::size_t port, int priority, std::size_t egress, Bytes frame) {
        shares_[share_of_[static_cast<std::size_t>(priority)] + port * ports() + egress] += frame;
        queues_[index(egress, priority)] += frame;
    }

    // This and what counts such frames stand apart, so that the usual way stays short.
    [[gnu::noinline]] void discount(std::size_t port, int priority, std::size_t egress,
                                    Bytes frame) {
        if (lossless(priority)) {
            share(port, priority, egress, -frame);
        } else {
            queues_[index(egress, priority)] -= frame;
        }
    }

    Bytes limit(std::int64_t alpha_q16) const { return (alpha_q16 * (pool_ - used_)) >> 16; }

    // Nobody has to know at which egress its bytes are.
    bool plain(int priority) const { return (plain_ >> priority & 1) != 0; }

    // A lossless group stays at most at its threshold, which is below 0 where the pool is full.
    bool admit_below(Group& group, Bytes frame) {
        const Bytes above = group.above + frame;
        const Bytes shared = std::max<Bytes>(0, above);
        const Bytes used = used_ + std::min(frame, shared);
        if (shared > setting_.alpha_q16 * (pool_ - used) >> 16) [[unlikely]] return false;
        group.above = above;
        used_ = used;
        return true;
    }

    [[gnu::noinline]] bool admit_counted(Group& group, std::size_t port, int priority,
                                         std::size_t egress, Bytes frame) {
        if (!lossless(priority)) {
            return admit_lossy(group, queues_[index(egress, priority)], frame);
        }
        if (!admit_below(group, frame)) return false;
        share(port, priority, egress, frame);
        return true;
    }

    bool admit_lossy(Group& group, Bytes& queue, Bytes frame) {
        if (used_ + frame > pool_ || queue + frame > limit(setting_.egress_q16)) return false;
        group.above += frame;
        used_ += frame;
        queue += frame;
        return true;
    }

    BufferSetting setting_;
    std::uint8_t plain_ = 0;  // one bit a priority
    std::vector<Group> groups_;
    std::vector<Bytes> queues_;
    std::array<std::size_t, 8> share_of_{};  // where a lossless priority's begin
    std::vector<Bytes> shares_;              // by (lossless priority, ingress, egress)
    Bytes pool_ = 0;
    Bytes most_ = 0;  // the threshold when nothing is stored
    Bytes used_ = 0;
};

}  // namespace kvfabric
