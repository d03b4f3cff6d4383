// The nodes that a span visits, and, some visits ahead of each, at which ports frames are due.
#pragma once

#include <span>
#include <vector>

#include "core_port.hpp"

namespace kvfabric {

class VisitList {
public:
    void clear() {
        nodes_.clear();
        ports_.clear();
        ends_.assign(1, 0);
    }

    void add(CoreNode& node) { nodes_.push_back(&node); }

    std::size_t nodes() const { return nodes_.size(); }
    CoreNode& node(std::size_t visit) const { return *nodes_[visit]; }

    // Looks at which ports a frame arrives before the limit, up to those of a visit.
    void list(std::size_t visit, std::uint64_t limit) {
        const std::size_t end = std::min(visit + 1, nodes_.size());
        while (ends_.size() <= end) {
            const CoreNode& node = *nodes_[ends_.size() - 1];
            const std::uint64_t* keys = node.leaves.keys();
            for (std::uint32_t i = 0; i < node.count; ++i) {
                const bool due = keys[i] < limit && kind_of(keys[i]) == EventKind::arrival;
                if (due) ports_.push_back(&node.ports[i]);
            }
            ends_.push_back(ports_.size());
            if (ends_.size() + 1 < nodes_.size()) {
                fetch_lines(nodes_[ends_.size() + 1], sizeof(CoreNode));
            }
            if (ends_.size() < nodes_.size()) {
                fetch_lines(nodes_[ends_.size()]->leaves.keys(), 256);
            }
        }
    }

    // The ports where frames are due in a visit which has been listed; none if there is no such visit.
    std::span<CorePort* const> due(std::size_t visit) const {
        if (visit >= nodes_.size()) return {};
        return std::span(ports_).subspan(ends_[visit], ends_[visit + 1] - ends_[visit]);
    }

private:
    std::vector<CoreNode*> nodes_;
    std::vector<CorePort*> ports_;
    std::vector<std::size_t> ends_{0};  // of the ports of each visit that is listed
};

}  // namespace kvfabric
