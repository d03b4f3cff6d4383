// The fast core's nodes spread over threads.
//
// Each worker has some of the hosts and some of the switches, side by side by number and alike in
// ports, so that every phase keeps all of them busy. They meet once a phase.
#include "core.hpp"

namespace kvfabric {

void Core::use_threads(std::uint32_t threads) {
    if (!flows_.empty() || !threads_.empty()) {
        throw std::logic_error("threads are chosen once, before the first flow");
    }
    share_out(threads);
}

void Core::share_out(std::uint32_t threads) {
    workers_.clear();
    const auto kind = [](const CoreNode& node) { return node.is_host ? 2u : node.of; };
    std::array<std::uint64_t, 3> ports{};
    for (const CoreNode& node : nodes_) ports[kind(node)] += node.count + 1;
    for (std::uint32_t index = 0; index < threads; ++index) {
        Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
        worker.index = index;
        for (auto& woken : worker.woken) woken.resize(threads);
    }
    std::array<std::uint64_t, 3> before{};
    for (CoreNode& node : nodes_) {
        const auto k = kind(node);
        node.worker = static_cast<std::uint32_t>(before[k] * threads / ports[k]);
        before[k] += node.count + 1;
        std::vector<std::uint32_t>& mine = workers_[node.worker]->node[node.of];
        node.slot = static_cast<std::uint32_t>(mine.size());
        mine.push_back(static_cast<std::uint32_t>(&node - nodes_.data()));
        for (std::uint32_t i = 0; i < node.count; ++i) {
            node.ports[i].worker = static_cast<std::uint16_t>(node.worker);
            node.ports[i].slot = node.slot;
        }
    }
    for (const auto& worker : workers_) {
        for (const NodeClass of : classes) {
            worker->nodes[of] = KeyTree(worker->node[of].size());
            for (const std::uint32_t n : worker->node[of]) {
                worker->nodes[of].set(nodes_[n].slot, nodes_[n].next());
            }
        }
    }
    barrier_.emplace(threads);
    for (std::uint32_t index = 1; index < threads; ++index) {
        threads_.emplace_back([this, index] { work(index); });
    }
}

// Runs all workers to the same end.
Time Core::run_until(Time end) {
    if (workers_.size() > 1) {
        end_ = end;
        started_.fetch_add(1, std::memory_order_release);
        started_.notify_all();
    }
    end = run(*workers_.front(), end);
    barrier_->wait();
    return end;
}

// What a thread does: every run, until the engine is over.
void Core::work(std::uint32_t index) {
    for (std::uint32_t done = 0;; ++done) {
        started_.wait(done, std::memory_order_acquire);
        if (over_.load(std::memory_order_relaxed)) return;
        run(*workers_[index], end_);
        barrier_->wait();
    }
}

Core::~Core() {
    over_.store(true, std::memory_order_relaxed);
    started_.fetch_add(1, std::memory_order_release);
    started_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

}  // namespace kvfabric
