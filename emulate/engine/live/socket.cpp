#include "socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "codec.hpp"

namespace kvfabric {

namespace {

constexpr int buffer_bytes = 1 << 26;

// The thread is in another network namespace as long as this lives.
class Visit {
public:
    explicit Visit(const std::string& space) {
        if (space.empty()) return;
        home_ = Descriptor(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
        const Descriptor there(open(space.c_str(), O_RDONLY | O_CLOEXEC));
        if (there.number() < 0 || setns(there.number(), CLONE_NEWNET) != 0) {
            throw_system("namespace " + space);
        }
        away_ = true;
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit() {
        // Elsewhere for good would be another machine for the rest of the process.
        if (away_ && setns(home_.number(), CLONE_NEWNET) != 0) std::terminate();
    }

private:
    Descriptor home_;
    bool away_ = false;
};

template <typename T>
void set(int socket, int level, int option, const T& value, const std::string& what) {
    if (setsockopt(socket, level, option, &value, sizeof value) != 0) throw_system(what);
}

// RoCEv2 over whole IPv4 datagrams, and MAC control; bpf(4) as Linux reads it.
void filter_nic(int socket, const std::string& what) {
    constexpr std::uint16_t reject = 0;
    std::array<sock_filter, 12> code{{
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x8808, 8, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 8),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ip_at + 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ip_at + 6),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 4, 0),
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, ip_at),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, ip_at + 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, roce_port, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
        BPF_STMT(BPF_RET | BPF_K, reject),
    }};
    const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
    set(socket, SOL_SOCKET, SO_ATTACH_FILTER, program, what);
}

Nanoseconds stamp_of(msghdr& message) {
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
        timespec time{};
        std::memcpy(&time, CMSG_DATA(c), sizeof time);
        return Nanoseconds{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    }
    return machine_time(CLOCK_REALTIME);
}

}  // namespace

FrameSocket::FrameSocket(const SocketSetting& setting) : port_(setting.port) {
    const std::string what = "interface " + setting.interface;
    const Visit visit(setting.space);
    // Without a protocol nothing comes in before the filter is there and the interface is known.
    socket_ = Descriptor(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (number() < 0) throw_system(what);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(setting.interface.c_str()));
    if (address.sll_ifindex == 0) throw_system(what);
    set(number(), SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, what);
    set(number(), SOL_SOCKET, SO_TIMESTAMPNS, 1, what);
    set(number(), SOL_SOCKET, SO_RCVBUFFORCE, buffer_bytes, what);
    set(number(), SOL_SOCKET, SO_SNDBUFFORCE, buffer_bytes, what);
    if (setting.nic) filter_nic(number(), what);
    if (bind(number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        throw_system(what);
    }
}

std::size_t FrameSocket::receive(FrameStore& store, std::size_t most, std::vector<Arrival>& into) {
    while (spare_.size() < batch) spare_.push_back(store.take());
    std::array<mmsghdr, batch> messages{};
    std::array<iovec, batch> places{};
    std::array<std::array<char, CMSG_SPACE(sizeof(timespec))>, batch> stamps;
    for (std::size_t i = 0; i < batch; ++i) {
        // The last spare first: a place that was just given back is warm.
        places[i] = {store.bytes(spare_[batch - 1 - i]), store.capacity()};
        msghdr& header = messages[i].msg_hdr;
        header.msg_iov = &places[i];
        header.msg_iovlen = 1;
        header.msg_control = stamps[i].data();
        header.msg_controllen = stamps[i].size();
    }
    const int got = recvmmsg(number(), messages.data(), batch, MSG_DONTWAIT | MSG_TRUNC, nullptr);
    if (got <= 0) return 0;  // nothing there, or the interface is down
    const auto count = static_cast<std::size_t>(got);
    received_ += got;
    for (std::size_t i = 0; i < count; ++i) {
        const PacketId id = spare_.back();
        spare_.pop_back();
        if (messages[i].msg_len > most) {
            ++oversized_;
            store.give(id);
            continue;
        }
        store.set_length(id, messages[i].msg_len);
        into.push_back({stamp_of(messages[i].msg_hdr), port_, id});
    }
    return count;
}

void FrameSocket::transmit(FrameStore& store, std::size_t first, std::size_t count) {
    std::array<mmsghdr, batch> messages{};
    std::array<iovec, batch> places{};
    for (std::size_t i = 0; i < count; ++i) {
        const PacketId id = waiting_[first + i].id;
        places[i] = {store.bytes(id), store.length(id)};
        messages[i].msg_hdr.msg_iov = &places[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    for (std::size_t done = 0; done < count;) {
        const auto left = static_cast<unsigned>(count - done);
        const int sent = sendmmsg(number(), &messages[done], left, 0);
        if (sent > 0) {
            sent_ += sent;
            done += static_cast<std::size_t>(sent);
        } else if (errno != EINTR) {
            ++drops_;
            ++done;
        }
    }
}

std::int64_t FrameSocket::drops() {
    tpacket_stats stats{};
    socklen_t size = sizeof stats;
    if (getsockopt(number(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0) {
        drops_ += stats.tp_drops;  // reading sets it back
    }
    return drops_;
}

}  // namespace kvfabric
