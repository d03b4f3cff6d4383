#include "channel.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "descriptor.hpp"

namespace kvfabric {

namespace {

// traffic.emulator.FLOW, packed.
constexpr std::size_t flow_row = 58;

template <typename T>
T take(const std::uint8_t*& at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
}

FlowSetting read(const std::uint8_t* at) {
    FlowSetting flow;
    flow.flow = take<std::int64_t>(at);
    flow.handoff = take<std::int64_t>(at);
    flow.source = take<std::int32_t>(at);
    flow.destination = take<std::int32_t>(at);
    flow.bytes = take<std::int64_t>(at);
    flow.descriptors = take<std::int64_t>(at);
    flow.entropy = take<std::uint32_t>(at);
    flow.path = take<std::int32_t>(at);
    take<std::uint8_t>(at);  // write or read: both move alike
    flow.priority = take<std::uint8_t>(at);
    flow.release = take<std::int64_t>(at);
    return flow;
}

}  // namespace

bool Channel::receive(std::vector<FlowSetting>& flows) {
    std::array<std::uint8_t, most_rows * flow_row> message;
    for (;;) {
        const ssize_t got = recv(socket_, message.data(), message.size(), MSG_DONTWAIT | MSG_TRUNC);
        if (got < 0) return errno == EAGAIN || errno == EINTR;
        if (got == 0) return false;
        const auto bytes = static_cast<std::size_t>(got);
        if (bytes > message.size() || bytes % flow_row != 0) {
            throw std::runtime_error("message of " + std::to_string(bytes) +
                                     " B: not whole rows of " + std::to_string(flow_row) +
                                     " B, at most 1024");
        }
        for (std::size_t i = 0; i < bytes; i += flow_row) flows.push_back(read(&message[i]));
    }
}

void Channel::flush() {
    std::size_t sent = 0;
    while (sent < waiting_.size()) {
        const std::size_t count = std::min(most_rows, waiting_.size() - sent);
        const std::size_t bytes = count * sizeof(Landed);
        if (send(socket_, &waiting_[sent], bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
        sent += count;
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(sent));
}

}  // namespace kvfabric
