// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/pool.hh"

#include <algorithm>
#include <map>

#include "runtime/engine.hh"

namespace nntile::runtime {

namespace {

constexpr int scan_limit = 8;  // tiles looked at for an idle one: the oldest are idle first
constexpr int64_t mib = 1 << 20;

// Runs when the last owner is gone: any thread, any time, also after a shutdown or in a forked
// child.
void drop(Physical* tile) {
    if (forked()) return;
    Engine& e = engine();
    std::lock_guard lock(e.mutex);
    if (tile->handle) e.pool.disown(tile);
    else delete tile;
}

}  // namespace

bool Physical::idle() const {
    return runs == 0 && !writer.running() &&
           std::none_of(readers.begin(), readers.end(),
                        [](const TaskRef& r) { return r.running(); });
}

void Physical::add_reader(const TaskRef& reader) {
    if (readers.size() == readers.capacity())  // forget ended ones before growing
        std::erase_if(readers, [](const TaskRef& r) { return !r.running(); });
    readers.push_back(reader);
}

Physical* Pool::unlink(List& list, Physical* tile) {
    (tile->older ? tile->older->newer : list.oldest) = tile->newer;
    (tile->newer ? tile->newer->older : list.newest) = tile->older;
    tile->older = tile->newer = nullptr;
    --list.size;
    return tile;
}

Physical* Pool::take_idle(uint32_t size_class) {
    List& list = lists_[size_class];
    int left = scan_limit;
    for (Physical* tile = list.oldest; tile && left > 0; tile = tile->newer, --left)
        if (tile->idle()) return unlink(list, tile);
    return nullptr;
}

Physical* Pool::take_oldest(uint32_t size_class) {
    List& list = lists_[size_class];
    return list.oldest ? unlink(list, list.oldest) : nullptr;
}

Physical* Pool::make(uint32_t size_class) {
    if (!memory::prepare(size_class)) {  // the system has less than the budget
        trim(INT64_MAX);
        memory::release_all();
        if (!memory::prepare(size_class)) return nullptr;
    }
    auto* tile = new Physical;
    tile->size_class = size_class;
    starpu_variable_data_register(&tile->handle, -1, 0, static_cast<size_t>(tile->bytes()));
    // Acquired once for writing: StarPU allocates now, in this thread, and takes the tile for
    // initialised, so that a task may read it whatever was written before (StarPU would abort
    // otherwise).
    starpu_data_acquire(tile->handle, STARPU_W);
    starpu_data_release(tile->handle);
    starpu_data_set_sequential_consistency_flag(tile->handle, 0);  // dependencies are ours
    tile->next = all_;
    if (all_) all_->previous = tile;
    all_ = tile;
    ++tiles;
    bytes += tile->bytes();
    return tile;
}

void Pool::end(Physical* tile) {
    starpu_data_unregister(tile->handle);
    tile->handle = nullptr;
    tile->writer = {};
    tile->readers.clear();
    (tile->previous ? tile->previous->next : all_) = tile->next;
    if (tile->next) tile->next->previous = tile->previous;
    --tiles;
    bytes -= tile->bytes();
    if (!tile->owned) delete tile;
}

// So many tiles in use by tasks wait in the pool before one of them is taken instead of a fresh
// one. Two sets of slots of one plan alternate: more would only cost cache. Host data may be
// further ahead: taking a tile in use makes the writing thread wait, which is what keeps a loop
// that never reads anything within bounds.
uint32_t Pool::busy_limit(const Need& need, bool prefer_idle) const {
    const int64_t size = memory::class_bytes(need.size_class);
    if (prefer_idle) return static_cast<uint32_t>(std::clamp<int64_t>(64 * mib / size, 4, 1024));
    return std::max({2 * need.same_class, static_cast<uint32_t>(workers) + 2,
                     static_cast<uint32_t>(std::min<int64_t>(mib / size, 1024))});
}

bool Pool::reserve(const std::vector<Need>& needs, bool prefer_idle, std::vector<Physical*>& out) {
    out.clear();
    std::vector<uint32_t> fresh;
    int64_t fresh_bytes = 0;
    for (const Need& need : needs) {
        Physical* tile = take_idle(need.size_class);
        if (!tile && lists_[need.size_class].size >= busy_limit(need, prefer_idle))
            tile = take_oldest(need.size_class);
        if (!tile) {
            fresh.push_back(static_cast<uint32_t>(out.size()));
            fresh_bytes += memory::class_bytes(need.size_class);
        }
        out.push_back(tile);
    }
    if (bytes + fresh_bytes > budget) trim(bytes + fresh_bytes - budget);
    else if (fresh_bytes > 0 && bytes - used_bytes > budget / 2)
        trim(bytes - used_bytes - budget / 2);
    for (uint32_t i : fresh) {
        const uint32_t k = needs[i].size_class;
        if (bytes + fresh_bytes > budget) out[i] = take_oldest(k);
        if (out[i]) fresh_bytes -= memory::class_bytes(k);
    }
    bool fits = bytes + fresh_bytes <= budget;
    for (uint32_t i : fresh) {
        if (!fits) break;
        if (!out[i]) out[i] = make(needs[i].size_class);
        fits = out[i] != nullptr;
    }
    if (fits) return true;
    for (Physical* tile : out)
        if (tile) give(tile);
    out.clear();
    return false;
}

void Pool::give(Physical* tile) {
    List& list = lists_[tile->size_class];
    tile->older = list.newest;
    (list.newest ? list.newest->newer : list.oldest) = tile;
    list.newest = tile;
    ++list.size;
}

PhysicalRef Pool::own(Physical* tile, DType dtype, const Dims& sizes) {
    tile->owned = true;
    if (tile->runs == 0) use(tile->bytes());
    tile->dtype = dtype;
    tile->sizes = sizes;
    return PhysicalRef(tile, drop);
}

void Pool::disown(Physical* tile) {
    tile->owned = false;
    if (tile->runs == 0) used_bytes -= tile->bytes();
    give(tile);
}

void Pool::use(int64_t more) {
    used_bytes += more;
    peak_bytes = std::max(peak_bytes, used_bytes);
}

void Pool::count_use(Physical* tile) {
    if (tile->runs++ == 0 && !tile->owned) use(tile->bytes());
}

void Pool::count_end(Physical* tile) {
    if (--tile->runs == 0 && !tile->owned) used_bytes -= tile->bytes();
}

void Pool::trim(int64_t wanted) {
    for (uint32_t k = memory::class_count; k-- > 0 && wanted > 0;)
        for (Physical *tile = lists_[k].oldest, *newer; tile && wanted > 0; tile = newer) {
            newer = tile->newer;
            if (!tile->idle()) continue;
            wanted -= tile->bytes();
            end(unlink(lists_[k], tile));
        }
}

void Pool::end_all() {
    for (List& list : lists_) list = {};
    while (all_) end(all_);
    used_bytes = 0;
}

std::string Pool::holders() const {
    struct Total {
        int64_t bytes = 0, tiles = 0;
    };
    std::map<std::string, Total> totals;
    for (const Physical* tile = all_; tile; tile = tile->next) {
        std::string name = "tiles of runs in flight";
        if (tile->owned) name = text_of(name_of(tile->dtype), " ", text_of_dims(tile->sizes));
        else if (tile->idle()) name = "free tiles";
        Total& total = totals[name];
        total.bytes += tile->bytes();
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
