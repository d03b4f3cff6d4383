// The two checksums of a RoCEv2 frame: the invariant CRC, and that of the IPv4 header.
//
// ICRC is the CRC-32 of Ethernet (IEEE 802.3, reflected 0xedb88320) over all that no switch may
// change (InfiniBand specification, annex A17.3.3); eight table look-ups take eight bytes (Kounavis
// and Berry, A systematic approach to building high performance software-based CRC generators,
// 2005).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kvfabric {

using Crc32Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Crc32Tables crc32_tables() {
    Crc32Tables all{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t crc = i;
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
        all[0][i] = crc;
    }
    for (std::size_t t = 1; t < 8; ++t) {
        for (std::size_t i = 0; i < 256; ++i) {
            all[t][i] = all[t - 1][i] >> 8 ^ all[0][all[t - 1][i] & 255];
        }
    }
    return all;
}

class Crc32 {
public:
    void add(const std::uint8_t* bytes, std::size_t count) {
        for (; count >= 8; bytes += 8, count -= 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes, 8);
            word ^= state_;
            std::uint32_t next = 0;
            for (std::size_t i = 0; i < 8; ++i) next ^= tables[7 - i][word >> 8 * i & 255];
            state_ = next;
        }
        for (; count > 0; ++bytes, --count) {
            state_ = state_ >> 8 ^ tables[0][(state_ ^ *bytes) & 255];
        }
    }

    std::uint32_t value() const { return ~state_; }

private:
    static constexpr Crc32Tables tables = crc32_tables();

    std::uint32_t state_ = 0xffffffff;
};

// The ones' complement sum of an IPv4 header without options (RFC 791), its checksum left out.
inline std::uint16_t header_checksum(const std::uint8_t* header) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 20; i += 2) {
        if (i != 10) sum += static_cast<std::uint32_t>(header[i] << 8 | header[i + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

}  // namespace kvfabric
