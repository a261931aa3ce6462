// SPDX-License-Identifier: BSD-3-Clause
// Pooling, plane by plane: a plane is read into dense memory of the compute type, whatever its
// layout and dtype. Where channels lie beside each other, or can be turned so, see
// pool_channels.cc.
#include "kernels/pool.hh"

#include <utility>

#include "kernels/functions.hh"
#include "kernels/scratch.hh"
#include "kernels/windows.hh"

namespace nntile::kernels {
using namespace pooling;
namespace {

// body(o, spans of its window) for each element of a plane of y.
template <class Body>
void each_window(const Plane& y, const Windows& windows, Body&& body) {
    int64_t o = 0;
    for (int64_t i = 0; i < y.sizes[0]; ++i)
        for (int64_t j = 0; j < y.sizes[1]; ++j)
            for (int64_t k = 0; k < y.sizes[2]; ++k, ++o)
                body(o, windows(0, i), windows(1, j), windows(2, k));
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

// The elements of a plane in dense memory: where they lie, if they lie so, else in memory of a
// thread.
template <class T>
class Dense {
public:
    Dense(const Plane& plane, Compute compute)
        : plane_(plane),
          compute_(compute),
          in_place_(plane.block->dtype == dtype_of(compute) && plane.is_dense()) {}
    size_t bytes() const {
        return in_place_ ? 0 : padded(static_cast<size_t>(plane_.numel()) * sizeof(T));
    }
    void take(Scratch& scratch) {
        if (!in_place_) memory_ = scratch.take<T>(static_cast<size_t>(plane_.numel()));
    }
    const T* read(int64_t n, int64_t c) {
        if (!in_place_) plane_.read(n, c, compute_, memory_);
        return target(n, c);
    }
    T* target(int64_t n, int64_t c) const {
        return in_place_ ? reinterpret_cast<T*>(plane_.at(n, c)) : memory_;
    }
    void written(int64_t n, int64_t c) const {
        if (!in_place_) plane_.write(n, c, compute_, memory_);
    }

private:
    const Plane& plane_;
    const Compute compute_;
    const bool in_place_;
    T* memory_ = nullptr;
};
template <class... Operands>
void take_memory(Operands&... operands) {
    thread_local Scratch scratch;
    scratch.begin((operands.bytes() + ...));
    (operands.take(scratch), ...);
}

template <class Run>  // run(n, c) for each plane
int each_plane(const Args& args, Run&& run) {
    for (int64_t n = 0; n < args.sizes[0]; ++n)
        for (int64_t c = 0; c < args.sizes[1]; ++c)
            if (int status = run(n, c)) return status;
    return 0;
}

// All images as one with as many planes, if these are equally far from each other.
Dims planes_in_row(const Args& args) {
    Dims sizes(args.sizes);
    for (const Block& b : args.blocks)
        if (sizes[1] > 1 && b.strides[0] != sizes[1] * b.strides[1]) return sizes;
    if (sizes[1] > 1) sizes[1] *= std::exchange(sizes[0], 1);
    return sizes;
}

// Whether run(args, turned) computes many channels of a window at once: these lie beside each
// other, or are turned so, from dense planes that are not too large and fill half a vector, for
// windows whose rows are shorter than one.
template <class Run>
bool by_channels(const Args& args, const Plane& image, std::initializer_list<const Plane*> others,
                 const Windows& windows, Run&& run) {
    constexpr int64_t most_memory = 4 << 20;
    if (channels_beside(image, args.sizes[1])) return run(args, false), true;
    const Dims in_row = planes_in_row(args);
    const bool all_dense = image.is_dense() && std::all_of(others.begin(), others.end(),
                                                           [](auto* p) { return p->is_dense(); });
    if (!all_dense || in_row[1] < turned_channels / 2 || windows.has_row_of(long_row) ||
        image.numel() * turned_channels * size_of(compute_of(image.block->dtype)) > most_memory)
        return false;
    Args all = args;
    all.sizes = in_row;
    run(all, true);
    return true;
}

template <class T>
int max_forward(const Args& args, Compute compute) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const Plane x(args, args.blocks[0], 2 + rank, rank), y(args, args.blocks[1], 2, rank),
        places(args, args.blocks[2], 2, rank);
    const Windows windows(x, y, args.params, rank);
    if (by_channels(args, x, {&y, &places}, windows, [&](const Args& all, bool turned) {
            max_forward_of_channels(all, compute, x, y, places, windows, turned);
        }))
        return 0;
    Dense<T> from(x, compute), to(y, compute);
    Dense<int64_t> index(places, compute_i64);
    take_memory(from, to, index);
    // Places fit the lanes of vectors
    const bool narrow = x.numel() <= std::numeric_limits<int32_t>::max();
    const auto max_of_rows = window_tables().table[compute].max_of_rows;
    return each_plane(args, [&](int64_t n, int64_t c) {
        const T* image = from.read(n, c);
        T* values = to.target(n, c);
        int64_t* at = index.target(n, c);
        each_window(y, windows, [&](int64_t o, const Span& a, const Span& b, const Span& d) {
            int64_t place = (a.begin * x.sizes[1] + b.begin) * x.sizes[2] + d.begin;
            if (narrow && d.step == 1 && d.end - d.begin >= long_row) {
                const int64_t row = x.sizes[2], slice = row * x.sizes[1];
                const Window window{{a.count, b.count, d.count},
                                    {a.step * slice, b.step * row, 1},
                                    place,
                                    {a.step * slice, b.step * row, 1}};
                return max_of_rows(image + place, window, values + o, at + o);
            }
            T largest = -std::numeric_limits<T>::infinity();
            each_element(x, a, b, d, [&](int64_t k) {
                const T value = image[k];
                if (value > largest || value != value) {
                    largest = value;
                    place = k;
                }
            });
            values[o] = largest;
            at[o] = place;
        });
        to.written(n, c);
        index.written(n, c);
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
    Dense<T> from(dy, compute), to(dx, compute);
    Dense<int64_t> index(places, compute_i64);
    take_memory(from, to, index);
    return each_plane(args, [&](int64_t n, int64_t c) {
        const T* gradient = from.read(n, c);
        const int64_t* at = index.read(n, c);
        T* image = to.target(n, c);
        std::fill_n(image, pixels, T(0));
        for (int64_t o = 0; o < count; ++o) {
            if (at[o] < 0 || at[o] >= pixels) return refuse_place(args, at[o], pixels);
            image[at[o]] += gradient[o];
        }
        to.written(n, c);
        return 0;
    });
}

template <class T>
int average_forward(const Args& args, Compute compute) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const Plane x(args, args.blocks[0], 2 + rank, rank), y(args, args.blocks[1], 2, rank);
    const Windows windows(x, y, args.params.subspan(own_params), rank);
    if (by_channels(args, x, {&y}, windows, [&](const Args& all, bool turned) {
            average_of_channels(all, compute, x, y, windows, turned, false);
        }))
        return 0;
    Dense<T> from(x, compute), to(y, compute);
    take_memory(from, to);
    return each_plane(args, [&](int64_t n, int64_t c) {
        const T* image = from.read(n, c);
        T* means = to.target(n, c);
        each_window(y, windows, [&](int64_t o, const Span& a, const Span& b, const Span& d) {
            T sum = 0;
            each_element(x, a, b, d, [&](int64_t k) { sum += image[k]; });
            means[o] = sum / static_cast<T>(divisor_of(args, a, b, d));
        });
        to.written(n, c);
        return 0;
    });
}

template <class T>
int average_backward(const Args& args, Compute compute) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const Plane dy(args, args.blocks[0], 2, rank), dx(args, args.blocks[1], 2 + rank, rank);
    const Windows windows(dx, dy, args.params.subspan(own_params), rank);
    if (by_channels(args, dx, {&dy}, windows, [&](const Args& all, bool turned) {
            average_of_channels(all, compute, dx, dy, windows, turned, true);
        }))
        return 0;
    Dense<T> from(dy, compute), to(dx, compute);
    take_memory(from, to);
    return each_plane(args, [&](int64_t n, int64_t c) {
        const T* gradient = from.read(n, c);
        T* image = to.target(n, c);
        std::fill_n(image, dx.numel(), T(0));
        each_window(dy, windows, [&](int64_t o, const Span& a, const Span& b, const Span& d) {
            const T part = gradient[o] / static_cast<T>(divisor_of(args, a, b, d));
            each_element(dx, a, b, d, [&](int64_t k) { image[k] += part; });
        });
        to.written(n, c);
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
    return by_compute(args,
                      [&](auto t, Compute c) { return average_forward<decltype(t)>(args, c); });
}
int avg_pool_backward(const Args& args) {
    return by_compute(args,
                      [&](auto t, Compute c) { return average_backward<decltype(t)>(args, c); });
}

}  // namespace nntile::kernels
