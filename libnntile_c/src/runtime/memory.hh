// SPDX-License-Identifier: BSD-3-Clause
// Main memory for tiles: blocks of size classes, cut from regions, with free neighbours joined. So
// memory of one size serves any other, and its pages, which cost 0.33 ms per MiB when fresh, stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace nntile::runtime::memory {

// Size classes: multiples of 64 bytes, eight classes per power of two (waste below 12.5 %).
inline constexpr uint32_t class_count = 8 * 56;
uint32_t class_of(int64_t bytes);
int64_t class_bytes(uint32_t size_class);

// Under `ulimit -v`, what the process may still map; else INT64_MAX. Tiles leave some to all
// others: most of those that get none, such as a thread that begins, end the process.
int64_t address_space_left();
inline constexpr int64_t spared_address_space = int64_t{512} << 20;

// Smaller blocks: the C library's, if they need not be pinned
inline constexpr int64_t small_below = int64_t{128} << 10;
enum class Pages { resident, any };
inline constexpr int64_t huge_page = int64_t{2} << 20;  // what the kernel fills at once
// Where blocks of many sizes come and go within a budget: free parts of pages are not given back.
inline constexpr int64_t fine_page = int64_t{64} << 10;

// Pins memory for copies from and to GPUs, which then go on beside the thread that has begun them.
struct Pinning {
    bool (*pin)(void* memory, size_t bytes) = nullptr;
    void (*unpin)(void* memory) = nullptr;
};

// Bytes are those of a size class.
class Blocks {
public:
    // Imagined: addresses without memory, for an estimate. Nobody may look there.
    explicit Blocks(bool imagined = false) : imagined_(imagined) {}
    Blocks(const Blocks&) = delete;
    Blocks& operator=(const Blocks&) = delete;
    ~Blocks();

    // By what memory comes from the system and goes back; while there are no regions.
    void set_page(int64_t bytes) { page_ = bytes; }
    // Regions are pinned as wholes, for a copy must not cross from one pinned piece to another: so
    // all blocks lie in regions, and none of their pages goes back while one of them is in use.
    void set_pinning(Pinning pinning) { pinning_ = pinning; }
    // nullptr: no free block whose pages are all resident; of any: the system has no memory.
    void* take(int64_t bytes, Pages pages);
    void give(void* block, int64_t bytes);
    // Gives pages that lie in no block back to the system, so many bytes of them if there are.
    void release(int64_t bytes);
    void release_regions();  // those without a block, with their addresses

    int64_t resident() const { return small_ + resident_; }
    int64_t idle() const { return idle_; }  // resident, but in no block

private:
    struct Page {
        uint16_t blocks = 0;  // that lie in it, at least partly
        bool resident = false;
    };
    struct Region {
        int64_t bytes = 0;
        int64_t taken = 0;
        void* mapped = nullptr;  // as the system gave it, for the way back
        size_t mapped_bytes = 0;
        bool pinned = false;
        std::vector<Page> pages;
    };
    using Regions = std::map<uintptr_t, Region>;

    void* map(size_t bytes);
    void unmap(uintptr_t start, Region& region) const;
    bool is_small(int64_t bytes) const { return bytes < small_below && !pinning_.pin; }
    void pin(uintptr_t start, Region& region) const;
    void unpin(uintptr_t start, Region& region) const;
    Regions::iterator region_of(uintptr_t address);
    bool add_region(int64_t bytes);
    int64_t new_pages(uintptr_t address, int64_t bytes);
    uintptr_t place_in(uintptr_t hole, int64_t room, int64_t bytes);
    std::pair<uintptr_t, uintptr_t> find(int64_t bytes, Pages pages);  // the hole, the place in it
    void add_free(uintptr_t address, int64_t bytes);
    void remove_free(uintptr_t address, int64_t bytes);
    template <class Change>
    void for_pages(uintptr_t address, int64_t bytes, Change&& change);

    Regions regions_;
    std::map<uintptr_t, int64_t> free_;
    std::set<std::pair<int64_t, uintptr_t>> by_size_;
    int64_t page_ = huge_page, small_ = 0, resident_ = 0, idle_ = 0;
    Pinning pinning_;
    const bool imagined_;
    uintptr_t next_ = huge_page;  // imagined address
};

}  // namespace nntile::runtime::memory
