// SPDX-License-Identifier: BSD-3-Clause
// The gradient of attention: scores are made again, tile by tile, from the logarithms of the sums
// that the forward kept. One kernel has a block for each tile of keys, past which all queries go,
// and sums the gradients of its keys and values; another one a block for each tile of queries: so
// each sum is a thread's own, and has one order.
//
// `own` is what a block has a tile of, `others` are what passes by: their first operands (queries,
// keys) make the scores, their second ones (slopes, values) the slopes of the weights.
#include "kernels/cuda/attention.hh"

namespace nntile::kernels::cuda {

enum { in_dy, in_q, in_k, in_v, in_mask, in_y, in_log, out_dq, out_dk, out_dv, operands };

// Of narrow heads a block keeps its own tiles; of wide ones it reads them again each time.
template <class T, int D>
constexpr bool has_room = sizeof(T) * D <= 256;
template <class T, int D>
constexpr size_t gradient_shared =
    ((has_room<T, D> ? 3 : 2) * tile * D + tile * tile + 2 * tile) * sizeof(T) + planes_bytes;

// logarithms and dots (dy . y) of the queries of a tile, zeros behind the last one
template <class T, int D>
__device__ void read_queries(T* logs, T* dots, const Plane* planes, const AttentionJob& job,
                             int64_t from) {
    const Plane &dy = planes[in_dy], &y = planes[in_y], &log = planes[in_log];
    const int lane = static_cast<int>(threadIdx.x % 32);
    as_stored<T, D>(dy.dtype, [&]<class Stored>(Stored) {
        using S = typename Stored::Storage;
        const auto *slope = reinterpret_cast<const S*>(dy.data),
                   *value = reinterpret_cast<const S*>(y.data);
#pragma unroll 4
        for (int r = static_cast<int>(threadIdx.x / 32); r < tile; r += tile_threads / 32) {
            const int64_t query = from + r;
            const bool there = query < job.queries;
            T dot = 0;
            for (int64_t e = lane; there && e < job.value_size; e += 32)
                dot += Stored::get(slope[query * dy.row + e * dy.column], dy.dtype) *
                       Stored::get(value[query * y.row + e * y.column], y.dtype);
#pragma unroll
            for (int lanes = 16; lanes > 0; lanes /= 2)
                dot += __shfl_xor_sync(0xffffffffu, dot, lanes);
            if (lane > 0) continue;
            dots[r] = dot;
            logs[r] = there ? load_as<T>(log.data, log.dtype, query * log.row) : T(0);
        }
    });
}

template <class T, int D, bool of_keys>
__global__ void __launch_bounds__(tile_threads, sizeof(T) == 4 && D <= 64 ? 3 : 2)
    attend_backward(const __grid_constant__ AttentionJob job, int tiles, int outputs,
                    int64_t blocks) {
    T* const first = shared_memory<T>();                          // own, across
    T* const second = has_room<T, D> ? first + tile * D : first;  // own, across
    T* const others = second + tile * D;                          // across, then along
    T* const weights = others + tile * D;                         // across
    T *const logs = weights + tile * tile, *const dots = logs + tile;
    Plane* const planes = reinterpret_cast<Plane*>(dots + tile);
    const Plane &own_first = planes[of_keys ? in_k : in_q],
                &own_second = planes[of_keys ? in_v : in_dy],
                &other_first = planes[of_keys ? in_q : in_k],
                &other_second = planes[of_keys ? in_dy : in_v], &mask = planes[in_mask];
    const int ty = static_cast<int>(threadIdx.x / 16), tx = static_cast<int>(threadIdx.x % 16);
    const int first_parts = chunks_of<D>(job.size), second_parts = chunks_of<D>(job.value_size);
    const bool keep = has_room<T, D> && first_parts <= 1 && second_parts <= 1;
    const int64_t own_count = of_keys ? job.keys : job.queries,
                  other_count = of_keys ? job.queries : job.keys;
    const T scale = static_cast<T>(job.scale);
    for (int64_t number = blockIdx.x; number < blocks; number += gridDim.x) {
        int64_t rest = number;
        int64_t from = take_place(rest, tiles) * tile;
        // Those that see, or are seen by, most begin.
        if (!of_keys) from = int64_t{tiles - 1} * tile - from;
        const int64_t column = take_place(rest, outputs) * D;
        __syncthreads();
        find_planes<operands>(planes, job, rest);
        __syncthreads();
        int64_t begin = 0, end = other_count;
        if (job.causal && of_keys && from > job.first) begin = (from - job.first) / tile * tile;
        const int64_t behind = from + tile < own_count ? from + tile : own_count;
        if (job.causal && !of_keys && job.first + behind < end) end = job.first + behind;
        T sum[rows_each][D / 16] = {};                      // of the gradient of own_first
        T value_sum[rows_each][of_keys ? D / 16 : 1] = {};  // of own_second's
        if (!of_keys) read_queries<T, D>(logs, dots, planes, job, from);
        bool read = false;
        for (int64_t at = begin; at < end; at += tile) {
            T weight[rows_each][columns_each] = {}, slope[rows_each][columns_each] = {};
            __syncthreads();
            if (of_keys) read_queries<T, D>(logs, dots, planes, job, at);
            for (int part = 0; part < first_parts; ++part) {
                const int64_t x = int64_t{part} * D;
                if (part > 0) __syncthreads();
                if (!keep || !read)
                    fill_across<T, D>(first, own_first, from, own_count, x, job.size);
                fill_across<T, D>(others, other_first, at, end, x, job.size);
                __syncthreads();
                multiply_across(weight, first, others, depth_of<D>(job.size, part));
            }
            for (int part = 0; part < second_parts; ++part) {
                const int64_t x = int64_t{part} * D;
                __syncthreads();
                if (!keep || !read)
                    fill_across<T, D>(second, own_second, from, own_count, x, job.value_size);
                fill_across<T, D>(others, other_second, at, end, x, job.value_size);
                __syncthreads();
                multiply_across(slope, second, others, depth_of<D>(job.value_size, part));
            }
            read = true;
            __syncthreads();
#pragma unroll
            for (int i = 0; i < rows_each; ++i)
#pragma unroll
                for (int c = 0; c < columns_each; ++c) {
                    const int row = 8 * ty + i, other = 4 * tx + c, q = of_keys ? other : row;
                    const int64_t query = of_keys ? at + other : from + row,
                                  key = of_keys ? from + row : at + other;
                    T w = 0, s = 0;
                    if (query < job.queries && key < job.keys &&
                        (!job.causal || key <= job.first + query)) {
                        w = weight[i][c] * scale;
                        if (job.present[in_mask]) w += masked<T>(mask, query, key);
                        w = std::exp(w - logs[q]);
                        s = w * (slope[i][c] - dots[q]);
                    }
                    weight[i][c] = w;
                    slope[i][c] = s;
                }
            const auto depth = static_cast<int>(end - at < tile ? end - at : tile);
            if constexpr (of_keys) {
                put_across(weights, weight);
                fill_along<T, D>(others, other_second, at, end, column, job.value_size);
                __syncthreads();
                multiply_along<T, D>(value_sum, weights, others, depth);
                __syncthreads();
            }
            put_across(weights, slope);
            fill_along<T, D>(others, other_first, at, end, column, job.size);
            __syncthreads();
            multiply_along<T, D>(sum, weights, others, depth);
        }
#pragma unroll
        for (int i = 0; i < rows_each; ++i)
#pragma unroll
            for (int n = 0; n < D / 16; ++n) sum[i][n] *= scale;
        store_tile<T, D>(planes[of_keys ? out_dk : out_dq], sum, from, own_count, column, job.size);
        if constexpr (of_keys)
            store_tile<T, D>(planes[out_dv], value_sum, from, own_count, column, job.value_size);
    }
}

// The same of floats of 16 bits: the weights and their slopes are such ones where they are factors.
template <int D>
constexpr size_t short_gradient_shared =
    4 * tile * short_row<D> * sizeof(uint16_t) +
    2 * tile * (score_row * sizeof(float) + weight_row * sizeof(uint16_t)) +
    2 * tile * sizeof(float) + planes_bytes;

template <DType S, int D, bool of_keys>
__global__ void __launch_bounds__(tile_threads)
    attend_short_backward(const __grid_constant__ AttentionJob job, int tiles, int64_t blocks) {
    uint16_t* const first = shared_memory<uint16_t>();  // own
    uint16_t* const second = first + tile * short_row<D>;
    uint16_t* const other_first = second + tile * short_row<D>;
    uint16_t* const other_second = other_first + tile * short_row<D>;
    float* const scores = reinterpret_cast<float*>(other_second + tile * short_row<D>);
    float* const slopes = scores + tile * score_row;
    uint16_t* const weights = reinterpret_cast<uint16_t*>(slopes + tile * score_row);
    uint16_t* const drifts = weights + tile * weight_row;  // slopes of scores
    float* const logs = reinterpret_cast<float*>(drifts + tile * weight_row);
    float* const dots = logs + tile;
    Plane* const planes = reinterpret_cast<Plane*>(dots + tile);
    const Plane& mask = planes[in_mask];
    const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32),
              begin_row = warp * strip;
    const int depth = short_depth(job.size), value_depth = short_depth(job.value_size);
    const int64_t own_count = of_keys ? job.keys : job.queries,
                  other_count = of_keys ? job.queries : job.keys;
    const auto scale = static_cast<float>(job.scale);
    for (int64_t number = blockIdx.x; number < blocks; number += gridDim.x) {
        int64_t rest = number;
        int64_t from = take_place(rest, tiles) * tile;
        // Those that see, or are seen by, most begin.
        if (!of_keys) from = int64_t{tiles - 1} * tile - from;
        __syncthreads();
        find_planes<operands>(planes, job, rest);
        __syncthreads();
        int64_t begin = 0, end = other_count;
        if (job.causal && of_keys && from > job.first) begin = (from - job.first) / tile * tile;
        const int64_t behind = from + tile < own_count ? from + tile : own_count;
        if (job.causal && !of_keys && job.first + behind < end) end = job.first + behind;
        WarpSums sums[D / strip], value_sums[of_keys ? D / strip : 1];
        fill_short<D>(first, planes[of_keys ? in_k : in_q], from, own_count, job.size);
        fill_short<D>(second, planes[of_keys ? in_v : in_dy], from, own_count, job.value_size);
        if (!of_keys) read_queries<float, 128>(logs, dots, planes, job, from);
        for (int64_t at = begin; at < end; at += tile) {
            __syncthreads();
            if (of_keys) read_queries<float, 128>(logs, dots, planes, job, at);
            fill_short<D>(other_first, planes[of_keys ? in_q : in_k], at, end, job.size);
            fill_short<D>(other_second, planes[of_keys ? in_dy : in_v], at, end, job.value_size);
            __syncthreads();
            score_strip<S, D>(scores + begin_row * score_row, first + begin_row * short_row<D>,
                              other_first, depth);
            score_strip<S, D>(slopes + begin_row * score_row, second + begin_row * short_row<D>,
                              other_second, value_depth);
            __syncwarp();
#pragma unroll 4
            for (int e = lane; e < strip * tile; e += 32) {
                const int row = begin_row + e / tile, other = e % tile, q = of_keys ? other : row;
                const int64_t query = of_keys ? at + other : from + row,
                              key = of_keys ? from + row : at + other;
                float w = 0, s = 0;
                if (query < job.queries && key < job.keys &&
                    (!job.causal || key <= job.first + query)) {
                    w = scores[row * score_row + other] * scale;
                    if (job.present[in_mask]) w += masked<float>(mask, query, key);
                    w = std::exp(w - logs[q]);
                    s = w * (slopes[row * score_row + other] - dots[q]);
                }
                weights[row * weight_row + other] = Element<S>::put(w);
                drifts[row * weight_row + other] = Element<S>::put(s);
            }
            __syncwarp();
#pragma unroll
            for (int n = 0; n < D / strip; ++n) {
                sums[n].template add<S, false>(drifts + begin_row * weight_row, weight_row,
                                               other_first + n * strip, short_row<D>, tile);
                if constexpr (of_keys)
                    value_sums[n].template add<S, false>(weights + begin_row * weight_row,
                                                         weight_row, other_second + n * strip,
                                                         short_row<D>, tile);
            }
        }
        float* const room = scores + begin_row * score_row;
        store_strip<S, D>(planes[of_keys ? out_dk : out_dq], sums, room, from + begin_row,
                          own_count, job.size, scale);
        if constexpr (of_keys)
            store_strip<S, D>(planes[out_dv], value_sums, room, from + begin_row, own_count,
                              job.value_size);
    }
}

template <DType S, int D, bool of_keys>
static int start_short_pass(const Args& args, const AttentionJob& job, cudaStream_t stream) {
    const int64_t own = of_keys ? job.keys : job.queries, tiles = (own + tile - 1) / tile;
    const int64_t blocks = tiles * job.heads.count;
    if (blocks == 0) return 0;
    constexpr size_t shared = short_gradient_shared<D>;
    if (const cudaError_t error = allow_shared<attend_short_backward<S, D, of_keys>>(shared))
        return status_of(args, error);
    return status_of(args, launch<attend_short_backward<S, D, of_keys>>(
                               grid_of(blocks, 1).blocks, dim3(tile_threads), shared, stream, job,
                               static_cast<int>(tiles), blocks));
}
template <DType S, int D>
static int start_short_gradient(const Args& args, const AttentionJob& job, cudaStream_t stream) {
    if (const int status = start_short_pass<S, D, true>(args, job, stream)) return status;
    return start_short_pass<S, D, false>(args, job, stream);
}

template <class T, int D, bool of_keys>
static int start_pass(const Args& args, const AttentionJob& job, cudaStream_t stream) {
    const int64_t own = of_keys ? job.keys : job.queries, tiles = (own + tile - 1) / tile;
    const int of_size = chunks_of<D>(job.size), of_values = chunks_of<D>(job.value_size),
              outputs = of_keys && of_values > of_size ? of_values : of_size;
    const int64_t blocks = tiles * outputs * job.heads.count;
    if (blocks == 0) return 0;
    constexpr size_t shared = gradient_shared<T, D>;
    if (const cudaError_t error = allow_shared<attend_backward<T, D, of_keys>>(shared))
        return status_of(args, error);
    return status_of(args, launch<attend_backward<T, D, of_keys>>(
                               grid_of(blocks, 1).blocks, dim3(tile_threads), shared, stream, job,
                               static_cast<int>(tiles), outputs, blocks));
}
template <class T, int D>
static int start_gradient(const Args& args, const AttentionJob& job, cudaStream_t stream) {
    if (const int status = start_pass<T, D, true>(args, job, stream)) return status;
    return start_pass<T, D, false>(args, job, stream);
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(attention_backward) {
    using namespace cuda;
    static constexpr MatrixDims dims[] = {{0, 3}, {0, 2},  {1, 2}, {1, 3}, {0, 1},
                                          {0, 3}, {0, -1}, {0, 2}, {1, 2}, {1, 3}};
    AttentionJob job;
    if (!make_attention_job(job, args, dims, 1, in_mask)) return not_on_device;
    if (!place) return 0;
    const int64_t widest = job.size > job.value_size ? job.size : job.value_size;
    if (args.blocks[0].dtype == DType::f64)
        return start_gradient<double, 32>(args, job, place->stream);
    if (is_short(args, widest))
        return start_short(args, widest, [&]<DType S, int D>() {
            return start_short_gradient<S, D>(args, job, place->stream);
        });
    if (widest <= 32) return start_gradient<float, 32>(args, job, place->stream);
    if (widest <= 64) return start_gradient<float, 64>(args, job, place->stream);
    return start_gradient<float, 128>(args, job, place->stream);
}

}  // namespace nntile::kernels
