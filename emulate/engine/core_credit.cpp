// InfiniBand's credits in the fast core: who may send, and how credits come back.
#include "core_link.hpp"

namespace kvfabric {

// On the wire, of the frame that a class with something to send would send next.
Bytes Core::head_bytes(const CorePort& port, int priority) const {
    if ((port.backlog & bit(priority)) != 0) return wire_of(port.queues[priority].front());
    const std::uint32_t flow = rest_[port.id].nic.head(priority);
    return flows_[flow].segment.payload(senders_[flow].window.next()) + data_overhead;
}

// Of the classes with something to send, those that have credits for it.
std::uint8_t Core::with_credits(Worker& worker, CorePort& port, std::uint8_t classes) {
    for (int lane = 0; classes >> lane != 0; ++lane) {
        if ((classes >> lane & 1) == 0) continue;
        const Bytes frame = head_bytes(port, lane) - preamble_and_gap;
        if (!rest_[port.id].credits[slot(lane)].may(worker.now, frame)) {
            classes &= static_cast<std::uint8_t>(~bit(lane));
        }
    }
    return classes;
}

// A frame that came in by this port has left the node: its credits travel back. The counts are
// absolute and sent again and again, so that a link that is down only delays them.
void Core::repay(Worker& worker, CorePort& ingress, int priority, Bytes wire) {
    const CorePortRest& rest = rest_[ingress.id];
    Time sent = worker.now;
    if ((ingress.odd & faulty) != 0) sent = faults_[rest.fault].up(worker.now, rest.credit_flight);
    if (sent == never) return;
    const auto blocks = static_cast<std::uint32_t>(credit_blocks(wire - preamble_and_gap));
    const std::uint32_t credits = static_cast<std::uint32_t>(priority) << 16 | blocks;
    if (sent + rest.credit_flight - epoch_ >= farthest) {
        at(nodes_[ingress.node], sent, EventKind::send, ingress.id, late_credits + credits);
    } else {
        send_credits(worker, ingress, sent, credits);
    }
}

void Core::send_credits(Worker& worker, CorePort& ingress, Time sent, std::uint32_t credits) {
    tell(worker, ingress, stamp(sent + rest_[ingress.id].credit_flight) | credits);
}

// Credits that come back at one instant are taken in the order of (lane, blocks), each by itself.
void Core::take_credits(Worker& worker, CoreNode& node, CorePort& port) {
    CorePortRest& rest = rest_[port.id];
    worker.words.clear();
    const std::uint64_t now = rest.pauses_in.peek(worker.arena) >> stamp_shift;
    while (rest.pauses_in.peek(worker.arena) >> stamp_shift == now) {
        worker.words.push_back(rest.pauses_in.pop().head);
    }
    told_next(worker, node, port);
    std::sort(worker.words.begin(), worker.words.end());
    for (const std::uint64_t word : worker.words) {
        ++worker.totals.events;
        if (node.is_host) touch(worker, port);
        rest.credits[word >> 16 & 7].give(worker.now, static_cast<std::int64_t>(word & 0xffff));
        look(worker, node, port);
    }
}

}  // namespace kvfabric
