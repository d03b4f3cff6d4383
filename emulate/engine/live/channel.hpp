// The line to the main process: flows come in, completed flows go out, its end ends the run.
//
// A SOCK_SEQPACKET socket; a message is rows without padding, in the machine's byte order.
#pragma once

#include <vector>

#include "../setting.hpp"

namespace kvfabric {

struct Landed {
    std::int64_t flow;
    std::int64_t handoff;
    Time finish;
    Time sender_done;  // -1: not yet
    Time seen;         // when the flow was handed over
};

class Channel {
public:
    static constexpr std::size_t most_rows = 1024;

    explicit Channel(int socket) : socket_(socket) {}

    int number() const { return socket_; }

    // Appends the flows that have come; false when the other side has shut down. Throws
    // std::runtime_error for a message that is not of whole rows.
    bool receive(std::vector<FlowSetting>& flows);

    // Sends what waits, as far as there is room.
    void put(const Landed& row) { waiting_.push_back(row); }
    void flush();

private:
    int socket_ = -1;
    std::vector<Landed> waiting_;
};

}  // namespace kvfabric
