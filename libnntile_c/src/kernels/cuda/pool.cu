// SPDX-License-Identifier: BSD-3-Clause
// Pooling and its gradients: a thread for each pixel of the result. That of an image gathers from
// the windows that have it, in their order.
#include <limits>

#include "kernels/cuda/images.hh"

namespace nntile::kernels::cuda {

// One spatial dim: of the image, and of its windows. Without a size windows are adaptive.
struct PoolDim {
    int image, windows;
    int size, stride, padding, dilation;
};
struct PoolJob {
    PoolDim dims[most_axes];
    int images = 0, channels = 0;
    bool channels_last = false;
    // Strides and blocks of what lies by pixels, by windows, and of indices, which do so too.
    struct Operand {
        void* data;
        DType dtype;
        int n, c, d[most_axes];
    } image, windows, indices;
    int divisor = 0;
    bool with_padding = false;
    Refused* refused = nullptr;
    int* elsewhere = nullptr;  // not 0: an index leads out of its window

    NNTILE_FN int pixels() const { return dims[0].image * dims[1].image * dims[2].image; }
};

// As Span of pool.hh.
struct PoolSpan {
    int begin, end, step, padded;
};
NNTILE_FN inline PoolSpan span_of(const PoolDim& d, int window) {
    if (d.size == 0) {
        const auto from = [&](int64_t o) { return o * d.image; };
        const int begin = static_cast<int>(from(window) / d.windows),
                  end = static_cast<int>((from(window + 1) + d.windows - 1) / d.windows);
        return {begin, end, 1, end - begin};
    }
    int begin = window * d.stride - d.padding;
    const int end = std::min(begin + (d.size - 1) * d.dilation + 1, d.image + d.padding),
              padded = end - begin;
    if (begin < 0) begin += (-begin + d.dilation - 1) / d.dilation * d.dilation;
    return {begin, std::min(end, d.image), d.dilation, padded};
}
// The windows that may have a pixel: the first one, and the one behind the last.
struct WindowsOf {
    int begin, end;
};
NNTILE_FN inline WindowsOf windows_of(const PoolDim& d, int pixel) {
    if (d.size == 0) {
        const auto from = [&](int64_t p) { return p * d.windows; };
        return {static_cast<int>(from(pixel) / d.image),
                static_cast<int>((from(pixel + 1) - 1) / d.image) + 1};
    }
    const int last = pixel + d.padding, first = last - (d.size - 1) * d.dilation;
    return {first > 0 ? (first + d.stride - 1) / d.stride : 0,
            std::min(last / d.stride + 1, d.windows)};
}
NNTILE_FN inline bool has(const PoolDim& d, int window, int pixel) {
    const PoolSpan s = span_of(d, window);
    return pixel >= s.begin && pixel < s.end && (pixel - s.begin) % s.step == 0;
}

template <class T>
NNTILE_FN T divisor_of(const PoolJob& job, const PoolSpan& a, const PoolSpan& b,
                       const PoolSpan& c) {
    if (job.divisor != 0) return static_cast<T>(job.divisor);
    const auto inside = [](const PoolSpan& s) { return std::max(s.end - s.begin, 0); };
    const int64_t count = job.with_padding ? int64_t{a.padded} * b.padded * c.padded
                                           : int64_t{inside(a)} * inside(b) * inside(c);
    return static_cast<T>(count);
}

// Where element `number` of a result is.
struct PoolPlace {
    int n, c, at[most_axes];

    __device__ PoolPlace(const PoolJob& job, int64_t number, bool of_image) {
        auto rest = static_cast<int>(number);
        if (job.channels_last) c = take_digit(rest, job.channels);
        for (int d = most_axes; d-- > 0;)
            at[d] = take_digit(rest, of_image ? job.dims[d].image : job.dims[d].windows);
        if (!job.channels_last) c = take_digit(rest, job.channels);
        n = rest;
    }
    __device__ int64_t plane(const PoolJob::Operand& o) const {
        return int64_t{n} * o.n + int64_t{c} * o.c;
    }
    __device__ int64_t in(const PoolJob::Operand& o) const {
        return plane(o) + at[0] * o.d[0] + at[1] * o.d[1] + at[2] * o.d[2];
    }
};

template <class Body>  // body(offset in the plane, place in it) for each pixel of a window
__device__ void each_pixel(const PoolJob& job, const PoolSpan& a, const PoolSpan& b,
                           const PoolSpan& c, Body&& body) {
    const int* const step = job.image.d;
    for (int i = a.begin; i < a.end; i += a.step)
        for (int j = b.begin; j < b.end; j += b.step) {
            const int row = (i * job.dims[1].image + j) * job.dims[2].image;
            for (int k = c.begin; k < c.end; k += c.step)
                body(i * step[0] + j * step[1] + k * step[2], row + k);
        }
}
// body(window along each dim) for those that may have a pixel, or for all of a plane.
template <class Body>
__device__ void each_window(const PoolJob& job, const int* pixel, bool any, Body&& body) {
    WindowsOf of[most_axes];
    for (int d = 0; d < most_axes; ++d)
        of[d] = any ? WindowsOf{0, job.dims[d].windows} : windows_of(job.dims[d], pixel[d]);
    for (int i = of[0].begin; i < of[0].end; ++i)
        for (int j = of[1].begin; j < of[1].end; ++j)
            for (int k = of[2].begin; k < of[2].end; ++k) body(i, j, k);
}

template <class T>
__global__ void pool_max(const __grid_constant__ PoolJob job, int64_t count) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < count;
         number += all) {
        const PoolPlace here(job, number, false);
        const PoolSpan a = span_of(job.dims[0], here.at[0]), b = span_of(job.dims[1], here.at[1]),
                       c = span_of(job.dims[2], here.at[2]);
        const int64_t plane = here.plane(job.image);
        T largest = -std::numeric_limits<T>::infinity();
        int place = (a.begin * job.dims[1].image + b.begin) * job.dims[2].image + c.begin;
        each_pixel(job, a, b, c, [&](int offset, int at) {
            const T value = real_at<T>(job.image.data, job.image.dtype, plane + offset);
            if (value > largest || value != value) {
                largest = value;
                place = at;
            }
        });
        set_real(job.windows.data, job.windows.dtype, here.in(job.windows), largest);
        static_cast<int64_t*>(job.indices.data)[here.in(job.indices)] = place;
    }
}

// What indices are there: those that lead nowhere are refused.
__global__ void pool_check_indices(const __grid_constant__ PoolJob job, int64_t count) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    const auto* const indices = static_cast<const int64_t*>(job.indices.data);
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < count;
         number += all) {
        const PoolPlace here(job, number, false);
        const int64_t place = indices[here.in(job.indices)];
        if (place < 0 || place >= job.pixels()) {
            refuse_at(job.refused, {Refusal::pooled, place, job.pixels()});
            continue;
        }
        auto pixel = static_cast<int>(place);
        bool inside = true;
        for (int d = most_axes; d-- > 0;)
            inside = has(job.dims[d], here.at[d], take_digit(pixel, job.dims[d].image)) && inside;
        if (!inside) *job.elsewhere = 1;
    }
}
template <class T>
__global__ void pool_max_backward(const __grid_constant__ PoolJob job, int64_t count) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    const auto* const indices = static_cast<const int64_t*>(job.indices.data);
    const bool anywhere = *job.elsewhere != 0;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < count;
         number += all) {
        const PoolPlace here(job, number, true);
        const int64_t plane = here.plane(job.windows), index_plane = here.plane(job.indices),
                      own = (here.at[0] * job.dims[1].image + here.at[1]) * job.dims[2].image +
                            here.at[2];
        T sum = 0;
        const auto add = [&](int i, int j, int k) {
            const int* const at = job.indices.d;
            if (indices[index_plane + i * at[0] + j * at[1] + k * at[2]] != own) return;
            const int* const step = job.windows.d;
            sum += real_at<T>(job.windows.data, job.windows.dtype,
                              plane + i * step[0] + j * step[1] + k * step[2]);
        };
        each_window(job, here.at, anywhere, add);
        set_real(job.image.data, job.image.dtype, here.in(job.image), sum);
    }
}

template <class T>
__global__ void pool_average(const __grid_constant__ PoolJob job, int64_t count) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < count;
         number += all) {
        const PoolPlace here(job, number, false);
        const PoolSpan a = span_of(job.dims[0], here.at[0]), b = span_of(job.dims[1], here.at[1]),
                       c = span_of(job.dims[2], here.at[2]);
        const int64_t plane = here.plane(job.image);
        T sum = 0;
        each_pixel(job, a, b, c, [&](int offset, int) {
            sum += real_at<T>(job.image.data, job.image.dtype, plane + offset);
        });
        set_real(job.windows.data, job.windows.dtype, here.in(job.windows),
                 sum / divisor_of<T>(job, a, b, c));
    }
}

template <class T>
__global__ void pool_average_backward(const __grid_constant__ PoolJob job, int64_t count) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < count;
         number += all) {
        const PoolPlace here(job, number, true);
        const int64_t plane = here.plane(job.windows);
        T sum = 0;
        each_window(job, here.at, false, [&](int i, int j, int k) {
            if (!has(job.dims[0], i, here.at[0]) || !has(job.dims[1], j, here.at[1]) ||
                !has(job.dims[2], k, here.at[2]))
                return;
            const int* const step = job.windows.d;
            const T dy = real_at<T>(job.windows.data, job.windows.dtype,
                                    plane + i * step[0] + j * step[1] + k * step[2]);
            sum += dy / divisor_of<T>(job, span_of(job.dims[0], i), span_of(job.dims[1], j),
                                      span_of(job.dims[2], k));
        });
        set_real(job.image.data, job.image.dtype, here.in(job.image), sum);
    }
}

// ---- on the host

// params: those of the windows, or none. Operands: which of the blocks; without indices as windows.
static bool make_pool_job(PoolJob& job, const Args& args, std::span<const Param> params,
                          size_t image, size_t windows, size_t indices) {
    const size_t rank = (args.sizes.size() - 2) / 2;
    const DType dtype = args.blocks[image].dtype;
    if (!is_floating(dtype) || args.blocks[windows].dtype != dtype || !is_short(args)) return false;
    job.images = short_of(args.sizes[0]);
    job.channels = short_of(args.sizes[1]);
    PoolJob::Operand* const operands[] = {&job.image, &job.windows, &job.indices};
    const size_t blocks[] = {image, windows, indices};
    for (size_t k = 0; k < 3; ++k) {
        const Block& b = args.blocks[blocks[k]];
        *operands[k] = {b.data, b.dtype, short_of(b.strides[0]), short_of(b.strides[1]), {}};
    }
    int64_t all_pixels = args.sizes[0] * args.sizes[1], all_windows = all_pixels;
    for (int d = 0; d < most_axes; ++d) {
        PoolDim& own = job.dims[d];
        own = {1, 1, 1, 1, 0, 1};
        if (d < most_axes - static_cast<int>(rank)) continue;
        const auto o = static_cast<size_t>(d) - (most_axes - rank);
        const auto param = [&](size_t which) {
            return params.empty() ? 0 : short_of(params[which * rank + o].i);
        };
        own = {short_of(args.sizes[2 + rank + o]),
               short_of(args.sizes[2 + o]),
               param(0),
               param(1),
               param(2),
               param(3)};
        for (size_t k = 0; k < 3; ++k)
            operands[k]->d[d] =
                short_of(args.blocks[blocks[k]].strides[(k > 0 ? 2 : 2 + rank) + o]);
        all_pixels *= own.image;
        all_windows *= own.windows;
        if (!is_short(all_pixels) || !is_short(all_windows)) return false;
    }
    constexpr int last = most_axes - 1;
    job.channels_last = lies_last(job.image.c, job.image.d[last], job.dims[last].image);
    return true;
}
static int64_t count_of(const PoolJob& job, bool of_image) {
    int64_t count = int64_t{job.images} * job.channels;
    for (const PoolDim& d : job.dims) count *= of_image ? d.image : d.windows;
    return count;
}

template <auto wide, auto narrow>
static int start_pool(const Args& args, const CudaPlace& place, const PoolJob& job, bool of_image) {
    const int64_t count = count_of(job, of_image);
    if (count == 0) return 0;
    const Grid grid = grid_of(count);
    return status_of(args,
                     job.image.dtype == DType::f64
                         ? launch<wide>(grid.blocks, grid.threads, 0, place.stream, job, count)
                         : launch<narrow>(grid.blocks, grid.threads, 0, place.stream, job, count));
}

template <auto wide, auto narrow>
static int start_average(const Args& args, const CudaPlace* place, bool backward) {
    PoolJob job;
    if (!make_pool_job(job, args, args.params.subspan(2), backward, !backward, !backward) ||
        !is_short(args.params[0].i))
        return not_on_device;
    job.divisor = short_of(args.params[0].i);
    job.with_padding = args.params[1].i != 0;
    return place ? start_pool<wide, narrow>(args, *place, job, backward) : 0;
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(max_pool) {
    cuda::PoolJob job;
    if (!make_pool_job(job, args, args.params, 0, 1, 2)) return not_on_device;
    if (!place) return 0;
    return cuda::start_pool<cuda::pool_max<double>, cuda::pool_max<float>>(args, *place, job,
                                                                           false);
}
NNTILE_CUDA_KERNEL(max_pool_backward) {
    cuda::PoolJob job;
    if (!make_pool_job(job, args, args.params, 2, 0, 1)) return not_on_device;
    if (!place) return 0;
    if (const cudaError_t error = place->watch(job.refused)) return status_of(args, error);
    job.elsewhere = reinterpret_cast<int*>(place->scratch);
    if (const cudaError_t error =
            cudaMemsetAsync(job.elsewhere, 0, sizeof *job.elsewhere, place->stream))
        return status_of(args, error);
    if (const int status = cuda::start_pool<cuda::pool_check_indices, cuda::pool_check_indices>(
            args, *place, job, false))
        return status;
    return cuda::start_pool<cuda::pool_max_backward<double>, cuda::pool_max_backward<float>>(
        args, *place, job, true);
}
NNTILE_CUDA_KERNEL(avg_pool) {
    return cuda::start_average<cuda::pool_average<double>, cuda::pool_average<float>>(args, place,
                                                                                      false);
}
NNTILE_CUDA_KERNEL(avg_pool_backward) {
    return cuda::start_average<cuda::pool_average_backward<double>,
                               cuda::pool_average_backward<float>>(args, place, true);
}

}  // namespace nntile::kernels
