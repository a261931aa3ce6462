// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "kernels/kernel.hh"

namespace nntile::kernels::cuda {

enum class Convolve { forward, input, weight };

// By tiles, or each result by itself.
int convolve(const Args& args, const CudaPlace* place, Convolve kind);

}  // namespace nntile::kernels::cuda
