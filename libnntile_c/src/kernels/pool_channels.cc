// SPDX-License-Identifier: BSD-3-Clause
// Pooling window by window with all channels of a panel, in vectors: read where they lie if they
// lie beside each other, else turned from planes.
#include <cinttypes>
#include <utility>

#include "base/error.hh"
#include "kernels/pool.hh"
#include "kernels/scratch.hh"
#include "kernels/transpose.hh"
#include "kernels/windows.hh"

namespace nntile::kernels::pooling {
namespace {

// Panels: some channels of an image. Of planes that are turned as many as stay in a cache, in whole
// vectors, the last of which may have channels that nobody reads.
constexpr int64_t most_channels = 64;
int64_t wide_of(const Args& args, const Plane& image, size_t bytes, bool turned) {
    if (!turned) return std::min(args.sizes[1], most_channels);
    constexpr int64_t room = 1 << 18, step = turned_channels;
    const int64_t fit = room / std::max<int64_t>(image.numel() * static_cast<int64_t>(bytes), 1),
                  all = (args.sizes[1] + step - 1) / step * step;
    return std::min(all, std::clamp(fit / step * step, step, most_channels));
}

// An operand with its channels beside each other: where it lies, if it lies so, else in dense
// memory.
template <class T>
class Panel {
public:
    // Of so many channels.
    Panel(const Plane& plane, Compute compute, int64_t wide, bool turned)
        : plane_(plane),
          compute_(compute),
          wide_(wide),
          turned_(turned),
          converted_(plane.block->dtype != dtype_of(compute)),
          in_place_(!turned_ && !converted_ && plane.block->strides[1] == 1) {
        const int64_t dense[] = {plane.sizes[1] * plane.sizes[2] * wide_, plane.sizes[2] * wide_,
                                 wide_};
        std::copy_n(in_place_ ? plane.strides : dense, most_rank, steps);
    }
    size_t bytes() const {
        return in_place_ ? 0 : (1 + (turned_ && converted_)) * padded(numel() * sizeof(T));
    }
    void take(Scratch& scratch) {
        if (!in_place_) memory_ = scratch.take<T>(numel());
        if (turned_ && converted_) planes_ = scratch.take<T>(numel());
    }
    void move_to(int64_t n, int64_t c) {
        from_ = plane_.at(n, c);
        data = in_place_ ? reinterpret_cast<T*>(from_) : memory_;
    }
    void read(int64_t count) {
        if (in_place_) return;
        if (turned_ && !converted_)
            return transpose_of(sizeof(T))(from_, plane_.block->strides[1], data, wide_,
                                           plane_.numel(), count);
        const Convert load = loader(plane_.block->dtype, compute_);
        if (turned_) {
            for (int64_t c = 0; c < count; ++c)
                load(plane(c), planes_ + c * plane_.numel(), 1, plane_.numel());
            return transpose_of(sizeof(T))(planes_, plane_.numel(), data, wide_, plane_.numel(),
                                           count);
        }
        each([&](std::byte* at, T* to) { load(at, to, plane_.block->strides[1], count); });
    }
    void write(int64_t count) {
        if (in_place_) return;
        if (turned_ && !converted_)
            return transpose_of(sizeof(T))(data, wide_, from_, plane_.block->strides[1], count,
                                           plane_.numel());
        const Convert store = storer(compute_, plane_.block->dtype);
        if (turned_) {
            transpose_of(sizeof(T))(data, wide_, planes_, plane_.numel(), count, plane_.numel());
            for (int64_t c = 0; c < count; ++c)
                store(planes_ + c * plane_.numel(), plane(c), 1, plane_.numel());
            return;
        }
        each([&](std::byte* at, T* from) { store(from, at, plane_.block->strides[1], count); });
    }
    void clear(int64_t count) {
        const int64_t row = plane_.sizes[2] * count, rows = plane_.sizes[0] * plane_.sizes[1];
        const bool one = steps[2] == count && (plane_.sizes[1] == 1 || steps[1] == row) &&
                         (plane_.sizes[0] == 1 || steps[0] == plane_.sizes[1] * row);
        if (one) return std::fill_n(data, rows * row, T(0)), void();
        each([&](std::byte*, T* at) { std::fill_n(at, count, T(0)); });
    }

    int64_t offset(const int64_t* at) const {
        return at[0] * steps[0] + at[1] * steps[1] + at[2] * steps[2];
    }
    T* pixel(const int64_t* at) const { return data + offset(at); }

    T* data = nullptr;
    int64_t steps[most_rank];  // of pixels, in elements

private:
    size_t numel() const { return static_cast<size_t>(plane_.numel() * wide_); }
    std::byte* plane(int64_t c) const {
        return from_ + c * plane_.block->strides[1] * size_of(plane_.block->dtype);
    }
    template <class Use>  // use(pixel of the block, pixel of the panel)
    void each(Use&& use) const {
        const int64_t bytes = size_of(plane_.block->dtype);
        for (int64_t i = 0; i < plane_.sizes[0]; ++i)
            for (int64_t j = 0; j < plane_.sizes[1]; ++j)
                for (int64_t k = 0; k < plane_.sizes[2]; ++k)
                    use(from_ + (i * plane_.strides[0] + j * plane_.strides[1] +
                                 k * plane_.strides[2]) *
                                    bytes,
                        data + i * steps[0] + j * steps[1] + k * steps[2]);
    }

    const Plane plane_;
    const Compute compute_;
    const int64_t wide_;
    const bool turned_, converted_, in_place_;
    std::byte* from_ = nullptr;
    T *memory_ = nullptr, *planes_ = nullptr;
};

// run(channels) with all panels there, for each image and so many of its channels.
template <class Run, class... Panels>
int each_panel(const Args& args, int64_t wide, const Run& run, Panels&... panels) {
    thread_local Scratch scratch;
    scratch.begin((panels.bytes() + ...));
    (panels.take(scratch), ...);
    for (int64_t n = 0; n < args.sizes[0]; ++n)
        for (int64_t c = 0; c < args.sizes[1]; c += wide) {
            (panels.move_to(n, c), ...);
            if (int status = run(std::min(wide, args.sizes[1] - c))) return status;
        }
    return 0;
}

template <class Body>  // body(place of a pixel) for each of a plane
void each_pixel(const Plane& plane, Body&& body) {
    int64_t at[most_rank];
    for (at[0] = 0; at[0] < plane.sizes[0]; ++at[0])
        for (at[1] = 0; at[1] < plane.sizes[1]; ++at[1])
            for (at[2] = 0; at[2] < plane.sizes[2]; ++at[2]) body(at);
}
// The window of the pixel of y at this place, in an image whose pixels lie so far apart; and its
// first pixel.
std::pair<Window, int64_t> window_at(const Plane& x, const int64_t* steps, const Windows& windows,
                                     const int64_t* at) {
    const int64_t places[] = {x.sizes[1] * x.sizes[2], x.sizes[2], 1};
    Window w;
    w.place = 0;
    int64_t first = 0;
    for (int d = 0; d < most_rank; ++d) {
        const Span& span = windows(d, at[d]);
        w.counts[d] = span.count;
        w.steps[d] = span.step * steps[d];
        w.place_steps[d] = span.step * places[d];
        w.place += span.begin * places[d];
        first += span.begin * steps[d];
    }
    return {w, first};
}
template <class T>
int max_forward_in(const Args& args, Compute compute, const Plane& x, const Plane& y,
                   const Plane& places, const Windows& windows, bool turned) {
    const int64_t wide = wide_of(args, x, sizeof(T), turned);
    Panel<T> from(x, compute, wide, turned), to(y, compute, wide, turned);
    Panel<int64_t> index(places, compute_i64, wide, turned);
    const auto max = window_tables().table[compute].max;
    const auto run = [&](int64_t count) {
        from.read(count);
        each_pixel(y, [&](const int64_t* at) {
            const auto [window, first] = window_at(x, from.steps, windows, at);
            max(from.data + first, window, turned ? wide : count, to.pixel(at), index.pixel(at));
        });
        to.write(count);
        index.write(count);
        return 0;
    };
    return each_panel(args, wide, run, from, to, index);
}

template <class T>
int max_backward_in(const Args& args, Compute compute, const Plane& dy, const Plane& places,
                    const Plane& dx) {
    const int64_t wide = wide_of(args, dx, sizeof(T), false);
    Panel<T> from(dy, compute, wide, false), to(dx, compute, wide, false);
    Panel<int64_t> index(places, compute_i64, wide, false);
    std::vector<int64_t> offsets;  // of the pixels of dx
    each_pixel(dx, [&](const int64_t* at) { offsets.push_back(to.offset(at)); });
    const auto add_at = window_tables().table[compute].add_at;
    const auto run = [&](int64_t count) {
        from.read(count);
        index.read(count);
        to.clear(count);
        const int64_t* wrong = nullptr;
        each_pixel(dy, [&](const int64_t* at) {
            const int64_t* own = index.pixel(at);
            const int64_t added =
                add_at(from.pixel(at), own, offsets.data(), dx.numel(), count, to.data);
            if (added < count) wrong = own + added;
        });
        if (wrong) return refuse_place(args, *wrong, dx.numel());
        to.write(count);
        return 0;
    };
    return each_panel(args, wide, run, from, index, to);
}

template <class T>
int average_in(const Args& args, Compute compute, const Plane& x, const Plane& y,
               const Windows& windows, bool turned, bool backward) {
    const int64_t wide = wide_of(args, x, sizeof(T), turned);
    Panel<T> image(x, compute, wide, turned), means(y, compute, wide, turned);
    const WindowLoops& loops = window_tables().table[compute];
    const auto run = [&](int64_t channels) {
        const int64_t count = turned ? wide : channels;
        if (backward) {
            means.read(channels);
            image.clear(count);
        } else {
            image.read(channels);
        }
        each_pixel(y, [&](const int64_t* at) {
            const auto [window, first] = window_at(x, image.steps, windows, at);
            const double divisor =
                divisor_of(args, windows(0, at[0]), windows(1, at[1]), windows(2, at[2]));
            if (backward) loops.spread(means.pixel(at), window, count, divisor, image.data + first);
            else loops.average(image.data + first, window, count, divisor, means.pixel(at));
        });
        (backward ? image : means).write(channels);
        return 0;
    };
    return each_panel(args, wide, run, image, means);
}

}  // namespace

int max_forward_of_channels(const Args& args, Compute compute, const Plane& x, const Plane& y,
                            const Plane& places, const Windows& windows, bool turned) {
    const auto run = compute == compute_f64 ? max_forward_in<double> : max_forward_in<float>;
    return run(args, compute, x, y, places, windows, turned);
}
int max_backward_of_channels(const Args& args, Compute compute, const Plane& dy,
                             const Plane& places, const Plane& dx) {
    return compute == compute_f64 ? max_backward_in<double>(args, compute, dy, places, dx)
                                  : max_backward_in<float>(args, compute, dy, places, dx);
}
int average_of_channels(const Args& args, Compute compute, const Plane& x, const Plane& y,
                        const Windows& windows, bool turned, bool backward) {
    const auto run = compute == compute_f64 ? average_in<double> : average_in<float>;
    return run(args, compute, x, y, windows, turned, backward);
}
int refuse_place(const Args& args, int64_t place, int64_t pixels) {
    return fail_task(args, static_cast<int>(Status::index_error),
                     "max_pool_backward: index %" PRId64 " is out of range [0, %" PRId64 ")", place,
                     pixels);
}

}  // namespace nntile::kernels::pooling
