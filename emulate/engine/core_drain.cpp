// Hosts that take data from their NICs at a rate of their own, in the fast core.
//
// Nothing overtakes a frame in a receive buffer, and nothing stops the host: when a frame will have
// been drained, and so when a flow completes, is known as soon as it is in.
#include "core_link.hpp"

namespace kvfabric {

void Core::stow(Worker& worker, CoreNode& node, CorePort& port, Frame frame) {
    const int priority = frame.priority();
    const Bytes wire = wire_of(frame);
    if (!node.buffer->admit(port.local, priority, port.local, wire - preamble_and_gap)) {
        drop(worker, port, frame, wire, Cause::buffer);
        return;
    }
    ReceiveBuffer& receive = receives_[port.id];
    const Time start = std::max(worker.now, receive.drain.end());
    const Time end = receive.drain.finish(start, wire);
    if (frame.shape() == Shape::last) {
        Trail::Line alone;
        const std::uint32_t flow = flow_of(frame);
        worker.trail.joined(alone, flow, static_cast<std::uint16_t>(frame.number()),
                            flows_[flow].hops, port.id, worker.now, 0);
        worker.trail.left(alone, start, 0);
        worker.possible.push({end, port.node});
    }
    if (receive.frames.empty()) at(node, end, EventKind::drained, port.id, 0);
    receive.frames.push_back({frame, end});
    const bool stopped = (port.stopping >> priority & 1) != 0;
    if (!stopped && node.buffer->over(port.local, priority)) {
        stop(worker, node, port, priority, port.id);
    }
}

// The first frame of the receive buffer is in the host's memory.
void Core::drained(Worker& worker, CoreNode& node, CorePort& port) {
    std::deque<Stowed>& frames = receives_[port.id].frames;
    const Frame frame = frames.front().frame;
    frames.pop_front();
    if (!frames.empty()) at(node, frames.front().drained, EventKind::drained, port.id, 0);
    const int priority = frame.priority();
    node.buffer->release(port.local, priority, port.local, wire_of(frame) - preamble_and_gap);
    const bool stopped = (port.stopping >> priority & 1) != 0;
    if (stopped && node.buffer->under(port.local, priority)) {
        go_on(worker, node, port, priority);
    }
    receive_data(worker, node, frame);
}

}  // namespace kvfabric
