// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/replicas.hh"

#include <starpu.h>

namespace nntile::runtime::replicas {

namespace {

int number_of_devices = 0;

}  // namespace

void set_devices(int devices) { number_of_devices = devices; }
int devices() { return number_of_devices; }

// The memory of a tile is ours, so StarPU neither allocates nor counts in main memory, and a handle
// may change its block while no task uses it.
void add(Replica& replica, int64_t bytes) {
    static std::byte nowhere;  // until it has a block
    const auto address = reinterpret_cast<uintptr_t>(&nowhere);
    starpu_variable_data_register(&replica.handle, -1, 0, static_cast<size_t>(bytes));
    starpu_variable_ptr_register(replica.handle, STARPU_MAIN_RAM, address, address, 0);
    // Acquired once for writing: StarPU takes the tile for initialised, so that a task may read it
    // whatever was written before (StarPU would abort otherwise).
    starpu_data_acquire(replica.handle, STARPU_W);
    starpu_data_release(replica.handle);
    // Dependencies are ours
    starpu_data_set_sequential_consistency_flag(replica.handle, 0);
}

void place(Replica& replica, void* block, int64_t bytes) {
    replica.block = block;
    const auto interface_on = [&](unsigned node) {
        return static_cast<starpu_variable_interface*>(
            starpu_data_get_interface_on_node(replica.handle, node));
    };
    starpu_variable_interface& home = *interface_on(STARPU_MAIN_RAM);
    home.ptr = home.dev_handle = reinterpret_cast<uintptr_t>(block);
    home.elemsize = static_cast<size_t>(bytes);
    // A handle may have served a tile of another size; devices have no copy now.
    for (unsigned node = STARPU_MAIN_RAM + 1; node < starpu_memory_nodes_get_count(); ++node)
        interface_on(node)->elemsize = home.elemsize;
}

void forget(Replica& replica, int64_t bytes) {
    const auto block = reinterpret_cast<uintptr_t>(replica.block);
    replica.block = nullptr;
    if (number_of_devices == 0) return;
    // StarPU would write an old copy, for which it needs the room, to where the block was.
    starpu_data_unregister_no_coherency(replica.handle);
    // Initialised, and without an acquire, which a worker may not do; StarPU looks at the block
    // now.
    starpu_variable_data_register(&replica.handle, STARPU_MAIN_RAM, block,
                                  static_cast<size_t>(bytes));
    starpu_data_set_sequential_consistency_flag(replica.handle, 0);
}

void remove(Replica& replica) {
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

}  // namespace nntile::runtime::replicas
