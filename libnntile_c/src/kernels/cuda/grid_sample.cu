// SPDX-License-Identifier: BSD-3-Clause
// Pixels at any places of images: a thread for each result. The gradient of an image has a thread
// for each pixel, which sums what comes to it in a core's order: what the places take is sorted by
// pixel before, in the scratch memory, so the bits never vary.
#include "kernels/cuda/images.hh"
#include "kernels/cuda/sorting.hh"
#include "kernels/grid_taps_isa.hh"

namespace nntile::kernels::cuda {

constexpr int channels_of_thread = 8;

struct GridImage {
    void* data;
    DType dtype;
    int64_t image, channel, place, axes[most_axes], number;  // strides
};
struct GridJob {
    int64_t images, channels, places, pixels;
    int dims, taps, axis_taps[most_axes];  // missing dims come first, with one tap
    int64_t sizes[most_axes];
    GridPadding padding;
    bool align_corners;
    int channels_each;  // of a thread
    GridImage x, grid, y, dy, dx, dgrid;
};

// What a place takes along each dim.
template <class T, GridMode mode>
struct GridTaps {
    static constexpr int most = static_cast<int>(taps_of(mode));
    int32_t elements[most_axes][most];
    T weights[most_axes][most], slopes[most_axes][most];

    __device__ GridTaps(const GridJob& job, int64_t image, int64_t place) {
        const int64_t at = image * job.grid.image + place * job.grid.place;
        for (int d = 0; d < most_axes; ++d) {
            elements[d][0] = 0;
            weights[d][0] = 1;
            slopes[d][0] = 0;
            if (d < most_axes - job.dims) continue;
            // The first number of a place is along the last dim of an image.
            const T x = real_at<T>(job.grid.data, job.grid.dtype,
                                   at + (most_axes - 1 - d) * job.grid.number);
            const GridDim<T> dim(static_cast<T>(job.sizes[d]), job.align_corners);
            const auto take = [&]<GridPadding padding>() {
                grid_taps<mode, padding>(dim, x, elements[d], weights[d], slopes[d], 1);
            };
            if (job.padding == GridPadding::zeros) take.template operator()<GridPadding::zeros>();
            else if (job.padding == GridPadding::border)
                take.template operator()<GridPadding::border>();
            else take.template operator()<GridPadding::reflection>();
        }
    }
    // body(tap, i, j, k): its numbers along the dims.
    template <class Body>
    __device__ void each(const GridJob& job, Body&& body) const {
        constexpr int unrolled = most > 2 ? 1 : most;  // so that few taps lie in registers
        int tap = 0;
#pragma unroll unrolled
        for (int i = 0; i < most; ++i) {
            if (i >= job.axis_taps[0]) break;
#pragma unroll unrolled
            for (int j = 0; j < most; ++j) {
                if (j >= job.axis_taps[1]) break;
#pragma unroll unrolled
                for (int k = 0; k < most; ++k)
                    if (k < job.axis_taps[2]) body(tap++, i, j, k);
            }
        }
    }
    __device__ bool inside(int i, int j, int k) const {
        return elements[0][i] >= 0 && elements[1][j] >= 0 && elements[2][k] >= 0;
    }
    __device__ T weight(int i, int j, int k) const {
        return weights[0][i] * weights[1][j] * weights[2][k];
    }
    __device__ T value(const GridJob& job, int64_t plane, int i, int j, int k) const {
        if (!inside(i, j, k)) return 0;
        return real_at<T>(job.x.data, job.x.dtype,
                          plane + elements[0][i] * job.x.axes[0] + elements[1][j] * job.x.axes[1] +
                              elements[2][k] * job.x.axes[2]);
    }
};

// An image, channels from `first` on, and a place or a pixel.
struct GridShare {
    int64_t image, first, end, own;
    __device__ GridShare(const GridJob& job, int64_t number, int64_t count) {
        own = take_place(number, count);
        const int64_t parts = (job.channels + job.channels_each - 1) / job.channels_each;
        first = take_place(number, parts) * job.channels_each;
        end = first + job.channels_each < job.channels ? first + job.channels_each : job.channels;
        image = number;
    }
};

template <class T, GridMode mode>
__global__ void sample_places(const __grid_constant__ GridJob job, int64_t count) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < count;
         number += all) {
        const GridShare share(job, number, job.places);
        const GridTaps<T, mode> taps(job, share.image, share.own);
        for (int64_t c = share.first; c < share.end; ++c) {
            const int64_t plane = share.image * job.x.image + c * job.x.channel;
            T sum = 0;
            taps.each(job, [&](int tap, int i, int j, int k) {
                const T term = taps.weight(i, j, k) * taps.value(job, plane, i, j, k);
                sum = tap == 0 ? term : sum + term;
            });
            set_real(job.y.data, job.y.dtype,
                     share.image * job.y.image + c * job.y.channel + share.own * job.y.place, sum);
        }
    }
}

template <class T, GridMode mode>
__global__ void slopes_of_places(const __grid_constant__ GridJob job) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
         number < job.images * job.places; number += all) {
        int64_t image = number;
        const int64_t place = take_place(image, job.places);
        const GridTaps<T, mode> taps(job, image, place);
        T sums[most_axes] = {};
        taps.each(job, [&](int, int i, int j, int k) {
            T along = 0;
            for (int64_t c = 0; c < job.channels; ++c)
                along +=
                    real_at<T>(job.dy.data, job.dy.dtype,
                               image * job.dy.image + c * job.dy.channel + place * job.dy.place) *
                    taps.value(job, image * job.x.image + c * job.x.channel, i, j, k);
            sums[0] += along * taps.slopes[0][i] * taps.weights[1][j] * taps.weights[2][k];
            sums[1] += along * taps.weights[0][i] * taps.slopes[1][j] * taps.weights[2][k];
            sums[2] += along * taps.weights[0][i] * taps.weights[1][j] * taps.slopes[2][k];
        });
        for (int d = most_axes - job.dims; d < most_axes; ++d)
            set_real(job.dgrid.data, job.dgrid.dtype,
                     image * job.dgrid.image + place * job.dgrid.place +
                         (most_axes - 1 - d) * job.dgrid.number,
                     sums[d]);
    }
}

// What some places of some images take, sorted by pixel, then in a core's order: a row for each
// image.
struct TakenPixels {
    PlacedRows rows;
    void* weights;
    int64_t first_image, first_place, places;

    // A core takes some places at a time, and of these one tap after the other.
    __device__ int64_t number_of(int64_t place, int tap, int taps) const {
        const int64_t in = place % grid_places, begin = place - in;
        const int64_t n = places - begin < grid_places ? places - begin : grid_places;
        return begin * taps + tap * n + in;
    }
    __device__ int64_t place_of(uint32_t number, int taps) const {
        const uint32_t all = static_cast<uint32_t>(grid_places) * static_cast<uint32_t>(taps);
        const int64_t begin = int64_t{number / all} * grid_places;
        const int64_t n = places - begin < grid_places ? places - begin : grid_places;
        return begin + number % all % static_cast<uint32_t>(n);
    }
};

template <class T, GridMode mode>
__global__ void list_taken(const __grid_constant__ GridJob job,
                           const __grid_constant__ TakenPixels taken) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
         number < taken.rows.count * taken.places; number += all) {
        int64_t image = number;
        const int64_t place = take_place(image, taken.places);
        const GridTaps<T, mode> taps(job, taken.first_image + image, taken.first_place + place);
        uint64_t* const keys = taken.rows.row(image);
        T* const weights = static_cast<T*>(taken.weights) + image * taken.rows.d;
        taps.each(job, [&](int tap, int i, int j, int k) {
            const int64_t at = taken.number_of(place, tap, job.taps);
            const int64_t pixel =
                (taps.elements[0][i] * job.sizes[1] + taps.elements[1][j]) * job.sizes[2] +
                taps.elements[2][k];
            keys[at] = taps.inside(i, j, k) ? PlacedRows::key(pixel, at) : PlacedRows::nowhere;
            weights[at] = taps.weight(i, j, k);
        });
    }
}

template <class T>
__global__ void sum_pixels(const __grid_constant__ GridJob job,
                           const __grid_constant__ TakenPixels taken, int64_t count) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < count;
         number += all) {
        const GridShare share(job, number, job.pixels);
        const int64_t pixel = share.own;
        const uint64_t* const keys = taken.rows.row(share.image);
        const T* const weights = static_cast<const T*>(taken.weights) + share.image * taken.rows.d;
        int64_t low = 0, high = taken.rows.d;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (PlacedRows::place_of(keys[middle]) < pixel) low = middle + 1;
            else high = middle;
        }
        int64_t rest = pixel, to = 0;
        for (int d = most_axes; d-- > 0;) to += take_place(rest, job.sizes[d]) * job.dx.axes[d];
        const int64_t image = taken.first_image + share.image;
        to += image * job.dx.image + share.first * job.dx.channel;
        const int channels = static_cast<int>(share.end - share.first);
        const bool again = taken.first_place > 0;
        T sums[channels_of_thread] = {};
#pragma unroll
        for (int c = 0; c < channels_of_thread; ++c)
            if (again && c < channels)
                sums[c] = real_at<T>(job.dx.data, job.dx.dtype, to + c * job.dx.channel);
        for (; low < taken.rows.d && PlacedRows::place_of(keys[low]) == pixel; ++low) {
            const uint32_t of_place = PlacedRows::number_of(keys[low]);
            const T weight = weights[of_place];
            const int64_t from =
                image * job.dy.image + share.first * job.dy.channel +
                (taken.first_place + taken.place_of(of_place, job.taps)) * job.dy.place;
#pragma unroll
            for (int c = 0; c < channels_of_thread; ++c)
                if (c < channels)
                    sums[c] +=
                        weight * real_at<T>(job.dy.data, job.dy.dtype, from + c * job.dy.channel);
        }
#pragma unroll
        for (int c = 0; c < channels_of_thread; ++c)
            if (c < channels) set_real(job.dx.data, job.dx.dtype, to + c * job.dx.channel, sums[c]);
    }
}

// ---- on the host

static GridImage image_of(const Args& args, const Block& b) {
    const size_t spatial = args.sizes.size() - 4;
    GridImage image{b.data, b.dtype, b.strides[0], b.strides[1], b.strides[2], {}, 0};
    for (size_t d = 0; d < spatial; ++d) image.axes[most_axes - spatial + d] = b.strides[3 + d];
    image.number = b.strides[3 + spatial];
    return image;
}
static GridMode mode_of(const Args& args) { return static_cast<GridMode>(args.params[0].i); }

static bool make_grid_job(GridJob& job, const Args& args) {
    const size_t spatial = args.sizes.size() - 4;
    if (spatial > most_axes || args.numbers != 0) return false;
    for (const Block& b : args.blocks)
        if (!is_floating(b.dtype)) return false;
    job.images = args.sizes[0];
    job.channels = args.sizes[1];
    job.places = args.sizes[2];
    job.dims = static_cast<int>(spatial);
    job.padding = static_cast<GridPadding>(args.params[1].i);
    job.align_corners = args.params[2].i != 0;
    job.pixels = job.taps = 1;
    for (size_t d = 0; d < most_axes; ++d) {
        const bool given = d >= most_axes - spatial;
        job.sizes[d] = given ? args.sizes[3 + d - (most_axes - spatial)] : 1;
        job.axis_taps[d] = given ? static_cast<int>(taps_of(mode_of(args))) : 1;
        job.pixels *= job.sizes[d];
        job.taps *= job.axis_taps[d];
    }
    // Taps are found once for some channels, if there is enough to do for many threads.
    constexpr int64_t many = 1 << 18;
    const int64_t results = job.images * job.channels * std::max(job.places, job.pixels);
    job.channels_each = results > many ? channels_of_thread : 1;
    return is_short(job.pixels);
}
static int64_t parts_of(const GridJob& job) {
    return (job.channels + job.channels_each - 1) / job.channels_each;
}

// start(T{}, mode), a constant
template <class Start>
static int start_by_mode(const Args& args, Start&& start) {
    const auto of = [&]<class T>(T x) {
        switch (mode_of(args)) {
#define DO(mode) \
    case GridMode::mode: return start(x, std::integral_constant<GridMode, GridMode::mode>{});
            DO(bilinear)
            DO(nearest)
            default: DO(bicubic)
#undef DO
        }
    };
    return status_of(args, args.blocks[0].dtype == DType::f64 ? of(double{}) : of(float{}));
}

template <class T, GridMode mode>
static cudaError_t start_backward(const GridJob& job, const CudaPlace& place, int64_t each) {
    Grid grid = grid_of(job.images * job.places);
    cudaError_t error = cudaSuccess;
    if (job.places > 0)
        error = launch<slopes_of_places<T, mode>>(grid.blocks, grid.threads, 0, place.stream, job);
    const auto room =
        static_cast<int64_t>(CudaPlace::scratch_bytes / (sizeof(uint64_t) + sizeof(T)));
    const int64_t images =
        each < job.places ? 1 : room / std::max<int64_t>(job.places * job.taps, 1);
    TakenPixels taken;
    taken.rows.keys = reinterpret_cast<uint64_t*>(place.scratch);
    for (int64_t i = 0; i < job.images && error == cudaSuccess; i += images) {
        taken.first_image = i;
        taken.rows.count = std::min(images, job.images - i);
        for (int64_t first = 0; error == cudaSuccess && (first == 0 || first < job.places);
             first += each) {
            taken.first_place = first;
            taken.places = std::min(each, job.places - first);
            taken.rows.d = taken.places * job.taps;
            taken.weights = taken.rows.keys + taken.rows.count * taken.rows.d;
            if (taken.rows.d > 0) {
                grid = grid_of(taken.rows.count * taken.places);
                error = launch<list_taken<T, mode>>(grid.blocks, grid.threads, 0, place.stream, job,
                                                    taken);
                if (error == cudaSuccess) error = start_sort(taken.rows, place.stream);
            }
            const int64_t count = taken.rows.count * parts_of(job) * job.pixels;
            grid = grid_of(count);
            if (count > 0 && error == cudaSuccess)
                error = launch<sum_pixels<T>>(grid.blocks, grid.threads, 0, place.stream, job,
                                              taken, count);
        }
    }
    return error;
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(grid_sample) {
    using namespace cuda;
    GridJob job;
    if (!make_grid_job(job, args)) return not_on_device;
    job.x = image_of(args, args.blocks[0]);
    job.grid = image_of(args, args.blocks[1]);
    job.y = image_of(args, args.blocks[2]);
    const int64_t count = job.images * parts_of(job) * job.places;
    if (!place || count == 0) return 0;
    return start_by_mode(args,
                         [&]<class T, GridMode mode>(T, std::integral_constant<GridMode, mode>) {
                             const Grid grid = grid_of(count);
                             return launch<sample_places<T, mode>>(grid.blocks, grid.threads, 0,
                                                                   place->stream, job, count);
                         });
}

NNTILE_CUDA_KERNEL(grid_sample_backward) {
    using namespace cuda;
    GridJob job;
    if (!make_grid_job(job, args)) return not_on_device;
    job.dy = image_of(args, args.blocks[0]);
    job.x = image_of(args, args.blocks[1]);
    job.grid = image_of(args, args.blocks[2]);
    job.dx = image_of(args, args.blocks[3]);
    job.dgrid = image_of(args, args.blocks[4]);
    // As many places at a time as have room. What is stored between them must be exact.
    const size_t of_tap = sizeof(uint64_t) + (job.dy.dtype == DType::f64 ? 8 : 4);
    const auto most = static_cast<int64_t>(CudaPlace::scratch_bytes / of_tap) / job.taps /
                      grid_places * grid_places;
    const bool whole = job.places <= most;
    if (!whole && (is_short_float(job.dx.dtype) || is_short_float(job.dy.dtype)))
        return not_on_device;
    if (!place || job.images == 0) return 0;
    return start_by_mode(args,
                         [&]<class T, GridMode mode>(T, std::integral_constant<GridMode, mode>) {
                             return start_backward<T, mode>(
                                 job, *place, whole ? std::max<int64_t>(job.places, 1) : most);
                         });
}

}  // namespace nntile::kernels
