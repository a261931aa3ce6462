// SPDX-License-Identifier: BSD-3-Clause
// Pooling, plane by plane: a plane is read into dense memory of the compute type, whatever its layout and dtype. Where
// channels lie beside each other, window by window with all channels of a panel: in vectors, and read where they lie.
#include <algorithm>
#include <cinttypes>
#include <limits>

#include "base/error.hh"
#include "kernels/convert.hh"
#include "kernels/functions.hh"
#include "kernels/scratch.hh"
#include "kernels/space.hh"
#include "kernels/windows.hh"

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

template <class Run>    // run(n, c) for each plane
int each_plane(const Args& args, Run&& run) {
    for (int64_t n = 0; n < args.sizes[0]; ++n)
        for (int64_t c = 0; c < args.sizes[1]; ++c)
            if (int status = run(n, c)) return status;
    return 0;
}

// ---- panels: some channels of an image
constexpr int64_t most_channels = 64;

// Pixels of the image of a task lie farther apart than its channels. `image`: x, or dx.
bool channels_beside(const Plane& image, int64_t channels) {
    const int64_t step = image.block->strides[1];
    return channels > 1 && step > 0 && image.numel() <= std::numeric_limits<int32_t>::max() &&
           ((image.sizes[2] > 1 && image.strides[2] > step) || (image.sizes[2] == 1 && step == 1));
}

// An operand with its channels beside each other: where it lies, if it lies so, else in dense memory.
template <class T>
class Panel {
public:
    Panel(const Plane& plane, Compute compute, int64_t channels)
        : plane_(plane), compute_(compute), wide_(std::min(channels, most_channels)),
          in_place_(plane.block->dtype == dtype_of(compute) && plane.block->strides[1] == 1) {
        const int64_t dense[] = {plane.sizes[1] * plane.sizes[2] * wide_, plane.sizes[2] * wide_, wide_};
        std::copy_n(in_place_ ? plane.strides : dense, most_rank, steps);
    }
    size_t bytes() const { return in_place_ ? 0 : padded(static_cast<size_t>(plane_.numel() * wide_) * sizeof(T)); }
    void take(Scratch& scratch) {
        if (!in_place_) memory_ = scratch.take<T>(static_cast<size_t>(plane_.numel() * wide_));
    }
    void move_to(int64_t n, int64_t c) {
        from_ = plane_.at(n, c);
        data = in_place_ ? reinterpret_cast<T*>(from_) : memory_;
    }
    void read(int64_t count) {
        if (in_place_) return;
        const Convert load = loader(plane_.block->dtype, compute_);
        each([&](std::byte* at, T* to) { load(at, to, plane_.block->strides[1], count); });
    }
    void write(int64_t count) {
        if (in_place_) return;
        const Convert store = storer(compute_, plane_.block->dtype);
        each([&](std::byte* at, T* from) { store(from, at, plane_.block->strides[1], count); });
    }
    void clear(int64_t count) {
        each([&](std::byte*, T* at) { std::fill_n(at, count, T(0)); });
    }

    int64_t offset(const int64_t* at) const { return at[0] * steps[0] + at[1] * steps[1] + at[2] * steps[2]; }
    T* pixel(const int64_t* at) const { return data + offset(at); }

    T* data = nullptr;
    int64_t steps[most_rank];       // of pixels, in elements

private:
    template <class Use>            // use(pixel of the block, pixel of the panel)
    void each(Use&& use) const {
        const int64_t bytes = size_of(plane_.block->dtype);
        for (int64_t i = 0; i < plane_.sizes[0]; ++i)
            for (int64_t j = 0; j < plane_.sizes[1]; ++j)
                for (int64_t k = 0; k < plane_.sizes[2]; ++k)
                    use(from_ + (i * plane_.strides[0] + j * plane_.strides[1] + k * plane_.strides[2]) * bytes,
                        data + i * steps[0] + j * steps[1] + k * steps[2]);
    }

    const Plane plane_;
    const Compute compute_;
    const int64_t wide_;
    const bool in_place_;
    std::byte* from_ = nullptr;
    T* memory_ = nullptr;
};

// run(channels) with all panels there, for each image and so many of its channels.
template <class Run, class... Panels>
int each_panel(const Args& args, const Run& run, Panels&... panels) {
    thread_local Scratch scratch;
    scratch.begin((panels.bytes() + ...));
    (panels.take(scratch), ...);
    for (int64_t n = 0; n < args.sizes[0]; ++n)
        for (int64_t c = 0; c < args.sizes[1]; c += most_channels) {
            (panels.move_to(n, c), ...);
            if (int status = run(std::min(most_channels, args.sizes[1] - c))) return status;
        }
    return 0;
}

template <class Body>   // body(place of a pixel) for each of a plane
void each_pixel(const Plane& plane, Body&& body) {
    int64_t at[most_rank];
    for (at[0] = 0; at[0] < plane.sizes[0]; ++at[0])
        for (at[1] = 0; at[1] < plane.sizes[1]; ++at[1])
            for (at[2] = 0; at[2] < plane.sizes[2]; ++at[2]) body(at);
}
// The window of the pixel of y at this place, in an image whose pixels lie so far apart; and its first pixel.
std::pair<Window, int64_t> window_at(const Plane& x, const int64_t* steps, const Windows& windows, const int64_t* at) {
    const int64_t places[] = {x.sizes[1] * x.sizes[2], x.sizes[2], 1};
    Window w;
    w.place = 0;
    int64_t first = 0;
    for (int d = 0; d < most_rank; ++d) {
        const Span& span = windows(d, at[d]);
        w.counts[d] = std::max<int64_t>((span.end - span.begin + span.step - 1) / span.step, 0);
        w.steps[d] = span.step * steps[d];
        w.place_steps[d] = span.step * places[d];
        w.place += span.begin * places[d];
        first += span.begin * steps[d];
    }
    return {w, first};
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
int max_forward_of_channels(const Args& args, Compute compute, const Plane& x, const Plane& y, const Plane& places,
                            const Windows& windows) {
    Panel<T> from(x, compute, args.sizes[1]), to(y, compute, args.sizes[1]);
    Panel<int64_t> index(places, compute_i64, args.sizes[1]);
    const auto max = window_tables().table[compute].max;
    const auto run = [&](int64_t count) {
        from.read(count);
        each_pixel(y, [&](const int64_t* at) {
            const auto [window, first] = window_at(x, from.steps, windows, at);
            max(from.data + first, window, count, to.pixel(at), index.pixel(at));
        });
        to.write(count);
        index.write(count);
        return 0;
    };
    return each_panel(args, run, from, to, index);
}

template <class T, class Refuse>
int max_backward_of_channels(const Args& args, Compute compute, const Plane& dy, const Plane& places, const Plane& dx,
                             Refuse&& refuse) {
    Panel<T> from(dy, compute, args.sizes[1]), to(dx, compute, args.sizes[1]);
    Panel<int64_t> index(places, compute_i64, args.sizes[1]);
    std::vector<int64_t> offsets;       // of the pixels of dx
    each_pixel(dx, [&](const int64_t* at) { offsets.push_back(to.offset(at)); });
    const auto add_at = window_tables().table[compute].add_at;
    const auto run = [&](int64_t count) {
        from.read(count);
        index.read(count);
        to.clear(count);
        const int64_t* wrong = nullptr;
        each_pixel(dy, [&](const int64_t* at) {
            const int64_t* own = index.pixel(at);
            const int64_t added = add_at(from.pixel(at), own, offsets.data(), dx.numel(), count, to.data);
            if (added < count) wrong = own + added;
        });
        if (wrong) return refuse(*wrong);
        to.write(count);
        return 0;
    };
    return each_panel(args, run, from, index, to);
}

template <class T>
int average_of_channels(const Args& args, Compute compute, const Plane& x, const Plane& y, const Windows& windows,
                        bool backward) {
    Panel<T> image(x, compute, args.sizes[1]), means(y, compute, args.sizes[1]);
    const WindowLoops& loops = window_tables().table[compute];
    const auto run = [&](int64_t count) {
        if (backward) {
            means.read(count);
            image.clear(count);
        } else {
            image.read(count);
        }
        each_pixel(y, [&](const int64_t* at) {
            const auto [window, first] = window_at(x, image.steps, windows, at);
            const double divisor = divisor_of(args, windows(0, at[0]), windows(1, at[1]), windows(2, at[2]));
            if (backward) loops.spread(means.pixel(at), window, count, divisor, image.data + first);
            else loops.average(image.data + first, window, count, divisor, means.pixel(at));
        });
        (backward ? image : means).write(count);
        return 0;
    };
    return each_panel(args, run, image, means);
}

// ---- planes
template <class T>
int max_forward(const Args& args, Compute compute) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const Plane x(args, args.blocks[0], 2 + rank, rank), y(args, args.blocks[1], 2, rank),
        places(args, args.blocks[2], 2, rank);
    const Windows windows(x, y, args.params, rank);
    if (channels_beside(x, args.sizes[1])) return max_forward_of_channels<T>(args, compute, x, y, places, windows);
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
    const auto refuse = [&](int64_t index) {
        return fail_task(args, static_cast<int>(Status::index_error),
                         "max_pool_backward: index %" PRId64 " is out of range [0, %" PRId64 ")", index, pixels);
    };
    if (channels_beside(dx, args.sizes[1]))
        return max_backward_of_channels<T>(args, compute, dy, places, dx, refuse);
    thread_local Scratch scratch;
    scratch.begin(padded(count * sizeof(T)) + padded(pixels * sizeof(T)) + padded(count * sizeof(int64_t)));
    T *from = scratch.take<T>(count), *to = scratch.take<T>(pixels);
    auto* index = scratch.take<int64_t>(count);
    return each_plane(args, [&](int64_t n, int64_t c) {
        dy.read(n, c, compute, from);
        places.read(n, c, compute_i64, index);
        std::fill_n(to, pixels, T(0));
        for (int64_t o = 0; o < count; ++o) {
            if (index[o] < 0 || index[o] >= pixels) return refuse(index[o]);
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
    if (channels_beside(x, args.sizes[1])) return average_of_channels<T>(args, compute, x, y, windows, false);
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
    if (channels_beside(dx, args.sizes[1])) return average_of_channels<T>(args, compute, dx, dy, windows, true);
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
