// SPDX-License-Identifier: BSD-3-Clause
// Stored values: their tiles, and copies from and to dense host bytes.
#include <algorithm>
#include <cstring>

#include "runtime/copy.hh"
#include "runtime/engine.hh"
#include "runtime/simulate.hh"
#include "tile/cuts.hh"

namespace nntile::runtime {

namespace {

enum class Direction { to_tiles, to_host };

// Sleeps until the tasks in flight that write these tiles (with_readers: or read them) have ended.
void wait_for_tiles(const std::vector<PhysicalRef>& tiles, bool with_readers) {
    Engine& e = engine();
    auto waiter = std::make_unique<Waiter>();
    waiter->add();  // this thread
    auto enter = [&](const TaskRef& ref) {
        if (RunTask* task = ref.running()) waiter->enter(*task);
    };
    {
        std::lock_guard lock(e.mutex);
        for (const PhysicalRef& tile : tiles) {
            if (noting.load(std::memory_order_relaxed) && !with_readers) note_wait(tile.get());
            enter(tile->writer);
            if (!with_readers) continue;
            for (const TaskRef& reader : tile->readers) enter(reader);
        }
    }
    waiter->remove();
    if (!Waiter::wait(std::move(waiter))) fail_interrupted();
}

// Waits until these tiles are computed, then lets `copy` read them; throws the first task error.
template <class Copy>
void when_computed(const std::vector<PhysicalRef>& tiles, uint64_t generation, Copy&& copy) {
    Engine& e = engine();
    bool lost = false;
    {
        Guest guest(e, generation);
        wait_for_tiles(tiles, false);
        for (const PhysicalRef& tile : tiles) lost = lost || tile->lost;
        if (!lost) copy();
    }
    e.throw_error();
    check(!lost, Status::runtime,
          "this data was never computed, because an earlier op failed: ", e.last_error());
}

// A view of more and shorter runs is made dense by tasks.
constexpr int64_t few_runs = 4096, long_run = 256;  // bytes

// Elements of a view that follow each other.
int64_t run_of(const Layout& view) {
    int64_t run = 1;
    for (size_t d = view.sizes.size();
         d > 0 && (view.sizes[d - 1] == 1 || view.strides[d - 1] == run);)
        run *= view.sizes[--d];
    return run;
}

void copy_tiles(const Storage& storage, std::byte* host, Direction direction) {
    const tile::Grid grid = tile::grid_of(storage.sizes, storage.cuts);
    const int64_t bytes = size_of(storage.dtype);
    Dims extents;
    for (const tile::GridDim& d : grid.dims) extents.push_back(d.extent);
    const Dims host_strides = dense_strides(extents);
    check(grid.tiles() == static_cast<int64_t>(storage.tiles.size()), Status::internal,
          "storage: ", storage.tiles.size(), " tiles for a grid of ", grid.tiles());
    for (int64_t t = 0; t < grid.tiles(); ++t) {
        const Dims at = grid.segments_of(t);
        const Dims sizes = grid.sizes_of(at);
        const Dims tile_strides = dense_strides(sizes);
        int64_t offset = 0;
        for (size_t i = 0; i < at.size(); ++i)
            offset += grid.dims[i].starts[static_cast<size_t>(at[i])] * host_strides[i];
        std::byte* outside = host + offset * bytes;
        starpu_data_handle_t handle = storage.tiles[static_cast<size_t>(t)]->handle;
        starpu_data_acquire(handle, direction == Direction::to_tiles ? STARPU_W : STARPU_R);
        auto* inside = static_cast<std::byte*>(starpu_data_get_local_ptr(handle));
        if (direction == Direction::to_tiles)
            copy_block(inside, tile_strides, outside, host_strides, sizes, bytes);
        else copy_block(outside, host_strides, inside, tile_strides, sizes, bytes);
        starpu_data_release(handle);
    }
}

}  // namespace

std::shared_ptr<graph::Stored> Storage::as(DType to, std::span<const int64_t> shape) const {
    if (tiles.size() != 1 || product(shape) * size_of(to) != bytes()) return nullptr;
    auto seen = std::make_shared<Storage>();
    seen->dtype = to;
    seen->sizes = Dims(shape);
    for (int64_t n : shape) seen->cuts.push_back(tile::whole(n));
    seen->names.resize(shape.size());
    seen->tiles = tiles;
    seen->generation = generation;
    return seen;
}

int64_t Storage::bytes() const { return tiles.empty() ? 0 : product(sizes) * size_of(dtype); }

void allocate(Storage& storage) {
    ensure_started();
    Engine& e = engine();
    const tile::Grid grid = tile::grid_of(storage.sizes, storage.cuts);
    std::vector<Pool::Need> needs;
    int64_t need_bytes = 0;
    for (int64_t t = 0; t < grid.tiles(); ++t) {
        const int64_t bytes = product(grid.sizes_of(grid.segments_of(t))) * size_of(storage.dtype);
        needs.push_back({memory::class_of(bytes), 1});
        need_bytes += memory::class_bytes(needs.back().size_class);
    }
    std::vector<PhysicalRef> tiles;
    {
        std::unique_lock lock(e.mutex);
        e.check_open();
        for (Physical* tile : e.reserve(needs, need_bytes, true, lock))
            tiles.push_back(e.pool.own(tile, storage.dtype, storage.sizes));
        storage.generation = generation();
    }
    for (const PhysicalRef& tile : tiles) tile->lost = false;
    storage.tiles = std::move(tiles);
}

void write(Storage& storage, const void* host) {
    if (storage.tiles.empty()) allocate(storage);
    Engine& e = engine();
    Guest guest(e, storage.generation);
    wait_for_tiles(storage.tiles, true);  // a tile may come from the pool with tasks in flight
    for (const PhysicalRef& tile : storage.tiles) tile->lost = false;
    // Never written through: the direction says so.
    copy_tiles(storage, static_cast<std::byte*>(const_cast<void*>(host)), Direction::to_tiles);
    storage.undefined = false;
}

void read(const Storage& storage, void* host) {
    if (storage.tiles.empty()) {  // never written: unspecified, but always the same
        std::memset(host, 0, static_cast<size_t>(product(storage.sizes) * size_of(storage.dtype)));
        return;
    }
    when_computed(storage.tiles, storage.generation,
                  [&] { copy_tiles(storage, static_cast<std::byte*>(host), Direction::to_host); });
}

bool read_view(const Storage& storage, DType dtype, const Layout& view, void* host) {
    const bool one = storage.tiles.size() == 1;  // its bytes are dense, whatever they stand for
    if (storage.tiles.empty() || (!one && storage.dtype != dtype)) return false;
    const int64_t bytes = size_of(dtype), run = run_of(view);
    if (view.numel() / run > few_runs && run * bytes < long_run) return false;
    tile::Pieces pieces;
    if (one) {
        tile::Piece& all = pieces.list.emplace_back();
        all.base_offset = view.offset;
        all.sizes = view.sizes;
        all.base_strides = view.strides;
        all.view_strides = dense_strides(view.sizes);
    } else {
        pieces = tile::tile_pieces(tile::grid_of(storage.sizes, storage.cuts), view,
                                   tile::grid_of(view.sizes, {}));
    }
    if (pieces.irregular) return false;
    std::vector<bool> touched(storage.tiles.size(), false);
    for (const tile::Piece& p : pieces.list) touched[p.base_tile] = true;
    std::vector<PhysicalRef> tiles;
    for (size_t t = 0; t < touched.size(); ++t)
        if (touched[t]) tiles.push_back(storage.tiles[t]);
    when_computed(tiles, storage.generation, [&] {
        std::vector<const std::byte*> inside(touched.size(), nullptr);
        for (size_t t = 0; t < touched.size(); ++t) {
            if (!touched[t]) continue;
            starpu_data_handle_t handle = storage.tiles[t]->handle;
            starpu_data_acquire(handle, STARPU_R);
            inside[t] = static_cast<const std::byte*>(starpu_data_get_local_ptr(handle));
        }
        for (const tile::Piece& p : pieces.list)
            copy_block(static_cast<std::byte*>(host) + p.view_offset * bytes, p.view_strides,
                       inside[p.base_tile] + p.base_offset * bytes, p.base_strides, p.sizes, bytes);
        for (const PhysicalRef& tile : tiles) starpu_data_release(tile->handle);
    });
    return true;
}

}  // namespace nntile::runtime
