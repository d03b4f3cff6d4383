#include "sender.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "descriptor.hpp"

namespace kvfabric {

namespace {

constexpr std::size_t batch = 64;
constexpr Nanoseconds full_queue_wait = 20'000;

void sleep_until(Nanoseconds at) {
    const timespec time{at / 1'000'000'000, at % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
    }
}

// How many of the first frames the socket has taken, 0 when its queue is full.
std::size_t send_some(int socket, const DueFrame* frames, std::size_t count) {
    std::array<mmsghdr, batch> messages{};
    std::array<iovec, batch> places{};
    for (std::size_t i = 0; i < count; ++i) {
        // sendmmsg does not write, but takes a pointer that could.
        places[i] = {const_cast<std::uint8_t*>(frames[i].data), frames[i].length};
        messages[i].msg_hdr.msg_iov = &places[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int sent = sendmmsg(socket, messages.data(), static_cast<unsigned>(count), 0);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) return 0;
    throw_system("a frame of " + std::to_string(frames[0].length) + " bytes");
}

}  // namespace

std::vector<Nanoseconds> send_on_time(int socket, const std::vector<DueFrame>& frames) {
    std::vector<Nanoseconds> late(frames.size());
    std::size_t next = 0;
    while (next < frames.size()) {
        Nanoseconds now = machine_time(CLOCK_MONOTONIC);
        if (frames[next].at > now) {
            sleep_until(frames[next].at);
            now = machine_time(CLOCK_MONOTONIC);
        }
        std::size_t due = 1;
        while (due < batch && next + due < frames.size() && frames[next + due].at <= now) ++due;
        const std::size_t sent = send_some(socket, &frames[next], due);
        const Nanoseconds after = machine_time(CLOCK_MONOTONIC);
        for (std::size_t i = 0; i < sent; ++i) late[next + i] = after - frames[next + i].at;
        next += sent;
        if (sent == 0) sleep_until(after + full_queue_wait);
    }
    return late;
}

}  // namespace kvfabric
