// The least of a set of keys: a tree in which every node has sixteen children.
//
// To change a key marks its group of sixteen, and what is marked is looked at once, when the least
// is asked for: so a span in which most keys change costs a few comparisons a key and no guesses,
// and one in which few change costs a group a level.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvfabric {

// Later than every event.
inline constexpr std::uint64_t idle_key = ~std::uint64_t{0};

class KeyTree {
public:
    explicit KeyTree(std::size_t count = 1) {
        for (std::size_t size = std::max<std::size_t>(count, 1);; size = groups(size)) {
            levels_.emplace_back(groups(size));
            if (groups(size) == 1) break;
        }
        below_.resize(levels_.front().keys.size());
    }

    void set(std::size_t place, std::uint64_t key) {
        levels_.front().keys[place] = key;
        levels_.front().mark(place / fan);
    }

    // The same for a key that can only be less than before.
    void lower(std::size_t place, std::uint64_t key) {
        set(place, std::min(key, levels_.front().keys[place]));
    }

    std::uint64_t least() {
        settle();
        return levels_.back().least(0);
    }

    // The places whose keys are below the limit, in order; they are kept until this is asked again.
    std::span<const std::uint32_t> below(std::uint64_t limit) {
        settle();
        std::size_t count = 0;
        find(levels_.size() - 1, 0, limit, count);
        return std::span(below_).first(count);
    }

private:
    static constexpr std::size_t fan = 16;

    static std::size_t groups(std::size_t size) { return (size + fan - 1) / fan; }

    struct Level {
        explicit Level(std::size_t groups)
            : keys(groups * fan, idle_key), marked((groups + 63) / 64) {}

        void mark(std::size_t group) { marked[group / 64] |= std::uint64_t{1} << group % 64; }
        std::uint64_t least(std::size_t group) const {
            const std::uint64_t* const of = &keys[group * fan];
            std::uint64_t key = of[0];
            for (std::size_t i = 1; i < fan; ++i) key = std::min(key, of[i]);
            return key;
        }

        std::vector<std::uint64_t> keys;
        std::vector<std::uint64_t> marked;  // a bit a group: some key has changed
    };

    void settle() {
        for (std::size_t level = 0; level + 1 < levels_.size(); ++level) settle(level);
    }

    void settle(std::size_t level) {
        Level& from = levels_[level];
        Level& to = levels_[level + 1];
        for (std::size_t word = 0; word < from.marked.size(); ++word) {
            std::uint64_t left = from.marked[word];
            from.marked[word] = 0;
            for (; left != 0; left &= left - 1) {
                const std::size_t group = word * 64 + static_cast<std::size_t>(std::countr_zero(left));
                to.keys[group] = from.least(group);
                to.mark(group / fan);
            }
        }
    }

    void find(std::size_t level, std::size_t group, std::uint64_t limit, std::size_t& count) {
        const std::uint64_t* const keys = &levels_[level].keys[group * fan];
        for (std::size_t i = 0; i < fan; ++i) {
            const std::size_t place = group * fan + i;
            if (level > 0) {
                if (keys[i] < limit) find(level - 1, place, limit, count);
            } else {
                below_[count] = static_cast<std::uint32_t>(place);
                count += keys[i] < limit;
            }
        }
    }

    std::vector<Level> levels_;  // the keys, then the least of every group of the level before
    std::vector<std::uint32_t> below_;
};

}  // namespace kvfabric
