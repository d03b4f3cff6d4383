// Memory of the fast core in large pages, so that a fabric of many ports does not spend its time
// looking up where its pages are.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace kvfabric {

inline constexpr std::size_t large_page = std::size_t{2} << 20;

// So many bytes, rounded up, in large pages where they fill one and the system has any.
inline void* take_pages(std::size_t bytes) {
    const std::size_t unit = bytes < large_page ? 64 : large_page;
    const std::size_t size = (bytes + unit - 1) / unit * unit;
    void* const at = std::aligned_alloc(unit, size);
    if (at == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (unit == large_page) madvise(at, size, MADV_HUGEPAGE);  // advice: it may be refused
#endif
    return at;
}

// Asks for memory that will soon be read and written.
inline void fetch_lines(const void* at, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 64) {
        __builtin_prefetch(static_cast<const char*>(at) + i, 1);
    }
}

// For a vector that is as long as the fabric has ports.
template <typename T>
struct LargePages {
    using value_type = T;

    LargePages() = default;
    template <typename U>
    explicit(false) LargePages(const LargePages<U>&) {}

    T* allocate(std::size_t count) { return static_cast<T*>(take_pages(count * sizeof(T))); }
    void deallocate(T* at, std::size_t) { std::free(at); }
    bool operator==(const LargePages&) const { return true; }
};

// Blocks whose sizes are powers of two times a cache line. What is given back to one arena may have
// been taken from another, as long as both live; a block is taken and given by one thread at a time.
class Arena {
public:
    void* take(std::size_t bytes) {
        std::vector<void*>& free = free_[place(bytes)];
        if (!free.empty()) {
            void* const at = free.back();
            free.pop_back();
            return at;
        }
        if (left_ < bytes) grow(bytes);
        void* const at = next_;
        next_ += bytes;
        left_ -= bytes;
        return at;
    }

    void give(void* at, std::size_t bytes) { free_[place(bytes)].push_back(at); }

private:
    struct Free {
        void operator()(void* at) const { std::free(at); }
    };

    static std::size_t place(std::size_t bytes) {
        return static_cast<std::size_t>(std::countr_zero(bytes));
    }

    // The first piece is small, so that a small fabric stays so.
    void grow(std::size_t bytes) {
        left_ = std::max({bytes, piece_});
        piece_ = std::min(2 * piece_, 4 * large_page);
        pieces_.emplace_back(take_pages(left_));
        next_ = static_cast<std::byte*>(pieces_.back().get());
    }

    std::array<std::vector<void*>, 64> free_;  // by size
    std::vector<std::unique_ptr<void, Free>> pieces_;
    std::byte* next_ = nullptr;
    std::size_t left_ = 0;
    std::size_t piece_ = std::size_t{1} << 14;
};

}  // namespace kvfabric
