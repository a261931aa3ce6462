// SPDX-License-Identifier: BSD-3-Clause
// Rows of any length, sorted where they lie: a bitonic sort, in which pairs of elements change
// places if they stand in the wrong order. Which pairs, depends on sizes only, and the smaller one
// always goes to the front, so that a row needs no room behind its end. A block sorts a chunk of a
// row that it can share; pairs that lie further apart are those of many blocks.
//
// Rows: has Item, count, d, row(number), and of such a row first(row, j): element j before the
// sort, get(row, j), set(row, j, item), sooner(a, b). No two elements of a row are equals, or they
// are the same.
#pragma once

#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"

namespace nntile::kernels::cuda {

inline constexpr int64_t most_of_chunk = 2048;

// Rows of numbers, one behind the other in the scratch memory: where something goes, and behind it
// its own number, so that what goes to one place lies side by side in its order.
struct PlacedRows {
    using Item = uint64_t;
    static constexpr uint64_t nowhere = ~uint64_t{0};
    uint64_t* keys;
    int64_t count, d;

    NNTILE_FN static uint64_t key(int64_t place, int64_t number) {
        return static_cast<uint64_t>(place) << 32 | static_cast<uint64_t>(number);
    }
    NNTILE_FN static int64_t place_of(uint64_t key) { return static_cast<int64_t>(key >> 32); }
    NNTILE_FN static uint32_t number_of(uint64_t key) { return static_cast<uint32_t>(key); }

    __device__ uint64_t* row(int64_t number) const { return keys + number * d; }
    __device__ static uint64_t first(const uint64_t* row, int64_t j) { return row[j]; }
    __device__ static uint64_t get(const uint64_t* row, int64_t j) { return row[j]; }
    __device__ static void set(uint64_t* row, int64_t j, uint64_t key) { row[j] = key; }
    __device__ static bool sooner(uint64_t a, uint64_t b) { return a < b; }
};

// A pair of a step: both are as far apart as the step says, or as far from the middle of twice so
// many elements.
struct Pair {
    int64_t low, high;
    __device__ Pair(int64_t number, int64_t step, bool mirrored) {
        const int64_t in = number & (step - 1), begin = 2 * (number - in);
        low = begin + in;
        high = mirrored ? begin + 2 * step - 1 - in : low + step;
    }
};

// merged: only what is left to do once the pairs further apart are right.
template <class Rows>
__global__ void sort_chunks(const __grid_constant__ Rows rows, int64_t chunk, bool merged) {
    using Item = typename Rows::Item;
    Item* const shared = shared_memory<Item>();
    const int64_t chunks = (rows.d + chunk - 1) / chunk;
    for (int64_t number = blockIdx.x; number < rows.count * chunks; number += gridDim.x) {
        int64_t of_row = number;
        const int64_t begin = take_place(of_row, chunks) * chunk;
        const int64_t n = rows.d - begin < chunk ? rows.d - begin : chunk;
        const auto row = rows.row(of_row);
        __syncthreads();  // the chunk before may still be read
        for (int64_t j = threadIdx.x; j < n; j += blockDim.x)
            shared[j] = merged ? rows.get(row, begin + j) : rows.first(row, begin + j);
        for (int64_t width = merged ? chunk : 2; width <= chunk; width *= 2)
            for (int64_t step = width / 2; step > 0; step /= 2) {
                __syncthreads();
                for (int64_t k = threadIdx.x; k < chunk / 2; k += blockDim.x) {
                    const Pair pair(k, step, !merged && step == width / 2);
                    if (pair.high >= n || !rows.sooner(shared[pair.high], shared[pair.low]))
                        continue;
                    const Item kept = shared[pair.low];
                    shared[pair.low] = shared[pair.high];
                    shared[pair.high] = kept;
                }
            }
        __syncthreads();
        for (int64_t j = threadIdx.x; j < n; j += blockDim.x) rows.set(row, begin + j, shared[j]);
    }
}

template <class Rows>
__global__ void sort_pairs(const __grid_constant__ Rows rows, int64_t step, bool mirrored) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    const int64_t pairs = (rows.d + 2 * step - 1) / (2 * step) * step;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
         number < rows.count * pairs; number += all) {
        int64_t of_row = number;
        const Pair pair(take_place(of_row, pairs), step, mirrored);
        if (pair.high >= rows.d) continue;
        const auto row = rows.row(of_row);
        const auto low = rows.get(row, pair.low), high = rows.get(row, pair.high);
        if (!rows.sooner(high, low)) continue;
        rows.set(row, pair.low, high);
        rows.set(row, pair.high, low);
    }
}

template <class Rows>
cudaError_t start_sort(const Rows& rows, cudaStream_t stream) {
    int64_t chunk = 2;
    while (chunk < rows.d && chunk < most_of_chunk) chunk *= 2;
    const dim3 blocks = grid_of(rows.count * ((rows.d + chunk - 1) / chunk), 1).blocks,
               threads(static_cast<unsigned>(chunk < 64 ? 32 : chunk / 2));
    const auto of_chunks = [&](bool merged) {
        return launch<sort_chunks<Rows>>(blocks, threads,
                                         static_cast<size_t>(chunk) * sizeof(typename Rows::Item),
                                         stream, rows, chunk, merged);
    };
    cudaError_t error = of_chunks(false);
    for (int64_t sorted = chunk; sorted < rows.d && error == cudaSuccess; sorted *= 2) {
        for (int64_t step = sorted; step >= chunk && error == cudaSuccess; step /= 2) {
            const Grid grid = grid_of(rows.count * ((rows.d + 2 * step - 1) / (2 * step) * step));
            error = launch<sort_pairs<Rows>>(grid.blocks, grid.threads, 0, stream, rows, step,
                                             step == sorted);
        }
        if (error == cudaSuccess) error = of_chunks(true);
    }
    return error;
}

}  // namespace nntile::kernels::cuda
