// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace emulation::sample {

cudaError_t start_axpy(float a, const float* x, float* y, int64_t n, cudaStream_t stream);
cudaError_t start_row_sums(bool with_barrier, const float* x, float* y, int64_t rows,
                           int64_t columns, cudaStream_t stream, size_t shared = 512);
cudaError_t let_row_sums_share(size_t bytes);
cudaError_t start_lanes(int* greatest, int* threads, cudaStream_t stream);

}  // namespace emulation::sample
