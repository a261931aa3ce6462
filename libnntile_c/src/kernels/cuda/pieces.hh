// SPDX-License-Identifier: BSD-3-Clause
// Results that each come from many elements, by blocks of 256 threads. A block has a few results,
// and shares the elements of each among its threads; few results with many elements have more
// blocks, of a piece of the elements each, which another kernel joins. All of this depends on sizes
// and strides only, so the bits of a result never vary.
#pragma once

#include "kernels/cuda/launch.hh"
#include "kernels/cuda/place.hh"

namespace nntile::kernels::cuda {

struct Split {
    static constexpr int threads = 256;
    int64_t results = 0, elements = 0;
    int64_t groups = 0, pieces = 1;  // blocks: one of each pair
    int64_t step = 0;                // elements of a piece
    int each = 1;                    // results of a block, a power of two
    bool beside = false;             // neighbouring threads have neighbouring results

    // beside: results lie closer than elements. bytes: of a result while it waits.
    Split(int64_t results, int64_t elements, bool beside, size_t bytes)
        : results(results), elements(elements), beside(beside) {
        constexpr int64_t few = 32, wide = 4096, enough_blocks = 1024, least = 16;
        if (elements <= few) each = threads;
        else if (beside && results >= 32) each = 32;
        else if (elements <= wide && results >= enough_blocks) each = 8;
        this->beside = each == threads || (beside && each == 32);
        groups = (results + each - 1) / each;
        const int64_t of_thread = threads / each * least,
                      most = (elements + of_thread - 1) / of_thread,
                      room = static_cast<int64_t>(CudaPlace::scratch_bytes / bytes) /
                             (results > 0 ? results : 1);
        if (groups > 0 && groups < enough_blocks / 2) pieces = enough_blocks / groups;
        if (pieces > most) pieces = most;
        if (pieces > room) pieces = room;
        if (pieces < 1) pieces = 1;
        step = (elements + pieces - 1) / pieces;
    }
    int64_t blocks() const { return groups * pieces; }
};

// What a thread has of block `number`'s work.
struct Share {
    int64_t result, piece;
    int64_t first, end;  // elements, every `stride`th
    int stride, slice, own;

    __device__ Share(const Split& s, int64_t number, int thread) {
        stride = Split::threads / s.each;
        own = s.beside ? thread % s.each : thread / stride;
        slice = s.beside ? thread / s.each : thread % stride;
        piece = number / s.groups;
        result = number % s.groups * s.each + own;
        first = piece * s.step + slice;
        end = (piece + 1) * s.step < s.elements ? (piece + 1) * s.step : s.elements;
        if (result >= s.results) end = first;
    }
};

// Joins what the threads of a result have; thread of slice 0 gets it. `shared` has a place for
// each.
template <class T, class Join>
__device__ T join_slices(const Share& share, int each, T value, T* shared, Join&& join) {
    __syncthreads();  // the result before may still be read
    const int at = share.slice * each + share.own;
    shared[at] = value;
    for (int half = share.stride / 2; half > 0; half /= 2) {
        __syncthreads();
        if (share.slice < half) shared[at] = join(shared[at], shared[at + half * each]);
    }
    return shared[at];
}

}  // namespace nntile::kernels::cuda
