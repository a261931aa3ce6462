// SPDX-License-Identifier: BSD-3-Clause
// Programs of the rows of map.def on a device: an interpreter, an element per thread. Copies and
// fills are programs of one instruction.
#include <utility>

#include "base/error.hh"
#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"
#include "kernels/cuda/loops.hh"
#include "kernels/map_formulas_isa.hh"

namespace nntile::kernels::cuda {

constexpr int most_in = 8, most_out = 4, most_params = 64;

struct Step {
    uint16_t primitive = 0, first_param = 0;
    Compute compute = compute_f32;
    DType narrow = DType::none;  // what later instructions read of its results
    DType result = DType::none;  // dtype of the first one, as the user sees it
    MapCheck check = MapCheck::none;
    uint8_t checked = 0, n_in = 0, n_out = 0;
    uint8_t in[most_in] = {}, out[most_out] = {};
};
struct MapJob {
    Job<max_map_blocks> blocks;
    int n_in = 0, n_out = 0, n_registers = 0, n_steps = 0;
    Step steps[max_map_instructions];
    Param params[most_params];
    Compute kinds[max_map_registers] = {};  // of the registers
    bool indexed = false;
    int64_t index_offset = 0;
    int64_t index_strides[job_dims] = {};
    Refused* refused = nullptr;
};
static_assert(sizeof(MapJob) <= 8192);  // a kernel takes 32 KB

// ---- on the device

template <class Row, class T, bool choice, size_t... i, size_t... o, size_t... k>
__device__ void call(const T* in, const Param* p, T* out, std::index_sequence<i...>,
                     std::index_sequence<o...>, std::index_sequence<k...>) {
    const auto y =
        Row::apply(in[i]..., param<Row::kinds.kind[k], choice>(static_cast<T>(p[k].f), p[k].i)...);
    ((out[o] = value_of(y, o)), ...);
}
template <class Row, class T>
__device__ void formula(const T* in, const Param* p, T* out) {
    constexpr auto i = std::make_index_sequence<Row::inputs>();
    constexpr auto o = std::make_index_sequence<Row::outputs>();
    constexpr auto k = std::make_index_sequence<Row::kinds.count>();
    if constexpr (Row::kinds.kind[0] == 'c') {
        if (p[0].i != 0) return call<Row, T, true>(in, p, out, i, o, k);
    }
    call<Row, T, false>(in, p, out, i, o, k);
}

template <class T, Compute compute>
__device__ void apply(size_t primitive, const Element1<T>& e) {
    switch (primitive) {
#define MAP(name, types, ...)                                 \
    case number_of_##name:                                    \
        if constexpr (takes(Types::types, compute))           \
            formula<Row_##name<T>, T>(e.in, e.params, e.out); \
        break;
#define MAP_LOOP(name, types, flops, doc, in, out, params, uses_index, loop) \
    case number_of_##name:                                                   \
        if constexpr (takes(Types::types, compute)) loop##_of<T>(e);         \
        break;
#include "kernels/map.def"
#undef MAP
#undef MAP_LOOP
        default: break;
    }
}

union Register {
    float f;
    double d;
    int64_t i;
};
template <class T>
__device__ T read(const Register& r, Compute kind) {
    if (kind == compute_f32) return static_cast<T>(r.f);
    return kind == compute_f64 ? static_cast<T>(r.d) : static_cast<T>(r.i);
}
__device__ inline void write(Register& r, float x) { r.f = x; }
__device__ inline void write(Register& r, double x) { r.d = x; }
__device__ inline void write(Register& r, int64_t x) { r.i = x; }

template <class T>
__device__ Refusal refusal_of(MapCheck check, T x) {
    if (check == MapCheck::divisor) return x == 0 ? Refusal::zero_divisor : Refusal::none;
    return x >= 0 && x <= 1 ? Refusal::none : Refusal::no_probability;  // a nan is none
}

template <class T, Compute compute>
__device__ void run_step(const MapJob& job, const Step& step, Register* registers, int64_t index) {
    T in[most_in] = {}, out[most_out] = {};
    for (int k = 0; k < step.n_in; ++k)
        in[k] = read<T>(registers[step.in[k]], job.kinds[step.in[k]]);
    if (step.check != MapCheck::none) {
        const Refusal refusal = refusal_of(step.check, in[step.checked]);
        if (refusal != Refusal::none) return refuse_at(job.refused, refusal);
    }
    apply<T, compute>(step.primitive, {in, job.params + step.first_param, index, step.result, out});
    for (int k = 0; k < step.n_out; ++k) {
        const T value = step.narrow == DType::none ? out[k] : narrowed(out[k], step.narrow);
        write(registers[step.out[k]], value);
    }
}

__global__ void run_map(const __grid_constant__ MapJob job) {
    const auto& space = job.blocks;
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < space.count; e += all) {
        int64_t offset[max_map_blocks] = {}, rest = e, index = job.index_offset;
        for (int d = space.dims; d-- > 0;) {
            const int64_t at = take_place(rest, space.sizes[d]);
            for (int k = 0; k < job.n_in + job.n_out; ++k)
                offset[k] += at * space.blocks[k].strides[d];
            if (job.indexed) index += at * job.index_strides[d];
        }
        Register registers[max_map_registers];
        for (int k = 0; k < job.n_in; ++k) {
            const JobBlock& b = space.blocks[k];
            if (job.kinds[k] == compute_f32) write(registers[k], load_as<float>(b, offset[k]));
            else if (job.kinds[k] == compute_f64)
                write(registers[k], load_as<double>(b, offset[k]));
            else write(registers[k], load_as<int64_t>(b, offset[k]));
        }
        for (int i = 0; i < job.n_steps; ++i) {
            const Step& step = job.steps[i];
            if (step.compute == compute_f32)
                run_step<float, compute_f32>(job, step, registers, index);
            else if (step.compute == compute_f64)
                run_step<double, compute_f64>(job, step, registers, index);
            else run_step<int64_t, compute_i64>(job, step, registers, index);
        }
        for (int k = 0; k < job.n_out; ++k) {
            const int r = job.n_registers - job.n_out + k, b = job.n_in + k;
            const JobBlock& to = space.blocks[b];
            if (job.kinds[r] == compute_f32) store_as(to, offset[b], registers[r].f);
            else if (job.kinds[r] == compute_f64) store_as(to, offset[b], registers[r].d);
            else store_as(to, offset[b], registers[r].i);
        }
    }
}

// ---- on the host

// As MapEngine has it (map_plan.cc): a cast to bool computes in the type of its source, whose
// fraction it must see, and not of a bool is logical.
static bool add_step(MapJob& job, const Instruction& i, const Args& args) {
    const MapRow& row = map_rows()[i.primitive];
    if (i.in.size() > most_in || i.out.size() > most_out) return false;
    Step& step = job.steps[job.n_steps++];
    const int output = i.out[0] - (job.n_registers - job.n_out);
    step.result = i.result != DType::none ? i.result
                  : output < 0            ? i.compute
                                          : args.blocks[job.n_in + output].dtype;
    step.compute = i.primitive == number_of_cast && step.result == DType::boolean
                       ? job.kinds[i.in[0]]
                       : compute_of(i.compute);
    const bool is_not = i.primitive == number_of_bitwise_not && step.result == DType::boolean;
    step.primitive = is_not ? static_cast<uint16_t>(number_of_logical_not) : i.primitive;
    step.first_param = i.first_param;
    const bool fails = row.check != MapCheck::divisor || step.compute == compute_i64;
    step.check = fails ? row.check : MapCheck::none;
    step.checked = row.checked;
    if (i.result != dtype_of(step.compute) && row.types != Types::compare) step.narrow = i.result;
    for (uint8_t r : i.in) step.in[step.n_in++] = r;
    for (uint8_t r : i.out) {
        step.out[step.n_out++] = r;
        job.kinds[r] = step.compute;
    }
    return true;
}

static bool make_map_job(MapJob& job, const Args& args) {
    const Program& program = *args.program;
    if (args.params.size() > most_params || program.n_registers > max_map_registers ||
        program.code.size() > max_map_instructions)
        return false;
    job.n_in = program.n_in;
    job.n_out = program.n_out;
    job.n_registers = program.n_registers;
    job.indexed = uses_index(program);
    // The index is one more operand over the same space, so that dims are merged as for all.
    SmallVector<Block, max_map_blocks> blocks(args.blocks);
    Args with_index = args;
    if (job.indexed) blocks.push_back({nullptr, DType::none, args.index_strides});
    with_index.blocks = blocks;
    if (!make_job(job.blocks, with_index, {program.n_in, 0})) return false;
    if (job.indexed)
        for (int d = 0; d < job.blocks.dims; ++d)
            job.index_strides[d] = job.blocks.blocks[args.blocks.size()].strides[d];
    job.index_offset = args.index_offset;
    for (size_t k = 0; k < args.params.size(); ++k) job.params[k] = args.params[k];
    for (int k = 0; k < job.n_in; ++k) job.kinds[k] = compute_of(args.blocks[k].dtype);
    for (const Instruction& i : program.code)
        if (!add_step(job, i, args)) return false;
    return true;
}

static int start_map(const Args& args, const CudaPlace* place) {
    MapJob job;
    if (!make_map_job(job, args)) return not_on_device;
    if (!place || job.blocks.count == 0) return 0;
    for (int k = 0; k < job.n_steps && !job.refused; ++k)
        if (job.steps[k].check != MapCheck::none)
            if (const cudaError_t error = place->watch(job.refused)) return status_of(args, error);
    const Grid grid = grid_of(job.blocks.count);
    return status_of(args, launch<run_map>(grid.blocks, grid.threads, 0, place->stream, job));
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

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(map) { return cuda::start_map(args, place); }

NNTILE_CUDA_KERNEL(copy) {
    const DType from = args.blocks[0].dtype, to = args.blocks[1].dtype;
    const Program cast = cuda::program_of(number_of_cast, conversion_type(from, to));
    Args map = args;
    map.program = &cast;
    map.params = {};
    return cuda::start_map(map, place);
}

NNTILE_CUDA_KERNEL(fill) {
    const Program fill =
        cuda::program_of(number_of_fill, dtype_of(compute_of(args.blocks[0].dtype)));
    Param value = args.params[0];
    const int64_t nowhere[max_dims] = {};  // one number, whatever the place
    const Block blocks[] = {{reinterpret_cast<std::byte*>(&value), DType::f64, nowhere},
                            args.blocks[0]};
    Args map = args;
    map.numbers = 1;
    map.blocks = blocks;
    map.params = {};
    map.program = &fill;
    return cuda::start_map(map, place);
}

}  // namespace nntile::kernels
