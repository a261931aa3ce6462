// SPDX-License-Identifier: BSD-3-Clause
// A linear map along each of one to three dims, with few inputs for each output, as resample.cc has
// it: a thread for each output, over the taps of all dims. They are listed on the host and copied.
#include <vector>

#include "kernels/cuda/images.hh"
#include "kernels/tap_weights.hh"

namespace nntile::kernels::cuda {

struct ResampleJob {
    Job<2> rows;
    struct Dim {
        int outputs;
        int64_t step_x, step_y;
        // Of output o the taps ends[o - 1] to ends[o].
        const int *ends, *inputs;
        const void* weights;
    } dims[most_axes];
    DType from = DType::none, to = DType::none;
};

template <class V>
__global__ void resample_each(const __grid_constant__ ResampleJob job, int64_t count) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < count;
         number += all) {
        int64_t rest = number, from = 0, to = 0;
        int begin[most_axes], end[most_axes];
        for (int d = most_axes; d-- > 0;) {
            const ResampleJob::Dim& dim = job.dims[d];
            const auto o = static_cast<int>(take_place(rest, dim.outputs));
            begin[d] = o > 0 ? dim.ends[o - 1] : 0;
            end[d] = dim.ends[o];
            to += o * dim.step_y;
        }
        for (int d = job.rows.dims; d-- > 0;) {
            const int64_t at = take_place(rest, job.rows.sizes[d]);
            from += at * job.rows.blocks[0].strides[d];
            to += at * job.rows.blocks[1].strides[d];
        }
        const auto weight = [&](int d, int tap) {
            return static_cast<const V*>(job.dims[d].weights)[tap];
        };
        const auto place = [&](int d, int tap) {
            return job.dims[d].inputs[tap] * job.dims[d].step_x;
        };
        V sum = 0;
        for (int i = begin[0]; i < end[0]; ++i) {
            V of_plane = 0;
            for (int j = begin[1]; j < end[1]; ++j) {
                const int64_t row = from + place(0, i) + place(1, j);
                V of_row = 0;
                for (int k = begin[2]; k < end[2]; ++k)
                    of_row += weight(2, k) *
                              load_as<V>(job.rows.blocks[0].data, job.from, row + place(2, k));
                of_plane += weight(1, j) * of_row;
            }
            sum += weight(0, i) * of_plane;
        }
        store_as(job.rows.blocks[1].data, job.to, to, sum);
    }
}

// ---- on the host

// Adds a list of T to these bytes; where it begins.
template <class T, class List>
static size_t append(std::vector<std::byte>& bytes, const List& list) {
    constexpr size_t line = 16;
    const size_t begin = (bytes.size() + line - 1) / line * line;
    bytes.resize(begin + list.size() * sizeof(T));
    auto* const to = reinterpret_cast<T*>(bytes.data() + begin);
    for (size_t k = 0; k < list.size(); ++k) to[k] = static_cast<T>(list[k]);
    return begin;
}

// V: of the elements; T: of the weights, see resample.cc.
template <class V, class T>
static int start_resample(const Args& args, const CudaPlace* place) {
    const auto given = static_cast<size_t>(args.params[4].i);
    const size_t first = args.sizes.size() - 2 * given;
    const Block &x = args.blocks[0], &y = args.blocks[1];
    const bool transposed = args.params[3].i != 0;
    ResampleJob job;
    job.from = x.dtype;
    job.to = y.dtype;
    Args rows = args;
    rows.sizes = args.sizes.first(first);
    if (!is_short(args) || !make_job(job.rows, rows, {1})) return not_on_device;
    int64_t count = job.rows.count;
    std::vector<std::byte> bytes;
    size_t begins[most_axes][3];
    for (size_t d = 0; d < most_axes; ++d) {
        Taps<T> taps;
        ResampleJob::Dim& dim = job.dims[d];
        dim = {1, 0, 0, nullptr, nullptr, nullptr};
        if (d < most_axes - given) {
            taps.add(0, 1);
            taps.end();
        } else {
            const size_t own = d - (most_axes - given), at = first + 2 * own;
            const int64_t m = args.sizes[at], n = args.sizes[at + 1];
            Shape s{static_cast<Mode>(args.params[0].i),
                    args.params[1].i != 0,
                    args.params[2].i != 0,
                    args.params[5 + own].i,
                    args.params[5 + given + own].f,
                    n,
                    m};
            if (transposed) std::swap(s.n, s.m);
            taps = transposed ? taps_of<T>(s).transposed(s.n) : taps_of<T>(s);
            dim.outputs = short_of(m);
            dim.step_x = x.strides[at + 1];
            dim.step_y = y.strides[at];
        }
        count *= dim.outputs;
        begins[d][0] = append<int>(bytes, taps.ends);
        begins[d][1] = append<int>(bytes, taps.inputs);
        begins[d][2] = append<V>(bytes, taps.weights);
    }
    if (bytes.size() > CudaPlace::scratch_bytes) return not_on_device;
    if (!place || count == 0) return 0;
    auto* const scratch = static_cast<std::byte*>(place->scratch);
    for (size_t d = 0; d < most_axes; ++d) {
        job.dims[d].ends = reinterpret_cast<const int*>(scratch + begins[d][0]);
        job.dims[d].inputs = reinterpret_cast<const int*>(scratch + begins[d][1]);
        job.dims[d].weights = scratch + begins[d][2];
    }
    // From memory that is not pinned: it is read before the call returns.
    const cudaError_t error =
        cudaMemcpyAsync(scratch, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, place->stream);
    if (error != cudaSuccess) return status_of(args, error);
    const Grid grid = grid_of(count);
    return status_of(
        args, launch<resample_each<V>>(grid.blocks, grid.threads, 0, place->stream, job, count));
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(resample) {
    const DType dtype = args.blocks[0].dtype;
    if (!is_floating(dtype)) return cuda::start_resample<int64_t, float>(args, place);
    return dtype == DType::f64 ? cuda::start_resample<double, double>(args, place)
                               : cuda::start_resample<float, float>(args, place);
}

}  // namespace nntile::kernels
