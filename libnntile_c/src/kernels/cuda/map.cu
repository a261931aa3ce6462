// SPDX-License-Identifier: BSD-3-Clause
// Programs of the rows of map.def on a device: an interpreter.
//
// A thread goes through the program once for a few elements, so that to find out what to do costs
// little beside doing it. Registers of a program lie in shared memory, where each thread has its
// own cells of 16 bytes. A step reads and writes registers of its own type and nothing else: where
// types differ, or a result is narrower than its register, other steps convert.
#include <algorithm>
#include <climits>
#include <utility>
#include <vector>

#include "base/error.hh"
#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"
#include "kernels/cuda/loops.hh"
#include "kernels/map_formulas_isa.hh"

namespace nntile::kernels::cuda {

constexpr int most_in = 8, most_out = 4, most_params = 64, most_steps = 64;
constexpr int lanes = 4;        // elements of a thread
constexpr int loose_lanes = 2;  // where they do not lie side by side
constexpr unsigned map_threads = 128;
constexpr int64_t most_bytes = 96 << 10;  // of shared memory, for a block
constexpr int light = 24;                 // flops of a row whose lanes go together, in registers

// What a step does beside those of map.def: writes its input as a register of another type, or as
// its result's dtype has it.
enum : uint16_t { convert_step = 0xfffe, narrow_step = 0xffff };

struct Step {
    uint16_t primitive = 0, first_param = 0;
    Compute compute = compute_f32;  // of its registers; of the result of one that converts
    Compute from = compute_f32;     // of what one converts
    DType result = DType::none;     // dtype of the first one, as the user sees it
    MapCheck check = MapCheck::none;
    uint8_t checked = 0, n_in = 0, n_out = 0;
    uint8_t in[most_in] = {}, out[most_out] = {};  // slots
};
struct MapJob {
    Job<max_map_blocks> blocks;
    int n_in = 0, n_out = 0, n_steps = 0;
    int n_slots = 0;     // registers that live at one time
    int cells = 1;       // of a slot: two where one of them has 8 bytes
    int count = 1;       // lanes in use
    bool quads = false;  // an element of `blocks` is four that follow each other along the last dim
    bool indexed = false;
    Step steps[most_steps];
    Param params[most_params];
    uint8_t slots[max_map_blocks] = {};  // of the operands
    Compute kinds[max_map_blocks] = {};
    int64_t index_offset = 0, index_step = 0;
    int64_t index_strides[job_dims] = {};
    Refused* refused = nullptr;
};
static_assert(sizeof(MapJob) <= 8192);  // a kernel takes 32 KB

// ---- on the device

union alignas(16) Cell {
    float f[4];
    double d[2];
    int64_t i[2];
};
template <class T>
__device__ auto& values_of(Cell& cell) {
    if constexpr (std::is_same_v<T, float>) return cell.f;
    else if constexpr (std::is_same_v<T, double>) return cell.d;
    else return cell.i;
}
template <class T>
struct Lanes {
    T x[lanes];
};

// What a thread has; goes by value.
struct Mine {
    int count, cells;
    int64_t index, index_step;  // of its first element, and to the next
    __device__ int place(int slot) const {
        return slot * cells * static_cast<int>(map_threads) + static_cast<int>(threadIdx.x);
    }
};
template <class T>
__device__ T& lane_at(int place, int lane) {
    constexpr int of_cell = sizeof(Cell) / sizeof(T);
    Cell& cell = shared_memory<Cell>()[place + lane / of_cell * static_cast<int>(map_threads)];
    return values_of<T>(cell)[lane % of_cell];
}
template <class T>
__device__ Lanes<T> load_lanes(int place) {
    constexpr int of_cell = sizeof(Cell) / sizeof(T);
    Lanes<T> all;
#pragma unroll
    for (int c = 0; c < lanes / of_cell; ++c) {
        Cell cell = shared_memory<Cell>()[place + c * static_cast<int>(map_threads)];
#pragma unroll
        for (int v = 0; v < of_cell; ++v) all.x[c * of_cell + v] = values_of<T>(cell)[v];
    }
    return all;
}
template <class T>
__device__ void store_lanes(int place, const Lanes<T>& all) {
    constexpr int of_cell = sizeof(Cell) / sizeof(T);
#pragma unroll
    for (int c = 0; c < lanes / of_cell; ++c) {
        Cell cell;
#pragma unroll
        for (int v = 0; v < of_cell; ++v) values_of<T>(cell)[v] = all.x[c * of_cell + v];
        shared_memory<Cell>()[place + c * static_cast<int>(map_threads)] = cell;
    }
}

// Not inlined: in one function with all others a row would get their registers, and ptxas takes
// minutes for it.
template <class Row, class T, bool choice, size_t... i, size_t... o, size_t... k>
__noinline__ __device__ void call(Mine mine, const Step& step, const Param* p,
                                  std::index_sequence<i...>, std::index_sequence<o...>,
                                  std::index_sequence<k...>) {
    const int in[] = {mine.place(step.in[i])..., 0}, out[] = {mine.place(step.out[o])...};
    const auto go = [&](auto... params) {
        if constexpr (Row::work <= light) {
            const Lanes<T> x[] = {load_lanes<T>(in[i])..., {}};
            Lanes<T> results[sizeof...(o)];
#pragma unroll
            for (int v = 0; v < lanes; ++v) {
                const auto y = Row::apply(x[i].x[v]..., params...);
                ((results[o].x[v] = value_of(y, o)), ...);
            }
            (store_lanes(out[o], results[o]), ...);
        } else {
#pragma unroll 1
            for (int v = 0; v < mine.count; ++v) {
                const auto y = Row::apply(lane_at<T>(in[i], v)..., params...);
                ((lane_at<T>(out[o], v) = value_of(y, o)), ...);
            }
        }
    };
    go(param<Row::kinds.kind[k], choice>(static_cast<T>(p[k].f), p[k].i)...);
}
template <class Row, class T>
__device__ void formula(Mine mine, const Step& step, const Param* p) {
    constexpr auto i = std::make_index_sequence<Row::inputs>();
    constexpr auto o = std::make_index_sequence<Row::outputs>();
    constexpr auto k = std::make_index_sequence<Row::kinds.count>();
    if constexpr (Row::kinds.kind[0] == 'c') {
        if (p[0].i != 0) return call<Row, T, true>(mine, step, p, i, o, k);
    }
    call<Row, T, false>(mine, step, p, i, o, k);
}
template <class Row, class T, class Loop>
__noinline__ __device__ void loop(Mine mine, const Step& step, const Param* p, Loop&& body) {
    constexpr int n_in = Row::inputs, n_out = Row::outputs;
    int from[n_in + 1], to[n_out];
#pragma unroll
    for (int k = 0; k < n_in; ++k) from[k] = mine.place(step.in[k]);
#pragma unroll
    for (int k = 0; k < n_out; ++k) to[k] = mine.place(step.out[k]);
#pragma unroll 1
    for (int v = 0; v < mine.count; ++v) {
        T in[n_in + 1] = {}, out[n_out] = {};
#pragma unroll
        for (int k = 0; k < n_in; ++k) in[k] = lane_at<T>(from[k], v);
        body(Element1<T>{in, p, mine.index + v * mine.index_step, step.result, out});
#pragma unroll
        for (int k = 0; k < n_out; ++k) lane_at<T>(to[k], v) = out[k];
    }
}

template <class T>
__noinline__ __device__ void narrow(int place, DType to) {
    Lanes<T> all = load_lanes<T>(place);
    switch (to) {
#define DO(d)                                                              \
    case DType::d:                                                         \
        _Pragma("unroll") for (T& x : all.x) x =                           \
            Element<DType::d>::template get<T>(Element<DType::d>::put(x)); \
        break;
        NNTILE_EACH_DTYPE(DO)
#undef DO
        default: break;
    }
    store_lanes(place, all);
}
template <class From, class To>
__device__ void convert(int from, int to) {
    const Lanes<From> x = load_lanes<From>(from);
    Lanes<To> y;
#pragma unroll
    for (int v = 0; v < lanes; ++v) y.x[v] = static_cast<To>(x.x[v]);
    store_lanes(to, y);
}
template <class To>
__noinline__ __device__ void convert(int from, int to, Compute kind) {
    if (kind == compute_f32) convert<float, To>(from, to);
    else if (kind == compute_f64) convert<double, To>(from, to);
    else convert<int64_t, To>(from, to);
}

template <class T>
__device__ Refusal refusal_of(MapCheck check, T x) {
    if (check == MapCheck::divisor) return x == 0 ? Refusal::zero_divisor : Refusal::none;
    return x >= 0 && x <= 1 ? Refusal::none : Refusal::no_probability;  // a nan is none
}

template <class T, Compute compute>
__device__ void run_step(const Step& step, const Param* p, Refused* refused, Mine mine) {
    if (step.check != MapCheck::none)
        for (int v = 0; v < mine.count; ++v) {
            const T x = lane_at<T>(mine.place(step.in[step.checked]), v);
            const Refusal refusal = refusal_of(step.check, x);
            if (refusal != Refusal::none) return refuse_at(refused, {refusal});
        }
    switch (step.primitive) {
#define MAP(name, types, ...)                                                                 \
    case number_of_##name:                                                                    \
        if constexpr (takes(Types::types, compute)) formula<Row_##name<T>, T>(mine, step, p); \
        break;
#define MAP_LOOP(name, types, flops, doc, in, out, params, uses_index, body)             \
    case number_of_##name:                                                               \
        if constexpr (takes(Types::types, compute))                                      \
            loop<Loop_##name, T>(mine, step, p, [](const auto& e) { body##_of<T>(e); }); \
        break;
#include "kernels/map.def"
#undef MAP
#undef MAP_LOOP
        case convert_step:
            convert<T>(mine.place(step.in[0]), mine.place(step.out[0]), step.from);
            break;
        case narrow_step: narrow<T>(mine.place(step.in[0]), step.result); break;
        default: break;
    }
}

// Where a thread's elements are: one place for four that lie side by side, else one for each. One
// dim or two are the usual case, and go by registers; finding places is half the work of a thread.
struct Places {
    int64_t outer[loose_lanes];
    int32_t inner[loose_lanes];
    int32_t place[loose_lanes][job_dims];
    __device__ Places(const Job<max_map_blocks>& space, int64_t first, int count) {
#pragma unroll
        for (int v = 0; v < loose_lanes; ++v) {
            // What is past the end is the thread's first element again, and is not stored: a result
            // may lie where an operand does, and so another thread's may be there already.
            int64_t rest = first + v * int64_t{map_threads};
            if (v >= count || rest >= space.count) rest = first;
            inner[v] = 0;
            if (space.dims == 2) inner[v] = static_cast<int32_t>(take_place(rest, space.sizes[1]));
            outer[v] = rest;
            if (space.dims <= 2 || v >= count) continue;
#pragma unroll 1
            for (int d = space.dims; d-- > 0;)
                place[v][d] = static_cast<int32_t>(take_place(rest, space.sizes[d]));
        }
    }
    __device__ int64_t of(int v, int dims, const int64_t* strides) const {
        if (dims == 1) return outer[v] * strides[0];
        if (dims == 2) return outer[v] * strides[0] + inner[v] * strides[1];
        int64_t offset = 0;
#pragma unroll 1
        for (int d = 0; d < dims; ++d) offset += place[v][d] * strides[d];
        return offset;
    }
};
template <class S>
struct alignas(lanes * sizeof(S)) Quad {
    S x[lanes];
};

// The elements of an operand: four at `first`, or one for all of them; or others at both offsets.
enum class Way : uint8_t { quad, one, loose };
template <class T, DType D>
__device__ void read_lanes(Lanes<T>& to, const JobBlock& b, Way way, const int64_t* offsets) {
    const auto* x = static_cast<const Storage<D>*>(b.data) + offsets[0];
    Quad<Storage<D>> q;
    if (way == Way::quad) {
        q = *reinterpret_cast<const Quad<Storage<D>>*>(x);
    } else {
        q.x[0] = q.x[1] = *x;
        if (way == Way::loose) q.x[1] = static_cast<const Storage<D>*>(b.data)[offsets[1]];
        q.x[2] = q.x[3] = q.x[0];
    }
#pragma unroll
    for (int v = 0; v < lanes; ++v) to.x[v] = Element<D>::template get<T>(q.x[v]);
}
template <class T>
__device__ void load(int place, const JobBlock& b, Way way, const int64_t* offsets) {
    Lanes<T> all;
    if (b.is_number) {
        for (T& x : all.x) x = load_as<T>(b, 0);
    } else {
        switch (b.dtype) {
#define DO(d) \
    case DType::d: read_lanes<T, DType::d>(all, b, way, offsets); break;
            NNTILE_EACH_DTYPE(DO)
#undef DO
            default: return;
        }
    }
    store_lanes(place, all);
}
template <class T, DType D>
__device__ void write_lanes(const Lanes<T>& from, const JobBlock& b, Way way,
                            const int64_t* offsets, int count) {
    auto* y = static_cast<Storage<D>*>(b.data);
    if (way == Way::quad) {
        Quad<Storage<D>> q;
#pragma unroll
        for (int v = 0; v < lanes; ++v) q.x[v] = Element<D>::put(from.x[v]);
        *reinterpret_cast<Quad<Storage<D>>*>(y + offsets[0]) = q;
        return;
    }
#pragma unroll
    for (int v = 0; v < loose_lanes; ++v)
        if (v < count) y[offsets[v]] = Element<D>::put(from.x[v]);
}
template <class T>
__device__ void store(int place, const JobBlock& b, Way way, const int64_t* offsets, int count) {
    const Lanes<T> all = load_lanes<T>(place);
    switch (b.dtype) {
#define DO(d) \
    case DType::d: return write_lanes<T, DType::d>(all, b, way, offsets, count);
        NNTILE_EACH_DTYPE(DO)
#undef DO
        default: return;
    }
}

// One kernel: what kernels call, ptxas compiles for each of them anew.
__global__ void __launch_bounds__(map_threads, 8) run_map(const __grid_constant__ MapJob job) {
    const auto& space = job.blocks;
    const bool quads = job.quads;
    const int apart = quads ? 1 : job.count;  // elements of the space, of a thread
    const int64_t width = int64_t{map_threads} * apart;
    for (int64_t begin = blockIdx.x * width; begin < space.count; begin += gridDim.x * width) {
        const int64_t first = begin + threadIdx.x;
        if (first >= space.count) break;
        const Places places(space, first, apart);
        int64_t offsets[loose_lanes] = {};
        const auto find = [&](const int64_t* strides) {
            offsets[0] = places.of(0, space.dims, strides);
            if (apart > 1) offsets[1] = places.of(1, space.dims, strides);
        };
        Mine mine{job.count, job.cells, 0, 0};
        if (job.indexed) {
            find(job.index_strides);
            mine.index = job.index_offset + offsets[0];
            mine.index_step = quads ? job.index_step : offsets[1] - offsets[0];
        }
        for (int k = 0; k < job.n_in; ++k) {
            const JobBlock& b = space.blocks[k];
            Way way = apart > 1 ? Way::loose : Way::one;
            if (!b.is_number) {
                find(b.strides);
                if (quads && b.strides[space.dims - 1] != 0) way = Way::quad;
            }
            const int place = mine.place(job.slots[k]);
            if (job.kinds[k] == compute_f32) load<float>(place, b, way, offsets);
            else if (job.kinds[k] == compute_f64) load<double>(place, b, way, offsets);
            else load<int64_t>(place, b, way, offsets);
        }
#pragma unroll 1
        for (int i = 0; i < job.n_steps; ++i) {
            const Step& step = job.steps[i];
            const Param* p = job.params + step.first_param;
            if (step.compute == compute_f32)
                run_step<float, compute_f32>(step, p, job.refused, mine);
            else if (step.compute == compute_f64)
                run_step<double, compute_f64>(step, p, job.refused, mine);
            else run_step<int64_t, compute_i64>(step, p, job.refused, mine);
        }
        const bool both = first + int64_t{map_threads} < space.count;  // are before the end
        const int count = apart > 1 && both ? loose_lanes : 1;
        const Way way = quads ? Way::quad : Way::loose;
        for (int k = job.n_in; k < job.n_in + job.n_out; ++k) {
            const JobBlock& b = space.blocks[k];
            find(b.strides);
            const int place = mine.place(job.slots[k]);
            if (job.kinds[k] == compute_f32) store<float>(place, b, way, offsets, count);
            else if (job.kinds[k] == compute_f64) store<double>(place, b, way, offsets, count);
            else store<int64_t>(place, b, way, offsets, count);
        }
    }
}

// ---- on the host

// Registers that are read no more give their place to others.
struct Slots {
    uint8_t of[max_map_registers] = {};
    Compute kinds[max_map_registers] = {};
    int last_use[max_map_registers];
    std::vector<uint8_t> free;
    int count = 0;

    explicit Slots(const Program& program) {
        std::fill(std::begin(last_use), std::end(last_use), -1);
        for (size_t i = 0; i < program.code.size(); ++i)
            for (uint8_t r : program.code[i].in) last_use[r] = static_cast<int>(i);
        for (int k = 0; k < program.n_out; ++k)
            last_use[program.n_registers - program.n_out + k] = max_map_instructions;
    }
    uint8_t take() {
        if (free.empty()) free.push_back(static_cast<uint8_t>(count++));
        const uint8_t slot = free.back();
        free.pop_back();
        return slot;
    }
    void take(int r, Compute kind) {
        kinds[r] = kind;
        of[r] = take();
    }
    void leave(int r, int instruction) {
        if (last_use[r] == instruction) free.push_back(of[r]);
    }
};

// What an input is read as: in the type of all that reads it, if that has its values, so that no
// step converts it.
static Compute kind_of_input(const Program& program, int r, DType dtype) {
    const Compute own = compute_of(dtype);
    if (own != compute_i64 || size_of(dtype) > 2) return own;
    const bool in_floats =
        std::all_of(program.code.begin(), program.code.end(), [&](const Instruction& i) {
            const bool reads = std::find(i.in.begin(), i.in.end(), r) != i.in.end();
            return !reads ||
                   (compute_of(i.compute) == compute_f32 && i.primitive != number_of_cast);
        });
    return in_floats ? compute_f32 : own;
}

// As MapEngine has it (map_plan.cc): a cast to bool computes in the type of its source, whose
// fraction it must see, and not of a bool is logical.
static bool add_step(MapJob& job, const Instruction& i, int number, const Args& args,
                     Slots& slots) {
    const MapRow& row = map_rows()[i.primitive];
    if (i.in.size() > most_in || i.out.size() > most_out ||
        job.n_steps + static_cast<int>(i.in.size() + 1 + i.out.size()) > most_steps)
        return false;
    Step step;
    const int output = i.out[0] - (args.program->n_registers - job.n_out);
    step.result = i.result != DType::none ? i.result
                  : output < 0            ? i.compute
                                          : args.blocks[job.n_in + output].dtype;
    step.compute = i.primitive == number_of_cast && step.result == DType::boolean
                       ? slots.kinds[i.in[0]]
                       : compute_of(i.compute);
    const bool is_not = i.primitive == number_of_bitwise_not && step.result == DType::boolean;
    step.primitive = is_not ? static_cast<uint16_t>(number_of_logical_not) : i.primitive;
    step.first_param = i.first_param;
    const bool fails = row.check != MapCheck::divisor || step.compute == compute_i64;
    step.check = fails ? row.check : MapCheck::none;
    step.checked = row.checked;
    SmallVector<uint8_t, most_in> converted;
    for (uint8_t r : i.in) {
        uint8_t slot = slots.of[r];
        if (slots.kinds[r] != step.compute) {
            Step& before = job.steps[job.n_steps++];
            before.primitive = convert_step;
            before.compute = step.compute;
            before.from = slots.kinds[r];
            before.in[0] = slot;
            before.out[0] = slot = slots.take();
            converted.push_back(slot);
        }
        step.in[step.n_in++] = slot;
    }
    // A thread reads all of an element's operands before it writes results.
    for (uint8_t slot : converted) slots.free.push_back(slot);
    for (size_t k = 0; k < i.in.size(); ++k)
        if (std::find(i.in.begin(), i.in.begin() + k, i.in[k]) == i.in.begin() + k)
            slots.leave(i.in[k], number);
    for (uint8_t r : i.out) {
        slots.take(r, step.compute);
        step.out[step.n_out++] = slots.of[r];
    }
    for (uint8_t r : i.out) slots.leave(r, -1);  // nobody reads it
    job.steps[job.n_steps++] = step;
    // What later instructions read of its results
    if (i.result == DType::none || i.result == dtype_of(step.compute) ||
        row.types == Types::compare)
        return true;
    for (int k = 0; k < step.n_out; ++k) {
        Step& after = job.steps[job.n_steps++];
        after.primitive = narrow_step;
        after.compute = step.compute;
        after.result = i.result;
        after.in[0] = step.out[k];
    }
    return true;
}

static int64_t shared_bytes(const MapJob& job) {
    return int64_t{job.n_slots} * job.cells * map_threads * static_cast<int64_t>(sizeof(Cell));
}

// Makes an element of the job out of four, where all that move lie side by side.
static void make_quads(MapJob& job) {
    auto& space = job.blocks;
    const int last = space.dims - 1, operands = job.n_in + job.n_out;
    if (last < 0 || space.sizes[last] % lanes != 0) return;
    for (int k = 0; k < operands; ++k) {
        const JobBlock& b = space.blocks[k];
        if (b.is_number || (b.strides[last] == 0 && k < job.n_in)) continue;
        if (b.strides[last] != 1) return;
        const auto bytes = static_cast<uintptr_t>(lanes * size_of(b.dtype));
        if (reinterpret_cast<uintptr_t>(b.data) % bytes != 0) return;
        for (int d = 0; d < last; ++d)
            if (b.strides[d] % lanes != 0) return;
    }
    job.quads = true;
    job.count = lanes;
    space.sizes[last] /= lanes;
    space.count /= lanes;
    job.index_step = job.index_strides[last];
    job.index_strides[last] *= lanes;
    for (int k = 0; k < operands; ++k) space.blocks[k].strides[last] *= lanes;
}

static bool make_map_job(MapJob& job, const Args& args) {
    const Program& program = *args.program;
    if (args.params.size() > most_params || program.n_registers > max_map_registers) return false;
    Slots slots(program);
    job.n_in = program.n_in;
    job.n_out = program.n_out;
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
    const auto known_as = [&](int operand, int r) {
        job.slots[operand] = slots.of[r];
        job.kinds[operand] = slots.kinds[r];
    };
    for (int k = 0; k < job.n_in; ++k) {
        slots.take(k, kind_of_input(program, k, args.blocks[k].dtype));
        known_as(k, k);
    }
    for (size_t i = 0; i < program.code.size(); ++i)
        if (!add_step(job, program.code[i], static_cast<int>(i), args, slots)) return false;
    for (int k = 0; k < job.n_out; ++k) known_as(job.n_in + k, program.n_registers - job.n_out + k);
    job.n_slots = slots.count;
    const auto is_wide = [](Compute kind) { return kind != compute_f32; };
    const bool wide = std::any_of(job.kinds, job.kinds + job.n_in + job.n_out, is_wide) ||
                      std::any_of(job.steps, job.steps + job.n_steps,
                                  [&](const Step& s) { return is_wide(s.compute); });
    job.cells = wide ? 2 : 1;
    // A few elements are better given to many threads.
    job.count = job.blocks.count < int64_t{loose_lanes} << 17 ? 1 : loose_lanes;
    const int64_t longest = *std::max_element(job.blocks.sizes, std::end(job.blocks.sizes));
    return shared_bytes(job) <= most_bytes && longest <= INT32_MAX;
}

static int start_map(const Args& args, const CudaPlace* place) {
    MapJob job;
    if (!make_map_job(job, args)) return not_on_device;
    if (!place || job.blocks.count == 0) return 0;
    for (int k = 0; k < job.n_steps && !job.refused; ++k)
        if (job.steps[k].check != MapCheck::none)
            if (const cudaError_t error = place->watch(job.refused)) return status_of(args, error);
    make_quads(job);
    const auto apart = static_cast<unsigned>(job.quads ? 1 : job.count);
    const Grid grid = grid_of(job.blocks.count, map_threads * apart);
    const auto shared = static_cast<size_t>(shared_bytes(job));
    if (const cudaError_t error = allow_shared<run_map>(shared)) return status_of(args, error);
    return status_of(args,
                     launch<run_map>(grid.blocks, dim3(map_threads), shared, place->stream, job));
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(map) { return cuda::start_map(args, place); }

}  // namespace nntile::kernels
