// SPDX-License-Identifier: BSD-3-Clause
// What norms of images need: sums of channels, in double and joined in one order, and what is done
// to each pixel with numbers of its channel.
#include <algorithm>
#include <utility>

#include "kernels/cuda/images.hh"
#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {

// A block has `lanes` channels beside each other; of each, threads / lanes threads sum a split of
// the others' elements.
struct ChannelJob {
    Job<5> kept;     // x, y, shift?, first, second over the dims that stay
    Job<2> reduced;  // x and y over the others
    bool accumulate = false, shifted = false;
    int lanes = 1, splits = 1;
    double* scratch = nullptr;
};
constexpr int channel_threads = 256;

struct ChannelSums {
    double first = 0, second = 0;
};
template <int n>
__device__ void add_place(const Job<n>& job, int64_t number, int64_t* at, int operands) {
    for (int d = job.dims; d-- > 0;) {
        const int64_t place = take_place(number, job.sizes[d]);
        for (int k = 0; k < operands; ++k) at[k] += place * job.blocks[k].strides[d];
    }
}

__global__ void channel_sums_of_splits(const __grid_constant__ ChannelJob job) {
    auto* const shared = shared_memory<ChannelSums>();
    const int lane = static_cast<int>(threadIdx.x) % job.lanes,
              row = static_cast<int>(threadIdx.x) / job.lanes, rows = channel_threads / job.lanes;
    const int64_t blocks = (job.kept.count + job.lanes - 1) / job.lanes;
    for (int64_t block = blockIdx.x; block < blocks * job.splits; block += gridDim.x) {
        const int64_t channel = block % blocks * job.lanes + lane, split = block / blocks;
        ChannelSums sums;
        if (channel < job.kept.count) {
            int64_t at[3] = {};
            add_place(job.kept, channel, at, 3);
            const double shift = job.shifted ? load_as<double>(job.kept.blocks[2], at[2]) : 0;
            const int64_t size = (job.reduced.count + job.splits - 1) / job.splits,
                          end = std::min((split + 1) * size, job.reduced.count);
            for (int64_t e = split * size + row; e < end; e += rows) {
                int64_t of[2] = {at[0], at[1]};
                add_place(job.reduced, e, of, 2);
                const auto x = real_at<double>(job.reduced.blocks[0].data,
                                               job.reduced.blocks[0].dtype, of[0]),
                           y = real_at<double>(job.reduced.blocks[1].data,
                                               job.reduced.blocks[1].dtype, of[1]);
                sums.first += x;
                sums.second += x * (y - shift);
            }
        }
        __syncthreads();  // what was there before is read
        shared[threadIdx.x] = sums;
        for (int half = rows / 2; half > 0; half /= 2) {
            __syncthreads();
            if (row >= half) continue;
            const ChannelSums other = shared[threadIdx.x + static_cast<unsigned>(half * job.lanes)];
            shared[threadIdx.x].first += other.first;
            shared[threadIdx.x].second += other.second;
        }
        if (row > 0 || channel >= job.kept.count) continue;
        double* const to = job.scratch + 2 * (split * job.kept.count + channel);
        to[0] = shared[threadIdx.x].first;
        to[1] = shared[threadIdx.x].second;
    }
}
__global__ void channel_sums_join(const __grid_constant__ ChannelJob job) {
    const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (channel >= job.kept.count) return;
    int64_t at[5] = {};
    add_place(job.kept, channel, at, 5);
    auto* const first = static_cast<double*>(job.kept.blocks[3].data) + at[3];
    auto* const second = static_cast<double*>(job.kept.blocks[4].data) + at[4];
    ChannelSums sums;
    if (job.accumulate) sums = {*first, *second};
    for (int64_t split = 0; split < job.splits; ++split) {
        const double* const from = job.scratch + 2 * (split * job.kept.count + channel);
        sums.first += from[0];
        sums.second += from[1];
    }
    *first = sums.first;
    *second = sums.second;
}

enum BlendOperand { blend_a, blend_b, blend_p, blend_q, blend_s, blend_r, blend_y, blend_operands };

// In the order of the CPU's program: r + (b - s) * q, then + a * p.
template <class T>
__global__ void blend_channels(const __grid_constant__ Job<blend_operands> job) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    const bool two = job.blocks[blend_b].data != nullptr;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < job.count;
         number += all) {
        int64_t at[blend_operands] = {};
        add_place(job, number, at, blend_operands);
        const auto get = [&](int k) {
            return real_at<T>(job.blocks[k].data, job.blocks[k].dtype, at[k]);
        };
        T y = get(blend_r);
        if (two) y += (get(blend_b) - get(blend_s)) * get(blend_q);
        y += get(blend_a) * get(blend_p);
        set_real(job.blocks[blend_y].data, job.blocks[blend_y].dtype, at[blend_y], y);
    }
}

// ---- group norm: a block for each group of an image, of which the last two dims are left.
// Operands: x, weight?, bias? -> y, mean, rstd; dy, x, mean, rstd, weight? -> dx, sums of dy times
// the normal, sums of dy.
constexpr int group_operands = 8;
struct GroupJob {
    Job<group_operands> groups;
    bool present[group_operands] = {};
    int channel[group_operands] = {}, pixel[group_operands] = {};  // strides
    int channels = 0, pixels = 0;
};
struct GroupOf {
    const GroupJob& job;
    int64_t at[group_operands] = {};

    __device__ GroupOf(const GroupJob& j, int64_t number) : job(j) {
        add_place(j.groups, number, at, group_operands);
    }
    __device__ int64_t place(int k, int c, int p) const {
        return at[k] + int64_t{c} * job.channel[k] + int64_t{p} * job.pixel[k];
    }
    template <class T>
    __device__ T get(int k, int c = 0, int p = 0) const {
        const JobBlock& b = job.groups.blocks[k];
        return real_at<T>(b.data, b.dtype, place(k, c, p));
    }
    __device__ double number(int k, int c, double absent) const {
        return job.present[k] ? get<double>(k, c) : absent;
    }
    template <class T>
    __device__ void set(int k, int c, int p, T value) const {
        const JobBlock& b = job.groups.blocks[k];
        set_real(b.data, b.dtype, place(k, c, p), value);
    }
    template <class Value>  // of all elements of a group
    __device__ double sum(double* shared, Value&& value) const {
        return over_row<Op_sum, double>(int64_t{job.channels} * job.pixels, shared, [&](int64_t j) {
            auto c = static_cast<int>(j);
            const int p = take_digit(c, job.pixels);
            return value(c, p);
        });
    }
};

template <class T>
__global__ void norm_groups(const __grid_constant__ GroupJob job, double eps) {
    double* const shared = shared_memory<double>();
    const int elements = job.channels * job.pixels;
    for (int64_t number = blockIdx.x; number < job.groups.count; number += gridDim.x) {
        const GroupOf group(job, number);
        const auto x = [&](int c, int p) { return group.template get<double>(0, c, p); };
        const double mean = group.sum(shared, x) / elements;
        const double squares =
            group.sum(shared, [&](int c, int p) { return (x(c, p) - mean) * (x(c, p) - mean); });
        const double rstd = 1 / std::sqrt(squares / elements + eps);
        for (int j = static_cast<int>(threadIdx.x); j < elements; j += channel_threads) {
            int c = j;
            const int p = take_digit(c, job.pixels);
            const double scale = rstd * group.number(1, c, 1),
                         offset = group.number(2, c, 0) - mean * scale;
            group.set(
                3, c, p,
                static_cast<T>(scale) * group.template get<T>(0, c, p) + static_cast<T>(offset));
        }
        if (threadIdx.x > 0) continue;
        group.set(4, 0, 0, mean);
        group.set(5, 0, 0, rstd);
    }
}

template <class T>
__global__ void norm_groups_backward(const __grid_constant__ GroupJob job) {
    double* const shared = shared_memory<double>();
    const int elements = job.channels * job.pixels;
    for (int64_t number = blockIdx.x; number < job.groups.count; number += gridDim.x) {
        const GroupOf group(job, number);
        const auto mean = group.template get<double>(2), rstd = group.template get<double>(3);
        double level = 0, bend = 0;
        for (int c = 0; c < job.channels; ++c) {
            const auto dy = [&](int64_t p) {
                return group.template get<double>(0, c, static_cast<int>(p));
            };
            const double flat = over_row<Op_sum, double>(job.pixels, shared, dy);
            const double sloped = over_row<Op_sum, double>(job.pixels, shared, [&](int64_t p) {
                return dy(p) * (group.template get<double>(1, c, static_cast<int>(p)) - mean) *
                       rstd;
            });
            const double weight = group.number(4, c, 1);
            level += weight * flat;
            bend += weight * sloped;
            if (threadIdx.x > 0) continue;
            group.set(6, c, 0, sloped);
            group.set(7, c, 0, flat);
        }
        const double slope = -rstd * rstd * bend / elements,
                     offset = -rstd * level / elements - slope * mean;
        for (int j = static_cast<int>(threadIdx.x); j < elements; j += channel_threads) {
            int c = j;
            const int p = take_digit(c, job.pixels);
            const double factor = rstd * group.number(4, c, 1);
            group.set(5, c, p,
                      static_cast<T>(factor) * group.template get<T>(0, c, p) +
                          static_cast<T>(slope) * group.template get<T>(1, c, p) +
                          static_cast<T>(offset));
        }
    }
}

// ---- on the host

static bool make_channel_job(ChannelJob& job, const Args& args) {
    const Block &x = args.blocks[0], &y = args.blocks[1], &first = args.blocks[3];
    if (args.numbers != 0 || !is_floating(x.dtype) || !is_floating(y.dtype)) return false;
    Dims kept(args.sizes), reduced(args.sizes);
    for (size_t d = 0; d < args.sizes.size(); ++d) (first.strides[d] == 0 ? kept : reduced)[d] = 1;
    Args part = args;
    part.sizes = kept;
    if (!make_job(job.kept, part, {0, 1})) return false;
    part.sizes = reduced;
    part.blocks = args.blocks.first(2);
    if (!make_job(job.reduced, part, {0, 1})) return false;
    job.accumulate = args.params[0].i != 0;
    job.shifted = args.blocks[2].data != nullptr;
    // Where channels are beside each other, a warp reads those of one pixel.
    const auto step = [](const auto& dims) {
        return std::abs(dims.blocks[0].strides[dims.dims - 1]);
    };
    constexpr int warp = 32, enough = 512;
    constexpr int64_t few = 8;  // elements of a thread
    if (job.kept.count >= few && step(job.kept) < step(job.reduced)) job.lanes = warp;
    const int64_t blocks = std::max<int64_t>((job.kept.count + job.lanes - 1) / job.lanes, 1),
                  least = channel_threads / job.lanes * few;
    const int64_t room = int64_t{CudaPlace::scratch_bytes} /
                         (int64_t{sizeof(ChannelSums)} * std::max<int64_t>(job.kept.count, 1));
    if (room == 0) return false;
    job.splits = static_cast<int>(std::clamp<int64_t>(
        std::min((enough + blocks - 1) / blocks, job.reduced.count / least), 1, room));
    return true;
}

static bool make_group_job(GroupJob& job, const Args& args) {
    constexpr size_t channels = 2, pixels = 3;
    if (!is_short(args) || !is_short(args.sizes[channels] * args.sizes[pixels])) return false;
    Dims groups(args.sizes);
    groups[channels] = groups[pixels] = 1;
    Args outer = args;
    outer.sizes = groups;
    if (!make_job(job.groups, outer, {0})) return false;
    job.channels = short_of(args.sizes[channels]);
    job.pixels = short_of(args.sizes[pixels]);
    for (size_t k = 0; k < args.blocks.size(); ++k) {
        const Block& b = args.blocks[k];
        if (!b.data) continue;
        if (!is_floating(b.dtype)) return false;
        job.present[k] = true;
        job.channel[k] = short_of(b.strides[channels]);
        job.pixel[k] = short_of(b.strides[pixels]);
    }
    return true;
}
template <auto wide, auto narrow, class... More>
static int start_groups(const Args& args, const CudaPlace* place, size_t x, More... more) {
    GroupJob job;
    if (!make_group_job(job, args)) return not_on_device;
    if (!place || job.groups.count == 0) return 0;
    const dim3 blocks = grid_of(job.groups.count, 1).blocks;
    constexpr size_t shared = channel_threads * sizeof(double);
    return status_of(
        args,
        args.blocks[x].dtype == DType::f64
            ? launch<wide>(blocks, dim3(channel_threads), shared, place->stream, job, more...)
            : launch<narrow>(blocks, dim3(channel_threads), shared, place->stream, job, more...));
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(channel_sums) {
    cuda::ChannelJob job;
    if (!make_channel_job(job, args)) return not_on_device;
    if (!place || job.kept.count == 0) return 0;
    job.scratch = reinterpret_cast<double*>(place->scratch);
    const int64_t blocks = (job.kept.count + job.lanes - 1) / job.lanes * job.splits;
    const cudaError_t error = launch<cuda::channel_sums_of_splits>(
        cuda::grid_of(blocks, 1).blocks, dim3(cuda::channel_threads),
        cuda::channel_threads * sizeof(cuda::ChannelSums), place->stream, job);
    if (error != cudaSuccess) return status_of(args, error);
    const dim3 joined(static_cast<unsigned>((job.kept.count + 127) / 128));
    return status_of(args,
                     launch<cuda::channel_sums_join>(joined, dim3(128), 0, place->stream, job));
}

NNTILE_CUDA_KERNEL(channel_blend) {
    cuda::Job<cuda::blend_operands> job;
    for (const Block& b : args.blocks)
        if (b.data && !is_floating(b.dtype)) return not_on_device;
    if (args.numbers != 0 || !make_job(job, args, {cuda::blend_y, cuda::blend_a}))
        return not_on_device;
    if (!place || job.count == 0) return 0;
    const cuda::Grid grid = cuda::grid_of(job.count);
    return status_of(args, args.blocks[cuda::blend_a].dtype == DType::f64
                               ? launch<cuda::blend_channels<double>>(grid.blocks, grid.threads, 0,
                                                                      place->stream, job)
                               : launch<cuda::blend_channels<float>>(grid.blocks, grid.threads, 0,
                                                                     place->stream, job));
}

NNTILE_CUDA_KERNEL(group_norm) {
    return cuda::start_groups<cuda::norm_groups<double>, cuda::norm_groups<float>>(
        args, place, 0, args.params[0].f);
}
NNTILE_CUDA_KERNEL(group_norm_backward) {
    return cuda::start_groups<cuda::norm_groups_backward<double>,
                              cuda::norm_groups_backward<float>>(args, place, 1);
}

}  // namespace nntile::kernels
