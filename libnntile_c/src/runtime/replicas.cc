// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/replicas.hh"

#include <starpu.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <utility>

#include "base/error.hh"
#include "runtime/device_residency.hh"

namespace nntile::runtime::replicas {

namespace {

int number_of_devices = 0;

using Clock = std::chrono::steady_clock;

// What a device does not have, though nothing runs there, it may get from other processes, which
// give back what they have for a short time. One that was waited for in vain is not waited for
// again so soon.
constexpr auto patience = std::chrono::seconds(1), memory_of_that = std::chrono::seconds(10);
constexpr int attempts = 3;  // StarPU makes room between them

// Of a device.
struct Room {
    std::atomic<int> running{0};
    std::atomic<uint64_t> copies{0};
    std::atomic<bool> lost{false};
    // Something leaves now, or has, perhaps not enough: StarPU tries again.
    std::atomic<bool> making{false}, made{false};
    std::mutex mutex;
    std::atomic<int> failures{0};  // one after the other, while nothing ran
    Clock::time_point since, short_until;
};
Room rooms[STARPU_MAXNODES];
std::atomic<int> number_of_lost{0};
std::mutex reason_mutex;
std::string reason;

bool gives_up(Room& room) {
    if (room.lost) return true;
    std::lock_guard lock(room.mutex);
    if (room.running > 0) {
        room.failures = 0;
        return false;
    }
    const Clock::time_point now = Clock::now();
    if (room.failures++ == 0) room.since = now;
    if (room.failures < attempts) return false;
    if (now >= room.short_until && now - room.since < patience) return false;
    room.failures = 0;
    room.short_until = now + memory_of_that;
    return true;
}

// ---- what StarPU knows of a copy, where there are devices

struct Copy {
    starpu_variable_interface variable;  // where StarPU's macros look for it
    Tile* tile;
};

Copy& copy_on(starpu_data_handle_t handle, unsigned node) {
    return *static_cast<Copy*>(starpu_data_get_interface_on_node(handle, node));
}

size_t bytes_of_data(const Copy& copy) {
    const int64_t of_data = copy.tile->data_bytes.load(std::memory_order_relaxed);
    return std::min(copy.variable.elemsize, static_cast<size_t>(of_data));
}

std::byte home_mark;
const auto at_home = reinterpret_cast<uintptr_t>(&home_mark);

void move_to(Copy& copy, uintptr_t address) {
    copy.variable.ptr = copy.variable.dev_handle = address;
}

void register_copies(starpu_data_handle_t handle, int node, void* given) {
    starpu_interface_variable_ops.register_data_handle(handle, node, given);
    for (unsigned n = 0; n < STARPU_MAXNODES; ++n)
        copy_on(handle, n).tile = static_cast<Copy*>(given)->tile;
}

// 0: there is no room. StarPU goes on counting what CUDA has refused as if it were in use.
uintptr_t take_memory(unsigned node, size_t bytes) {
    const size_t before = starpu_memory_get_used(node);
    const uintptr_t address = starpu_malloc_on_node(node, bytes);
    const size_t after = starpu_memory_get_used(node);
    if (!address && after > before) starpu_memory_deallocate(node, after - before);
    return address;
}

starpu_ssize_t allocate(void* copy, unsigned node) {
    Copy& c = *static_cast<Copy*>(copy);
    const auto bytes = static_cast<starpu_ssize_t>(c.variable.elemsize);
    Room& room = rooms[node];
    const uintptr_t address = room.lost ? 0 : take_memory(node, c.variable.elemsize);
    if (address) room.failures = 0;
    const bool goes_on = room.made.exchange(false) || room.making;
    if (!address && (goes_on || !gives_up(room))) return -ENOMEM;
    move_to(c, address ? address : at_home);
    return bytes;
}

void free_copy(void* copy, unsigned node) {
    Copy& c = *static_cast<Copy*>(copy);
    device_residency::left(c.tile->ram, node);
    if (c.variable.ptr != at_home) starpu_free_on_node(node, c.variable.ptr, c.variable.elemsize);
    move_to(c, 0);
}

void reuse(void* copy, const void* old, unsigned) {
    move_to(*static_cast<Copy*>(copy), static_cast<const Copy*>(old)->variable.ptr);
}

int copy_bytes(void* from, unsigned from_node, void* to, unsigned to_node, void* async) {
    struct Place {
        uintptr_t address;
        unsigned node;
    };
    Copy &source = *static_cast<Copy*>(from), &target = *static_cast<Copy*>(to);
    if (rooms[from_node].lost && source.variable.ptr != at_home) {
        source.tile->lost = true;
        return 0;
    }
    if (rooms[to_node].lost) move_to(target, at_home);
    if (to_node == STARPU_MAIN_RAM &&
        device_residency::leaves_without_copy(*source.tile, from_node))
        return 0;
    const auto place_of = [](const Copy& c, unsigned node) {
        if (c.variable.ptr != at_home) return Place{c.variable.ptr, node};
        return Place{reinterpret_cast<uintptr_t>(c.tile->ram.block), STARPU_MAIN_RAM};
    };
    const Place a = place_of(source, from_node), b = place_of(target, to_node);
    if (a.node == b.node && a.address == b.address) return 0;
    ++rooms[a.node].copies;
    ++rooms[b.node].copies;
    // StarPU waits for a stream of the nodes that it knows of.
    if (a.node != from_node || b.node != to_node) async = nullptr;
    const int result = starpu_interface_copy(a.address, 0, a.node, b.address, 0, b.node,
                                             bytes_of_data(target), async);
    if (result == 0 && (rooms[a.node].lost || rooms[b.node].lost))  // meanwhile
        return copy_bytes(from, from_node, to, to_node, nullptr);
    return result;
}

starpu_data_interface_ops* operations() {
    static starpu_data_copy_methods copying{};
    static starpu_data_interface_ops all = [] {
        copying.any_to_any = copy_bytes;
        starpu_data_interface_ops own = starpu_interface_variable_ops;
        own.register_data_handle = register_copies;
        own.allocate_data_on_node = allocate;
        own.free_data_on_node = free_copy;
        own.reuse_data_on_node = reuse;
        own.copy_methods = &copying;
        own.interface_size = sizeof(Copy);
        return own;
    }();
    return &all;
}

void register_tile(Tile& tile, int node, const void* block) {
    const auto address = reinterpret_cast<uintptr_t>(block);
    const auto bytes = static_cast<size_t>(tile.block_bytes());
    if (number_of_devices == 0)
        return starpu_variable_data_register(&tile.ram.handle, node, address, bytes);
    Copy copy{{STARPU_VARIABLE_INTERFACE_ID, address, address, 0, bytes}, &tile};
    starpu_data_register(&tile.ram.handle, node, &copy, operations());
}

}  // namespace

void set_devices(int devices) {
    number_of_devices = devices;
    number_of_lost = 0;
    device_residency::clear();
    for (Room& room : rooms) room.lost = false;
}
int devices() { return number_of_devices; }
uint64_t copies(unsigned node) { return rooms[node].copies; }

// The memory of a tile is ours, so StarPU neither allocates nor counts in main memory, and a handle
// may change its block while no task uses it.
void add(Tile& tile) {
    static std::byte nowhere;  // until it has a block
    const auto address = reinterpret_cast<uintptr_t>(&nowhere);
    register_tile(tile, -1, nullptr);
    starpu_variable_ptr_register(tile.ram.handle, STARPU_MAIN_RAM, address, address, 0);
    // Acquired once for writing: StarPU takes the tile for initialised, so that a task may read it
    // whatever was written before (StarPU would abort otherwise).
    starpu_data_acquire(tile.ram.handle, STARPU_W);
    starpu_data_release(tile.ram.handle);
    // Dependencies are ours
    starpu_data_set_sequential_consistency_flag(tile.ram.handle, 0);
}

void place(Tile& tile, void* block) {
    tile.ram.block = block;
    const auto interface_on = [&](unsigned node) {
        return static_cast<starpu_variable_interface*>(
            starpu_data_get_interface_on_node(tile.ram.handle, node));
    };
    starpu_variable_interface& home = *interface_on(STARPU_MAIN_RAM);
    home.ptr = home.dev_handle = reinterpret_cast<uintptr_t>(block);
    home.elemsize = static_cast<size_t>(tile.block_bytes());
    // A handle may have served a tile of another size; devices have no copy now.
    for (unsigned node = STARPU_MAIN_RAM + 1; node < starpu_memory_nodes_get_count(); ++node)
        interface_on(node)->elemsize = home.elemsize;
}

void forget(Tile& tile) {
    const void* block = std::exchange(tile.ram.block, nullptr);
    if (number_of_devices == 0) return;
    device_residency::forget(tile.ram);
    // StarPU would write an old copy, for which it needs the room, to where the block was.
    starpu_data_unregister_no_coherency(tile.ram.handle);
    // Initialised, and without an acquire, which a worker may not do; StarPU looks at the block
    // now.
    register_tile(tile, STARPU_MAIN_RAM, block);
    starpu_data_set_sequential_consistency_flag(tile.ram.handle, 0);
}

void remove(Replica& replica) {
    device_residency::forget(replica);
    if (number_of_devices > 0) starpu_data_unregister_no_coherency(replica.handle);
    else starpu_data_unregister(replica.handle);
    replica.handle = nullptr;
}

void bring_home(const Replica& replica, starpu_data_access_mode mode) {
    if (number_of_devices > 0) starpu_data_acquire_on_node(replica.handle, STARPU_MAIN_RAM, mode);
}
void bring_home(const Replica& replica, void (*there)(void*), void* arg) {
    if (number_of_devices == 0) return there(arg);
    starpu_data_acquire_on_node_cb_sequential_consistency(replica.handle, STARPU_MAIN_RAM, STARPU_R,
                                                          there, arg, 0);
}
void give_back(const Replica& replica) {
    if (number_of_devices > 0) starpu_data_release_on_node(replica.handle, STARPU_MAIN_RAM);
}

bool make_room(unsigned node, int64_t bytes) {
    Room& room = rooms[node];
    if (room.lost || room.making.exchange(true)) return false;  // in a call of StarPU from below
    const bool made = device_residency::make_room(node, bytes);
    room.making = false;
    room.made = made;
    return made;
}

bool is_there(void* copy, starpu_data_access_mode mode) {
    Copy& c = *static_cast<Copy*>(copy);
    const unsigned node = starpu_worker_get_local_memory_node();
    if (lost(node)) return false;
    if (c.variable.ptr != at_home) return true;
    const size_t bytes = c.variable.elemsize;
    const uintptr_t address = take_memory(node, bytes);
    if (!address) return false;
    if (mode & STARPU_R)
        starpu_interface_copy(reinterpret_cast<uintptr_t>(c.tile->ram.block), 0, STARPU_MAIN_RAM,
                              address, 0, node, bytes_of_data(c), nullptr);
    if (lost(node)) return false;
    move_to(c, address);
    return true;
}

void begin(unsigned node) { ++rooms[node].running; }
void end(unsigned node) { --rooms[node].running; }
bool busy(unsigned node) { return rooms[node].running > 0; }

bool lose(unsigned node, const std::string& why) {
    if (rooms[node].lost.exchange(true)) return false;
    std::lock_guard lock(reason_mutex);
    reason = text_of("GPU ", starpu_memory_node_get_devid(node), " has failed (", why, ")");
    ++number_of_lost;
    return true;
}

bool lost(unsigned node) { return rooms[node].lost.load(std::memory_order_acquire); }
int working() { return number_of_devices - number_of_lost.load(std::memory_order_relaxed); }

std::string why_lost() {
    std::lock_guard lock(reason_mutex);
    return number_of_lost > 0 ? reason : "";
}

// What has come from main memory is still there. What has come from a device was perhaps nowhere
// else.
void copy_failed(starpu_data_handle_t handle, unsigned from, unsigned to) {
    Copy& target = copy_on(handle, to);
    if (from == STARPU_MAIN_RAM) move_to(target, at_home);
    else target.tile->lost = true;
}

}  // namespace nntile::runtime::replicas
