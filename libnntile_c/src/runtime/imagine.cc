// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/imagine.hh"

#include "base/error.hh"
#include "runtime/engine.hh"
#include "runtime/simulate.hh"

namespace nntile::runtime {

namespace {

constexpr uint64_t first_identity = uint64_t{1} << 63;  // others count from 1 (stager.cc)

struct Imagined {
    std::atomic<bool> on{false};
    std::atomic<int64_t> budget{0};
    uint64_t count = first_identity;
    std::map<uint64_t, Origin> tiles;
};

Imagined& imagined() {
    static auto* const i = new Imagined;
    return *i;
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
}

Tile* imagine_tile(uint32_t size_class, DType dtype, const Dims& sizes, std::string op,
                   Place place) {
    auto* tile = new Tile;
    tile->size_class = size_class;
    tile->dtype = dtype;
    tile->sizes = sizes;
    tile->identity = imagined().count++;
    const Origin& origin = imagined().tiles[tile->identity] = {size_class, std::move(op), place};
    note_origin(tile->identity, origin);
    return tile;
}

bool is_imagined(const Tile& tile) { return tile.identity >= first_identity; }

void forget_imagined(const Tile& tile) {
    if (!is_imagined(tile)) return;
    imagined().tiles.erase(tile.identity);
    note({Happened::Kind::drop, {tile.identity}});
}

const Origin& origin_of(const Tile& tile) { return imagined().tiles.at(tile.identity); }

const std::map<uint64_t, Origin>& imagined_tiles() { return imagined().tiles; }

}  // namespace nntile::runtime
