// SPDX-License-Identifier: BSD-3-Clause
// Pooling, plane by plane: a plane is read into dense memory of the compute type, whatever its layout and dtype. Where
// channels lie beside each other see pool_channels.cc.
#include "kernels/pool.hh"

#include "kernels/functions.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels {
using namespace pooling;
namespace {

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

template <class Run>    // run(n, c) for each plane
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
    if (channels_beside(x, args.sizes[1])) return max_forward_of_channels(args, compute, x, y, places, windows);
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
    if (channels_beside(dx, args.sizes[1]))
        return max_backward_of_channels(args, compute, dy, places, dx);
    thread_local Scratch scratch;
    scratch.begin(padded(count * sizeof(T)) + padded(pixels * sizeof(T)) + padded(count * sizeof(int64_t)));
    T *from = scratch.take<T>(count), *to = scratch.take<T>(pixels);
    auto* index = scratch.take<int64_t>(count);
    return each_plane(args, [&](int64_t n, int64_t c) {
        dy.read(n, c, compute, from);
        places.read(n, c, compute_i64, index);
        std::fill_n(to, pixels, T(0));
        for (int64_t o = 0; o < count; ++o) {
            if (index[o] < 0 || index[o] >= pixels) return refuse_place(args, index[o], pixels);
            to[index[o]] += from[o];
        }
        dx.write(n, c, compute, to);
        return 0;
    });
}

template <class T>
int average_forward(const Args& args, Compute compute) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const Plane x(args, args.blocks[0], 2 + rank, rank), y(args, args.blocks[1], 2, rank);
    const Windows windows(x, y, args.params.subspan(own_params), rank);
    if (channels_beside(x, args.sizes[1])) return average_of_channels(args, compute, x, y, windows, false);
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
    if (channels_beside(dx, args.sizes[1])) return average_of_channels(args, compute, dx, dy, windows, true);
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
