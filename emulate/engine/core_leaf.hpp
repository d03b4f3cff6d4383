// The next events of one node's ports: the least of a few keys.
//
// The keys lie in groups of eight, and the least of each group is kept when there are several. To
// look at eight neighbours costs less than to climb a tournament over them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core_tree.hpp"

namespace kvfabric {

inline constexpr std::size_t leaf_group = 8;

class Leaves {
public:
    explicit Leaves(std::size_t count = 0)
        : groups_(count == 1 ? 0 : (count + leaf_group - 1) / leaf_group),
          keys_(std::max(groups_ * leaf_group, std::size_t{1}), idle_key),
          least_(groups_, idle_key) {}

    const std::uint64_t* keys() const { return keys_.data(); }

    void set(std::size_t leaf, std::uint64_t key) {
        keys_[leaf] = key;
        if (groups_ <= 1) return;
        const std::size_t group = leaf / leaf_group;
        least_[group] = least_of(&keys_[group * leaf_group]);
    }

    std::uint64_t least() const {
        if (groups_ == 0) return keys_[0];
        if (groups_ == 1) return least_of(keys_.data());
        std::uint64_t key = idle_key;
        for (const std::uint64_t other : least_) key = std::min(key, other);
        return key;
    }

private:
    static std::uint64_t least_of(const std::uint64_t* keys) {
        return std::min(
            std::min(std::min(keys[0], keys[1]), std::min(keys[2], keys[3])),
            std::min(std::min(keys[4], keys[5]), std::min(keys[6], keys[7])));
    }

    std::size_t groups_;  // 0: one key alone
    std::vector<std::uint64_t> keys_;
    std::vector<std::uint64_t> least_;
};

}  // namespace kvfabric
