// A frame of the fast core: 16 bytes.
//
// The upper 44 bits of the first word are the frame's arrival at the next node while it is on a
// link, in picoseconds since the engine's epoch, and its ingress port while it waits in a switch;
// so the first words of two frames on a link compare as their arrivals do. What a frame weighs
// follows from its shape: most frames are full, answers have one size, and only the others have to
// ask their flow.
#pragma once

#include "frame.hpp"
#include "gobackn.hpp"

namespace kvfabric {

// What a frame is. The order matters: data comes first.
enum class Shape : std::uint8_t { full, part, last, ack, nak, cnp };

constexpr bool is_data(Shape shape) { return shape <= Shape::last; }

inline constexpr int stamp_shift = 20;
inline constexpr std::uint64_t flag_mask = (std::uint64_t{1} << stamp_shift) - 1;
inline constexpr std::uint64_t marked_flag = 1;
inline constexpr std::uint64_t lost_flag = std::uint64_t{1} << 63;
// On a link to a node that cuts through: only the header; the rest of a frame that has gone on, or
// whose header is still to come.
inline constexpr std::uint64_t header_flag = std::uint64_t{1} << 62;
inline constexpr std::uint64_t hollow_flag = std::uint64_t{1} << 61;
// For an ACK, whatever its number.
inline constexpr std::uint64_t asks_flag = std::uint64_t{1} << 60;

struct Frame {
    std::uint64_t head = 0;  // stamp 44, links begun 7, shape 3, priority 3, attempt 6, marked 1
    std::uint64_t body = 0;  // lost 1, header 1, hollow 1, asks 1, flow 28, sequence 32; of a last frame: its attempt

    static Frame make(std::uint32_t flow, Shape shape, Sequence sequence, std::uint8_t priority,
                      std::uint16_t attempt) {
        if (shape == Shape::last) sequence = attempt;
        return {std::uint64_t{1} << 13 | std::uint64_t{static_cast<std::uint8_t>(shape)} << 10 |
                    std::uint64_t{priority} << 7 | (std::uint64_t{attempt} & 63) << 1,
                std::uint64_t{flow} << 32 | sequence};
    }

    std::uint64_t stamp() const { return head >> stamp_shift; }
    std::uint32_t hop() const { return static_cast<std::uint32_t>(head >> 13 & 127); }
    Shape shape() const { return static_cast<Shape>(head >> 10 & 7); }
    int priority() const { return static_cast<int>(head >> 7 & 7); }
    std::uint64_t attempt() const { return head >> 1 & 63; }
    bool marked() const { return (head & marked_flag) != 0; }
    bool lost() const { return (body & lost_flag) != 0; }
    bool hollow() const { return (body & hollow_flag) != 0; }
    bool asks() const { return (body & asks_flag) != 0; }
    bool odd() const { return (body & (lost_flag | header_flag | hollow_flag)) != 0; }
    std::uint32_t flow() const { return static_cast<std::uint32_t>(body >> 32 & 0xfffffff); }
    std::uint32_t number() const { return static_cast<std::uint32_t>(body); }

    void stamp(std::uint64_t value) { head = value << stamp_shift | (head & flag_mask); }
    void next_hop() { head += std::uint64_t{1} << 13; }
    void mark() { head |= marked_flag; }
    void lose() { body |= lost_flag; }
    void ask() { body |= asks_flag; }
};
static_assert(sizeof(Frame) == 16);

}  // namespace kvfabric
