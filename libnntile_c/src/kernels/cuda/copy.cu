// SPDX-License-Identifier: BSD-3-Clause
// Copies and fills are programs of one instruction, but for copies that turn dims around.
#include <algorithm>

#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"
#include "kernels/map_loop.hh"

namespace nntile::kernels {

CudaFunction map_on_cuda;

}  // namespace nntile::kernels

namespace nntile::kernels::cuda {

// Where x and y have neighbours along different dims: squares of them turn around in shared memory,
// so that both are read and written along their lines. Elements are moved as they are.
constexpr int square = 32, square_rows = 8;
struct TurnJob {
    Job<2> outer;                   // the other dims
    int64_t rows = 0;               // of x: along them y has its lines
    int64_t lines = 0;              // along them x has its own
    int64_t x_row = 0, y_line = 0;  // strides of those that are not 1
    int64_t row_squares = 0, line_squares = 0;
};
template <class T>
__global__ void turn(const __grid_constant__ TurnJob job) {
    T* const shared = shared_memory<T>();  // rows of one more than a square: no bank twice
    const int64_t squares = job.row_squares * job.line_squares;
    for (int64_t number = blockIdx.x; number < squares * job.outer.count; number += gridDim.x) {
        int64_t rest = number;
        const int64_t line = take_place(rest, job.line_squares) * square;
        const int64_t row = take_place(rest, job.row_squares) * square;
        int64_t from = 0, to = 0;
        for (int d = job.outer.dims; d-- > 0;) {
            const int64_t place = take_place(rest, job.outer.sizes[d]);
            from += place * job.outer.blocks[0].strides[d];
            to += place * job.outer.blocks[1].strides[d];
        }
        const auto* x = static_cast<const T*>(job.outer.blocks[0].data) + from;
        auto* y = static_cast<T*>(job.outer.blocks[1].data) + to;
        for (unsigned i = threadIdx.y; i < square; i += square_rows)
            if (row + i < job.rows && line + threadIdx.x < job.lines)
                shared[i * (square + 1) + threadIdx.x] =
                    x[(row + i) * job.x_row + line + threadIdx.x];
        __syncthreads();
        for (unsigned i = threadIdx.y; i < square; i += square_rows)
            if (line + i < job.lines && row + threadIdx.x < job.rows)
                y[(line + i) * job.y_line + row + threadIdx.x] =
                    shared[threadIdx.x * (square + 1) + i];
        __syncthreads();
    }
}

// One input, one output.
static Program program_of(size_t primitive, DType compute) {
    Instruction i;
    i.primitive = static_cast<uint16_t>(primitive);
    i.compute = compute;
    i.in = {0};
    i.out = {1};
    return {{i}, 1, 1, 2};
}

template <class T>
static cudaError_t start_turn(const TurnJob& job, cudaStream_t stream) {
    const Grid grid = grid_of(job.row_squares * job.line_squares * job.outer.count, 1);
    return launch<turn<T>>(grid.blocks, dim3(square, square_rows),
                           square * (square + 1) * sizeof(T), stream, job);
}
// Whether x and y, of one dtype, have neighbours along different dims.
static bool make_turn_job(TurnJob& job, const Args& args) {
    Job<2> all;
    if (args.blocks[0].dtype != args.blocks[1].dtype || args.numbers || !make_job(all, args, {1}) ||
        all.count == 0)
        return false;
    int of_x = -1, of_y = -1;
    for (int d = 0; d < all.dims; ++d) {
        const int64_t x = all.blocks[0].strides[d], y = all.blocks[1].strides[d];
        if (all.sizes[d] < square / 2) continue;
        if (x == 1 && y != 1) of_x = d;
        if (y == 1 && x != 1) of_y = d;
    }
    if (of_x < 0 || of_y < 0) return false;
    job.rows = all.sizes[of_y];
    job.lines = all.sizes[of_x];
    job.x_row = all.blocks[0].strides[of_y];
    job.y_line = all.blocks[1].strides[of_x];
    job.row_squares = (job.rows + square - 1) / square;
    job.line_squares = (job.lines + square - 1) / square;
    all.sizes[of_x] = all.sizes[of_y] = 1;
    all.count /= std::max<int64_t>(job.rows * job.lines, 1);
    job.outer = all;
    return true;
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(copy) {
    const DType from = args.blocks[0].dtype, to = args.blocks[1].dtype;
    if (cuda::Job<2> all; place && from == to && args.numbers == 0 && make_job(all, args, {1}) &&
                          all.dims == 1 && all.blocks[0].strides[0] == 1 &&
                          all.blocks[1].strides[0] == 1)
        return status_of(args, cudaMemcpyAsync(all.blocks[1].data, all.blocks[0].data,
                                               static_cast<size_t>(all.count * size_of(to)),
                                               cudaMemcpyDeviceToDevice, place->stream));
    cuda::TurnJob job;
    if (place && cuda::make_turn_job(job, args)) {
        const auto start = size_of(to) == 1   ? cuda::start_turn<uint8_t>
                           : size_of(to) == 2 ? cuda::start_turn<uint16_t>
                           : size_of(to) == 4 ? cuda::start_turn<uint32_t>
                                              : cuda::start_turn<uint64_t>;
        return status_of(args, start(job, place->stream));
    }
    // Moved as they are: a conversion keeps no bits of a nan.
    const bool moves = from == to && is_short_float(to) && args.numbers == 0;
    const Program cast =
        cuda::program_of(number_of_cast, moves ? DType::i64 : conversion_type(from, to));
    Block blocks[] = {args.blocks[0], args.blocks[1]};
    if (moves) blocks[0].dtype = blocks[1].dtype = DType::i16;
    Args map = args;
    map.blocks = blocks;
    map.program = &cast;
    map.params = {};
    return map_on_cuda(map, place);
}

NNTILE_CUDA_KERNEL(fill) {
    const Program fill =
        cuda::program_of(number_of_fill, dtype_of(compute_of(args.blocks[0].dtype)));
    Param value = args.params[0];
    const int64_t nowhere[max_dims] = {};  // one number, whatever the place
    // Not in need of a conversion where y is floating.
    const DType compute = dtype_of(compute_of(args.blocks[0].dtype));
    const DType given = is_floating(compute) ? compute : DType::f64;
    const Block blocks[] = {{reinterpret_cast<std::byte*>(&value), given, nowhere}, args.blocks[0]};
    Args map = args;
    map.numbers = 1;
    map.blocks = blocks;
    map.params = {};
    map.program = &fill;
    return map_on_cuda(map, place);
}

}  // namespace nntile::kernels
