// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/pool.hh"

#include <algorithm>
#include <map>

#include "base/error.hh"
#include "runtime/replicas.hh"

namespace nntile::runtime {

namespace {

constexpr int scan_limit = 8;  // tiles looked at for an idle one: the oldest are idle first
constexpr int64_t mib = 1 << 20;
constexpr int64_t slack = 32 * mib;  // beyond the peak in use: what a small process may keep
constexpr size_t bare_limit = 1024;  // handles without memory
constexpr int64_t small_need = 64 << 10, large_tile = 16 * mib;
const uint32_t large_class = memory::class_of(memory::small_below);

}  // namespace

bool Tile::idle() const {
    return runs == 0 && holds == 0 && ram.pins == 0 && !writer.running() &&
           std::none_of(readers.begin(), readers.end(),
                        [](const TaskRef& r) { return r.running(); });
}

void Tile::add_reader(const TaskRef& reader) {
    if (readers.size() == readers.capacity())  // forget ended ones before growing
        std::erase_if(readers, [](const TaskRef& r) { return !r.running(); });
    readers.push_back(reader);
}

Tile* Pool::unlink(List& list, Tile* tile) {
    (tile->older ? tile->older->newer : list.oldest) = tile->newer;
    (tile->newer ? tile->newer->older : list.newest) = tile->older;
    tile->older = tile->newer = nullptr;
    --list.size;
    return tile;
}

Tile* Pool::take_idle(uint32_t size_class) {
    List& list = lists_[size_class];
    int left = scan_limit;
    for (Tile* tile = list.oldest; tile && left > 0; tile = tile->newer, --left)
        if (tile->idle()) return unlink(list, tile);
    return nullptr;
}

Tile* Pool::take_oldest(uint32_t size_class) {
    List& list = lists_[size_class];
    return list.oldest ? unlink(list, list.oldest) : nullptr;
}

void Pool::register_handle(Tile* tile) {
    static std::byte none;  // of an imagined tile
    if (imagined_) tile->ram.handle = reinterpret_cast<starpu_data_handle_t>(&none);
    else replicas::add(*tile);
    tile->next_of_all = all_;
    if (all_) all_->previous = tile;
    all_ = tile;
}

void Pool::bind(Tile* tile, void* block) {
    if (imagined_) tile->ram.block = block;
    else replicas::place(*tile, block);
    ++tiles;
    bytes += tile->block_bytes();
    (void)reserved_peak();
}

void Pool::detach(Tile* tile) { blocks_.give(take_block(tile), tile->block_bytes()); }

void Pool::bring_home(const Tile& tile, void (*there)(void*), void* arg) const {
    if (imagined_) return there(arg);
    replicas::bring_home(tile.ram, there, arg);
}

void Pool::give_back(const Tile& tile) const {
    if (!imagined_) replicas::give_back(tile.ram);
}

void* Pool::take_block(Tile* tile) {
    void* block = tile->ram.block;
    if (imagined_) tile->ram.block = nullptr;
    else replicas::forget(*tile);
    --tiles;
    bytes -= tile->block_bytes();
    return block;
}

void Pool::end(Tile* tile) {
    if (imagined_) tile->ram.handle = nullptr;
    else replicas::remove(tile->ram);
    (tile->previous ? tile->previous->next_of_all : all_) = tile->next_of_all;
    if (tile->next_of_all) tile->next_of_all->previous = tile->previous;
    tile->previous = tile->next_of_all = nullptr;
    if (!tile->owned) delete tile;
}

Tile* Pool::bare(uint32_t size_class) {
    Tile* tile = nullptr;
    if (!bare_.empty()) {
        tile = bare_.back();
        bare_.pop_back();
    } else {
        tile = new Tile;
    }
    tile->size_class = size_class;
    tile->bytes = tile->block_bytes();
    tile->lost = false;
    if (!tile->ram.handle) register_handle(tile);
    return tile;
}

void Pool::recycle(Tile* tile) {
    if (tile->ram.block) return give(tile);
    tile->writer = {};
    tile->readers.clear();
    bare_.push_back(tile);
}

int64_t Pool::most(int64_t need) const { return budget + (need <= small_need ? budget / 64 : 0); }

bool Pool::attach(Tile* tile, bool patient) {
    const int64_t size = tile->block_bytes();
    if (Tile* idle = take_idle(tile->size_class)) {
        void* block = take_block(idle);
        recycle(idle);
        bind(tile, block);
        return true;
    }
    if (!make_room(size)) return false;
    // What is not needed has left by itself
    if (!patient) needed_ = std::max(needed_, bytes + size);
    void* block = block_of(size, patient);
    if (!block) return false;
    bind(tile, block);
    return true;
}

bool Pool::make_room(int64_t more) {
    while (bytes + more > most(more) && strip_idle(0, memory::class_count) > 0) {
    }
    return bytes + more <= most(more);
}

// Of each class the oldest is looked at: it is idle first.
int64_t Pool::strip_idle(uint32_t first_class, uint32_t end_class) {
    Tile* longest = nullptr;
    for (uint32_t k = first_class; k < end_class; ++k) {
        Tile* tile = lists_[k].oldest;
        if (tile && (!longest || tile->given < longest->given) && tile->idle()) longest = tile;
    }
    if (!longest) return 0;
    detach(unlink(lists_[longest->size_class], longest));
    recycle(longest);
    return longest->block_bytes();
}

void* Pool::block_of(int64_t size, bool patient) {
    const bool large = size >= memory::small_below;
    if (large)
        if (void* block = blocks_.take(size, memory::Pages::resident)) return block;
    const int64_t limit = needed_ + needed_ / 4 + slack;
    int64_t left = large ? INT64_MAX : size;
    while (blocks_.resident() + size > limit && left > 0) {
        const int64_t stripped =
            large ? strip_idle(large_class, memory::class_count) : strip_idle(0, large_class);
        if (stripped == 0) break;
        left -= stripped;
        if (large)
            if (void* block = blocks_.take(size, memory::Pages::resident)) return block;
    }
    // Freed, but used by tasks in flight: their end is nearer than fresh pages are cheap.
    if (large && patient && blocks_.resident() + size > limit && bytes - used_bytes > needed_ / 4)
        return nullptr;
    if (const int64_t over = reserved() + size - budget; over > 0) blocks_.release(over);
    void* block = blocks_.take(size, memory::Pages::any);
    if (!block) {  // the system has less than the budget
        trim();
        block = blocks_.take(size, memory::Pages::any);
    }
    if (const int64_t over = blocks_.resident() - limit - limit / 8; over > 0)
        blocks_.release(over);
    return block;
}

Tile* Pool::make(uint32_t size_class, bool patient) {
    void* block = block_of(memory::class_bytes(size_class), patient);
    if (!block) return nullptr;
    Tile* tile = bare(size_class);
    bind(tile, block);
    return tile;
}

// So many tiles in use by tasks wait in the pool before one of them is taken instead of a fresh
// one. The next run of a plan takes the slots of the one before it and waits for them one by one: a
// second set costs half as much memory again and no step was faster with it; of large tiles none is
// taken fresh while there is one to wait for. Host data may be further ahead: taking a tile in use
// makes the writing thread wait, which is what keeps a loop that never reads anything within
// bounds.
uint32_t Pool::busy_limit(const Need& need, bool prefer_idle) const {
    const int64_t size = memory::class_bytes(need.size_class);
    if (prefer_idle) return static_cast<uint32_t>(std::clamp<int64_t>(64 * mib / size, 4, 1024));
    if (size >= large_tile) return 1;
    return std::max({need.same_class, static_cast<uint32_t>(workers) + 2,
                     static_cast<uint32_t>(std::min<int64_t>(mib / size, 1024))});
}

bool Pool::reserve(const std::vector<Need>& needs, bool prefer_idle, bool patient,
                   std::vector<Tile*>& out) {
    out.clear();
    std::vector<uint32_t> fresh;
    int64_t fresh_bytes = 0, need_bytes = 0;
    for (const Need& need : needs) {
        Tile* tile = take_idle(need.size_class);
        if (!tile && lists_[need.size_class].size >= busy_limit(need, prefer_idle))
            tile = take_oldest(need.size_class);
        if (!tile) {
            fresh.push_back(static_cast<uint32_t>(out.size()));
            fresh_bytes += memory::class_bytes(need.size_class);
        }
        need_bytes += memory::class_bytes(need.size_class);
        out.push_back(tile);
    }
    const int64_t most = this->most(need_bytes);
    while (bytes + fresh_bytes > most && strip_idle(0, memory::class_count) > 0) {
    }
    for (uint32_t i : fresh) {
        const uint32_t k = needs[i].size_class;
        if (bytes + fresh_bytes > most) out[i] = take_oldest(k);
        if (out[i]) fresh_bytes -= memory::class_bytes(k);
    }
    bool fits = bytes + fresh_bytes <= most;
    if (fits) needed_ = std::max(needed_, used_bytes + need_bytes);
    for (uint32_t i : fresh) {
        if (!fits) break;
        if (!out[i]) out[i] = make(needs[i].size_class, patient);
        fits = out[i] != nullptr;
    }
    if (bare_.size() > bare_limit) end_bare(bare_limit);
    if (fits) return true;
    for (Tile* tile : out)
        if (tile) give(tile);
    out.clear();
    return false;
}

void Pool::give(Tile* tile) {
    List& list = lists_[tile->size_class];
    tile->given = ++gives_;
    tile->older = list.newest;
    (list.newest ? list.newest->newer : list.oldest) = tile;
    list.newest = tile;
    ++list.size;
}

void Pool::adopt(Tile* tile, DType dtype, const Dims& sizes) {
    tile->owned = true;
    tile->identity = 0;
    if (tile->runs == 0) use(tile->block_bytes());
    owned_bytes += tile->block_bytes();
    tile->dtype = dtype;
    tile->sizes = sizes;
}

TileRef Pool::own(Tile* tile, DType dtype, const Dims& sizes) {
    adopt(tile, dtype, sizes);
    return TileRef(tile, drop);
}

void Pool::disown(Tile* tile) {
    tile->owned = false;
    if (tile->runs == 0) used_bytes -= tile->block_bytes();
    owned_bytes -= tile->block_bytes();
}

void Pool::use(int64_t more) {
    used_bytes += more;
    peak_bytes = std::max(peak_bytes, used_bytes);
}

void Pool::count_use(Tile* tile) {
    if (tile->runs++ == 0 && !tile->owned) use(tile->block_bytes());
}

void Pool::count_end(Tile* tile) {
    if (--tile->runs == 0 && !tile->owned) used_bytes -= tile->block_bytes();
}

void Pool::trim() {
    while (strip_idle(0, memory::class_count) > 0) {
    }
    end_bare(0);
    blocks_.release_regions();
    blocks_.release(INT64_MAX);
    needed_ = used_bytes;
}

void Pool::end_bare(size_t kept) {
    for (; bare_.size() > kept; bare_.pop_back()) end(bare_.back());
}

void Pool::end_all() {
    for (List& list : lists_) list = {};
    bare_.clear();
    while (all_) {
        Tile* tile = all_;
        if (tile->ram.block) detach(tile);
        tile->writer = {};
        tile->readers.clear();
        end(tile);
    }
    blocks_.release_regions();
    used_bytes = owned_bytes = needed_ = 0;
}

std::string Pool::holders() const {
    struct Total {
        int64_t bytes = 0, tiles = 0;
    };
    std::map<std::string, Total> totals;
    for (const Tile* tile = all_; tile; tile = tile->next_of_all) {
        if (!tile->ram.block) continue;
        std::string name = "tiles of runs in flight";
        if (tile->owned) name = text_of(name_of(tile->dtype), " ", text_of_dims(tile->sizes));
        else if (tile->idle()) name = "free tiles";
        Total& total = totals[name];
        total.bytes += tile->block_bytes();
        ++total.tiles;
    }
    std::vector<std::pair<std::string, Total>> largest(totals.begin(), totals.end());
    std::sort(largest.begin(), largest.end(),
              [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(largest.size(), 3); ++i)
        text += text_of(i ? "; " : "", largest[i].first, ": ", largest[i].second.bytes,
                        " bytes in ", largest[i].second.tiles, " tiles");
    return text.empty() ? "nothing" : text;
}

}  // namespace nntile::runtime
