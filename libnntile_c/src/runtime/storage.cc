// SPDX-License-Identifier: BSD-3-Clause
// Stored values: their tiles, and copies from and to dense host bytes.
#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/copy.hh"
#include "runtime/engine.hh"
#include "runtime/imagine.hh"
#include "runtime/replicas.hh"
#include "runtime/simulate.hh"
#include "tile/cuts.hh"

namespace nntile::runtime {

namespace {

enum class Direction { to_tiles, to_host };

// Sleeps until the tasks in flight that write these tiles (with_readers: or read them) have ended.
void wait_for_tiles(const std::vector<TileRef>& tiles, bool with_readers) {
    Engine& e = engine();
    std::unique_ptr<Waiter> waiter;  // often none is needed
    auto enter = [&](const TaskRef& ref) {
        RunTask* const task = ref.running();
        if (!task) return;
        if (!waiter) {
            waiter = std::make_unique<Waiter>();
            waiter->add();  // this thread
        }
        waiter->enter(*task);
    };
    {
        std::lock_guard lock(e.mutex);
        for (const TileRef& tile : tiles) {
            if (noting.load(std::memory_order_relaxed) && !with_readers) note_wait(tile.get());
            enter(tile->writer);
            if (!with_readers) continue;
            for (const TaskRef& reader : tile->readers) enter(reader);
        }
    }
    if (!waiter) return;
    waiter->remove();
    if (!Waiter::wait(std::move(waiter))) fail_interrupted();
}

// Waits until these tiles are computed, then lets `copy` read them; throws the first task error.
template <class Copy>
void when_computed(const std::vector<TileRef>& tiles, uint64_t generation, Copy&& copy) {
    Engine& e = engine();
    bool lost = false;
    {
        Guest guest(e, generation);
        wait_for_tiles(tiles, false);
        for (const TileRef& tile : tiles) lost = lost || tile->lost;
        if (!lost) copy();
        // A device that has failed had it.
        for (const TileRef& tile : tiles) lost = lost || tile->lost;
    }
    e.throw_error();
    if (!lost) return;
    const std::string device = replicas::why_lost();
    check(device.empty(), Status::runtime, "this data is lost: ", device);
    fail(Status::runtime,
         "this data was never computed, because an earlier op failed: ", e.last_error());
}

// A tile in main memory, while this lives. What its tasks write is there already.
class Pinned {
public:
    Pinned(Tile* tile, bool to_write) : tile_(tile), writes_(to_write) {
        pin();
        replicas::bring_home(tile->ram, to_write ? STARPU_W : STARPU_R);
    }
    ~Pinned() {
        replicas::give_back(tile_->ram);
        if (!pinned_) return;
        Engine& e = engine();
        Stager::Ready ready;
        {
            std::lock_guard lock(e.mutex);
            e.stager.unpin_host(tile_, writes_);
            e.stager.advance(ready);  // a task may have waited for this block to be free
        }
        carry_on(ready);
    }
    Pinned(const Pinned&) = delete;
    std::byte* block() const { return static_cast<std::byte*>(tile_->ram.block); }

private:
    void pin() {
        Engine& e = engine();
        if (!e.stager.has_disk() && tile_->ram.block) return;  // it stays anyway
        std::unique_lock lock(e.mutex);
        Wanted wanted(e.stager, tile_, lock);
        Patience patience;
        while (!e.stager.pin(tile_, writes_)) {
            check_hope(tile_);
            e.wait_for_change(patience, lock);
        }
        pinned_ = true;
    }
    // Tasks are not staged while a thread waits for room; afterwards they go on.
    struct Wanted {
        Wanted(Stager& stager, Tile* tile, std::unique_lock<std::mutex>& lock)
            : stager_(stager), tile_(tile), lock_(lock) {
            stager_.want(tile_, 1);
        }
        ~Wanted() {
            stager_.want(tile_, -1);
            Stager::Ready ready;
            stager_.advance(ready);
            lock_.unlock();
            carry_on(ready);
        }
        Stager& stager_;
        Tile* tile_;
        std::unique_lock<std::mutex>& lock_;
    };
    static void check_hope(const Tile* tile) {
        Engine& e = engine();
        if (!e.stager.hopeless()) return;
        fail(Status::out_of_memory, "out of memory: ", tile->block_bytes(),
             " bytes have no place beside what is in use; the budget is ", e.pool.budget, " bytes",
             e.stager.why_full(), "; the largest holders: ", e.pool.holders());
    }
    Tile* tile_;
    bool writes_, pinned_ = false;
};

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
        const bool in = direction == Direction::to_tiles;
        Tile* const tile = storage.tiles[static_cast<size_t>(t)].get();
        const Pinned pinned(tile, in);
        if (in) tile->data_bytes.store(product(sizes) * bytes, std::memory_order_relaxed);
        if (in) copy_block(pinned.block(), tile_strides, outside, host_strides, sizes, bytes);
        else copy_block(outside, host_strides, pinned.block(), tile_strides, sizes, bytes);
    }
}

void check_data(const Storage& storage) {
    if (!storage.imagined) return;
    std::lock_guard lock(engine().mutex);
    const Origin& origin = origin_of(*storage.tiles[0]);
    const std::string made = text_of_place(origin.place), here = text_of_place(current_place);
    fail(Status::invalid_state, "read: the result of ", origin.op,
         made.empty() ? "" : " [" + made + "]", ", ", name_of(storage.dtype), " ",
         text_of_dims(storage.sizes),
         ", has no data, because it was made in estimate_only(): a step must not look at numbers",
         here.empty() ? "" : " [" + here + "]");
}

std::vector<uint64_t> identities_of(const Storage& storage) {
    std::vector<uint64_t> identities;
    for (const TileRef& tile : storage.tiles) identities.push_back(tile->identity);
    return identities;
}

// Engine's mutex.
void allocate_imagined(Storage& storage, const std::vector<Pool::Need>& needs) {
    for (const Pool::Need& need : needs)
        storage.tiles.push_back(
            imagine_tile(need.size_class, storage.dtype, storage.sizes, "write", current_place));
    note({Happened::Kind::allocate, identities_of(storage)});
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
    seen->imagined = imagined;
    return seen;
}

int64_t Storage::bytes() const { return tiles.empty() ? 0 : product(sizes) * size_of(dtype); }

void allocate(Storage& storage) {
    ensure_started();
    Engine& e = engine();
    const tile::Grid grid = tile::grid_of(storage.sizes, storage.cuts);
    std::vector<Pool::Need> needs;
    int64_t need_bytes = 0, largest = 0;
    for (int64_t t = 0; t < grid.tiles(); ++t) {
        const int64_t bytes = product(grid.sizes_of(grid.segments_of(t))) * size_of(storage.dtype);
        needs.push_back({memory::class_of(bytes), 1});
        need_bytes += memory::class_bytes(needs.back().size_class);
        largest = std::max(largest, memory::class_bytes(needs.back().size_class));
    }
    std::vector<TileRef> tiles;
    storage.imagined = imagining();
    {
        std::lock_guard lock(e.mutex);
        e.check_open();
        storage.generation = generation();
        if (storage.imagined) return allocate_imagined(storage, needs);
        e.stager.want_at_once(largest);
        e.check_fits(need_bytes, needs.size());
        // Where memory is short, write() and tasks take it tile by tile.
        std::vector<Tile*> taken;
        if (!e.stager.idle() || !e.pool.reserve(needs, true, false, taken)) {
            for (const Pool::Need& need : needs) taken.push_back(e.pool.bare(need.size_class));
        }
        for (Tile* tile : taken) tiles.push_back(e.pool.own(tile, storage.dtype, storage.sizes));
    }
    for (const TileRef& tile : tiles) tile->lost = false;
    storage.tiles = std::move(tiles);
}

void write(Storage& storage, const void* host) {
    if (storage.tiles.empty()) allocate(storage);
    storage.undefined = false;
    Engine& e = engine();
    if (storage.imagined) {
        std::lock_guard lock(e.mutex);
        return note({Happened::Kind::write, identities_of(storage)});
    }
    Guest guest(e, storage.generation);
    wait_for_tiles(storage.tiles, true);  // a tile may come from the pool with tasks in flight
    for (const TileRef& tile : storage.tiles) tile->lost = false;
    // Never written through: the direction says so.
    copy_tiles(storage, static_cast<std::byte*>(const_cast<void*>(host)), Direction::to_tiles);
}

void read(const Storage& storage, void* host) {
    if (storage.tiles.empty()) {  // never written: unspecified, but always the same
        std::memset(host, 0, static_cast<size_t>(product(storage.sizes) * size_of(storage.dtype)));
        return;
    }
    check_data(storage);
    when_computed(storage.tiles, storage.generation,
                  [&] { copy_tiles(storage, static_cast<std::byte*>(host), Direction::to_host); });
}

bool read_view(const Storage& storage, DType dtype, const Layout& view, void* host) {
    check_data(storage);
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
    std::vector<TileRef> tiles;
    for (size_t t = 0; t < touched.size(); ++t)
        if (touched[t]) tiles.push_back(storage.tiles[t]);
    when_computed(tiles, storage.generation, [&] {
        std::ranges::stable_sort(pieces.list, {}, &tile::Piece::base_tile);
        std::optional<Pinned> pinned;
        for (size_t k = 0; k < pieces.list.size(); ++k) {
            const tile::Piece& p = pieces.list[k];
            if (k == 0 || p.base_tile != pieces.list[k - 1].base_tile) {
                pinned.reset();
                pinned.emplace(storage.tiles[p.base_tile].get(), false);
            }
            copy_block(static_cast<std::byte*>(host) + p.view_offset * bytes, p.view_strides,
                       pinned->block() + p.base_offset * bytes, p.base_strides, p.sizes, bytes);
        }
    });
    return true;
}

}  // namespace nntile::runtime
