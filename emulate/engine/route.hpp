// The path of one flow: equal-cost multipath by hash, or a pinned path number.
//
// At each node the 5-tuple's hash, salted by the node, picks one of the equal-cost next hops. A
// pinned number is read in mixed radix: at each node it picks (number mod choices) and goes on
// with (number / choices), so that 0, 1, 2, ... count through all paths.
#pragma once

#include <vector>

#include "hash.hpp"
#include "setting.hpp"

namespace kvfabric {

// Where the paths of a flow and of its answers begin in a table of ports.
struct Ways {
    std::uint32_t there = 0;
    std::uint32_t back = 0;
    std::uint8_t hops = 0;  // there
};

class Router {
public:
    Router(const FabricSetting& fabric, RouteSetting routes)
        : fabric_(fabric), routes_(std::move(routes)) {}

    // Appends the paths of a flow and of its answers; nothing, when one of them does not exist.
    std::optional<Ways> ways(const FlowSetting& flow, std::uint64_t seed,
                             std::vector<std::uint32_t>& paths) {
        const auto source = static_cast<std::uint64_t>(flow.source);
        const auto destination = static_cast<std::uint64_t>(flow.destination);
        const std::uint64_t there = tuple_hash(seed, source, destination, flow.entropy);
        const std::uint64_t back = tuple_hash(seed, destination, source, flow.entropy);
        const std::size_t first = paths.size();
        if (!resolve(flow.source, flow.destination, there, flow.path, paths)) return std::nullopt;
        const std::size_t second = paths.size();
        if (!resolve(flow.destination, flow.source, back, -1, paths)) {
            paths.resize(first);
            return std::nullopt;
        }
        return Ways{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second),
                    static_cast<std::uint8_t>(second - first)};
    }

    // The port by which a node sends on what has this 5-tuple; -1 when it has no way there.
    std::int32_t next(std::int32_t node, std::int32_t destination, std::uint64_t tuple) {
        gather(node, destination);
        if (choices_.empty()) return -1;
        const auto count = static_cast<std::uint32_t>(choices_.size());
        return choices_[choose(tuple, static_cast<std::uint64_t>(node), count)];
    }

private:
    static constexpr int most_hops = 128;

    // Appends the ports of the path; false, with nothing appended, when there is none.
    bool resolve(std::int32_t source, std::int32_t destination, std::uint64_t tuple,
                 std::int32_t pinned, std::vector<std::uint32_t>& path) {
        const std::size_t before = path.size();
        std::int32_t node = source;
        for (int hop = 0; hop < most_hops; ++hop) {
            gather(node, destination);
            if (choices_.empty()) break;
            const auto count = static_cast<std::uint32_t>(choices_.size());
            std::uint32_t index = 0;
            if (pinned >= 0) {
                index = static_cast<std::uint32_t>(pinned) % count;
                pinned = static_cast<std::int32_t>(static_cast<std::uint32_t>(pinned) / count);
            } else {
                index = choose(tuple, static_cast<std::uint64_t>(node), count);
            }
            const std::int32_t port = choices_[index];
            path.push_back(static_cast<std::uint32_t>(port));
            node = at(fabric_.node, at(fabric_.reverse, port));
            if (node == destination) return true;
            if (at(fabric_.is_switch, node) == 0) break;
        }
        path.resize(before);
        return false;
    }

    template <typename T>
    static T at(const std::vector<T>& values, std::int64_t index) {
        return values[static_cast<std::size_t>(index)];
    }

    // The next hops of a node: the links straight to the host, or those of its group.
    void gather(std::int32_t node, std::int32_t destination) {
        choices_.clear();
        const auto begin = at(routes_.host_first, destination);
        const auto end = at(routes_.host_first, destination + 1);
        for (auto i = begin; i < end; ++i) {
            const std::int32_t port = at(routes_.host_ports, i);
            if (at(fabric_.node, port) == node) choices_.push_back(port);
        }
        const std::int32_t group = at(routes_.group, destination);
        if (!choices_.empty() || group < 0) return;
        const std::int64_t row = std::int64_t{node} * routes_.groups + group;
        for (auto i = at(routes_.first, row); i < at(routes_.first, row + 1); ++i) {
            choices_.push_back(at(routes_.ports, i));
        }
    }

    const FabricSetting& fabric_;
    RouteSetting routes_;
    std::vector<std::int32_t> choices_;
};

}  // namespace kvfabric
