// What befalls links: frames lost, rates cut, pauses without a cause.
#include "driver.hpp"

namespace kvfabric {

void Driver::befall(const std::vector<FaultSetting>& faults) {
    for (const FaultSetting& fault : faults) {
        Port& port = ports_[fault.port];
        if (port.fault < 0) {
            port.fault = static_cast<std::int32_t>(faults_.size());
            faults_.emplace_back();
        }
        faults_[slot(port.fault)].add(fault);
        if (fault.kind == FaultKind::storm) at(fault.from, EventKind::timer, fault.port, storm);
    }
}

// Will a frame that starts now be lost on its way to the next node?
bool Driver::loses(std::uint32_t port_id, const Packet& packet, Time arrival) const {
    const Port& port = ports_[port_id];
    if (port.fault < 0) return false;
    const LinkFault& fault = faults_[slot(port.fault)];
    if (fault.down(now_, arrival)) return true;
    const std::uint64_t loss = fault.loss_q32(now_, arrival);
    if (loss == 0) return false;
    const std::uint64_t hash = draw(seed_, Purpose::loss, packet.flow, packet.sequence,
                                    packet.attempt, port_id);
    return (hash >> 32) < loss;
}

// A storm begins, goes on or ends: its port tells the peer to stop, or what the buffer says.
void Driver::rage(std::uint32_t port_id) {
    Port& port = ports_[port_id];
    const LinkFault& fault = faults_[slot(port.fault)];
    port.storming = fault.storming(now_) ? discipline_.lossless : std::uint8_t{0};
    port.notify |= discipline_.lossless;
    const Time next = fault.storm_again(now_, port.pause / 2);
    if (next != never) at(next, EventKind::timer, port_id, storm);
    transmit(port_id);
}

}  // namespace kvfabric
