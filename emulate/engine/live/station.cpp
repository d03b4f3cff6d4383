#include "station.hpp"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace kvfabric {

namespace {

constexpr Nanoseconds second = 1'000'000'000;

// Without anything to do, the loop looks up so often.
constexpr Nanoseconds longest_sleep = second / 10;

void watch(int epoll, int file, void* what) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = what;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event) != 0) throw_system("epoll");
}

}  // namespace

Station::Station(Plane& plane, const StationSetting& setting)
    : plane_(plane), dilation_(setting.dilation),
      most_bytes_(std::min(setting.mtu + ethernet_bytes, plane.store().capacity())),
      clock_(setting.dilation, 0), by_port_(plane.ports().size()),
      lateness_of_(plane.ports().size()) {
    if (dilation_ < 1) throw std::invalid_argument("dilation: write a whole number above 0");
    for (const SocketSetting& each : setting.sockets) {
        sockets_.push_back(std::make_unique<FrameSocket>(each));
        plane_.attach(each.port, *this);
        by_port_[each.port] = sockets_.back().get();
        lateness_of_[each.port] = &lateness_[plane_.fabric().rate_bps[each.port]];
    }
    plane_.require_links();
    if (!setting.state.empty()) {
        state_ = std::make_unique<StateFile>(setting.state, plane_.ports().size());
    }
    epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (epoll_.number() < 0 || timer_.number() < 0) throw_system("epoll, timerfd");
    for (const auto& socket : sockets_) watch(epoll_.number(), socket->number(), socket.get());
    watch(epoll_.number(), timer_.number(), &timer_);
}

void Station::run(Nanoseconds start, int socket) {
    clock_ = DilatedClock(dilation_, start);
    Channel channel(socket);
    watch(epoll_.number(), channel.number(), this);
    std::vector<FlowSetting> flows;
    for (bool open = true; open;) {
        const bool told = sleep();
        take_arrivals();
        plane_.run(clock_.now());
        flush();
        if (told) {
            open = channel.receive(flows);
            submit(flows);
            flows.clear();
        }
        report(channel);
    }
    epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, channel.number(), nullptr);
}

// Until the next instant, or until something is there: true when the channel has.
bool Station::sleep() {
    const Nanoseconds before = machine_time(CLOCK_MONOTONIC);
    const Nanoseconds due = clock_.monotonic(plane_.next());
    const bool behind = due <= before;
    if (!behind) {
        const Nanoseconds until = std::min(due, before + longest_sleep);
        itimerspec spec{};
        spec.it_value = {until / second, until % second};
        timerfd_settime(timer_.number(), TFD_TIMER_ABSTIME, &spec, nullptr);
    }
    std::array<epoll_event, 128> events{};
    const int count = epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()),
                                 behind ? 0 : -1);
    const Nanoseconds after = machine_time(CLOCK_MONOTONIC);
    real_offset_ = machine_time(CLOCK_REALTIME) - after;
    stalls_.run(due, after);
    ready_.clear();
    bool told = false;
    for (int i = 0; i < count; ++i) {
        void* what = events[static_cast<std::size_t>(i)].data.ptr;
        if (what == this) {
            told = true;
        } else if (what != &timer_) {
            ready_.push_back(static_cast<FrameSocket*>(what));
        }
    }
    return told;
}

Time Station::virtual_of(Nanoseconds stamp) const {
    return clock_.virtual_time(stamp - real_offset_);
}

void Station::take_arrivals() {
    arrivals_.clear();
    for (FrameSocket* socket : ready_) socket->receive(plane_.store(), most_bytes_, arrivals_);
    std::stable_sort(arrivals_.begin(), arrivals_.end(),
                     [](const Arrival& a, const Arrival& b) { return a.stamp < b.stamp; });
    const Time now = clock_.now();
    for (const Arrival& arrival : arrivals_) {
        plane_.run(std::min(virtual_of(arrival.stamp), now));
        plane_.take_in(arrival.port, arrival.id);
    }
    // What came before the run began has waited for that alone.
    if (!arrivals_.empty() && virtual_of(arrivals_.front().stamp) >= 0) {
        stalls_.run(arrivals_.front().stamp - real_offset_, machine_time(CLOCK_MONOTONIC));
    }
}

void Station::send(std::uint32_t port, PacketId id, Time due) {
    FrameSocket* socket = by_port_[port];
    if (socket->idle()) dirty_.push_back(socket);
    socket->put(id, due);
}

void Station::flush() {
    for (FrameSocket* socket : dirty_) {
        Lateness& late = *lateness_of_[socket->port()];
        socket->flush(plane_.store(), [&](const FrameSocket::Outgoing* frames, std::size_t count) {
            const Nanoseconds now = machine_time(CLOCK_MONOTONIC);
            for (std::size_t i = 0; i < count; ++i) late.add(now - clock_.monotonic(frames[i].due));
        });
    }
    dirty_.clear();
}

void Station::submit(const std::vector<FlowSetting>& flows) {
    if (flows.empty()) return;
    const Time seen = clock_.now();
    plane_.run(seen);
    const std::int64_t refused = plane_.submit(flows);
    if (refused >= 0) {
        throw std::runtime_error(
            "flow " + std::to_string(flows[static_cast<std::size_t>(refused)].flow) +
            ": no route from its source to its destination and back");
    }
    for (const FlowSetting& flow : flows) {
        const auto place = static_cast<std::size_t>(flow.flow);
        if (place >= seen_.size()) seen_.resize(place + 1);
        seen_[place] = seen;
    }
}

void Station::report(Channel& channel) {
    for (const std::uint32_t number : plane_.take_completed()) {
        const Flow& flow = plane_.flows()[number];
        channel.put({flow.setting.flow, flow.setting.handoff, flow.finish, flow.sender_done,
                     seen_[number]});
    }
    channel.flush();
    if (!state_ || state_ticks_ == plane_.ticks()) return;
    state_ticks_ = plane_.ticks();
    for (std::size_t port = 0; port < plane_.ports().size(); ++port) {
        const Port& each = plane_.ports()[port];
        if (plane_.owns(each.node)) state_->write(port, each, plane_.now());
    }
}

std::int64_t Station::frames_in() const {
    std::int64_t count = 0;
    for (const auto& socket : sockets_) count += socket->received();
    return count;
}

std::int64_t Station::frames_out() const {
    std::int64_t count = 0;
    for (const auto& socket : sockets_) count += socket->sent();
    return count;
}

std::int64_t Station::oversized() const {
    std::int64_t count = 0;
    for (const auto& socket : sockets_) count += socket->oversized();
    return count;
}

std::int64_t Station::socket_drops() {
    std::int64_t count = 0;
    for (const auto& socket : sockets_) count += socket->drops();
    return count;
}

}  // namespace kvfabric
