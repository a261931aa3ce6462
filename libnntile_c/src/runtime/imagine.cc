// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/imagine.hh"

#include <map>

#include "base/error.hh"
#include "runtime/engine.hh"

namespace nntile::runtime {

namespace {

struct Imagined {
    std::atomic<bool> on{false};
    std::atomic<int64_t> budget{0};
    uint64_t count = 0;
    std::map<uint64_t, Origin> tiles;  // that are owned
    std::unique_ptr<Story> story;
};

Imagined& imagined() {
    static auto* const i = new Imagined;
    return *i;
}

// As drop() of tiles with data.
void forget(Tile* tile) {
    if (forked()) return;
    std::lock_guard lock(engine().mutex);
    note({Happened::Kind::drop, {tile->identity}});
    imagined().tiles.erase(tile->identity);
    delete tile;
}

}  // namespace

bool imagining() { return imagined().on.load(std::memory_order_relaxed); }

int64_t imagined_budget() {
    return imagining() ? imagined().budget.load(std::memory_order_relaxed) : 0;
}

void imagine(bool on, int64_t memory_bytes) {
    check_not_forked();
    check(memory_bytes >= 0, Status::invalid_argument, "estimate: memory of ", memory_bytes,
          " bytes");
    if (on) ensure_started();
    imagined().budget = memory_bytes;
    imagined().on = on;
    Engine& e = engine();
    std::lock_guard lock(e.mutex);
    if (e.open) cut_for(on && memory_bytes > 0 ? memory_bytes : e.pool.budget);
}

TileRef imagine_tile(uint32_t size_class, DType dtype, const Dims& sizes, std::string op,
                     Place place) {
    auto* tile = new Tile;
    tile->size_class = size_class;
    tile->dtype = dtype;
    tile->sizes = sizes;
    tile->identity = ++imagined().count;
    const Origin& origin = imagined().tiles[tile->identity] = {size_class, std::move(op), place};
    if (imagined().story) imagined().story->origins.emplace(tile->identity, origin);
    return {tile, forget};
}

const Origin& origin_of(const Tile& tile) { return imagined().tiles.at(tile.identity); }

void begin_story() {
    imagined().story = std::make_unique<Story>();
    for (const auto& [tile, origin] : imagined().tiles) {
        imagined().story->before.push_back(tile);
        imagined().story->origins.emplace(tile, origin);
    }
}

Story end_story() {
    const std::unique_ptr<Story> ended = std::move(imagined().story);
    return std::move(*ended);
}

void note(Happened event) {
    if (imagined().story) imagined().story->events.push_back(std::move(event));
}

}  // namespace nntile::runtime
