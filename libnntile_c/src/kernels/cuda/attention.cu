// SPDX-License-Identifier: BSD-3-Clause
// Attention that never holds its scores: tiles of keys pass by a tile of queries, a block's, with
// a running maximum and sum for each query. Rows of more than D elements go by in chunks; scores
// are then made again for each chunk of values.
#include "kernels/cuda/attention.hh"

namespace nntile::kernels::cuda {

enum { in_q, in_k, in_v, in_mask, out_y, out_log, operands };

template <class T, int D>
constexpr size_t attention_shared = (2 * tile * D + tile * tile) * sizeof(T) + planes_bytes;

template <class T, int D>
__global__ void __launch_bounds__(tile_threads, sizeof(T) == 4 && D <= 64 ? 3 : 2)
    attend(const __grid_constant__ AttentionJob job, int tiles, int64_t blocks) {
    constexpr T infinite = std::numeric_limits<T>::infinity();
    T* const queries = shared_memory<T>();  // across
    T* const others = queries + tile * D;   // keys, across; then values, along
    T* const weights = others + tile * D;   // across
    Plane* const planes = reinterpret_cast<Plane*>(weights + tile * tile);
    const Plane &q = planes[in_q], &k = planes[in_k], &v = planes[in_v], &mask = planes[in_mask];
    const int ty = static_cast<int>(threadIdx.x / 16), tx = static_cast<int>(threadIdx.x % 16);
    const int parts = chunks_of<D>(job.size), outputs = chunks_of<D>(job.value_size, 1);
    const T scale = static_cast<T>(job.scale);
    for (int64_t number = blockIdx.x; number < blocks; number += gridDim.x) {
        int64_t rest = number;
        // The last queries see most keys where the mask is causal: they begin.
        const int64_t from = (tiles - 1 - take_place(rest, tiles)) * tile;
        const auto output = static_cast<int>(take_place(rest, outputs));
        __syncthreads();
        find_planes<operands>(planes, job, rest);
        __syncthreads();
        const int64_t behind = from + tile < job.queries ? from + tile : job.queries;
        // By the tile's last query: what lies behind may be anything, such as nan.
        int64_t seen = job.keys;
        if (job.causal && job.first + behind < seen) seen = job.first + behind;
        T most[rows_each], sum[rows_each], y[rows_each][D / 16] = {};
        for (int i = 0; i < rows_each; ++i) most[i] = -infinite, sum[i] = 0;
        for (int64_t at = 0; at < seen; at += tile) {
            T score[rows_each][columns_each] = {};
            for (int part = 0; part < parts; ++part) {
                const int64_t column = int64_t{part} * D;
                __syncthreads();
                if (parts > 1 || at == 0)
                    fill_across<T, D>(queries, q, from, job.queries, column, job.size);
                fill_across<T, D>(others, k, at, seen, column, job.size);
                __syncthreads();
                multiply_across(score, queries, others, depth_of<D>(job.size, part));
            }
#pragma unroll
            for (int i = 0; i < rows_each; ++i) {
                const int64_t query = from + 8 * ty + i;
                int64_t end = job.causal ? job.first + query + 1 : job.keys;
                if (end > job.keys) end = job.keys;
                const int64_t left = end - at - 4 * tx;  // of the thread's keys
                T now = -infinite;
#pragma unroll
                for (int c = 0; c < columns_each; ++c) {
                    T& s = score[i][c];
                    s *= scale;
                    if (job.present[in_mask] && query < job.queries && c < left)
                        s += masked<T>(mask, query, at + 4 * tx + c);
                    if (c >= left) s = -infinite;
                    now = nan_or_max(now, s);
                }
#pragma unroll
                for (int lanes = 8; lanes > 0; lanes /= 2)
                    now = nan_or_max(now, __shfl_xor_sync(0xffffffffu, now, lanes));
                now = nan_or_max(most[i], now);
                const T base = now == -infinite ? T(0) : now;
                const T factor = std::exp(most[i] - base);
                sum[i] *= factor;
#pragma unroll
                for (int c = 0; c < columns_each; ++c) {
                    score[i][c] = std::exp(score[i][c] - base);
                    sum[i] += score[i][c];
                }
#pragma unroll
                for (int n = 0; n < D / 16; ++n) y[i][n] *= factor;
                most[i] = now;
            }
            __syncthreads();
            put_across(weights, score);
            fill_along<T, D>(others, v, at, seen, int64_t{output} * D, job.value_size);
            __syncthreads();
            multiply_along<T, D>(y, weights, others,
                                 static_cast<int>(seen - at < tile ? seen - at : tile));
        }
        // A query without any key gets zeros, and 0 as the logarithm of its sum.
#pragma unroll
        for (int i = 0; i < rows_each; ++i) {
#pragma unroll
            for (int lanes = 8; lanes > 0; lanes /= 2)
                sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], lanes);
            const bool none = most[i] == -infinite;
            const T by = none ? T(0) : 1 / sum[i];
#pragma unroll
            for (int n = 0; n < D / 16; ++n) y[i][n] *= by;
            const int64_t query = from + 8 * ty + i;
            if (tx == 0 && output == 0 && query < job.queries) {
                const Plane& log = planes[out_log];
                store_as(log.data, log.dtype, query * log.row,
                         none ? T(0) : most[i] + std::log(sum[i]));
            }
        }
        store_tile<T, D>(planes[out_y], y, from, job.queries, int64_t{output} * D, job.value_size);
    }
}

template <class T, int D>
static int start_attention(const Args& args, const AttentionJob& job, cudaStream_t stream) {
    const int64_t tiles = (job.queries + tile - 1) / tile,
                  blocks = tiles * chunks_of<D>(job.value_size, 1) * job.heads.count;
    if (blocks == 0) return 0;
    if (const cudaError_t error = allow_shared<attend<T, D>>(attention_shared<T, D>))
        return status_of(args, error);
    return status_of(args, launch<attend<T, D>>(grid_of(blocks, 1).blocks, dim3(tile_threads),
                                                attention_shared<T, D>, stream, job,
                                                static_cast<int>(tiles), blocks));
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(attention) {
    using namespace cuda;
    static constexpr MatrixDims dims[] = {{0, 2}, {1, 2}, {1, 3}, {0, 1}, {0, 3}, {0, -1}};
    AttentionJob job;
    if (!make_attention_job(job, args, dims, 0, in_mask)) return not_on_device;
    if (!place) return 0;
    const int64_t widest = job.size > job.value_size ? job.size : job.value_size;
    if (args.blocks[0].dtype == DType::f64)
        return start_attention<double, 32>(args, job, place->stream);
    if (widest <= 32) return start_attention<float, 32>(args, job, place->stream);
    if (widest <= 64) return start_attention<float, 64>(args, job, place->stream);
    return start_attention<float, 128>(args, job, place->stream);
}

}  // namespace nntile::kernels
