// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/memory.hh"

#include <starpu.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <vector>

namespace nntile::runtime::memory {

namespace {

constexpr size_t unit = 64;
constexpr size_t map_from = size_t{128} << 10;  // smaller blocks come from the C library
constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t cache_limit = size_t{64} << 20;

void* from_system(size_t bytes) {
    if (address_space_left() - static_cast<int64_t>(bytes) < spared_address_space) return nullptr;
    if (bytes < map_from) return std::aligned_alloc(unit, bytes);
    // Blocks of several huge pages are aligned to them, or the kernel could not use them.
    size_t extra = bytes >= 2 * huge_page ? huge_page : 0;
    void* raw = mmap(nullptr, bytes + extra, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    if (!extra) return raw;
    auto start = reinterpret_cast<uintptr_t>(raw);
    uintptr_t aligned = (start + huge_page - 1) / huge_page * huge_page;
    constexpr uintptr_t page = 4096;
    uintptr_t end = (aligned + bytes + page - 1) / page * page;
    if (aligned > start) munmap(raw, aligned - start);
    if (start + bytes + extra > end)
        munmap(reinterpret_cast<void*>(end), start + bytes + extra - end);
    madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
    return reinterpret_cast<void*>(aligned);
}

void to_system(void* block, size_t bytes) {
    if (bytes < map_from) std::free(block);
    else munmap(block, bytes);
}

struct Cache {
    std::mutex mutex;
    std::vector<void*> free[class_count];
    size_t bytes = 0;
};

Cache& cache() {
    static Cache* const c = new Cache;  // never destroyed: workers may outlive static objects
    return *c;
}

int malloc_hook(unsigned, void** block, size_t bytes, int) {
    const uint32_t k = class_of(static_cast<int64_t>(bytes));
    Cache& c = cache();
    {
        std::lock_guard lock(c.mutex);
        if (!c.free[k].empty()) {
            *block = c.free[k].back();
            c.free[k].pop_back();
            c.bytes -= static_cast<size_t>(class_bytes(k));
            return 0;
        }
    }
    *block = from_system(static_cast<size_t>(class_bytes(k)));
    return *block ? 0 : -ENOMEM;
}

int free_hook(unsigned, void* block, size_t bytes, int) {
    const uint32_t k = class_of(static_cast<int64_t>(bytes));
    const auto size = static_cast<size_t>(class_bytes(k));
    Cache& c = cache();
    {
        std::lock_guard lock(c.mutex);
        if (c.bytes + size <= cache_limit) {
            c.free[k].push_back(block);
            c.bytes += size;
            return 0;
        }
    }
    to_system(block, size);
    return 0;
}

}  // namespace

int64_t address_space_left() {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return static_cast<int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE);
}

uint32_t class_of(int64_t bytes) {
    const uint64_t units = bytes <= 0 ? 1 : (static_cast<uint64_t>(bytes) + unit - 1) / unit;
    int exponent = std::max(0, static_cast<int>(std::bit_width(units)) - 4);
    uint64_t mantissa = (units + (uint64_t{1} << exponent) - 1) >> exponent;
    if (mantissa == 16) {
        mantissa = 8;
        ++exponent;
    }
    return static_cast<uint32_t>(8 * exponent + static_cast<int>(mantissa) - 1);
}

int64_t class_bytes(uint32_t size_class) {
    const uint32_t exponent = size_class < 8 ? 0 : (size_class - 7) / 8;
    const uint64_t mantissa = size_class + 1 - 8 * exponent;
    return static_cast<int64_t>((mantissa << exponent) * unit);
}

void install_hooks() {
    starpu_malloc_set_hooks(malloc_hook, free_hook);
    // The pool's budget counts. StarPU would count, too, up to what it takes for the machine's
    // memory, which may be less, and then try for ever to evict tiles.
    for (unsigned node = 0; node < starpu_memory_nodes_get_count(); ++node)
        if (starpu_node_get_kind(node) == STARPU_CPU_RAM)
            starpu_malloc_on_node_set_default_flags(node, STARPU_MALLOC_PINNED);
}

bool prepare(uint32_t size_class) {
    Cache& c = cache();
    const auto size = static_cast<size_t>(class_bytes(size_class));
    std::lock_guard lock(c.mutex);
    if (!c.free[size_class].empty()) return true;
    void* block = from_system(size);
    if (!block) return false;
    c.free[size_class].push_back(block);
    c.bytes += size;
    return true;
}

void release_all() {
    Cache& c = cache();
    std::lock_guard lock(c.mutex);
    for (uint32_t k = 0; k < class_count; ++k) {
        for (void* block : c.free[k]) to_system(block, static_cast<size_t>(class_bytes(k)));
        c.free[k].clear();
        c.free[k].shrink_to_fit();
    }
    c.bytes = 0;
}

}  // namespace nntile::runtime::memory
