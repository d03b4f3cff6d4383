// The next events of one node's ports: the least of a few keys.
//
// The keys lie in groups of eight, and the least of each group is kept when there are several. To
// look at eight neighbours costs less than to climb a tree over them. The key of a port that is alone
// lies in its node.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core_tree.hpp"

namespace kvfabric {

inline constexpr std::size_t leaf_group = 8;

struct alignas(64) LeafGroup {
    std::array<std::uint64_t, leaf_group> keys;

    LeafGroup() { keys.fill(idle_key); }
    std::uint64_t least() const {
        std::uint64_t first = std::min(std::min(keys[0], keys[1]), std::min(keys[2], keys[3]));
        std::uint64_t second = std::min(std::min(keys[4], keys[5]), std::min(keys[6], keys[7]));
        // Side by side: the compiler would compare all eight one after the other.
        asm("" : "+r"(first), "+r"(second));
        return std::min(first, second);
    }
};

// Where a port's key is, and, if there are several groups, the least of its own.
class Leaf {
public:
    Leaf() = default;
    Leaf(std::uint64_t& key, std::uint64_t* least) : key_(&key), least_(least) {}

    // Few: the node surely has no more than one group.
    template <bool few = false>
    void set(std::uint64_t key) {
        *key_ = key;
        if (few || least_ == nullptr) return;
        const auto group = reinterpret_cast<std::uintptr_t>(key_) & ~(sizeof(LeafGroup) - 1);
        *least_ = reinterpret_cast<const LeafGroup*>(group)->least();
    }

private:
    std::uint64_t* key_ = nullptr;
    std::uint64_t* least_ = nullptr;
};

class Leaves {
public:
    Leaves() = default;
    Leaves(const Leaves&) = delete;
    Leaves& operator=(const Leaves&) = delete;

    // To be called once, before any leaf is asked for.
    void open(std::size_t count) {
        if (count > 1) groups_.resize((count + leaf_group - 1) / leaf_group);
        if (groups_.size() > 1) least_.assign(groups_.size(), idle_key);
    }

    Leaf leaf(std::size_t place) {
        if (groups_.empty()) return Leaf(alone_, nullptr);
        const std::size_t group = place / leaf_group;
        return Leaf(groups_[group].keys[place % leaf_group],
                    least_.empty() ? nullptr : &least_[group]);
    }

    // As long as they are in use.
    const std::uint64_t* keys() const { return groups_.empty() ? &alone_ : groups_.front().keys.data(); }

    // The keys of two to eight ports, null for others.
    const LeafGroup* few() const { return groups_.size() == 1 ? groups_.data() : nullptr; }

    std::uint64_t least() const {
        if (groups_.empty()) return alone_;
        if (least_.empty()) return groups_.front().least();
        std::uint64_t key = idle_key;
        for (const std::uint64_t other : least_) key = std::min(key, other);
        return key;
    }

private:
    std::uint64_t alone_ = idle_key;
    std::vector<LeafGroup> groups_;    // of several ports
    std::vector<std::uint64_t> least_;  // of each group, if there are several
};

}  // namespace kvfabric
