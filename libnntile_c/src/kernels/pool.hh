// SPDX-License-Identifier: BSD-3-Clause
// What pooling plane by plane and with all channels of a window share: planes, and the elements of
// each window.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/convert.hh"
#include "kernels/kernel.hh"
#include "kernels/space.hh"

namespace nntile::kernels::pooling {

inline constexpr int most_rank = 3;

// The last dims of an image, three of them: missing ones are 1.
struct Plane {
    int64_t sizes[most_rank] = {1, 1, 1}, strides[most_rank] = {0, 0, 0};
    const Block* block = nullptr;

    Plane(const Args& args, const Block& b, size_t first, size_t rank) : block(&b) {
        for (size_t d = 0; d < rank; ++d) {
            sizes[most_rank - rank + d] = args.sizes[first + d];
            strides[most_rank - rank + d] = b.strides[first + d];
        }
    }
    int64_t numel() const { return sizes[0] * sizes[1] * sizes[2]; }
    bool is_dense() const {
        return (sizes[2] == 1 || strides[2] == 1) && (sizes[1] == 1 || strides[1] == sizes[2]) &&
               (sizes[0] == 1 || strides[0] == sizes[1] * sizes[2]);
    }
    std::byte* at(int64_t n, int64_t c) const {
        return block->data +
               (n * block->strides[0] + c * block->strides[1]) * size_of(block->dtype);
    }
    template <class Move>
    void rows(std::byte* data, Move&& move) const {  // move(row in the block, first element of it)
        const int64_t bytes = size_of(block->dtype);
        for (int64_t i = 0, k = 0; i < sizes[0]; ++i)
            for (int64_t j = 0; j < sizes[1]; ++j, k += sizes[2])
                move(data + (i * strides[0] + j * strides[1]) * bytes, k);
    }
    template <class T>
    void read(int64_t n, int64_t c, Compute compute, T* to) const {
        const Convert load = loader(block->dtype, compute);
        rows(at(n, c), [&](std::byte* row, int64_t k) { load(row, to + k, strides[2], sizes[2]); });
    }
    template <class T>
    void write(int64_t n, int64_t c, Compute compute, const T* from) const {
        const Convert store = storer(compute, block->dtype);
        rows(at(n, c),
             [&](std::byte* row, int64_t k) { store(from + k, row, strides[2], sizes[2]); });
    }
};

// Elements of x that a window has along one dim: begin, end by step; and how many it would have
// with its padding.
struct Span {
    int64_t begin, end, step, padded;
    int64_t count = std::max<int64_t>((end - begin + step - 1) / step, 0);
};

class Windows {
public:
    // params: kernel_size, stride, padding, dilation of each dim; none: adaptive, as many windows
    // as y has.
    Windows(const Plane& x, const Plane& y, std::span<const Param> params, size_t rank) {
        for (int d = 0; d < most_rank; ++d) {
            const int own = d - (most_rank - static_cast<int>(rank));
            for (int64_t o = 0; o < y.sizes[d]; ++o)
                spans_[d].push_back(span(x.sizes[d], y.sizes[d], o, params, own, rank));
        }
    }
    const Span& operator()(int d, int64_t o) const { return spans_[d][static_cast<size_t>(o)]; }
    bool has_row_of(int64_t count) const {  // at least so many elements along the last dim
        const auto& spans = spans_[most_rank - 1];
        return std::any_of(spans.begin(), spans.end(),
                           [&](const Span& s) { return s.count >= count; });
    }

private:
    static Span span(int64_t extent, int64_t count, int64_t o, std::span<const Param> params,
                     int own, size_t rank) {
        if (own < 0) return {0, 1, 1, 1};
        if (params.empty()) {
            const int64_t begin = o * extent / count, end = ((o + 1) * extent + count - 1) / count;
            return {begin, end, 1, end - begin};
        }
        const auto param = [&](size_t which) {
            return params[which * rank + static_cast<size_t>(own)].i;
        };
        const int64_t size = param(0), padding = param(2), step = param(3);
        int64_t begin = o * param(1) - padding;
        const int64_t end = std::min(begin + (size - 1) * step + 1, extent + padding),
                      padded = end - begin;
        if (begin < 0) begin += (-begin + step - 1) / step * step;
        return {begin, std::min(end, extent), step, padded};
    }
    std::vector<Span> spans_[most_rank];
};

// params: divisor (0: the window's), count_include_pad, then the window's
inline constexpr size_t own_params = 2;

inline double divisor_of(const Args& args, const Span& a, const Span& b, const Span& c) {
    if (args.params[0].i) return static_cast<double>(args.params[0].i);
    if (args.params[1].i) return static_cast<double>(a.padded * b.padded * c.padded);
    const auto inside = [](const Span& s) { return std::max<int64_t>(s.end - s.begin, 0); };
    return static_cast<double>(inside(a) * inside(b) * inside(c));
}

// ---- pool_channels.cc
// Pixels of the image of a task lie farther apart than its channels. `image`: x, or dx.
inline bool channels_beside(const Plane& image, int64_t channels) {
    const int64_t step = image.block->strides[1];
    return channels > 1 && step > 0 && image.numel() <= std::numeric_limits<int32_t>::max() &&
           ((image.sizes[2] > 1 && image.strides[2] > step) || (image.sizes[2] == 1 && step == 1));
}

// Channels of dense planes are turned by so many, a vector, or a multiple of that.
inline constexpr int64_t turned_channels = 16;

// turned: all planes are dense, and their channels lie anywhere.
int max_forward_of_channels(const Args& args, Compute compute, const Plane& x, const Plane& y,
                            const Plane& places, const Windows& windows, bool turned);
int max_backward_of_channels(const Args& args, Compute compute, const Plane& dy,
                             const Plane& places, const Plane& dx);
int average_of_channels(const Args& args, Compute compute, const Plane& x, const Plane& y,
                        const Windows& windows, bool turned, bool backward);
int refuse_place(const Args& args, int64_t place, int64_t pixels);

}  // namespace nntile::kernels::pooling
