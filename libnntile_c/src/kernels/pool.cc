// SPDX-License-Identifier: BSD-3-Clause
// Pooling, plane by plane: a plane is read into dense memory of the compute type, whatever its layout and dtype.
#include <algorithm>
#include <cinttypes>
#include <limits>

#include "base/error.hh"
#include "kernels/convert.hh"
#include "kernels/functions.hh"
#include "kernels/scratch.hh"
#include "kernels/space.hh"

namespace nntile::kernels {
namespace {

constexpr int most_rank = 3;

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
    std::byte* at(int64_t n, int64_t c) const {
        return block->data + (n * block->strides[0] + c * block->strides[1]) * size_of(block->dtype);
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
        rows(at(n, c), [&](std::byte* row, int64_t k) { store(from + k, row, strides[2], sizes[2]); });
    }
};

// Elements of x that a window has along one dim: begin, end by step; and how many it would have with its padding.
struct Span {
    int64_t begin, end, step, padded;
};

class Windows {
public:
    // params: kernel_size, stride, padding, dilation of each dim; none: adaptive, as many windows as y has.
    Windows(const Plane& x, const Plane& y, std::span<const Param> params, size_t rank) {
        for (int d = 0; d < most_rank; ++d) {
            const int own = d - (most_rank - static_cast<int>(rank));
            for (int64_t o = 0; o < y.sizes[d]; ++o)
                spans_[d].push_back(span(x.sizes[d], y.sizes[d], o, params, own, rank));
        }
    }
    const Span& operator()(int d, int64_t o) const { return spans_[d][static_cast<size_t>(o)]; }

private:
    static Span span(int64_t extent, int64_t count, int64_t o, std::span<const Param> params, int own, size_t rank) {
        if (own < 0) return {0, 1, 1, 1};
        if (params.empty()) {
            const int64_t begin = o * extent / count, end = ((o + 1) * extent + count - 1) / count;
            return {begin, end, 1, end - begin};
        }
        const auto param = [&](size_t which) { return params[which * rank + static_cast<size_t>(own)].i; };
        const int64_t size = param(0), padding = param(2), step = param(3);
        int64_t begin = o * param(1) - padding;
        const int64_t end = std::min(begin + (size - 1) * step + 1, extent + padding), padded = end - begin;
        if (begin < 0) begin += (-begin + step - 1) / step * step;
        return {begin, std::min(end, extent), step, padded};
    }
    std::vector<Span> spans_[most_rank];
};

// body(o, spans of its window) for each element of a plane of y.
template <class Body>
void each_window(const Plane& y, const Windows& windows, Body&& body) {
    int64_t o = 0;
    for (int64_t i = 0; i < y.sizes[0]; ++i)
        for (int64_t j = 0; j < y.sizes[1]; ++j)
            for (int64_t k = 0; k < y.sizes[2]; ++k, ++o) body(o, windows(0, i), windows(1, j), windows(2, k));
}
// body(element of x) for each of a window, in order.
template <class Body>
void each_element(const Plane& x, const Span& a, const Span& b, const Span& c, Body&& body) {
    for (int64_t i = a.begin; i < a.end; i += a.step)
        for (int64_t j = b.begin; j < b.end; j += b.step) {
            const int64_t row = (i * x.sizes[1] + j) * x.sizes[2];
            for (int64_t k = c.begin; k < c.end; k += c.step) body(row + k);
        }
}

// run(n, c) for each plane, with room for `count` elements of T and of indices.
template <class Run>
int each_plane(const Args& args, Run&& run) {
    for (int64_t n = 0; n < args.sizes[0]; ++n)
        for (int64_t c = 0; c < args.sizes[1]; ++c)
            if (int status = run(n, c)) return status;
    return 0;
}

template <class T>
int max_forward(const Args& args, Compute compute) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const Plane x(args, args.blocks[0], 2 + rank, rank), y(args, args.blocks[1], 2, rank),
        places(args, args.blocks[2], 2, rank);
    const Windows windows(x, y, args.params, rank);
    thread_local Scratch scratch;
    scratch.begin(padded(x.numel() * sizeof(T)) + padded(y.numel() * sizeof(T)) + padded(y.numel() * sizeof(int64_t)));
    T *from = scratch.take<T>(x.numel()), *to = scratch.take<T>(y.numel());
    auto* index = scratch.take<int64_t>(y.numel());
    return each_plane(args, [&](int64_t n, int64_t c) {
        x.read(n, c, compute, from);
        each_window(y, windows, [&](int64_t o, const Span& a, const Span& b, const Span& d) {
            T largest = -std::numeric_limits<T>::infinity();
            int64_t place = (a.begin * x.sizes[1] + b.begin) * x.sizes[2] + d.begin;
            each_element(x, a, b, d, [&](int64_t k) {
                const T value = from[k];
                if (value > largest || value != value) {
                    largest = value;
                    place = k;
                }
            });
            to[o] = largest;
            index[o] = place;
        });
        y.write(n, c, compute, to);
        places.write(n, c, compute_i64, index);
        return 0;
    });
}

template <class T>
int max_backward(const Args& args, Compute compute) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const Plane dy(args, args.blocks[0], 2, rank), places(args, args.blocks[1], 2, rank),
        dx(args, args.blocks[2], 2 + rank, rank);
    const int64_t count = dy.numel(), pixels = dx.numel();
    thread_local Scratch scratch;
    scratch.begin(padded(count * sizeof(T)) + padded(pixels * sizeof(T)) + padded(count * sizeof(int64_t)));
    T *from = scratch.take<T>(count), *to = scratch.take<T>(pixels);
    auto* index = scratch.take<int64_t>(count);
    return each_plane(args, [&](int64_t n, int64_t c) {
        dy.read(n, c, compute, from);
        places.read(n, c, compute_i64, index);
        std::fill_n(to, pixels, T(0));
        for (int64_t o = 0; o < count; ++o) {
            if (index[o] < 0 || index[o] >= pixels)
                return fail_task(args, static_cast<int>(Status::index_error),
                                 "max_pool_backward: index %" PRId64 " is out of range [0, %" PRId64 ")", index[o],
                                 pixels);
            to[index[o]] += from[o];
        }
        dx.write(n, c, compute, to);
        return 0;
    });
}

// params: divisor (0: the window's), count_include_pad, then the window's
constexpr size_t own_params = 2;

double divisor_of(const Args& args, const Span& a, const Span& b, const Span& c) {
    if (args.params[0].i) return static_cast<double>(args.params[0].i);
    if (args.params[1].i) return static_cast<double>(a.padded * b.padded * c.padded);
    const auto inside = [](const Span& s) { return std::max<int64_t>(s.end - s.begin, 0); };
    return static_cast<double>(inside(a) * inside(b) * inside(c));
}

template <class T>
int average_forward(const Args& args, Compute compute) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const Plane x(args, args.blocks[0], 2 + rank, rank), y(args, args.blocks[1], 2, rank);
    const Windows windows(x, y, args.params.subspan(own_params), rank);
    thread_local Scratch scratch;
    scratch.begin(padded(x.numel() * sizeof(T)) + padded(y.numel() * sizeof(T)));
    T *from = scratch.take<T>(x.numel()), *to = scratch.take<T>(y.numel());
    return each_plane(args, [&](int64_t n, int64_t c) {
        x.read(n, c, compute, from);
        each_window(y, windows, [&](int64_t o, const Span& a, const Span& b, const Span& d) {
            T sum = 0;
            each_element(x, a, b, d, [&](int64_t k) { sum += from[k]; });
            to[o] = sum / static_cast<T>(divisor_of(args, a, b, d));
        });
        y.write(n, c, compute, to);
        return 0;
    });
}

template <class T>
int average_backward(const Args& args, Compute compute) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const Plane dy(args, args.blocks[0], 2, rank), dx(args, args.blocks[1], 2 + rank, rank);
    const Windows windows(dx, dy, args.params.subspan(own_params), rank);
    thread_local Scratch scratch;
    scratch.begin(padded(dx.numel() * sizeof(T)) + padded(dy.numel() * sizeof(T)));
    T *from = scratch.take<T>(dy.numel()), *to = scratch.take<T>(dx.numel());
    return each_plane(args, [&](int64_t n, int64_t c) {
        dy.read(n, c, compute, from);
        std::fill_n(to, dx.numel(), T(0));
        each_window(dy, windows, [&](int64_t o, const Span& a, const Span& b, const Span& d) {
            const T part = from[o] / static_cast<T>(divisor_of(args, a, b, d));
            each_element(dx, a, b, d, [&](int64_t k) { to[k] += part; });
        });
        dx.write(n, c, compute, to);
        return 0;
    });
}

// of(float()) or of(double()), as the dtype is computed.
template <class Of>
int by_compute(const Args& args, Of&& of) {
    const Compute compute = compute_of(args.blocks[0].dtype);
    return compute == compute_f64 ? of(double(), compute) : of(float(), compute);
}

}  // namespace

int max_pool(const Args& args) {
    return by_compute(args, [&](auto t, Compute c) { return max_forward<decltype(t)>(args, c); });
}
int max_pool_backward(const Args& args) {
    return by_compute(args, [&](auto t, Compute c) { return max_backward<decltype(t)>(args, c); });
}
int avg_pool(const Args& args) {
    return by_compute(args, [&](auto t, Compute c) { return average_forward<decltype(t)>(args, c); });
}
int avg_pool_backward(const Args& args) {
    return by_compute(args, [&](auto t, Compute c) { return average_backward<decltype(t)>(args, c); });
}

}  // namespace nntile::kernels
