// SPDX-License-Identifier: BSD-3-Clause
// Copies a block between two strided arrays of host bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nntile::runtime {

// Strides in elements, element of `bytes` bytes.
void copy_block(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from,
                std::span<const int64_t> from_strides, std::span<const int64_t> sizes,
                int64_t bytes);

}  // namespace nntile::runtime
