// Where the threads of the fast core wait for each other: they spin for a while, then yield, so
// that more threads than processors go slowly but go.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace kvfabric {

class Barrier {
public:
    explicit Barrier(std::uint32_t count) : count_(count) {}

    // Returns once all have come.
    void wait() {
        if (count_ == 1) return;
        const std::uint32_t round = round_.load(std::memory_order_relaxed);
        if (come_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
            come_.store(0, std::memory_order_relaxed);
            round_.store(round + 1, std::memory_order_release);
            return;
        }
        for (int tries = 0; round_.load(std::memory_order_acquire) == round; ++tries) {
            if (tries > spins) std::this_thread::yield();
        }
    }

private:
    static constexpr int spins = 2000;

    std::uint32_t count_;
    alignas(64) std::atomic<std::uint32_t> come_{0};
    alignas(64) std::atomic<std::uint32_t> round_{0};
};

}  // namespace kvfabric
