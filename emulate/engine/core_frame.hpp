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
// For an ACK, whatever its number.
inline constexpr std::uint64_t asks_flag = 1 << 7;
inline constexpr std::uint64_t lost_flag = 1 << 11;
// On a link to a node that cuts through: only the header; the rest of a frame that has gone on, or
// whose header is still to come.
inline constexpr std::uint64_t header_flag = 1 << 12;
inline constexpr std::uint64_t hollow_flag = 1 << 13;

// In the table of paths behind the last port of a path: its flow.
inline constexpr std::uint32_t path_end = std::uint32_t{1} << 31;

inline constexpr std::size_t frame_kinds = 256;

struct Frame {
    // Stamp 44, -, priority 3, --, hollow, header, lost, shape 3, asks, attempt 6, marked.
    std::uint64_t head = 0;
    // Sequence (of a last frame: its attempt) 32, step in the table of paths 32.
    std::uint64_t body = 0;

    // The step is that of the port by which the frame will leave the next node.
    static Frame make(std::uint32_t step, Shape shape, Sequence sequence, std::uint8_t priority,
                      std::uint16_t attempt) {
        if (shape == Shape::last) sequence = attempt;
        return {std::uint64_t{priority} << 16 |
                    std::uint64_t{static_cast<std::uint8_t>(shape)} << 8 |
                    (std::uint64_t{attempt} & 63) << 1,
                std::uint64_t{sequence} << 32 | step};
    }

    std::uint64_t stamp() const { return head >> stamp_shift; }
    Shape shape() const { return static_cast<Shape>(head >> 8 & 7); }
    // Its shape and what is odd about it, below frame_kinds.
    std::size_t kind() const { return head >> 8 & (frame_kinds - 1); }
    int priority() const { return static_cast<int>(head >> 16 & 7); }
    std::uint64_t attempt() const { return head >> 1 & 63; }
    bool marked() const { return (head & marked_flag) != 0; }
    bool lost() const { return (head & lost_flag) != 0; }
    bool header() const { return (head & header_flag) != 0; }
    bool hollow() const { return (head & hollow_flag) != 0; }
    bool asks() const { return (head & asks_flag) != 0; }
    bool odd() const { return (head & (lost_flag | header_flag | hollow_flag)) != 0; }
    std::uint32_t step() const { return static_cast<std::uint32_t>(body); }
    std::uint32_t number() const { return static_cast<std::uint32_t>(body >> 32); }

    void stamp(std::uint64_t value) { head = value << stamp_shift | (head & flag_mask); }
    void next_hop() { ++body; }
    void mark() { head |= marked_flag; }
    void lose() { head |= lost_flag; }
    void ask() { head |= asks_flag; }
};
static_assert(sizeof(Frame) == 16);

}  // namespace kvfabric
