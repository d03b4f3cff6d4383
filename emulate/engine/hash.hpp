// Randomness without state: every draw is a hash of what it is for.
//
// The finaliser is that of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, OOPSLA 2014). The attempt is part of the key, or a retransmission would meet the
// same draw for ever.
#pragma once

#include <cstdint>

namespace kvfabric {

enum class Purpose : std::uint64_t { mark = 1, loss = 2 };

constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

constexpr std::uint64_t join(std::uint64_t hash, std::uint64_t value) { return mix(hash ^ value); }

// A draw of 64 bits for one packet at one port. Of the attempt six bits count, so that a frame may
// carry it in few; a packet that is lost in 64 attempts is lost in all that follow.
constexpr std::uint64_t draw(std::uint64_t seed, Purpose purpose, std::uint64_t flow,
                             std::uint64_t sequence, std::uint64_t attempt, std::uint64_t port) {
    std::uint64_t h = join(seed, static_cast<std::uint64_t>(purpose));
    h = join(h, flow);
    h = join(h, sequence);
    h = join(h, attempt & 63);
    return join(h, port);
}

// The hash of a packet's 5-tuple: addresses, and the entropy that is its UDP source port.
constexpr std::uint64_t tuple_hash(std::uint64_t seed, std::uint64_t source,
                                   std::uint64_t destination, std::uint64_t entropy) {
    return mix(seed ^ source << 32 ^ destination) ^ entropy;
}

// One of count equal choices at a node: each switch salts the 5-tuple's hash with its own number.
// The same choice as that of the fluid emulator (emulate/path.py), so that both see one path.
constexpr std::uint32_t choose(std::uint64_t tuple, std::uint64_t node, std::uint32_t count) {
    return static_cast<std::uint32_t>(mix(tuple + (node << 20)) % count);
}

}  // namespace kvfabric
