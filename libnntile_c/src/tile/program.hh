// SPDX-License-Identifier: BSD-3-Clause
// Programs of element-wise tasks.
#pragma once

#include <memory>

#include "kernels/kernel.hh"

namespace nntile::tile {

// The program that is one map row.
std::shared_ptr<const kernels::Program> one_instruction(int map_row, DType compute);

}  // namespace nntile::tile
