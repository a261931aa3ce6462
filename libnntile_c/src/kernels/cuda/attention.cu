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

// The same of floats of 16 bits: the weights are such ones where they are factors. Tiles of keys go
// by twice, first for the logarithms of the sums: so what is summed need not be scaled again.
template <int D>
constexpr size_t short_attention_shared =
    3 * tile * short_row<D> * sizeof(uint16_t) +
    tile * (score_row * sizeof(float) + weight_row * sizeof(uint16_t)) + planes_bytes;

template <DType S, int D>
__global__ void __launch_bounds__(tile_threads)
    attend_short(const __grid_constant__ AttentionJob job, int tiles, int64_t blocks) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    constexpr int half = tile / 2;
    uint16_t* const queries = shared_memory<uint16_t>();
    uint16_t* const keys = queries + tile * short_row<D>;
    uint16_t* const values = keys + tile * short_row<D>;
    float* const scores = reinterpret_cast<float*>(values + tile * short_row<D>);
    uint16_t* const weights = reinterpret_cast<uint16_t*>(scores + tile * score_row);
    Plane* const planes = reinterpret_cast<Plane*>(weights + tile * weight_row);
    const Plane &mask = planes[in_mask], &log = planes[out_log];
    const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32),
              begin_row = warp * strip;
    const int row = begin_row + lane / 2, first_column = lane % 2 * half;  // of this thread
    const int depth = short_depth(job.size);
    const auto scale = static_cast<float>(job.scale);
    for (int64_t number = blockIdx.x; number < blocks; number += gridDim.x) {
        int64_t rest = number;
        // The last queries see most keys where the mask is causal: they begin.
        const int64_t from = (tiles - 1 - take_place(rest, tiles)) * tile, query = from + row;
        __syncthreads();
        find_planes<operands>(planes, job, rest);
        __syncthreads();
        const int64_t behind = from + tile < job.queries ? from + tile : job.queries;
        // By the tile's last query: what lies behind may be anything, such as nan.
        int64_t seen = job.keys;
        if (job.causal && job.first + behind < seen) seen = job.first + behind;
        int64_t end = job.causal ? job.first + query + 1 : job.keys;
        if (end > job.keys) end = job.keys;
        fill_short<D>(queries, planes[in_q], from, job.queries, job.size);
        // Of this thread's row and half of the keys; behind the last key nothing.
        const auto score_of = [&](int64_t at, int c) {
            const int64_t key = at + first_column + c;
            if (key >= end || query >= job.queries) return -infinite;
            float s = scores[row * score_row + first_column + c] * scale;
            if (job.present[in_mask]) s += masked<float>(mask, query, key);
            return s;
        };
        const auto make_scores = [&](int64_t at, bool with_values) {
            __syncthreads();
            fill_short<D>(keys, planes[in_k], at, seen, job.size);
            if (with_values) fill_short<D>(values, planes[in_v], at, seen, job.value_size);
            __syncthreads();
            score_strip<S, D>(scores + begin_row * score_row, queries + begin_row * short_row<D>,
                              keys, depth);
            __syncwarp();
        };
        float most = -infinite, sum = 0;
        for (int64_t at = 0; at < seen; at += tile) {
            make_scores(at, false);
            float now = most;
            for (int c = 0; c < half; ++c) now = nan_or_max(now, score_of(at, c));
            const float base = now == -infinite ? 0.0f : now;
            sum *= std::exp(most - base);
            for (int c = 0; c < half; ++c) sum += std::exp(score_of(at, c) - base);
            most = now;
        }
        const float other = __shfl_xor_sync(0xffffffffu, most, 1), all = nan_or_max(most, other);
        const bool none = all == -infinite;
        sum *= std::exp(most - (none ? 0.0f : all));
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        // A query without any key gets zeros, and 0 as the logarithm of its sum.
        const float log_sum = none ? 0.0f : all + std::log(sum);
        WarpSums sums[D / strip];
        for (int64_t at = 0; at < seen; at += tile) {
            make_scores(at, true);
            for (int c = 0; c < half; ++c)
                weights[row * weight_row + first_column + c] =
                    Element<S>::put(std::exp(score_of(at, c) - log_sum));
            __syncwarp();
#pragma unroll
            for (int n = 0; n < D / strip; ++n)
                sums[n].template add<S, false>(weights + begin_row * weight_row, weight_row,
                                               values + n * strip, short_row<D>, tile);
        }
        if (lane % 2 == 0 && query < job.queries)
            store_as(log.data, log.dtype, query * log.row, log_sum);
        store_strip<S, D>(planes[out_y], sums, scores + begin_row * score_row, from + begin_row,
                          job.queries, job.value_size);
    }
}

template <DType S, int D>
static int start_short_attention(const Args& args, const AttentionJob& job, cudaStream_t stream) {
    const int64_t tiles = (job.queries + tile - 1) / tile, blocks = tiles * job.heads.count;
    if (blocks == 0) return 0;
    constexpr size_t shared = short_attention_shared<D>;
    if (const cudaError_t error = allow_shared<attend_short<S, D>>(shared))
        return status_of(args, error);
    return status_of(
        args, launch<attend_short<S, D>>(grid_of(blocks, 1).blocks, dim3(tile_threads), shared,
                                         stream, job, static_cast<int>(tiles), blocks));
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
    if (is_short(args, widest))
        return start_short(args, widest, [&]<DType S, int D>() {
            return start_short_attention<S, D>(args, job, place->stream);
        });
    if (widest <= 32) return start_attention<float, 32>(args, job, place->stream);
    if (widest <= 64) return start_attention<float, 64>(args, job, place->stream);
    return start_attention<float, 128>(args, job, place->stream);
}

}  // namespace nntile::kernels
