// Pause frames: when a port stops its peer, what it tells, and how a port obeys.
#include "driver.hpp"

namespace kvfabric {

// A frame has come in: must its peer stop?
void Driver::stop_if_over(std::uint32_t port_id, int priority) {
    Port& ingress = ports_[port_id];
    const SharedBuffer& buffer = *buffers_[ingress.node];
    const auto first = static_cast<std::uint32_t>(fabric_.first[ingress.node]);
    PauseSender& sender = ingress.stops[slot(priority)];
    if (!buffer.over(port_id - first, priority) || !sender.stop(now_)) return;
    ingress.notify |= bit(priority);
    const auto cause = first + static_cast<std::uint32_t>(buffer.holder(port_id - first, priority));
    observation_.pauses.begin(ingress.reverse, priority, cause, now_);
    at(sender.next(), EventKind::timer, port_id, refresh + static_cast<std::uint32_t>(priority));
    transmit(port_id);
}

// A frame's memory is free: may the peer that sent it go on?
void Driver::resume_if_under(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    const auto first = static_cast<std::uint32_t>(fabric_.first[port.node]);
    if (!port.stops[slot(priority)].stopped()) return;
    if (!buffers_[port.node]->under(port_id - first, priority)) return;
    port.stops[slot(priority)].resume();
    observation_.pauses.end(port.reverse, priority, now_);
    port.notify |= bit(priority);
    transmit(port_id);
}

void Driver::refresh_pause(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    PauseSender& sender = port.stops[slot(priority)];
    if (!sender.expire(now_)) return;
    port.notify |= bit(priority);
    at(sender.next(), EventKind::timer, port_id, refresh + static_cast<std::uint32_t>(priority));
    transmit(port_id);
}

// One frame tells the present state of every class that changed or is due.
void Driver::start_pause(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    port.blocked.end(now_);
    port.busy = true;
    port.pausing = true;
    port.began = now_;
    PauseFrame frame{port.notify, {}};
    for (int priority = 0; priority < 8; ++priority) {
        const bool stops = port.stops[slot(priority)].stopped();
        if (stops || (port.storming & bit(priority)) != 0) {
            frame.quanta[slot(priority)] = most_quanta;
        }
    }
    port.notify = 0;
    ++totals_.pause_frames;
    const Time end = serialise(port, pause_wire);
    at(end, EventKind::sent, port_id, 0);
    // It does not wait for the pipeline: it may be in before the frames sent before it. It is told
    // of now, so that it comes first among the events of its instant even where its way takes none.
    const Time in = end + fabric_.delay[port_id];
    if (port.fault >= 0 && faults_[slot(port.fault)].down(now_, in)) return;
    tell(port_id, frame, in);
}

// A pause frame's last bit is in at some instant: it takes effect after the response time.
void Driver::hear(std::uint32_t port_id, const PauseFrame& frame, Time in) {
    Port& port = ports_[port_id];
    port.heard.push_back(frame);
    at(in + port.response, EventKind::pause, port_id, 0);
}

// The first pause frame of those heard takes effect at the scheduler of the port.
void Driver::obey(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    const PauseFrame frame = port.heard.front();
    port.heard.erase(port.heard.begin());
    if (port.at_host) touch(port_id);
    bool stops = false;
    for (int priority = 0; priority < 8; ++priority) {
        if ((frame.told & bit(priority)) == 0) continue;
        if (const std::uint16_t quanta = frame.quanta[slot(priority)]; quanta != 0) {
            stops = true;
            stop(port_id, priority, port.lasts(quanta));
        } else {
            port.obeys[slot(priority)].resume(now_);
            port.paused &= static_cast<std::uint8_t>(~bit(priority));
        }
        guard(port_id, priority);
    }
    if (stops) ++port.pauses;
    transmit(port_id);
}

// A class must stop for so long from now on, whatever was said before.
void Driver::stop(std::uint32_t port_id, int priority, Time pause) {
    Port& port = ports_[port_id];
    PauseReceiver& receiver = port.obeys[slot(priority)];
    const bool sooner = now_ + pause < receiver.until();
    if (!receiver.paused()) port.still[slot(priority)] = now_;
    receiver.stop(now_, pause);
    port.paused |= bit(priority);
    port.watchdogs[slot(priority)].stopped(now_);
    if (port.expiry_due[slot(priority)] && !sooner) return;
    port.expiry_due[slot(priority)] = true;
    at(receiver.until(), EventKind::timer, port_id,
       expiry + static_cast<std::uint32_t>(priority));
}

void Driver::expire_pause(std::uint32_t port_id, int priority) {
    Port& port = ports_[port_id];
    PauseReceiver& receiver = port.obeys[slot(priority)];
    port.expiry_due[slot(priority)] = false;
    if (port.at_host) touch(port_id);
    if (receiver.expire(now_)) {
        port.paused &= static_cast<std::uint8_t>(~bit(priority));
        guard(port_id, priority);
        transmit(port_id);
    } else if (receiver.paused()) {
        port.expiry_due[slot(priority)] = true;
        at(receiver.until(), EventKind::timer, port_id,
           expiry + static_cast<std::uint32_t>(priority));
    }
}

}  // namespace kvfabric
