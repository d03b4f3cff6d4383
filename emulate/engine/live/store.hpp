// Where the bytes of frames lie, by the number of their packet.
//
// A frame is received into its place and sent from there: it is never copied. Places are made in
// slabs, so that they do not move while more are made.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "../pool.hpp"

namespace kvfabric {

class FrameStore {
public:
    FrameStore(PacketPool& packets, std::size_t capacity)
        : packets_(packets), capacity_((capacity + 63) & ~std::size_t{63}) {}

    std::size_t capacity() const { return capacity_; }

    // A new packet and room for its bytes.
    PacketId take() {
        const PacketId id = packets_.take();
        make_room(id);
        return id;
    }
    void make_room(PacketId id) {
        while (id >= slabs_.size() * slab) {
            slabs_.push_back(std::make_unique<std::uint8_t[]>(slab * capacity_));
            lengths_.resize(slabs_.size() * slab);
        }
    }
    void give(PacketId id) { packets_.give(id); }

    std::uint8_t* bytes(PacketId id) { return slabs_[id / slab].get() + id % slab * capacity_; }
    std::size_t length(PacketId id) const { return lengths_[id]; }
    void set_length(PacketId id, std::size_t length) {
        lengths_[id] = static_cast<std::uint32_t>(length);
    }

private:
    static constexpr std::size_t slab = 64;

    PacketPool& packets_;
    std::size_t capacity_;
    std::vector<std::unique_ptr<std::uint8_t[]>> slabs_;
    std::vector<std::uint32_t> lengths_;
};

}  // namespace kvfabric
