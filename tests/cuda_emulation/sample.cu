// SPDX-License-Identifier: BSD-3-Clause
// Kernels for the test of the emulation: right ones, and one without a barrier that it needs.
#include "kernels/cuda/launch.hh"
#include "sample.hh"

namespace emulation::sample {

__global__ void axpy(float a, const float* x, float* y, int64_t n) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

// The sum of each row, by a block.
template <bool with_barrier>
__global__ void row_sums(const float* x, float* y, int64_t columns) {
    float* const shared = shared_memory<float>();
    float sum = 0;
    for (int64_t j = threadIdx.x; j < columns; j += blockDim.x) sum += x[blockIdx.x * columns + j];
    shared[threadIdx.x] = sum;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (with_barrier) __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = shared[0];
}

// The greatest lane's number in each lane of a warp, by shuffles; and how many threads there are
// that know which lanes have an odd number.
__global__ void lanes(int* greatest, int* threads) {
    int value = static_cast<int>(threadIdx.x % 32);
    for (int bits = 16; bits > 0; bits /= 2) {
        const int other = __shfl_xor_sync(0xffffffffu, value, bits);
        value = other > value ? other : value;
    }
    greatest[blockIdx.x * blockDim.x + threadIdx.x] = value;
    const unsigned odd = __ballot_sync(0xffffffffu, threadIdx.x % 2 == 1);
    if (odd == 0xaaaaaaaau && __popc(odd) == 16 && __ffs(static_cast<int>(odd)) == 2)
        atomicAdd(threads, 1);
}

cudaError_t start_axpy(float a, const float* x, float* y, int64_t n, cudaStream_t stream) {
    return launch<axpy>(dim3(static_cast<unsigned>((n + 127) / 128)), dim3(128), 0, stream, a, x, y,
                        n);
}
cudaError_t start_row_sums(bool with_barrier, const float* x, float* y, int64_t rows,
                           int64_t columns, cudaStream_t stream, size_t shared) {
    const dim3 grid(static_cast<unsigned>(rows)), block(128);
    return with_barrier ? launch<row_sums<true>>(grid, block, shared, stream, x, y, columns)
                        : launch<row_sums<false>>(grid, block, shared, stream, x, y, columns);
}
cudaError_t let_row_sums_share(size_t bytes) { return allow_shared<row_sums<true>>(bytes); }
cudaError_t start_lanes(int* greatest, int* threads, cudaStream_t stream) {
    return launch<lanes>(dim3(3), dim3(96), 0, stream, greatest, threads);
}

}  // namespace emulation::sample
