// InfiniBand's credits: who may send, and how credits come back.
#include "driver.hpp"

namespace kvfabric {

// Of the classes with something to send, those that have credits for it.
std::uint8_t Driver::with_credits(std::uint32_t port_id, std::uint8_t classes) {
    Port& port = ports_[port_id];
    for (int lane = 0; classes >> lane != 0; ++lane) {
        if ((classes >> lane & 1) == 0) continue;
        const Bytes frame = head_bytes(port, lane) - preamble_and_gap;
        if (!port.credits[static_cast<std::size_t>(lane)].may(now_, frame)) {
            classes &= static_cast<std::uint8_t>(~(1 << lane));
        }
    }
    return classes;
}

// A frame that came in by this port has left the node: its credits travel back. They take the
// propagation and the time of one flow control packet, and none of the data's time. The counts are
// absolute and sent again and again, so that a link that is down only delays them.
void Driver::repay(std::uint32_t ingress, const Packet& packet) {
    const Port& port = ports_[ingress];
    const Time flight =
        fabric_.delay[ingress] + Serialiser(fabric_.rate_bps[ingress]).duration(credit_wire);
    Time sent = now_;
    if (port.fault >= 0) sent = faults_[slot(port.fault)].up(now_, flight);
    if (sent == never) return;
    const std::int64_t blocks = credit_blocks(packet.wire - preamble_and_gap);
    const auto lane = static_cast<std::uint32_t>(packet.priority) << 24;
    at(sent + flight, EventKind::pause, port.reverse, lane | static_cast<std::uint32_t>(blocks));
}

void Driver::credit(std::uint32_t port_id, std::uint32_t lane) {
    if (ports_[port_id].at_host) touch(port_id);
    ports_[port_id].credits[lane >> 24].give(now_, lane & 0xffffff);
    transmit(port_id);
}

}  // namespace kvfabric
