// SPDX-License-Identifier: BSD-3-Clause
// Products of floats of 16 bits by a warp, on tensor cores. A compiler for another machine has
// loops of the warp's first thread instead.
#pragma once

#include "kernels/cuda/element.hh"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#endif

namespace nntile::kernels::cuda {

// A square of 16 by 16 sums in float, which the threads of a warp have together. Matrices lie in
// shared memory, at multiples of 32 bytes; between their rows are multiples of 16. All threads of
// the warp call all of it, and see what others have stored behind a barrier.
inline constexpr int warp_square = 16;

#ifdef __CUDACC__

class WarpSums {
public:
    __device__ WarpSums() { nvcuda::wmma::fill_fragment(sums_, 0.0f); }
    // a b, of `depth` columns of a; of b the rows are runs, or where it lies across, the columns.
    template <DType D, bool across>
    __device__ void add(const uint16_t* a, int a_row, const uint16_t* b, int b_run, int depth) {
        using namespace nvcuda::wmma;
        using Element = std::conditional_t<D == DType::bf16, __nv_bfloat16, __half>;
#pragma unroll 1
        for (int k = 0; k < depth; k += warp_square) {
            fragment<matrix_a, warp_square, warp_square, warp_square, Element, row_major> left;
            fragment<matrix_b, warp_square, warp_square, warp_square, Element,
                     std::conditional_t<across, col_major, row_major>>
                right;
            load_matrix_sync(left, reinterpret_cast<const Element*>(a + k),
                             static_cast<unsigned>(a_row));
            load_matrix_sync(right,
                             reinterpret_cast<const Element*>(across ? b + k : b + k * b_run),
                             static_cast<unsigned>(b_run));
            mma_sync(sums_, left, right, sums_);
        }
    }
    __device__ void store(float* to, int row) const {
        nvcuda::wmma::store_matrix_sync(to, sums_, static_cast<unsigned>(row),
                                        nvcuda::wmma::mem_row_major);
    }

private:
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, warp_square, warp_square, warp_square, float>
        sums_;
};

#else

class WarpSums {
public:
    template <DType D, bool across>
    void add(const uint16_t* a, int a_row, const uint16_t* b, int b_run, int depth) {
        if (threadIdx.x % 32 != 0) return;
        const auto value = [](uint16_t x) { return Element<D>::template get<float>(x); };
        for (int r = 0; r < warp_square; ++r)
            for (int c = 0; c < warp_square; ++c)
                for (int k = 0; k < depth; ++k)
                    sums_[r][c] +=
                        value(a[r * a_row + k]) * value(b[across ? c * b_run + k : k * b_run + c]);
    }
    void store(float* to, int row) const {
        if (threadIdx.x % 32 != 0) return;
        for (int r = 0; r < warp_square; ++r)
            for (int c = 0; c < warp_square; ++c) to[r * row + c] = sums_[r][c];
    }

private:
    float sums_[warp_square][warp_square] = {};
};

#endif

}  // namespace nntile::kernels::cuda
