// The present state of ports in a file that other processes read: bytes that wait, stopped
// priorities, time spent sending. Each number is written at once.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <string>

#include "../port.hpp"
#include "descriptor.hpp"

namespace kvfabric {

class StateFile {
public:
    // One row a port of the fabric; the file is there. Throws std::system_error.
    StateFile(const std::string& path, std::size_t ports) : bytes_(ports * sizeof(Row)) {
        const Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
        if (file.number() < 0) throw_system(path);
        if (lseek(file.number(), 0, SEEK_END) < static_cast<off_t>(bytes_)) {
            errno = EINVAL;
            throw_system(path + ": shorter than one row a port");
        }
        void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
        if (at == MAP_FAILED) throw_system(path);
        rows_ = static_cast<Row*>(at);
    }
    StateFile(const StateFile&) = delete;
    StateFile& operator=(const StateFile&) = delete;
    ~StateFile() { munmap(rows_, bytes_); }

    void write(std::size_t place, const Port& port, Time now) {
        Row& row = rows_[place];
        store(row.queued, port.waiting);
        store(row.paused, port.paused);
        store(row.busy, port.busy_time + (port.busy ? now - port.began : 0));
    }

private:
    struct Row {
        std::int64_t queued;
        std::int64_t paused;
        std::int64_t busy;
    };

    static void store(std::int64_t& at, std::int64_t value) {
        std::atomic_ref<std::int64_t>(at).store(value, std::memory_order_relaxed);
    }

    std::size_t bytes_;
    Row* rows_ = nullptr;
};

}  // namespace kvfabric
