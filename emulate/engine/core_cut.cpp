// Cut-through in the fast core: frames that are seen at their header, and again at their last bit.
//
// Where the next node can cut through, a frame is two entries in flight: its header, then the rest,
// which says until then at what rate the frame comes in. The headers and the rests of a link take
// turns, since a frame starts only when the one before it has left. So the lookahead counts the wire
// time of a header there.
#include "core_link.hpp"

namespace kvfabric {

// The header of the frame that starts is on its way; what is left of the frame follows.
Frame Core::herald(Worker& worker, CorePort& port, Frame frame) {
    const std::uint64_t left = stamp(worker.now + port.serialiser.duration(header_wire));
    const Frame header{(left + port.delay_key) | (frame.head & flag_mask) | header_flag, frame.body};
    port.out.push(header.head, header.body, worker.arena);
    if (port.latest <= worker.limit[port.peer_class]) announce(worker, *port.peer, header.head);
    port.latest = header.head;
    return {frame.head | hollow_flag, static_cast<std::uint64_t>(port.serialiser.per_byte())};
}

// What is put on a link that may lose it, or that leads to a node that looks at headers.
Frame Core::set_out(Worker& worker, CorePort& port, Frame frame) {
    const Time arrival = epoch_ + static_cast<Time>(frame.stamp());
    if ((port.odd & faulty) != 0 && loses(port, frame, worker.now, arrival)) frame.lose();
    return (port.odd & heralded) != 0 ? herald(worker, port, frame) : frame;
}

// What has come in is no whole frame that has to go on: a header or a lost frame is no hop.
void Core::take_odd(Worker& worker, CorePort& port, Frame frame) {
    if (!frame.header() && !frame.lost()) return;
    --worker.totals.packet_hops;
    if (!frame.header()) lose(worker, port, frame);
}

// If it is the header of a frame, does the frame go on at once? What is next here is its last bit:
// the rest of a frame that has gone on, or else all of it.
bool Core::goes_on(Worker& worker, CorePort& in, Frame frame) {
    if (!frame.header()) return false;
    const auto per_byte = static_cast<std::int64_t>(in.in.front()->body);
    frame.head &= ~header_flag;
    bool goes = false;
    if (CorePort& out = way(frame); !frame.lost() && &out != &in) {
        catch_up(worker, nodes_[in.node], out, worker.key);
        goes = passes(worker, out, frame, per_byte);
    }
    in.in.amend(frame.body, goes);
    return goes;
}

// Nothing waits or is in service at the port that the frame goes out by, nothing stops it there, and
// the port is no faster than the frame comes in, or it would run out of bits.
bool Core::passes(const Worker& worker, const CorePort& out, Frame frame,
                  std::int64_t per_byte) const {
    const CorePortRest& rest = rest_[out.id];
    const int priority = frame.priority();
    if (rest.watchdogs[slot(priority)].dropping()) return false;
    if (out.busy() || (out.backlog | out.notify) != 0) return false;
    if ((out.paused & bit(priority)) != 0) return false;
    if (by_credits() && !rest.credits[slot(priority)].enough(wire_of(frame) - preamble_and_gap)) {
        return false;
    }
    const bool varies = (out.odd & faulty) != 0;
    const std::int64_t rate =
        varies ? faults_[rest.fault].per_byte_q16(worker.now, rest.per_byte_q16)
               : rest.per_byte_q16;
    return rate >= per_byte;
}

}  // namespace kvfabric
