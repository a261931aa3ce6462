// SPDX-License-Identifier: BSD-3-Clause
// A disk gives back what it was given, keeps to its limit, says what went wrong, and leaves nothing
// in its folder.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.hh"
#include "runtime/disk.hh"

using namespace nntile;
using namespace nntile::runtime;

namespace {

constexpr int64_t mib = 1 << 20;
constexpr int64_t unit = Disk::unit;
std::string folder;

struct Block {
    explicit Block(int64_t bytes, int64_t shift = 0)
        : all(static_cast<unsigned char*>(std::aligned_alloc(
              4096, static_cast<size_t>(bytes + shift + 2 * 4096) / 4096 * 4096))),
          data(all + shift),
          bytes(bytes) {}
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { std::free(all); }
    void fill(uint64_t seed) {
        for (int64_t i = 0; i < bytes; i += 8) {
            const uint64_t word = mark(seed, i);
            std::memcpy(data + i, &word, static_cast<size_t>(std::min<int64_t>(8, bytes - i)));
        }
    }
    void clear() { std::memset(data, 0, static_cast<size_t>(bytes)); }
    bool holds(uint64_t seed) const {
        for (int64_t i = 0; i < bytes; i += 8) {
            const uint64_t word = mark(seed, i);
            if (std::memcmp(data + i, &word, static_cast<size_t>(std::min<int64_t>(8, bytes - i))))
                return false;
        }
        return true;
    }
    static uint64_t mark(uint64_t seed, int64_t i) {
        return (seed + static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15;
    }
    unsigned char* const all;
    unsigned char* const data;
    const int64_t bytes;
};

// Transfers of one thread, and a wait for them.
struct Moves {
    struct Move : Transfer {
        Moves* all = nullptr;
        int error = -1;
    };
    void start(Disk& disk, Move& move, int64_t at, const Block& block, bool writes) {
        move.at = at;
        move.block = block.data;
        move.bytes = block.bytes;
        move.writes = writes;
        move.all = this;
        move.done = [](Transfer& transfer, int error) {
            auto& m = static_cast<Move&>(transfer);
            std::lock_guard lock(m.all->mutex);
            m.error = error;
            --m.all->left;
            m.all->changed.notify_all();
        };
        {
            std::lock_guard lock(mutex);
            ++left;
        }
        disk.start(move);
    }
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return left == 0; });
    }
    std::mutex mutex;
    std::condition_variable changed;
    int left = 0;
};

int move(Disk& disk, int64_t at, const Block& block, bool writes) {
    Moves moves;
    Moves::Move one;
    moves.start(disk, one, at, block, writes);
    moves.wait();
    return one.error;
}

int64_t in_units(int64_t bytes) { return (bytes + unit - 1) / unit * unit; }

int files_in(const std::string& path) {
    int n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
        static_cast<void>(entry);
        ++n;
    }
    return n;
}

// The open file of a disk in the folder, which has no name there: its descriptor.
int descriptor(const std::string& path) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code error;
        const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
        if (target.starts_with(path + "/") && target.ends_with(" (deleted)"))
            return std::stoi(entry.path().filename().string());
    }
    return -1;
}

// Several threads write, read and free places of their own; each finds what it wrote.
void random_transfers() {
    constexpr int64_t most = 96 * mib;
    Disk disk(folder, most);
    std::atomic<int64_t> used{0}, wrong{0}, refused{0};
    std::atomic<int> overlaps{0};
    std::mutex mutex;
    std::map<int64_t, int64_t> places;
    auto work = [&](uint64_t seed) {
        std::mt19937_64 random(seed);
        struct Held {
            int64_t at;
            uint64_t seed;
            std::unique_ptr<Block> block;
            std::unique_ptr<Moves::Move> move = std::make_unique<Moves::Move>();
        };
        std::vector<Held> held;
        Moves moves;
        for (int round = 0; round < 8; ++round) {
            for (int i = 0; i < 12; ++i) {
                int64_t bytes = 1 + static_cast<int64_t>(random() % (9u << 20) >> (random() % 20));
                const bool even = random() % 2 != 0;
                if (even) bytes = in_units(bytes);
                const int64_t at = disk.reserve(bytes);
                if (at < 0) {
                    ++refused;
                    continue;
                }
                CHECK(at % unit == 0);
                {
                    std::lock_guard lock(mutex);
                    const auto next = places.lower_bound(at);
                    overlaps += next != places.end() && next->first < at + in_units(bytes);
                    overlaps += next != places.begin() && std::prev(next)->second > at;
                    places.emplace(at, at + in_units(bytes));
                }
                used += in_units(bytes);
                const int64_t shift =
                    even || i % 3 == 0 ? 0 : static_cast<int64_t>(random() % 4096);
                held.push_back({at, random(), std::make_unique<Block>(bytes, shift)});
                held.back().block->fill(held.back().seed);
                moves.start(disk, *held.back().move, at, *held.back().block, true);
            }
            moves.wait();
            for (Held& h : held) {
                wrong += h.move->error != 0;
                h.block->clear();
                moves.start(disk, *h.move, h.at, *h.block, false);
            }
            moves.wait();
            for (size_t i = 0; i < held.size();) {
                wrong += held[i].move->error != 0 || !held[i].block->holds(held[i].seed);
                if (random() % 3 == 0) {
                    ++i;
                    continue;
                }
                {
                    std::lock_guard lock(mutex);
                    places.erase(held[i].at);
                }
                used -= in_units(held[i].block->bytes);
                disk.free(held[i].at, held[i].block->bytes);
                std::swap(held[i], held.back());
                held.pop_back();
            }
            wrong += disk.used_bytes() > most;
        }
        std::lock_guard lock(mutex);
        for (const Held& h : held) {
            places.erase(h.at);
            disk.free(h.at, h.block->bytes);
            used -= in_units(h.block->bytes);
        }
    };
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 3; ++t) threads.emplace_back(work, t + 1);
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(overlaps == 0);
    CHECK(refused < 100);
    CHECK(used == 0 && disk.used_bytes() == 0);
}

// A place is refused when it would take more than the limit, and only then: many short holes serve
// a long place, and the file takes no more space than the limit.
void limit() {
    Disk disk(folder, 64 * unit + 17);
    CHECK(disk.most_bytes() == 64 * unit + 17 && disk.folder() == folder);
    CHECK(disk.reserve(64 * unit + 1) == -1);
    CHECK(disk.reserve(INT64_MAX) == -1);
    CHECK(disk.used_bytes() == 0);
    std::vector<int64_t> at;
    const Block block(unit);
    for (int i = 0; i < 64; ++i) {
        at.push_back(disk.reserve(i % 2 ? unit : unit - 17));
        CHECK(at.back() == i * unit);
        CHECK(move(disk, at.back(), block, true) == 0);
    }
    CHECK(disk.used_bytes() == 64 * unit);
    CHECK(disk.reserve(1) == -1);
    for (size_t i = 1; i < 64; i += 2) disk.free(at[i], unit);
    CHECK(disk.used_bytes() == 32 * unit);
    CHECK(disk.reserve(32 * unit + 1) == -1);
    CHECK(disk.reserve(unit) == unit);  // the first hole
    Block large(31 * unit);
    const int64_t place = disk.reserve(31 * unit);
    // A filesystem may keep the space of holes; then it has no room.
    if (place >= 0) {
        large.fill(5);
        CHECK(move(disk, place, large, true) == 0);
        large.clear();
        CHECK(move(disk, place, large, false) == 0);
        CHECK(large.holds(5));
        struct stat file{};
        const int fd = descriptor(folder);
        CHECK(fd >= 0 && fstat(fd, &file) == 0);
        CHECK(file.st_blocks * 512 <= 64 * unit + 64 * 1024);  // the filesystem's own tables
        CHECK(disk.used_bytes() == 64 * unit && disk.reserve(1) == -1);
        disk.free(place, 31 * unit);
    }
    for (size_t i = 0; i < 64; i += 2) disk.free(at[i], unit - 17);
    disk.free(unit, unit);
    CHECK(disk.used_bytes() == 0);
    CHECK(disk.reserve(64 * unit) == 0);  // neighbours have joined

    // A hole at the end of the file is the start of a longer place.
    Disk another(folder, mib);
    const int64_t first = another.reserve(unit), last = another.reserve(unit);
    another.free(last, unit);
    CHECK(another.reserve(2 * unit) == last);
    another.free(first, unit);
    CHECK(another.reserve(2 * unit) == last + 2 * unit && another.used_bytes() == 4 * unit);
}

void folders() {
    const std::string missing = folder + "/none", file = folder + "/file";
    CHECK_ERROR(invalid_argument, "'" + missing + "'", Disk(missing, mib));
    CHECK_ERROR(invalid_argument, "No such file", Disk(missing, mib));
    std::ofstream(file) << "x";
    CHECK_ERROR(invalid_argument, "'" + file + "': Not a directory", Disk(file, mib));
    std::filesystem::remove(file);
    const std::string closed = folder + "/closed";
    mkdir(closed.c_str(), 0500);
    if (access(closed.c_str(), W_OK) != 0)
        CHECK_ERROR(invalid_argument, "Permission denied", Disk(closed, mib));
    rmdir(closed.c_str());
}

// Nobody sees the file, or opens it by another way; those of dead processes go, others stay.
void nothing_is_left() {
    const pid_t dead = fork();
    if (dead == 0) _exit(0);
    waitpid(dead, nullptr, 0);
    auto named = [&](pid_t process, const char* rest) {
        std::string path = text_of(folder, "/nntile-swap-", process, rest);
        std::ofstream(path) << "x";
        return path;
    };
    const std::string left = named(dead, "-aB3xyz"), live = named(getpid(), "-aB3xyz"),
                      other = named(dead, "-aB3xyz.txt"), third = named(dead, "");
    Disk disk(folder, mib);
    CHECK(!std::filesystem::exists(left));
    for (const std::string& path : {live, other, third}) CHECK(std::filesystem::remove(path));
    const int64_t at = disk.reserve(unit);
    const Block block(unit);
    CHECK(move(disk, at, block, true) == 0);
    CHECK(files_in(folder) == 0);
    struct stat file{};
    const int fd = descriptor(folder);
    CHECK(fd >= 0 && fstat(fd, &file) == 0);
    CHECK((file.st_mode & 0777) == 0600 && file.st_nlink == 0);
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

// Places that were never written end the file; a bad address is an error of its transfer only.
void errors() {
    Disk disk(folder, 64 * mib);
    const int64_t first = disk.reserve(3 * mib), second = disk.reserve(3 * mib);
    Block block(3 * mib);
    block.fill(1);
    CHECK(move(disk, first, block, true) == 0);
    CHECK(move(disk, second, block, false) == EIO);
    Moves moves;
    Moves::Move bad, good;
    moves.start(disk, bad, second, block, true);
    moves.wait();
    CHECK(bad.error == 0);
    bad.block = nullptr;
    bad.error = -1;
    moves.left = 1;
    disk.start(bad);
    moves.start(disk, good, first, block, false);
    moves.wait();
    CHECK(bad.error == EFAULT && good.error == 0 && block.holds(1));
    Block none(0);
    CHECK(move(disk, first, none, true) == 0 && move(disk, first, none, false) == 0);
}

// In a child, whose limits and mounts are its own. A signal would end it.
template <class Work>
int in_child(Work&& work) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const int before = test::failures;
        work();
        std::fflush(stdout);
        _exit(test::failures != before);
    }
    int status = -1;
    for (int i = 0; i < 3000 && waitpid(child, &status, WNOHANG) == 0; ++i) {
        usleep(10000);
        if (i == 2999) kill(child, SIGKILL);
    }
    return status;
}

// A file that may not grow: the error says so, and what it holds stays.
void full() {
    CHECK(in_child([] {
              rlimit small{5 * mib + 512 * 1024, 5 * mib + 512 * 1024};
              setrlimit(RLIMIT_FSIZE, &small);
              Disk disk(folder, 64 * mib);
              Block block(3 * mib);
              block.fill(2);
              const int64_t first = disk.reserve(3 * mib), second = disk.reserve(3 * mib);
              CHECK(move(disk, first, block, true) == 0);
              CHECK(move(disk, second, block, true) == EFBIG);
              block.clear();
              CHECK(move(disk, first, block, false) == 0 && block.holds(2));
          }) == 0);
    // A filesystem of 2 MiB, where this process may mount one; others do not see it.
    const std::string small = folder + "/small";
    mkdir(small.c_str(), 0700);
    CHECK(in_child([&] {
              if (unshare(CLONE_NEWNS) != 0) return;
              if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
              if (mount("none", small.c_str(), "tmpfs", 0, "size=2m") != 0) return;
              Disk disk(small, 64 * mib);
              const Block block(mib), large(3 * mib);
              const int64_t first = disk.reserve(mib), second = disk.reserve(3 * mib);
              CHECK(move(disk, first, block, true) == 0);
              CHECK(move(disk, second, large, true) == ENOSPC);
              std::ofstream(small + "/rest") << std::string(static_cast<size_t>(2 * mib), 'x');
              CHECK_ERROR(out_of_memory, "'" + small + "': No space left", Disk(small, mib));
          }) == 0);
    rmdir(small.c_str());
}

// All that was started is done before the disk is gone, what others start from `done` too.
void destructor_waits() {
    struct Chain : Transfer {
        Disk* disk;
        std::atomic<int> left{20};
    } chain;
    Block block(2 * mib + 5);
    block.fill(3);
    Moves moves;
    std::vector<Moves::Move> many(8);
    {
        Disk disk(folder, 64 * mib);
        chain.disk = &disk;
        chain.at = disk.reserve(block.bytes);
        chain.block = block.data;
        chain.bytes = block.bytes;
        chain.writes = true;
        chain.done = [](Transfer& t, int error) {
            auto& c = static_cast<Chain&>(t);
            CHECK(error == 0);
            if (--c.left > 0) c.disk->start(c);
        };
        disk.start(chain);
        for (auto& m : many) moves.start(disk, m, disk.reserve(block.bytes), block, true);
    }
    CHECK(moves.left == 0 && chain.left == 0);
}

// Reads go first, but writes do not starve; each kind keeps its order.
void order() {
    struct Notes {
        std::mutex mutex, three, fourth;
        std::vector<int> order;
        std::atomic<int> held{0};
    } notes;
    struct Noted : Transfer {
        Notes* notes;
        int number;
        std::mutex* gate;
    };
    constexpr int n = 40;
    std::vector<Noted> gates(4), all(2 * n);
    Disk disk(folder, mib);
    // Of four threads three wait in `done` to the end, the last until all are in the queue.
    notes.three.lock();
    notes.fourth.lock();
    for (int i = 0; i < 4; ++i) {
        Noted& t = gates[static_cast<size_t>(i)];
        t.notes = &notes;
        t.gate = i < 3 ? &notes.three : &notes.fourth;
        t.done = [](Transfer& transfer, int) {
            const auto& noted = static_cast<Noted&>(transfer);
            ++noted.notes->held;
            std::lock_guard lock(*noted.gate);
        };
        disk.start(t);
        while (notes.held <= i) usleep(100);
    }
    for (int i = 0; i < 2 * n; ++i) {
        Noted& t = all[static_cast<size_t>(i)];
        t.writes = i < n;
        t.notes = &notes;
        t.number = i;
        t.done = [](Transfer& transfer, int) {
            const auto& noted = static_cast<Noted&>(transfer);
            std::lock_guard lock(noted.notes->mutex);
            noted.notes->order.push_back(noted.number);
        };
        disk.start(t);
    }
    notes.fourth.unlock();
    for (bool done = false; !done; usleep(100)) {
        std::lock_guard lock(notes.mutex);
        done = notes.order.size() == 2 * n;
    }
    notes.three.unlock();
    int next_write = 0, next_read = n, row = 0, most_row = 0, writes_before_reads = 0;
    for (const int number : notes.order) {
        const bool write = number < n;
        CHECK(number == (write ? next_write++ : next_read++));
        row = write ? 0 : row + 1;
        most_row = std::max(most_row, row);
        writes_before_reads += write && next_read < 2 * n;
    }
    CHECK(most_row == 3);
    CHECK(writes_before_reads <= n / 3 + 1);
}

// The child of a fork has no threads of the disk: it ends without them, and harms nothing.
void forked_child() {
    Disk disk(folder, 64 * mib);
    Block block(mib);
    block.fill(4);
    const int64_t at = disk.reserve(mib);
    CHECK(move(disk, at, block, true) == 0);
    CHECK(in_child([&] { disk.~Disk(); }) == 0);
    block.clear();
    CHECK(move(disk, at, block, false) == 0 && block.holds(4));
}

// A signal goes to threads of the program.
void signals_are_blocked() {
    Disk disk(folder, mib);
    int threads = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream status(entry.path() / "status");
        std::string line, name;
        unsigned long long blocked = 0;
        while (std::getline(status, line)) {
            if (line.starts_with("Name:")) name = line.substr(6);
            if (line.starts_with("SigBlk:")) blocked = std::stoull(line.substr(8), nullptr, 16);
        }
        if (name != "nntile-disk") continue;
        ++threads;
        for (const int s : {SIGINT, SIGTERM, SIGALRM, SIGXFSZ, SIGPROF})
            CHECK((blocked >> (s - 1) & 1) != 0);
    }
    CHECK(threads == 4);
}

}  // namespace

int main() {
    const char* temporary = std::getenv("TMPDIR");
    folder = std::string(temporary ? temporary : "/tmp") + "/nntile-test-disk-XXXXXX";
    if (!mkdtemp(folder.data())) {
        std::puts("no folder for the test");
        return 1;
    }
    random_transfers();
    limit();
    folders();
    nothing_is_left();
    errors();
    full();
    destructor_waits();
    order();
    forked_child();
    signals_are_blocked();
    CHECK(files_in(folder) == 0);
    std::filesystem::remove_all(folder);
    return test::result();
}
