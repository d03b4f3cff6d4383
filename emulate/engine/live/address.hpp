// Which node an address belongs to: a flat table, looked up once or twice for every frame.
//
// Open addressing with linear probing; at most half full, so that a look-up reads a line or two.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "../hash.hpp"

namespace kvfabric {

class AddressTable {
public:
    explicit AddressTable(std::size_t most) : entries_(std::bit_ceil(2 * most + 1)) {}

    // An address that is there already gets the new node.
    void put(std::uint64_t address, std::int32_t node) {
        Entry& entry = entries_[find(address)];
        entry = {address, node};
    }

    // The node, or -1 when nobody has the address.
    std::int32_t node(std::uint64_t address) const { return entries_[find(address)].node; }

private:
    struct Entry {
        std::uint64_t address = 0;
        std::int32_t node = -1;
    };

    // The place of an address, or the empty one where it would be.
    std::size_t find(std::uint64_t address) const {
        std::size_t place = mix(address) & (entries_.size() - 1);
        while (entries_[place].node >= 0 && entries_[place].address != address) {
            place = (place + 1) & (entries_.size() - 1);
        }
        return place;
    }

    std::vector<Entry> entries_;
};

}  // namespace kvfabric
