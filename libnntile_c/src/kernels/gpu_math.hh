// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace nntile::kernels {

// What a GPU may do with numbers, as the user of the library says: bits of nntile_gpu_math.
enum GpuMath : uint32_t {
    tf32_products = 1,      // float32 in TF32: 10 bits of each factor's fraction, sums in float32
    tf32_convolutions = 2,  // likewise, where cuDNN has them
    use_dnn = 4,            // cuDNN's convolutions, where it is installed
};

}  // namespace nntile::kernels
