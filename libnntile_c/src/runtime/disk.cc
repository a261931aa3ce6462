// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/disk.hh"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hh"

namespace nntile::runtime {

namespace {

constexpr std::string_view file_name = "nntile-swap-";

int64_t rounded(int64_t bytes) { return (bytes + Disk::unit - 1) / Disk::unit * Disk::unit; }

bool aligned(const char* block) {
    return reinterpret_cast<uintptr_t>(block) % static_cast<uintptr_t>(Disk::unit) == 0;
}

[[noreturn]] void fail_folder(const std::string& folder, int error) {
    const bool full = error == ENOSPC || error == EDQUOT || error == ENOMEM;
    fail(full ? Status::out_of_memory : Status::invalid_argument, "cannot keep tiles in folder '",
         folder, "': ", std::generic_category().message(error));
}

// Files that a process made and did not live to unlink.
void remove_leftovers(const std::string& folder) {
    DIR* const all = opendir(folder.c_str());
    if (!all) return;
    while (const dirent* entry = readdir(all)) {
        std::string_view name = entry->d_name;
        if (!name.starts_with(file_name)) continue;
        name.remove_prefix(file_name.size());
        pid_t process = 0;
        const char* const end = name.data() + name.size();
        const auto [rest, error] = std::from_chars(name.data(), end, process);
        if (error != std::errc() || process <= 0 || end - rest != 7 || *rest != '-') continue;
        struct stat file{};
        if (fstatat(dirfd(all), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!S_ISREG(file.st_mode) || file.st_uid != geteuid()) continue;
        if (kill(process, 0) == 0 || errno != ESRCH) continue;
        unlinkat(dirfd(all), entry->d_name, 0);
    }
    closedir(all);
}

}  // namespace

Disk::File::~File() {
    if (fd >= 0) close(fd);
}

void Disk::Release::operator()(char* block) const { std::free(block); }

Disk::Disk(std::string folder, int64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes), process_(getpid()) {
    for (Lane& lane : lanes_) {
        lane.disk = this;
        lane.bounce.reset(static_cast<char*>(
            std::aligned_alloc(static_cast<size_t>(unit), static_cast<size_t>(piece))));
        if (!lane.bounce) fail_folder(folder_, ENOMEM);
    }
    open();
    try_file();
    start_threads();
}

void Disk::open() {
    remove_leftovers(folder_);
    file_.fd = ::open(folder_.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (file_.fd >= 0) return;
    // What filesystems and kernels without unnamed files say.
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) fail_folder(folder_, errno);
    std::string path = text_of(folder_, "/", file_name, process_, "-XXXXXX");
    file_.fd = mkostemp(path.data(), O_CLOEXEC);
    if (file_.fd < 0) fail_folder(folder_, errno);
    unlink(path.c_str());
}

// Some filesystems refuse to go past the page cache at once, others at the first transfer.
void Disk::try_file() {
    char* const block = lanes_[0].bounce.get();
    std::memset(block, 0, static_cast<size_t>(unit));
    direct_ = fcntl(file_.fd, F_SETFL, O_DIRECT) == 0;
    int error = move_all(true, block, unit, 0);
    if (error == EINVAL && direct_) {
        direct_ = false;
        fcntl(file_.fd, F_SETFL, 0);
        error = move_all(true, block, unit, 0);
    }
    punches_ = punch(0, unit);
    if (error == 0 && ftruncate(file_.fd, 0) != 0) error = errno;
    if (error != 0) fail_folder(folder_, error);
}

void Disk::start_threads() {
    sem_init(&work_, 0, 0);
    sigset_t all, before;  // signals are for the threads of the program
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    while (threads_ < max_threads) {
        Lane& lane = lanes_[static_cast<size_t>(threads_)];
        error = pthread_create(&lane.thread, nullptr, thread, &lane);
        if (error != 0) break;
        pthread_setname_np(lane.thread, "nntile-disk");
        ++threads_;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    check(threads_ > 0, Status::out_of_memory, "cannot start a thread for tiles in folder '",
          folder_, "': ", std::generic_category().message(error));
}

Disk::~Disk() {
    if (getpid() != process_) return;
    for (int i = 0; i < threads_; ++i) sem_post(&work_);  // work without a piece: the end
    for (int i = 0; i < threads_; ++i) pthread_join(lanes_[static_cast<size_t>(i)].thread, nullptr);
    sem_destroy(&work_);
}

int64_t Disk::used_bytes() const {
    std::lock_guard lock(space_);
    return used_;
}

// The first hole that fits, else the end. So a place may lie beyond most_bytes_ where holes are
// many and short; the file then gives up the space of holes.
int64_t Disk::reserve(int64_t bytes) {
    std::lock_guard lock(space_);
    if (bytes > most_bytes_) return -1;  // before it overflows
    bytes = rounded(std::max<int64_t>(bytes, 1));
    if (bytes > most_bytes_ - used_) return -1;
    auto hole = holes_.begin();
    while (hole != holes_.end() && hole->second.bytes < bytes) ++hole;
    if (hole == holes_.end() && !holes_.empty()) {
        const auto last = std::prev(hole);
        if (last->first + last->second.bytes == end_) hole = last;
    }
    const int64_t at = hole == holes_.end() ? end_ : hole->first;
    if (at + bytes > most_bytes_ && !punches_) return -1;
    if (hole != holes_.end()) {
        const Hole whole = hole->second;
        holes_.erase(hole);
        backed_ -= whole.backed;
        if (const int64_t rest = whole.bytes - bytes; rest > 0) {
            const int64_t backed = std::min(whole.backed, rest);
            holes_.emplace(at + bytes, Hole{rest, backed});
            backed_ += backed;
        }
    }
    end_ = std::max(end_, at + bytes);
    used_ += bytes;
    if (punch_holes()) return at;
    add_hole(at, bytes);
    return -1;
}

void Disk::free(int64_t at, int64_t bytes) {
    std::lock_guard lock(space_);
    add_hole(at, rounded(std::max<int64_t>(bytes, 1)));
}

void Disk::add_hole(int64_t at, int64_t bytes) {
    used_ -= bytes;
    backed_ += bytes;
    Hole hole{bytes, bytes};
    auto next = holes_.lower_bound(at);
    if (next != holes_.end() && at + bytes == next->first) {
        hole.bytes += next->second.bytes;
        hole.backed += next->second.backed;
        next = holes_.erase(next);
    }
    if (next != holes_.begin()) {
        const auto before = std::prev(next);
        if (before->first + before->second.bytes == at) {
            before->second.bytes += hole.bytes;
            before->second.backed += hole.backed;
            return;
        }
    }
    holes_.emplace_hint(next, at, hole);
}

// Only where there is need: to punch one takes 0.1 to 0.4 ms, and to fill it again twice the time.
bool Disk::punch_holes() {
    for (auto it = holes_.rbegin(); used_ + backed_ > most_bytes_ && it != holes_.rend(); ++it) {
        auto& [at, hole] = *it;
        if (hole.backed == 0) continue;
        if (!punch(at, hole.bytes)) return false;
        backed_ -= hole.backed;
        hole.backed = 0;
    }
    return true;
}

bool Disk::punch(int64_t at, int64_t bytes) {
    while (fallocate(file_.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes) != 0)
        if (errno != EINTR) return false;
    return true;
}

void Disk::start(Transfer& transfer) {
    const int64_t pieces = std::max<int64_t>(1, (transfer.bytes + piece - 1) / piece);
    transfer.next = nullptr;
    transfer.taken = 0;
    transfer.left = pieces;
    transfer.failed = 0;
    {
        std::lock_guard lock(mutex_);
        Queue& queue = transfer.writes ? writes_ : reads_;
        (queue.first ? queue.last->next : queue.first) = &transfer;
        queue.last = &transfer;
    }
    // The transfer may be done and gone from here on.
    for (int64_t i = 0; i < pieces; ++i) sem_post(&work_);
}

void* Disk::thread(void* lane) {
    auto& mine = *static_cast<Lane*>(lane);
    mine.disk->run(mine);
    return nullptr;
}

void Disk::run(Lane& lane) {
    while (true) {
        while (sem_wait(&work_) != 0) {
        }
        int64_t from = 0, bytes = 0;
        int error = 0;
        Transfer* transfer;
        {
            std::lock_guard lock(mutex_);
            transfer = take(from, bytes);
            if (!transfer) return;
            error = transfer->failed;
        }
        if (error == 0) error = move(*transfer, from, bytes, lane.bounce.get());
        bool last;
        {
            std::lock_guard lock(mutex_);
            if (transfer->failed == 0) transfer->failed = error;
            error = transfer->failed;
            last = --transfer->left == 0;
        }
        if (last) transfer->done(*transfer, error);
    }
}

// The next piece, in the order of start().
Transfer* Disk::take(int64_t& from, int64_t& bytes) {
    const bool read = reads_.first && (!writes_.first || reads_in_a_row_ < 3);
    reads_in_a_row_ = read ? reads_in_a_row_ + 1 : 0;
    Queue& queue = read ? reads_ : writes_;
    Transfer* const transfer = queue.first;
    if (!transfer) return nullptr;
    from = transfer->taken;
    bytes = std::min(piece, transfer->bytes - from);
    transfer->taken += bytes;
    if (transfer->taken >= transfer->bytes) queue.first = transfer->next;
    return transfer;
}

int Disk::move(const Transfer& transfer, int64_t from, int64_t bytes, char* bounce) {
    char* block = static_cast<char*>(transfer.block) + from;
    int64_t at = transfer.at + from;
    const int64_t straight = !direct_ ? bytes : aligned(block) ? bytes / unit * unit : 0;
    if (straight > 0)
        if (const int error = move_all(transfer.writes, block, straight, at)) return error;
    if (straight == bytes) return 0;
    block += straight;
    at += straight;
    const auto rest = static_cast<size_t>(bytes - straight);
    const int64_t whole = rounded(bytes - straight);
    if (transfer.writes) {
        std::memcpy(bounce, block, rest);
        std::memset(bounce + rest, 0, static_cast<size_t>(whole) - rest);
    }
    if (const int error = move_all(transfer.writes, bounce, whole, at)) return error;
    if (!transfer.writes) std::memcpy(block, bounce, rest);
    return 0;
}

int Disk::move_all(bool writes, char* block, int64_t bytes, int64_t at) {
    for (int64_t done = 0; done < bytes;) {
        const auto left = static_cast<size_t>(bytes - done);
        int64_t moved = writes ? pwrite(file_.fd, block + done, left, at + done)
                               : pread(file_.fd, block + done, left, at + done);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) return errno;
        if (direct_ && done + moved < bytes) moved = moved / unit * unit;  // to stay aligned
        if (moved == 0) return EIO;                                        // past the end
        done += moved;
    }
    if (!direct_) posix_fadvise(file_.fd, at, bytes, POSIX_FADV_DONTNEED);
    return 0;
}

}  // namespace nntile::runtime
