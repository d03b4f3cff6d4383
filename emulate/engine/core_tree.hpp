// The least of a set of keys: a tournament in an array.
//
// The leaves lie behind the inner nodes, each of which holds the lesser of its two children, so
// that the first holds the least of all. A change costs one comparison a level, whatever changes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvfabric {

// Later than every event.
inline constexpr std::uint64_t idle_key = ~std::uint64_t{0};

class Tournament {
public:
    explicit Tournament(std::size_t count = 1)
        : leaves_(std::bit_ceil(std::max<std::size_t>(count, 1))), keys_(2 * leaves_, idle_key) {}

    std::uint64_t least() const { return keys_[1]; }
    void set(std::size_t leaf, std::uint64_t key) {
        std::size_t at = leaves_ + leaf;
        keys_[at] = key;
        while (at > 1) {
            key = std::min(key, keys_[at ^ 1]);
            at >>= 1;
            if (keys_[at] == key) return;
            keys_[at] = key;
        }
    }

    // The same for a key that can only be less than before.
    void lower(std::size_t leaf, std::uint64_t key) {
        for (std::size_t at = leaves_ + leaf; at > 0 && key < keys_[at]; at >>= 1) keys_[at] = key;
    }

    // Visits every leaf whose key is below the limit, in order; a visit may change any keys, but
    // none of another leaf from above the limit to below it.
    template <typename Visit>
    void below(std::uint64_t limit, Visit&& visit) {
        walk(1, limit, visit);
    }

private:
    template <typename Visit>
    void walk(std::size_t at, std::uint64_t limit, Visit& visit) {
        if (keys_[at] >= limit) return;
        if (at >= leaves_) {
            visit(at - leaves_);
            return;
        }
        walk(2 * at, limit, visit);
        walk(2 * at + 1, limit, visit);
    }

    std::size_t leaves_;
    std::vector<std::uint64_t> keys_;
};

}  // namespace kvfabric
