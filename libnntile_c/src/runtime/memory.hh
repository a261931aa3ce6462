// SPDX-License-Identifier: BSD-3-Clause
// Where StarPU's main memory for tiles comes from: blocks of size classes, a few of them cached,
// because fresh pages cost 0.33 ms per MiB. StarPU reaches it through starpu_malloc_set_hooks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nntile::runtime::memory {

// Size classes: multiples of 64 bytes, eight classes per power of two (waste below 12.5 %).
inline constexpr uint32_t class_count = 8 * 56;
uint32_t class_of(int64_t bytes);
int64_t class_bytes(uint32_t size_class);

// Under `ulimit -v`, what the process may still map; else INT64_MAX. Tiles leave some to all others:
// most of those that get none, such as a thread that begins, end the process.
int64_t address_space_left();
inline constexpr int64_t spared_address_space = int64_t{512} << 20;

void install_hooks();  // after starpu_init
// Makes sure that the next request of StarPU for this size is served; false: the system has no
// memory. StarPU itself would retry for ever.
bool prepare(uint32_t size_class);
void release_all();  // gives cached blocks back to the system

}  // namespace nntile::runtime::memory
