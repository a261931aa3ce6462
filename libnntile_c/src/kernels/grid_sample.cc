// SPDX-License-Identifier: BSD-3-Clause
// Pixels at any places of images, and the gradients of images and places. Which elements a place
// takes, with which weights, is computed once for all channels. Dims: images, channels, places,
// those of an image, and of a place.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.hh"
#include "kernels/convert.hh"
#include "kernels/functions.hh"
#include "kernels/grid.hh"
#include "kernels/scratch.hh"
#include "kernels/space.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {
namespace {

constexpr size_t most_spatial = 3;

template <class T>
class Sampler {
public:
    static constexpr Compute compute = sizeof(T) == 4 ? compute_f32 : compute_f64;

    Sampler(const Args& args, size_t grid)
        : args_(args),
          spatial_(args.sizes.size() - 4),
          grid_(args.blocks[grid]),
          mode_(static_cast<GridMode>(args.params[0].i)),
          padding_(static_cast<GridPadding>(args.params[1].i)),
          align_corners_(args.params[2].i != 0),
          each_(taps_of(mode_)) {
        count = 1;
        pixels = 1;
        for (size_t d = 0; d < spatial_; ++d) {
            sizes_[d] = args.sizes[3 + d];
            pixels *= sizes_[d];
            count *= each_;
        }
        for (size_t k = 0; k < spatial_; ++k)
            dims_[k].resize(static_cast<size_t>(each_ * grid_places));
    }
    bool too_large() const { return pixels > std::numeric_limits<int32_t>::max(); }

    // Of n places of image i, from `first` on. Offsets are those of dense planes.
    void find(int64_t i, int64_t first, int64_t n) {
        const GridLoops& loops = grid_tables().table[compute];
        const size_t last = args_.sizes.size() - 1;
        for (size_t d = 0; d < spatial_; ++d) {
            // The first number of a place is along the last dim of an image.
            const int64_t at = i * grid_.strides[0] + first * grid_.strides[2] +
                               static_cast<int64_t>(spatial_ - 1 - d) * grid_.strides[last];
            T places[grid_places];
            loader(grid_.dtype, compute)(grid_.data + at * size_of(grid_.dtype), places,
                                         grid_.strides[2], n);
            loops.taps(places, n, sizes_[d], mode_, padding_, align_corners_,
                       dims_[d].elements.data(), dims_[d].weights.data(), dims_[d].slopes.data());
        }
        each_tap([&](int64_t tap, const int64_t* own) {
            for (int64_t p = 0; p < n; ++p) {
                int32_t offset = 0;
                bool there = true;
                T weight = 1;
                for (size_t d = 0; d < spatial_; ++d) {
                    const int64_t k = own[d] * grid_places + p;
                    there &= dims_[d].elements[static_cast<size_t>(k)] >= 0;
                    offset = offset * static_cast<int32_t>(sizes_[d]) +
                             dims_[d].elements[static_cast<size_t>(k)];
                    weight *= dims_[d].weights[static_cast<size_t>(k)];
                }
                offsets[tap * grid_places + p] = there ? offset : -1;
                weights[tap * grid_places + p] = weight;
            }
        });
    }
    // The gradient of n places along dim d, from what `along` gives.
    void slopes(size_t d, const T* along, int64_t n, T* to) const {
        std::fill_n(to, n, T(0));
        each_tap([&](int64_t tap, const int64_t* own) {
            for (int64_t p = 0; p < n; ++p) {
                T weight = along[tap * grid_places + p];
                for (size_t k = 0; k < spatial_; ++k) {
                    const auto at = static_cast<size_t>(own[k] * grid_places + p);
                    weight *= k == d ? dims_[k].slopes[at] : dims_[k].weights[at];
                }
                to[p] += weight;
            }
        });
    }

    // A plane of an image, dense: where it lies, or read.
    bool dense(const Block& b) const {
        int64_t step = 1;
        if (b.dtype != dtype_of(compute)) return false;
        for (size_t d = spatial_; d-- > 0; step *= sizes_[d])
            if (sizes_[d] != 1 && b.strides[3 + d] != step) return false;
        return true;
    }
    // How far apart the pixels of an image lie that has its channels beside each other; 0: it has
    // not.
    int64_t pixel_step(const Block& b, int64_t channels) const {
        const int64_t first = b.strides[3 + spatial_ - 1];
        if (b.dtype != dtype_of(compute) || channels < 4 || b.strides[1] != 1) return 0;
        int64_t step = first;
        for (size_t d = spatial_; d-- > 0; step *= sizes_[d])
            if (sizes_[d] != 1 && b.strides[3 + d] != step) return 0;
        return first;
    }
    template <class Move>  // move(row of the block, first element of the dense plane)
    void rows(const Block& b, int64_t i, int64_t c, Move&& move) const {
        const int64_t at = i * b.strides[0] + c * b.strides[1], row = sizes_[spatial_ - 1];
        for (int64_t first = 0; first < pixels; first += row) {
            int64_t offset = at, rest = first / row;
            for (size_t d = spatial_ - 1; d-- > 0; rest /= sizes_[d])
                offset += rest % sizes_[d] * b.strides[3 + d];
            move(b.data + offset * size_of(b.dtype), first, b.strides[3 + spatial_ - 1], row);
        }
    }
    const T* read(const Block& b, int64_t i, int64_t c, T* room) const {
        if (dense(b))
            return reinterpret_cast<const T*>(b.data) + i * b.strides[0] + c * b.strides[1];
        const Convert load = loader(b.dtype, compute);
        rows(b, i, c, [&](std::byte* at, int64_t first, int64_t step, int64_t n) {
            load(at, room + first, step, n);
        });
        return room;
    }

    int64_t count, pixels;  // of taps of a place, and of a plane
    alignas(64) int32_t offsets[most_grid_taps * grid_places];
    alignas(64) T weights[most_grid_taps * grid_places];

private:
    template <class Body>  // body(tap, its number along each dim)
    void each_tap(Body&& body) const {
        for (int64_t tap = 0; tap < count; ++tap) {
            int64_t own[most_spatial], rest = tap;
            for (size_t d = spatial_; d-- > 0; rest /= each_) own[d] = rest % each_;
            body(tap, own);
        }
    }
    struct Dim {
        std::vector<int32_t> elements;
        std::vector<T> weights, slopes;
        void resize(size_t n) {
            elements.resize(n);
            weights.resize(n);
            slopes.resize(n);
        }
    };

    const Args& args_;
    const size_t spatial_;
    const Block& grid_;
    const GridMode mode_;
    const GridPadding padding_;
    const bool align_corners_;
    const int64_t each_;
    int64_t sizes_[most_spatial];
    Dim dims_[most_spatial];
};

int refuse(const Args& args) {
    return fail_task(args, static_cast<int>(Status::unsupported),
                     "grid_sample: a plane has more than 2147483647 elements");
}

template <class T>
int forward(const Args& args) {
    constexpr Compute compute = Sampler<T>::compute;
    const Block &x = args.blocks[0], &y = args.blocks[2];
    const int64_t images = args.sizes[0], channels = args.sizes[1], places = args.sizes[2];
    const auto sampler = std::make_unique<Sampler<T>>(args, 1);
    if (sampler->too_large()) return refuse(args);
    const GridLoops& loops = grid_tables().table[compute];
    const Convert store = storer(compute, y.dtype);
    // Sums of all channels of a place are vectors: an image that is asked for many of its pixels is
    // turned for them.
    const int64_t lies = sampler->pixel_step(x, channels);
    constexpr int64_t most = 64;  // channels at a time
    constexpr int64_t most_turned = (8 << 20) / static_cast<int64_t>(sizeof(T));  // elements
    const bool dense = sampler->dense(x);
    const bool turns = !lies && channels >= 16 && places * 2 >= sampler->pixels &&
                       sampler->pixels * most <= most_turned;
    thread_local Scratch scratch;
    if (lies || turns) {
        std::vector<T> found(static_cast<size_t>(grid_places * most)), sums(found.size());
        const size_t all = turns ? static_cast<size_t>(sampler->pixels * most) : 0,
                     own = dense ? 0 : all;
        scratch.begin(padded(all * sizeof(T)) + padded(own * sizeof(T)));
        T *const image = scratch.take<T>(all), *const planes = scratch.take<T>(own);
        for (int64_t i = 0; i < images; ++i)
            for (int64_t c = 0; c < channels; c += most) {
                const int64_t count = std::min(most, channels - c);
                const T* from =
                    reinterpret_cast<const T*>(x.data) + i * x.strides[0] + c * x.strides[1];
                if (turns) {
                    for (int64_t k = 0; !dense && k < count; ++k)
                        sampler->read(x, i, c + k, planes + k * sampler->pixels);
                    transpose_of(sizeof(T))(dense ? from : planes,
                                            dense ? x.strides[1] : sampler->pixels, image, count,
                                            sampler->pixels, count);
                    from = image;
                }
                for (int64_t first = 0; first < places; first += grid_places) {
                    const int64_t n = std::min(grid_places, places - first);
                    sampler->find(i, first, n);
                    loops.sample_channels(from, turns ? count : lies, count, n, sampler->count,
                                          sampler->offsets, sampler->weights, found.data());
                    transpose_of(sizeof(T))(found.data(), count, sums.data(), grid_places, count,
                                            n);
                    for (int64_t k = 0; k < count; ++k) {
                        const int64_t at =
                            i * y.strides[0] + (c + k) * y.strides[1] + first * y.strides[2];
                        store(sums.data() + k * grid_places, y.data + at * size_of(y.dtype),
                              y.strides[2], n);
                    }
                }
            }
        return 0;
    }
    // Planes that are not dense are read once for all places.
    scratch.begin(dense ? 0 : padded(static_cast<size_t>(channels * sampler->pixels) * sizeof(T)));
    T* const room = scratch.take<T>(dense ? 0 : static_cast<size_t>(channels * sampler->pixels));
    std::vector<const T*> planes(static_cast<size_t>(channels));
    for (int64_t i = 0; i < images; ++i) {
        for (int64_t c = 0; c < channels; ++c)
            planes[static_cast<size_t>(c)] = sampler->read(x, i, c, room + c * sampler->pixels);
        for (int64_t first = 0; first < places; first += grid_places) {
            const int64_t n = std::min(grid_places, places - first);
            sampler->find(i, first, n);
            for (int64_t c = 0; c < channels; ++c) {
                T found[grid_places];
                loops.sample(planes[static_cast<size_t>(c)], n, sampler->count, sampler->offsets,
                             sampler->weights, found);
                const int64_t at = i * y.strides[0] + c * y.strides[1] + first * y.strides[2];
                store(found, y.data + at * size_of(y.dtype), y.strides[2], n);
            }
        }
    }
    return 0;
}

template <class T>
int backward(const Args& args) {
    constexpr Compute compute = Sampler<T>::compute;
    const Block &dy = args.blocks[0], &x = args.blocks[1], &dx = args.blocks[3],
                &dgrid = args.blocks[4];
    const int64_t images = args.sizes[0], channels = args.sizes[1], places = args.sizes[2];
    const size_t last = args.sizes.size() - 1, spatial = last - 3;
    const auto sampler = std::make_unique<Sampler<T>>(args, 2);
    if (sampler->too_large()) return refuse(args);
    const GridLoops& loops = grid_tables().table[compute];
    const Convert load = loader(dy.dtype, compute), store = storer(compute, dgrid.dtype);
    const bool dense = sampler->dense(x), in_place = sampler->dense(dx);
    const auto all = static_cast<size_t>(channels * sampler->pixels);
    thread_local Scratch scratch;
    scratch.begin((dense ? 0 : padded(all * sizeof(T))) + (in_place ? 0 : padded(all * sizeof(T))));
    T* const room = scratch.take<T>(dense ? 0 : all);
    T* const made = scratch.take<T>(in_place ? 0 : all);
    std::vector<const T*> planes(static_cast<size_t>(channels));
    std::vector<T*> grads(static_cast<size_t>(channels));
    std::vector<T> along(static_cast<size_t>(sampler->count * grid_places));
    for (int64_t i = 0; i < images; ++i) {
        for (int64_t c = 0; c < channels; ++c) {
            planes[static_cast<size_t>(c)] = sampler->read(x, i, c, room + c * sampler->pixels);
            T*& grad = grads[static_cast<size_t>(c)];
            grad = in_place ? reinterpret_cast<T*>(dx.data) + i * dx.strides[0] + c * dx.strides[1]
                            : made + c * sampler->pixels;
            std::fill_n(grad, sampler->pixels, T(0));
        }
        for (int64_t first = 0; first < places; first += grid_places) {
            const int64_t n = std::min(grid_places, places - first);
            sampler->find(i, first, n);
            std::fill(along.begin(), along.end(), T(0));
            for (int64_t c = 0; c < channels; ++c) {
                T grad[grid_places];
                const int64_t at = i * dy.strides[0] + c * dy.strides[1] + first * dy.strides[2];
                load(dy.data + at * size_of(dy.dtype), grad, dy.strides[2], n);
                loops.along(planes[static_cast<size_t>(c)], grad, n, sampler->count,
                            sampler->offsets, along.data());
                loops.spread(grad, n, sampler->count, sampler->offsets, sampler->weights,
                             grads[static_cast<size_t>(c)]);
            }
            for (size_t d = 0; d < spatial; ++d) {
                T slopes[grid_places];
                sampler->slopes(d, along.data(), n, slopes);
                const int64_t at = i * dgrid.strides[0] + first * dgrid.strides[2] +
                                   static_cast<int64_t>(spatial - 1 - d) * dgrid.strides[last];
                store(slopes, dgrid.data + at * size_of(dgrid.dtype), dgrid.strides[2], n);
            }
        }
        const Convert put = storer(compute, dx.dtype);
        for (int64_t c = 0; !in_place && c < channels; ++c)
            sampler->rows(dx, i, c, [&](std::byte* at, int64_t begin, int64_t step, int64_t n) {
                put(grads[static_cast<size_t>(c)] + begin, at, step, n);
            });
    }
    return 0;
}

}  // namespace

int grid_sample(const Args& args) {
    return args.blocks[0].dtype == DType::f64 ? forward<double>(args) : forward<float>(args);
}
int grid_sample_backward(const Args& args) {
    return args.blocks[0].dtype == DType::f64 ? backward<double>(args) : backward<float>(args);
}

}  // namespace nntile::kernels
