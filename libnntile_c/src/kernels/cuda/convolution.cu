// SPDX-License-Identifier: BSD-3-Clause
// Convolutions as products: pixels by channels, of which one side is gathered from an image as it
// is read. In float32, added in one order, whatever the device.
#include <numeric>

#include "kernels/cuda/convolution.hh"
#include "kernels/cuda/images.hh"
#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {

// One spatial dim as the row has it.
struct Spatial {
    int stride, padding, dilation, taps;
    int image, pixels;     // sizes
    int phases, tap_step;  // of the gradient of the input, see axis_of
};
// An image is read by windows, each of which belongs to a pixel: of y, or of dx in the gradient of
// the input, which reads dy.
struct ConvolutionJob {
    Spatial spatial[most_axes];
    const void* image = nullptr;
    void* pixels = nullptr;
    void* weight = nullptr;
    const void* bias = nullptr;
    DType dtype = DType::none, result = DType::none, bias_dtype = DType::none;
    bool transposed = false, accumulate = false, channels_last = false;
    // Channels of a group: of the image, and of the pixels.
    int groups = 1, channels = 0, made = 0, images = 0;
    // Strides
    int image_n = 0, image_c = 0, image_d[most_axes] = {};
    int pixels_n = 0, pixels_c = 0, pixels_d[most_axes] = {};
    int weight_image = 0, weight_pixels = 0, weight_d[most_axes] = {}, weight_group = 0;
    int bias_c = 0;
    // How elements of the product's sides are read, and its results written: beside each other
    // along k, or not.
    bool left_along_k = false, right_along_k = false, rows_first = false;
    // Blocks
    int tiles_m = 0, tiles_n = 0, splits = 1;
    float* scratch = nullptr;
};

// Pixel q of a dim has its window at places along * q + base + apart * j of the image, for taps tap
// + tap_step * j. The pixels of dx that are a stride apart meet the same taps: they are a phase.
struct Axis {
    int count, first, step;  // pixels
    int taps, tap, tap_step;
    int along, base, apart;
};
NNTILE_FN inline Axis axis_of(const ConvolutionJob& job, int d, int phase) {
    const Spatial& s = job.spatial[d];
    if (!job.transposed) return {s.pixels, 0, 1, s.taps, 0, 1, s.stride, -s.padding, s.dilation};
    Axis a{(s.pixels - phase + s.stride - 1) / s.stride, phase, s.stride, 0, 0, s.tap_step, 1, 0,
           -(s.tap_step * s.dilation / s.stride)};
    const auto from = [&] { return phase + s.padding - a.tap * s.dilation; };
    while (a.tap < s.tap_step && from() % s.stride != 0) ++a.tap;
    if (a.tap == s.tap_step) return a;
    a.base = from() / s.stride;
    if (a.tap < s.taps) a.taps = (s.taps - 1 - a.tap) / s.tap_step + 1;
    return a;
}

// What a pixel, or a tap of a channel, adds to places: in the image, along its dims, and in the
// other operand that has it.
struct Entry {
    int image, at[most_axes], other;
};
constexpr int nowhere = INT_MIN / 2;

__device__ inline Entry pixel_entry(const ConvolutionJob& job, const Axis* axes, int number) {
    Entry e{};
    for (int d = most_axes; d-- > 0;) {
        const Axis& a = axes[d];
        const int q = take_digit(number, a.count);
        e.at[d] = q * a.along + a.base;
        e.image += e.at[d] * job.image_d[d];
        e.other += (a.first + q * a.step) * job.pixels_d[d];
    }
    e.image += number * job.image_n;
    e.other += number * job.pixels_n;
    return e;
}
__device__ inline Entry tap_entry(const ConvolutionJob& job, const Axis* axes, int number) {
    Entry e{};
    int channel = 0;
    if (job.channels_last) channel = take_digit(number, job.channels);
    for (int d = most_axes; d-- > 0;) {
        const Axis& a = axes[d];
        const int j = take_digit(number, a.taps);
        e.at[d] = j * a.apart;
        e.image += e.at[d] * job.image_d[d];
        e.other += (a.tap + j * a.tap_step) * job.weight_d[d];
    }
    if (!job.channels_last) channel = number;
    e.image += channel * job.image_c;
    e.other += channel * job.weight_image;
    return e;
}

// Writes one result.
__device__ inline void finish(const ConvolutionJob& job, void* to, int64_t at, int channel,
                              float sum) {
    if (job.bias) sum += real_at<float>(job.bias, job.bias_dtype, int64_t{channel} * job.bias_c);
    if (job.accumulate) sum += real_at<float>(to, job.result, at);
    set_real(to, job.result, at, sum);
}

// ---- tiles of a product

// Of a block: m and n of its tile, k of a step, and how many m and n each thread has.
constexpr int tile_m = 128, tile_n = 64, tile_threads = 256;
struct Tile {
    static constexpr int m = 8, n = 4, k = 16;
    static constexpr int threads_m = tile_m / m, threads_n = tile_n / n;
    static constexpr int left_row = tile_m + 4, right_row = tile_n + 4;
    static_assert(threads_m * threads_n == tile_threads);

    alignas(16) float left[2][k * left_row];
    alignas(16) float right[2][k * right_row];
    Entry rows[tile_m], inner[2][k];
    Axis axes[most_axes];
};
enum class Stage { whole, part, join };

// Four at a time, each thread those beside its neighbour's.
__device__ constexpr int place_in_tile(int thread, int threads, int element) {
    return element / 4 * threads * 4 + thread * 4 + element % 4;
}

// Rows of the product are pixels and its k are taps of channels; for the gradient of the weight the
// other way round. Stage::part writes sums over a part of k, which Stage::join adds.
template <DType D, bool of_weight>
__global__ void __launch_bounds__(tile_threads, 2)
    convolve_tiles(const __grid_constant__ ConvolutionJob job, Stage stage) {
    Tile& shared = *shared_memory<Tile>();
    const int t = static_cast<int>(threadIdx.x);
    auto block = static_cast<int>(blockIdx.x);
    const int first_m = take_digit(block, job.tiles_m) * tile_m,
              first_n = take_digit(block, job.tiles_n) * tile_n;
    const int split = stage == Stage::part ? take_digit(block, job.splits) : 0;
    const int tile = static_cast<int>(blockIdx.x) % (job.tiles_m * job.tiles_n) +
                     block * job.tiles_m * job.tiles_n;
    const int group = take_digit(block, job.groups);
    if (t < most_axes) {
        int phase = 0;
        for (int d = most_axes; d-- > t;) phase = take_digit(block, job.spatial[d].phases);
        shared.axes[t] = axis_of(job, t, phase);
    }
    __syncthreads();
    int pixels = job.images, taps = job.channels;
    for (const Axis& a : shared.axes) {
        pixels *= a.count;
        taps *= a.taps;
    }
    const int m_count = of_weight ? taps : pixels, k_count = of_weight ? pixels : taps,
              n_count = job.made;
    if (first_m >= m_count) return;
    const auto row = [&](int m) {
        return of_weight ? tap_entry(job, shared.axes, m) : pixel_entry(job, shared.axes, m);
    };
    const auto inner = [&](int k) {
        return of_weight ? pixel_entry(job, shared.axes, k) : tap_entry(job, shared.axes, k);
    };
    const Entry absent{0, {nowhere, 0, 0}, 0};
    if (t < tile_m) shared.rows[t] = first_m + t < m_count ? row(first_m + t) : absent;

    const int steps = (k_count + Tile::k - 1) / Tile::k,
              of_split = (steps + job.splits - 1) / job.splits;
    const int begin = stage == Stage::part ? split * of_split : 0;
    int end = stage == Stage::part ? std::min(begin + of_split, steps) : steps;
    if (stage == Stage::join) end = 0;

    const int64_t image_group = int64_t{group} * job.channels * job.image_c,
                  pixels_group = int64_t{group} * job.made * job.pixels_c,
                  weight_group = int64_t{group} * job.weight_group;
    const auto* image = static_cast<const Storage<D>*>(job.image) + image_group;
    const auto* right = static_cast<const Storage<D>*>(of_weight ? job.pixels : job.weight) +
                        (of_weight ? pixels_group : weight_group);
    const int right_n = of_weight ? job.pixels_c : job.weight_pixels;

    constexpr int lefts = tile_m * Tile::k / tile_threads, rights = tile_n * Tile::k / tile_threads;
    float next_left[lefts], next_right[rights];
    const auto is_inside = [&](const Entry& r, const Entry& e) {
        bool inside = true;
        for (int d = 0; d < most_axes; ++d)
            inside = inside && static_cast<unsigned>(r.at[d] + e.at[d]) <
                                   static_cast<unsigned>(job.spatial[d].image);
        return inside;
    };
    const auto left_at = [&](const Entry& r, const Entry& e) {
        return is_inside(r, e) ? Element<D>::template get<float>(image[r.image + e.image]) : 0.0f;
    };
    const auto right_at = [&](int n, int k, const Entry& e) {
        return first_n + n < n_count && k < k_count
                   ? Element<D>::template get<float>(right[e.other + (first_n + n) * right_n])
                   : 0.0f;
    };
    // Which element of a side thread t has as its i-th: m or n, and k.
    const auto across_of = [&](bool along_k, int size, int i) {
        return along_k ? t / Tile::k + i * (tile_threads / Tile::k) : t % size;
    };
    const auto k_of = [&](bool along_k, int size, int i) {
        return along_k ? t % Tile::k : t / size + i * (tile_threads / size);
    };
    const auto load = [&](int step) {
        const Entry* const table = shared.inner[step & 1];
        const auto load_left = [&](bool along_k) {
#pragma unroll
            for (int i = 0; i < lefts; ++i)
                next_left[i] = left_at(shared.rows[across_of(along_k, tile_m, i)],
                                       table[k_of(along_k, tile_m, i)]);
        };
        const auto load_right = [&](bool along_k) {
#pragma unroll
            for (int i = 0; i < rights; ++i) {
                const int k = k_of(along_k, tile_n, i);
                next_right[i] =
                    right_at(across_of(along_k, tile_n, i), step * Tile::k + k, table[k]);
            }
        };
        if (job.left_along_k) load_left(true);
        else load_left(false);
        if (job.right_along_k) load_right(true);
        else load_right(false);
    };
    const auto keep = [&](int step) {
        float *const left_to = shared.left[step & 1], *const right_to = shared.right[step & 1];
        const auto keep_left = [&](bool along_k) {
#pragma unroll
            for (int i = 0; i < lefts; ++i)
                left_to[k_of(along_k, tile_m, i) * Tile::left_row + across_of(along_k, tile_m, i)] =
                    next_left[i];
        };
        const auto keep_right = [&](bool along_k) {
#pragma unroll
            for (int i = 0; i < rights; ++i)
                right_to[k_of(along_k, tile_n, i) * Tile::right_row +
                         across_of(along_k, tile_n, i)] = next_right[i];
        };
        if (job.left_along_k) keep_left(true);
        else keep_left(false);
        if (job.right_along_k) keep_right(true);
        else keep_right(false);
    };
    // By the threads of one warp, another one at each step.
    const auto list_inner = [&](int step) {
        const int lane = t - step % (tile_threads / 32) * 32, k = step * Tile::k + lane;
        if (lane >= 0 && lane < Tile::k && step < end)
            shared.inner[step & 1][lane] = k < k_count ? inner(k) : absent;
    };

    const int thread_m = job.rows_first ? t % Tile::threads_m : t / Tile::threads_n,
              thread_n = job.rows_first ? t / Tile::threads_m : t % Tile::threads_n;
    float sums[Tile::m][Tile::n] = {};
    list_inner(begin);
    list_inner(begin + 1);
    __syncthreads();
    if (begin < end) {
        load(begin);
        keep(begin);
    }
    __syncthreads();
    for (int step = begin; step < end; ++step) {
        if (step + 1 < end) load(step + 1);
        list_inner(step + 2);
        const float *const left_from = shared.left[step & 1], *const right_from =
                                                                  shared.right[step & 1];
#pragma unroll
        for (int k = 0; k < Tile::k; ++k) {
            float a[Tile::m], b[Tile::n];
#pragma unroll
            for (int i = 0; i < Tile::m; i += 4)
                *reinterpret_cast<float4*>(a + i) = *reinterpret_cast<const float4*>(
                    left_from + k * Tile::left_row + place_in_tile(thread_m, Tile::threads_m, i));
#pragma unroll
            for (int i = 0; i < Tile::n; i += 4)
                *reinterpret_cast<float4*>(b + i) = *reinterpret_cast<const float4*>(
                    right_from + k * Tile::right_row + place_in_tile(thread_n, Tile::threads_n, i));
#pragma unroll
            for (int i = 0; i < Tile::m; ++i)
#pragma unroll
                for (int j = 0; j < Tile::n; ++j) sums[i][j] += a[i] * b[j];
        }
        if (step + 1 < end) keep(step + 1);
        __syncthreads();
    }

    // Partial sums: of a split all tiles, of a tile an element of each thread beside the others'.
    const int tiles = static_cast<int>(gridDim.x) / (stage == Stage::part ? job.splits : 1);
    const auto part = [&](int of, int i, int j) -> float& {
        return job.scratch[((int64_t{of} * tiles + tile) * (Tile::m * Tile::n) + i * Tile::n + j) *
                               tile_threads +
                           t];
    };
    void* const to = of_weight ? job.weight : job.pixels;
    const int64_t to_group = of_weight ? weight_group : pixels_group;
    const int to_n = of_weight ? job.weight_pixels : job.pixels_c;
    uint64_t lost = 0;  // results that are nan
    static_assert(Tile::m * Tile::n <= 64);
#pragma unroll
    for (int i = 0; i < Tile::m; ++i) {
        const int m = place_in_tile(thread_m, Tile::threads_m, i);
        const int64_t at = to_group + shared.rows[m].other;
#pragma unroll
        for (int j = 0; j < Tile::n; ++j) {
            if (stage == Stage::part) {
                part(split, i, j) = sums[i][j];
                continue;
            }
            if (stage == Stage::join)
                for (int s = 0; s < job.splits; ++s) sums[i][j] += part(s, i, j);
            const int n = first_n + place_in_tile(thread_n, Tile::threads_n, j);
            if (first_m + m >= m_count || n >= n_count) continue;
            if (sums[i][j] != sums[i][j]) lost |= uint64_t{1} << (i * Tile::n + j);
            else finish(job, to, at + int64_t{n} * to_n, group * job.made + n, sums[i][j]);
        }
    }
    // A zero that lies around the image makes a nan of the infinite number that it meets. Such
    // results are summed again, of the pixels that are there.
#pragma unroll 1
    for (int number = 0; lost != 0; ++number, lost >>= 1) {
        if ((lost & 1) == 0) continue;
        const int m = place_in_tile(thread_m, Tile::threads_m, number / Tile::n),
                  n = place_in_tile(thread_n, Tile::threads_n, number % Tile::n);
        const Entry r = shared.rows[m];
        float sum = 0;
#pragma unroll 1
        for (int k = 0; k < k_count && sum == sum; ++k) {
            const Entry e = inner(k);
            if (is_inside(r, e)) sum += left_at(r, e) * right_at(n, k, e);
        }
        finish(job, to, to_group + r.other + int64_t{first_n + n} * to_n,
               group * job.made + first_n + n, sum);
    }
}

// ---- few channels in a group: each result by itself

// The place in the image that pixel q meets with a tap; -1: none.
__device__ inline int place_of(const ConvolutionJob& job, int d, int q, int tap) {
    const Spatial& s = job.spatial[d];
    int at = q * s.stride - s.padding + tap * s.dilation;
    if (job.transposed) {
        at = q + s.padding - tap * s.dilation;
        if (at % s.stride != 0) return -1;
        at /= s.stride;
    }
    return at >= 0 && at < s.image ? at : -1;
}

template <DType D>
__global__ void convolve_each(const __grid_constant__ ConvolutionJob job, int64_t count) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < count;
         number += all) {
        auto rest = static_cast<int>(number);
        int q[most_axes], channel = 0;
        if (job.channels_last) channel = take_digit(rest, job.groups * job.made);
        for (int d = most_axes; d-- > 0;) q[d] = take_digit(rest, job.spatial[d].pixels);
        if (!job.channels_last) channel = take_digit(rest, job.groups * job.made);
        const int group = channel / job.made, n = channel % job.made;
        const int64_t image =
                          int64_t{rest} * job.image_n + int64_t{group} * job.channels * job.image_c,
                      weight = int64_t{group} * job.weight_group + int64_t{n} * job.weight_pixels;
        float sum = 0;
        for (int i = 0; i < job.spatial[0].taps; ++i) {
            const int x0 = place_of(job, 0, q[0], i);
            if (x0 < 0) continue;
            for (int j = 0; j < job.spatial[1].taps; ++j) {
                const int x1 = place_of(job, 1, q[1], j);
                if (x1 < 0) continue;
                for (int k = 0; k < job.spatial[2].taps; ++k) {
                    const int x2 = place_of(job, 2, q[2], k);
                    if (x2 < 0) continue;
                    const int64_t from = image + x0 * job.image_d[0] + x1 * job.image_d[1] +
                                         x2 * job.image_d[2],
                                  by = weight + i * job.weight_d[0] + j * job.weight_d[1] +
                                       k * job.weight_d[2];
                    for (int c = 0; c < job.channels; ++c)
                        sum += number_at<D, float>(job.image, from + c * job.image_c) *
                               number_at<D, float>(job.weight, by + c * job.weight_image);
                }
            }
        }
        int64_t at = int64_t{rest} * job.pixels_n + int64_t{channel} * job.pixels_c;
        for (int d = 0; d < most_axes; ++d) at += q[d] * job.pixels_d[d];
        finish(job, job.pixels, at, channel, sum);
    }
}

// A block for each element of the weight's gradient.
template <DType D>
__global__ void convolve_each_weight(const __grid_constant__ ConvolutionJob job, int64_t count) {
    double* const shared = shared_memory<double>();
    for (int64_t number = blockIdx.x; number < count; number += gridDim.x) {
        auto rest = static_cast<int>(number);
        int tap[most_axes];
        for (int d = most_axes; d-- > 0;) tap[d] = take_digit(rest, job.spatial[d].taps);
        const int c = take_digit(rest, job.channels), channel = rest, group = channel / job.made;
        const int64_t image = (int64_t{group} * job.channels + c) * job.image_c,
                      pixels = int64_t{channel} * job.pixels_c;
        int all = job.images;
        for (const Spatial& s : job.spatial) all *= s.pixels;
        const double sum = over_row<Op_sum, double>(all, shared, [&](int64_t pixel) {
            auto left = static_cast<int>(pixel);
            int64_t from = image, at = pixels;
            bool inside = true;
            for (int d = most_axes; d-- > 0;) {
                const int q = take_digit(left, job.spatial[d].pixels),
                          place = place_of(job, d, q, tap[d]);
                inside = inside && place >= 0;
                from += int64_t{place} * job.image_d[d];
                at += int64_t{q} * job.pixels_d[d];
            }
            from += int64_t{left} * job.image_n;
            at += int64_t{left} * job.pixels_n;
            return inside ? number_at<D, double>(job.image, from) *
                                number_at<D, double>(job.pixels, at)
                          : 0.0;
        });
        if (threadIdx.x > 0) continue;
        int64_t to = int64_t{group} * job.weight_group +
                     int64_t{channel % job.made} * job.weight_pixels +
                     int64_t{c} * job.weight_image;
        for (int d = 0; d < most_axes; ++d) to += int64_t{tap[d]} * job.weight_d[d];
        finish(job, job.weight, to, channel, static_cast<float>(sum));
    }
}

// ---- on the host

static bool make_job(ConvolutionJob& job, const Args& args, Convolve kind) {
    const size_t rank = (args.sizes.size() - 4) / 3;
    const bool of_weight = kind == Convolve::weight;
    const Block &x = args.blocks[kind == Convolve::forward  ? 0
                                 : kind == Convolve::weight ? 1
                                                            : 2],
                &y = args.blocks[kind == Convolve::forward ? 3 : 0],
                &w = args.blocks[of_weight ? 2 : 1], &image = kind == Convolve::input ? y : x,
                &pixels = kind == Convolve::input ? x : y;
    const Block none{}, &bias = kind == Convolve::forward ? args.blocks[2] : none,
                        &result = of_weight                   ? w
                                  : kind == Convolve::forward ? y
                                                              : x,
                        &other = of_weight ? pixels : w;
    job.dtype = image.dtype;
    job.result = result.dtype;
    job.bias_dtype = bias.dtype;
    const auto known = [](DType d) { return is_floating(d) && d != DType::f64; };
    if (!known(job.dtype) || other.dtype != job.dtype || !known(job.result) ||
        (bias.data && !known(bias.dtype)))
        return false;
    if (!is_short(args)) return false;
    const Param* const params = args.params.data() + of_weight;
    job.groups = short_of(params[0].i);
    job.transposed = kind == Convolve::input;
    job.accumulate = of_weight && args.params[0].i != 0;
    job.images = short_of(args.sizes[0]);
    const int y_channels = short_of(args.sizes[1]) / job.groups,
              x_channels = short_of(args.sizes[2]) / job.groups;
    job.channels = job.transposed ? y_channels : x_channels;
    job.made = job.transposed ? x_channels : y_channels;
    job.image = image.data;
    job.pixels = pixels.data;
    job.weight = w.data;
    job.bias = bias.data;
    const size_t x_dim = 2, y_dim = 1, w_dim = job.groups > 1 ? 3 : 2;
    const size_t image_dim = job.transposed ? y_dim : x_dim,
                 pixels_dim = job.transposed ? x_dim : y_dim;
    job.image_n = short_of(image.strides[0]);
    job.image_c = short_of(image.strides[image_dim]);
    job.pixels_n = short_of(pixels.strides[0]);
    job.pixels_c = short_of(pixels.strides[pixels_dim]);
    job.weight_image = short_of(w.strides[job.transposed ? y_dim : w_dim]);
    job.weight_pixels = short_of(w.strides[job.transposed ? w_dim : y_dim]);
    job.weight_group = y_channels * short_of(w.strides[y_dim]);
    job.bias_c = bias.data ? short_of(bias.strides[1]) : 0;
    int64_t count = job.images, taps = job.channels;
    for (int d = 0; d < most_axes; ++d) {
        Spatial& s = job.spatial[d];
        s = {1, 0, 1, 1, 1, 1, 1, 1};
        const int own = d - (most_axes - static_cast<int>(rank));
        if (own < 0) continue;
        const auto o = static_cast<size_t>(own);
        const auto param = [&](size_t which) { return short_of(params[1 + which * rank + o].i); };
        const size_t y_at = 4 + o, x_at = 4 + rank + o, w_at = 4 + 2 * rank + o;
        const size_t image_at = job.transposed ? y_at : x_at,
                     pixels_at = job.transposed ? x_at : y_at;
        s = {param(0),
             param(1),
             param(2),
             short_of(args.sizes[w_at]),
             short_of(args.sizes[image_at]),
             short_of(args.sizes[pixels_at]),
             job.transposed ? param(0) : 1,
             param(0) / std::gcd(param(0), param(2))};
        job.image_d[d] = short_of(image.strides[image_at]);
        job.pixels_d[d] = short_of(pixels.strides[pixels_at]);
        job.weight_d[d] = short_of(w.strides[w_at]);
        count *= s.pixels;
        taps *= s.taps;
        if (!is_short(count) || !is_short(taps)) return false;
    }
    // Of each side, what lies beside each other: channels, or pixels.
    const int last = most_axes - 1;
    job.channels_last = lies_last(job.image_c, job.image_d[last], job.spatial[last].image);
    const bool pixels_last = lies_last(job.pixels_c, job.pixels_d[last], job.spatial[last].pixels);
    int of_k = job.weight_image;
    for (int d = 0; d < most_axes && !job.channels_last; ++d)
        if (job.spatial[d].taps > 1) of_k = job.weight_d[d];
    const bool taps_beside = std::abs(of_k) < std::abs(job.weight_pixels);
    job.left_along_k = of_weight != job.channels_last;
    job.right_along_k = of_weight ? !pixels_last : taps_beside;
    job.rows_first = of_weight ? taps_beside : !pixels_last;
    return is_short(count * job.made) && is_short(taps * job.made * job.groups);
}

template <DType D, bool of_weight>
static cudaError_t start_tiles(ConvolutionJob job, const CudaPlace& place) {
    constexpr int wanted = 256, least = 128;  // blocks; k of a split
    int64_t pixels = job.images, taps = job.channels, many = job.groups;
    for (int d = 0; d < most_axes; ++d) {
        const Axis a = axis_of(job, d, 0);  // no other phase has more pixels
        pixels *= a.count;
        taps *= a.taps;
        many *= job.spatial[d].phases;
    }
    const int64_t m = of_weight ? taps : pixels, k = of_weight ? pixels : taps;
    const auto parts = [](int64_t all, int64_t part) { return (all + part - 1) / part; };
    job.tiles_m = static_cast<int>(parts(m, tile_m));
    job.tiles_n = static_cast<int>(parts(job.made, tile_n));
    const int64_t tiles = many * job.tiles_m * job.tiles_n;
    if (!is_short(tiles)) return cudaErrorInvalidConfiguration;
    if (many == job.groups && tiles < wanted) {
        const int64_t steps = parts(k, Tile::k),
                      room = int64_t{CudaPlace::scratch_bytes} /
                             (tiles * tile_m * tile_n * int64_t{sizeof(float)}),
                      most = std::min({parts(wanted, tiles), parts(k, least), room});
        if (most > 1) job.splits = static_cast<int>(parts(steps, parts(steps, most)));
    }
    job.scratch = reinterpret_cast<float*>(place.scratch);
    const auto start = [&](Stage stage, int64_t blocks) {
        return launch<convolve_tiles<D, of_weight>>(dim3(static_cast<unsigned>(blocks)),
                                                    dim3(tile_threads), sizeof(Tile), place.stream,
                                                    job, stage);
    };
    if (job.splits == 1) return start(Stage::whole, tiles);
    const cudaError_t error = start(Stage::part, tiles * job.splits);
    return error != cudaSuccess ? error : start(Stage::join, tiles);
}

template <DType D, bool of_weight>
static cudaError_t start_as(const ConvolutionJob& job, const CudaPlace& place) {
    // For so few channels a tile would be empty for the most part
    constexpr int few_channels = 8;
    constexpr int64_t many_results = 4096, many_weights = 64;
    int64_t results = of_weight ? job.channels : job.images;
    for (const Spatial& s : job.spatial) results *= of_weight ? s.taps : s.pixels;
    results *= int64_t{job.made} * job.groups;
    if (job.made < few_channels && results >= (of_weight ? many_weights : many_results) &&
        is_short(results)) {
        if constexpr (of_weight)
            return launch<convolve_each_weight<D>>(grid_of(results, 1).blocks, dim3(row_threads),
                                                   row_threads * sizeof(double), place.stream, job,
                                                   results);
        else {
            const Grid grid = grid_of(results);
            return launch<convolve_each<D>>(grid.blocks, grid.threads, 0, place.stream, job,
                                            results);
        }
    }
    return start_tiles<D, of_weight>(job, place);
}

template <bool of_weight>
static cudaError_t start(const ConvolutionJob& job, const CudaPlace& place) {
    if (job.dtype == DType::f16) return start_as<DType::f16, of_weight>(job, place);
    if (job.dtype == DType::bf16) return start_as<DType::bf16, of_weight>(job, place);
    return start_as<DType::f32, of_weight>(job, place);
}

int convolve(const Args& args, const CudaPlace* place, Convolve kind) {
    for (int64_t size : args.sizes)
        if (size == 0) return not_on_device;
    ConvolutionJob job;
    if (!make_job(job, args, kind)) return not_on_device;
    if (!place) return 0;
    return status_of(
        args, kind == Convolve::weight ? start<true>(job, *place) : start<false>(job, *place));
}

}  // namespace nntile::kernels::cuda
