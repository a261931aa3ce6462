// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/memory.hh"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <tuple>

namespace nntile::runtime::memory {

namespace {

constexpr size_t unit = 64;
constexpr int64_t region_bytes = int64_t{64} << 20;
constexpr int candidates = 64;  // free blocks looked at for one whose pages are resident

bool spares(int64_t bytes) { return address_space_left() - bytes >= spared_address_space; }

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

Blocks::~Blocks() {
    for (auto& [address, region] : regions_) unmap(address, region);
}

void* Blocks::map(size_t bytes) {
    if (imagined_) return reinterpret_cast<void*>(std::exchange(next_, next_ + bytes));
    if (!spares(static_cast<int64_t>(bytes))) return MAP_FAILED;
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
}

void Blocks::unmap(uintptr_t start, Region& region) const {
    unpin(start, region);
    if (!imagined_) munmap(region.mapped, region.mapped_bytes);
}

void Blocks::pin(uintptr_t start, Region& region) const {
    if (pinning_.pin && !imagined_ && !region.pinned)
        region.pinned =
            pinning_.pin(reinterpret_cast<void*>(start), static_cast<size_t>(region.bytes));
}

void Blocks::unpin(uintptr_t start, Region& region) const {
    if (std::exchange(region.pinned, false)) pinning_.unpin(reinterpret_cast<void*>(start));
}

Blocks::Regions::iterator Blocks::region_of(uintptr_t address) {
    return std::prev(regions_.upper_bound(address));
}

bool Blocks::add_region(int64_t bytes) {
    Region region;
    region.bytes = (std::max(bytes, region_bytes) + page_ - 1) / page_ * page_;
    region.mapped_bytes = static_cast<size_t>(region.bytes + page_);  // to begin with a page
    region.mapped = map(region.mapped_bytes);
    if (region.mapped == MAP_FAILED) return false;
    const auto start = (reinterpret_cast<uintptr_t>(region.mapped) + page_ - 1) / page_ * page_;
    if (!imagined_)
        madvise(reinterpret_cast<void*>(start), static_cast<size_t>(region.bytes),
                page_ == huge_page ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    region.pages.resize(static_cast<size_t>(region.bytes / page_));
    add_free(start, region.bytes);
    regions_.emplace(start, std::move(region));
    return true;
}

template <class Change>
void Blocks::for_pages(uintptr_t address, int64_t bytes, Change&& change) {
    auto& [start, region] = *region_of(address);
    const auto first = static_cast<int64_t>(address - start) / page_;
    const auto last = (static_cast<int64_t>(address - start) + bytes - 1) / page_;
    for (int64_t p = first; p <= last; ++p) change(region.pages[static_cast<size_t>(p)]);
}

int64_t Blocks::new_pages(uintptr_t address, int64_t bytes) {
    int64_t n = 0;
    for_pages(address, bytes, [&](const Page& p) { n += !p.resident; });
    return n;
}

// In a hole, where there is a place without a fresh page; else its begin.
uintptr_t Blocks::place_in(uintptr_t hole, int64_t room, int64_t bytes) {
    uintptr_t at = hole;
    if (idle_ + 2 * page_ < bytes) return hole;  // there is none
    const uintptr_t end = hole + static_cast<uintptr_t>(room);
    auto& [start, region] = *region_of(hole);
    for (auto p = static_cast<int64_t>(hole - start) / page_;; ++p) {
        const uintptr_t page = start + static_cast<uintptr_t>(p * page_);
        if (at + static_cast<uintptr_t>(bytes) <= std::min(page, end)) return at;
        if (page >= end) return hole;
        if (!region.pages[static_cast<size_t>(p)].resident)
            at = page + static_cast<uintptr_t>(page_);
    }
}

// The smallest that fits without a fresh page, among a few; else that with the fewest.
std::pair<uintptr_t, uintptr_t> Blocks::find(int64_t bytes, Pages pages) {
    std::pair<uintptr_t, uintptr_t> best{0, 0};
    int64_t fewest = INT64_MAX;
    int left = candidates;
    for (auto it = by_size_.lower_bound({bytes, 0}); it != by_size_.end() && left > 0;
         ++it, --left) {
        const uintptr_t at = place_in(it->second, it->first, bytes);
        const int64_t fresh = new_pages(at, bytes);
        if (fresh >= fewest) continue;
        best = {it->second, at};
        fewest = fresh;
        if (fresh == 0) break;
    }
    return pages == Pages::any || fewest == 0 ? best : std::pair<uintptr_t, uintptr_t>();
}

void Blocks::add_free(uintptr_t address, int64_t bytes) {
    free_.emplace(address, bytes);
    by_size_.emplace(bytes, address);
}

void Blocks::remove_free(uintptr_t address, int64_t bytes) {
    free_.erase(address);
    by_size_.erase({bytes, address});
}

void* Blocks::take(int64_t bytes, Pages pages) {
    if (is_small(bytes)) {
        void* block = nullptr;
        if (imagined_) block = this;
        else if (spares(bytes)) block = std::aligned_alloc(unit, static_cast<size_t>(bytes));
        if (block) small_ += bytes;
        return block;
    }
    auto [hole, at] = find(bytes, pages);
    if (!at && pages == Pages::any) {
        if (!add_region(bytes)) {
            release_regions();  // where addresses are few
            if (!add_region(bytes)) return nullptr;
        }
        std::tie(hole, at) = find(bytes, pages);
    }
    if (!at) return nullptr;
    const int64_t before = static_cast<int64_t>(at - hole), all = free_[hole];
    remove_free(hole, all);
    if (before > 0) add_free(hole, before);
    if (all - before > bytes) add_free(at + static_cast<uintptr_t>(bytes), all - before - bytes);
    auto& [start, region] = *region_of(at);
    if (region.taken == 0) pin(start, region);
    region.taken += bytes;
    for_pages(at, bytes, [&](Page& p) {
        if (!p.resident) resident_ += page_;
        else if (p.blocks == 0) idle_ -= page_;
        p.resident = true;
        ++p.blocks;
    });
    return reinterpret_cast<void*>(at);
}

void Blocks::give(void* block, int64_t bytes) {
    if (is_small(bytes)) {
        if (!imagined_) std::free(block);
        small_ -= bytes;
        return;
    }
    auto at = reinterpret_cast<uintptr_t>(block);
    for_pages(at, bytes, [&](Page& p) {
        if (--p.blocks == 0) idle_ += page_;
    });
    auto& [start, region] = *region_of(at);
    region.taken -= bytes;
    const uintptr_t end = start + static_cast<uintptr_t>(region.bytes);
    auto next = free_.lower_bound(at);
    if (next != free_.end() && next->first == at + static_cast<uintptr_t>(bytes) &&
        next->first != end) {
        const auto [address, more] = *next;
        remove_free(address, more);
        bytes += more;
    }
    auto before = free_.lower_bound(at);
    if (before != free_.begin() && at != start) {
        const auto [address, more] = *std::prev(before);
        if (address + static_cast<uintptr_t>(more) == at) {
            remove_free(address, more);
            at = address;
            bytes += more;
        }
    }
    add_free(at, bytes);
}

void Blocks::release(int64_t bytes) {
    for (auto region = regions_.rbegin(); region != regions_.rend() && bytes > 0; ++region) {
        if (region->second.pinned && region->second.taken > 0) continue;
        unpin(region->first, region->second);
        std::vector<Page>& pages = region->second.pages;
        for (size_t p = 0, end; p < pages.size() && bytes > 0; p = end + 1) {
            for (end = p; end < pages.size() && pages[end].resident && pages[end].blocks == 0 &&
                          static_cast<int64_t>(end - p) * page_ < bytes;
                 ++end)
                pages[end].resident = false;
            if (end == p) continue;
            const int64_t run = static_cast<int64_t>(end - p) * page_;
            if (!imagined_)
                madvise(reinterpret_cast<void*>(region->first + p * page_),
                        static_cast<size_t>(run), MADV_DONTNEED);
            resident_ -= run;
            idle_ -= run;
            bytes -= run;
        }
    }
}

void Blocks::release_regions() {
    for (auto it = regions_.begin(); it != regions_.end();) {
        if (it->second.taken > 0) {
            ++it;
            continue;
        }
        for (const Page& p : it->second.pages)
            if (p.resident) {
                resident_ -= page_;
                idle_ -= page_;
            }
        remove_free(it->first, it->second.bytes);
        unmap(it->first, it->second);
        it = regions_.erase(it);
    }
}

}  // namespace nntile::runtime::memory
