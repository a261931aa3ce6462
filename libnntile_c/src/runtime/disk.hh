// SPDX-License-Identifier: BSD-3-Clause
// Disk: a file of ours that holds tiles which left main memory. Nobody else sees it, and it is gone
// when the process is, however that ends.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace nntile::runtime {

struct Transfer {           // embedded in its user's struct; alive until `done` was called
    int64_t at = 0;         // place in the file, from Disk::reserve
    void* block = nullptr;  // memory; any alignment
    int64_t bytes = 0;
    bool writes = false;
    // On a thread of the disk, without its lock. Error: errno, or 0. May start others; must not
    // throw or destroy the disk.
    void (*done)(Transfer&, int error) = nullptr;

    // The disk's own, from start on.
    Transfer* next = nullptr;
    int64_t taken = 0;  // bytes that threads have taken up
    int64_t left = 0;   // pieces that are not done
    int failed = 0;
};

// Where tiles are that have left main memory.
class Backing {
public:
    virtual ~Backing() = default;
    virtual int64_t reserve(int64_t bytes) = 0;
    virtual void free(int64_t at, int64_t bytes) = 0;
    virtual void start(Transfer& transfer) = 0;
    virtual int64_t most_bytes() const = 0;
    virtual int64_t used_bytes() const = 0;
    virtual const std::string& folder() const = 0;
};

class Disk final : public Backing {
public:
    static constexpr int64_t unit = 4096;  // places and what they take are multiples of it

    // Makes a file in the folder. invalid_argument: the folder is missing, is none, or takes no
    // files; out_of_memory: it has no space at all.
    Disk(std::string folder, int64_t most_bytes);
    Disk(const Disk&) = delete;
    Disk& operator=(const Disk&) = delete;
    // Waits for what was started. In a child after fork, which has no threads, closes only.
    ~Disk() override;

    // A place for so many bytes; -1: with them, more than most_bytes would be used.
    int64_t reserve(int64_t bytes) override;
    void free(int64_t at,
              int64_t bytes) override;  // both as in reserve; no transfer of it may be under way
    // Reads go before writes, but one piece in four is a write while some wait.
    void start(Transfer& transfer) override;

    int64_t most_bytes() const override { return most_bytes_; }
    int64_t used_bytes() const override;  // in units: what is reserved
    const std::string& folder() const override { return folder_; }

private:
    static constexpr int max_threads = 4;
    static constexpr int64_t piece = int64_t{1} << 20;
    static_assert(piece % unit == 0);

    struct File {
        int fd = -1;
        ~File();
    };
    struct Release {
        void operator()(char* block) const;
    };
    struct Lane {
        Disk* disk = nullptr;
        pthread_t thread{};
        std::unique_ptr<char, Release> bounce;  // a piece whose place in memory is not aligned
    };
    struct Hole {
        int64_t bytes = 0;
        int64_t backed = 0;  // of them, those that the file may still have space for
    };
    struct Queue {
        Transfer* first = nullptr;
        Transfer* last = nullptr;
    };

    void open();
    void try_file();
    void start_threads();
    void add_hole(int64_t at, int64_t bytes);
    bool punch_holes();
    bool punch(int64_t at, int64_t bytes);
    static void* thread(void* lane);
    void run(Lane& lane);
    Transfer* take(int64_t& from, int64_t& bytes);
    int move(const Transfer& transfer, int64_t from, int64_t bytes, char* bounce);
    int move_all(bool writes, char* block, int64_t bytes, int64_t at);

    const std::string folder_;
    const int64_t most_bytes_;
    const pid_t process_;
    File file_;
    bool direct_ = false;   // past the page cache
    bool punches_ = false;  // the file gives up space

    mutable std::mutex space_;
    std::map<int64_t, Hole> holes_;
    int64_t end_ = 0;
    int64_t used_ = 0;
    int64_t backed_ = 0;  // of the holes; with used_ at most most_bytes_

    std::mutex mutex_;
    Queue reads_, writes_;
    int reads_in_a_row_ = 0;
    // A semaphore counts the pieces that wait, not a condition variable: to destroy one hangs in a
    // child, where the threads that wait are gone.
    sem_t work_{};
    std::array<Lane, max_threads> lanes_;
    int threads_ = 0;
};

}  // namespace nntile::runtime
