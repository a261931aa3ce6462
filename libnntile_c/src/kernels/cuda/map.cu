// SPDX-License-Identifier: BSD-3-Clause
// Programs of the rows of map.def on a device: an interpreter. Copies and fills are programs of one
// instruction, but for those that turn dims around.
//
// A thread goes through the program once for some elements, a block's width apart: so to find out
// what to do costs little beside doing it, and lanes read neighbours. Registers of a program lie in
// shared memory, where each thread has its own.
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

constexpr int most_in = 8, most_out = 4, most_params = 64;
constexpr int most_elements = 4;   // of a thread
constexpr int loose_elements = 2;  // of one whose elements do not lie side by side
constexpr unsigned map_threads = 128;
// Of shared memory, for a block: more than the first keeps blocks from a core beside it.
constexpr int64_t good_bytes = 16 << 10, most_bytes = 48 << 10;

struct Step {
    uint16_t primitive = 0, first_param = 0;
    Compute compute = compute_f32;
    DType narrow = DType::none;  // what later instructions read of its results
    DType result = DType::none;  // dtype of the first one, as the user sees it
    MapCheck check = MapCheck::none;
    uint8_t checked = 0, n_in = 0, n_out = 0;
    uint8_t in[most_in] = {}, out[most_out] = {};  // slots
    Compute kinds[most_in] = {};                   // of what is there
};
struct MapJob {
    Job<max_map_blocks> blocks;
    int n_in = 0, n_out = 0, n_steps = 0;
    int n_slots = 0;   // registers that live at one time
    int elements = 1;  // of a thread
    Step steps[max_map_instructions];
    Param params[most_params];
    uint8_t slots[max_map_blocks] = {};  // of the operands
    Compute kinds[max_map_blocks] = {};
    bool indexed = false;
    bool quads = false;  // an element of `blocks` is four that follow each other along the last dim
    int64_t index_offset = 0, index_step = 0;
    int64_t index_strides[job_dims] = {};
    Refused* refused = nullptr;
};
static_assert(sizeof(MapJob) <= 8192);  // a kernel takes 32 KB

// ---- on the device

union Register {
    float f;
    double d;
    int64_t i;
};
template <class T>
__device__ T& as(Register& r) {
    if constexpr (std::is_same_v<T, float>) return r.f;
    else if constexpr (std::is_same_v<T, double>) return r.d;
    else return r.i;
}
template <class T>
__device__ T read(const Register& r, Compute kind) {
    if (kind == compute_f32) return static_cast<T>(r.f);
    return kind == compute_f64 ? static_cast<T>(r.d) : static_cast<T>(r.i);
}

// What a thread has: in each slot a register for each of its elements. All of this goes by value,
// and what a step needs is read before its loop: writing a register could change what is elsewhere,
// for all that the compiler knows.
struct Mine {
    int count;
    __device__ int place(int slot) const {
        return slot * count * static_cast<int>(map_threads) + static_cast<int>(threadIdx.x);
    }
    __device__ Register& at(int slot, int element) const { return at_place(place(slot), element); }
    __device__ static Register& at_place(int place, int element) {
        return shared_memory<Register>()[place + element * static_cast<int>(map_threads)];
    }
};

// An operand of a step, and a result of it.
template <class T>
struct Operand {
    int place;
    Compute kind;
    __device__ Operand(const Mine& mine, const Step& step, int k)
        : place(mine.place(step.in[k])), kind(step.kinds[k]) {}
    __device__ T get(int element) const { return read<T>(Mine::at_place(place, element), kind); }
};
template <class T>
struct Result {
    int place;
    DType narrow;
    __device__ Result(const Mine& mine, const Step& step, int k)
        : place(mine.place(step.out[k])), narrow(step.narrow) {}
    __device__ void set(int element, T x) const {
        if (narrow != DType::none) x = narrowed(x, narrow);
        as<T>(Mine::at_place(place, element)) = x;
    }
};

// Not inlined: in one function with all others a row would get their registers, and ptxas takes
// minutes for it.
template <class Row, class T, bool choice, size_t... i, size_t... o, size_t... k>
__noinline__ __device__ void call(Mine mine, const Step& step, const Param* p,
                                  std::index_sequence<i...>, std::index_sequence<o...>,
                                  std::index_sequence<k...>) {
    const auto go = [&](auto... operands) {
        return [&, operands...](auto... results) {
            return [=](auto... params) {
#pragma unroll 1
                for (int v = 0; v < mine.count; ++v) {
                    const auto y = Row::apply(operands.get(v)..., params...);
                    (results.set(v, value_of(y, o)), ...);
                }
            };
        };
    };
    go(Operand<T>(mine, step, i)...)(Result<T>(mine, step, o)...)(
        param<Row::kinds.kind[k], choice>(static_cast<T>(p[k].f), p[k].i)...);
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
template <class T, class Loop>
__noinline__ __device__ void loop(Mine mine, const Step& step, const Param* p, int index_slot,
                                  Loop&& body) {
#pragma unroll 1
    for (int v = 0; v < mine.count; ++v) {
        T in[most_in] = {}, out[most_out] = {};
#pragma unroll
        for (int k = 0; k < most_in; ++k)
            if (k < step.n_in) in[k] = Operand<T>(mine, step, k).get(v);
        const int64_t index = index_slot < 0 ? 0 : mine.at(index_slot, v).i;
        body(Element1<T>{in, p, index, step.result, out});
#pragma unroll
        for (int k = 0; k < most_out; ++k)
            if (k < step.n_out) Result<T>(mine, step, k).set(v, out[k]);
    }
}

template <class T, Compute compute>
__device__ void apply(Mine mine, const Step& step, const Param* p, int index_slot) {
    switch (step.primitive) {
#define MAP(name, types, ...)                                                                 \
    case number_of_##name:                                                                    \
        if constexpr (takes(Types::types, compute)) formula<Row_##name<T>, T>(mine, step, p); \
        break;
#define MAP_LOOP(name, types, flops, doc, in, out, params, uses_index, body)            \
    case number_of_##name:                                                              \
        if constexpr (takes(Types::types, compute))                                     \
            loop<T>(mine, step, p, index_slot, [](const auto& e) { body##_of<T>(e); }); \
        break;
#include "kernels/map.def"
#undef MAP
#undef MAP_LOOP
        default: break;
    }
}

template <class T>
__device__ Refusal refusal_of(MapCheck check, T x) {
    if (check == MapCheck::divisor) return x == 0 ? Refusal::zero_divisor : Refusal::none;
    return x >= 0 && x <= 1 ? Refusal::none : Refusal::no_probability;  // a nan is none
}

template <class T, Compute compute>
__device__ void run_step(const MapJob& job, const Step& step, Mine mine) {
    if (step.check != MapCheck::none)
        for (int v = 0; v < mine.count; ++v) {
            const T x = read<T>(mine.at(step.in[step.checked], v), step.kinds[step.checked]);
            const Refusal refusal = refusal_of(step.check, x);
            if (refusal != Refusal::none) return refuse_at(job.refused, refusal);
        }
    apply<T, compute>(mine, step, job.params + step.first_param, job.indexed ? job.n_slots : -1);
}

// Offsets of a thread's elements in the blocks, from their places along each dim.
struct Offsets {
    int32_t place[loose_elements][job_dims];
    __device__ Offsets(const Job<max_map_blocks>& space, int64_t first, int count) {
#pragma unroll
        for (int v = 0; v < loose_elements; ++v) {
            // What is past the end is the thread's first element again, and is not stored: a result
            // may lie where an operand does, and so another thread's may be there already.
            int64_t rest = first + v * int64_t{map_threads};
            if (rest >= space.count) rest = first;
#pragma unroll
            for (int d = job_dims; d-- > 0;)
                if (d < space.dims && v < count)
                    place[v][d] = static_cast<int32_t>(take_place(rest, space.sizes[d]));
        }
    }
    __device__ int64_t of(int element, int dims, const int64_t* strides) const {
        int64_t offset = 0;
#pragma unroll
        for (int d = 0; d < job_dims; ++d)
            if (d < dims) offset += place[element][d] * strides[d];
        return offset;
    }
};

template <class T>
__device__ void load_some(Mine mine, int slot, const JobBlock& b, const int64_t* offsets) {
    T x[loose_elements];
    if (b.is_number) {
        for (T& one : x) one = load_as<T>(b, 0);
    } else {
        switch (b.dtype) {
#define DO(d)                                                                                 \
    case DType::d:                                                                            \
        _Pragma("unroll") for (int v = 0; v < loose_elements; ++v) if (v < mine.count) x[v] = \
            Element<DType::d>::template get<T>(                                               \
                static_cast<const Storage<DType::d>*>(b.data)[offsets[v]]);                   \
        break;
            NNTILE_EACH_DTYPE(DO)
#undef DO
            default: break;
        }
    }
#pragma unroll
    for (int v = 0; v < loose_elements; ++v)
        if (v < mine.count) as<T>(mine.at(slot, v)) = x[v];
}
template <class T>
__device__ void store_some(Mine mine, int slot, const JobBlock& b, const int64_t* offsets,
                           int count) {
    switch (b.dtype) {
#define DO(d)                                                                                    \
    case DType::d:                                                                               \
        _Pragma(                                                                                 \
            "unroll") for (int v = 0; v < loose_elements;                                        \
                           ++v) if (v <                                                          \
                                    count) static_cast<Storage<DType::d>*>(b.data)[offsets[v]] = \
            Element<DType::d>::put(as<T>(mine.at(slot, v)));                                     \
        break;
        NNTILE_EACH_DTYPE(DO)
#undef DO
        default: break;
    }
}

__noinline__ __device__ void run_steps(const MapJob& job, Mine mine) {
    for (int i = 0; i < job.n_steps; ++i) {
        const Step& step = job.steps[i];
        if (step.compute == compute_f32) run_step<float, compute_f32>(job, step, mine);
        else if (step.compute == compute_f64) run_step<double, compute_f64>(job, step, mine);
        else run_step<int64_t, compute_i64>(job, step, mine);
    }
}

__device__ inline void run_elements(const MapJob& job) {
    const auto& space = job.blocks;
    const Mine mine{job.elements};
    const int64_t width = int64_t{map_threads} * job.elements;
    for (int64_t begin = blockIdx.x * width; begin < space.count; begin += gridDim.x * width) {
        const int64_t first = begin + threadIdx.x;
        if (first >= space.count) break;
        const Offsets places(space, first, job.elements);
        int64_t offsets[loose_elements] = {};
        const auto find = [&](const int64_t* strides) {
#pragma unroll
            for (int v = 0; v < loose_elements; ++v)
                if (v < job.elements) offsets[v] = places.of(v, space.dims, strides);
        };
        if (job.indexed) {
            find(job.index_strides);
#pragma unroll
            for (int v = 0; v < loose_elements; ++v)
                if (v < job.elements) mine.at(job.n_slots, v).i = job.index_offset + offsets[v];
        }
        for (int k = 0; k < job.n_in; ++k) {
            const JobBlock& b = space.blocks[k];
            if (!b.is_number) find(b.strides);
            if (job.kinds[k] == compute_f32) load_some<float>(mine, job.slots[k], b, offsets);
            else if (job.kinds[k] == compute_f64) load_some<double>(mine, job.slots[k], b, offsets);
            else load_some<int64_t>(mine, job.slots[k], b, offsets);
        }
        run_steps(job, mine);
        // So many of its elements are before the end.
        int count = 0;
        while (count < job.elements && first + count * int64_t{map_threads} < space.count) ++count;
        for (int k = job.n_in; k < job.n_in + job.n_out; ++k) {
            const JobBlock& b = space.blocks[k];
            find(b.strides);
            if (job.kinds[k] == compute_f32)
                store_some<float>(mine, job.slots[k], b, offsets, count);
            else if (job.kinds[k] == compute_f64)
                store_some<double>(mine, job.slots[k], b, offsets, count);
            else store_some<int64_t>(mine, job.slots[k], b, offsets, count);
        }
    }
}

// Four elements that lie side by side, or are one: the usual case, in which a thread has one place
// to find, and moves 16 bytes at a time.
template <class S>
struct alignas(4 * sizeof(S)) Quad {
    S element[most_elements];
};
template <class T>
__device__ void load_quad(Mine mine, int slot, const JobBlock& b, int64_t offset, bool wide) {
    T x[most_elements];
    if (b.is_number) {
        for (T& one : x) one = load_as<T>(b, 0);
    } else {
        switch (b.dtype) {
#define DO(d)                                                                    \
    case DType::d: {                                                             \
        const auto* at = static_cast<const Storage<DType::d>*>(b.data) + offset; \
        Quad<Storage<DType::d>> q;                                               \
        if (wide) q = *reinterpret_cast<const Quad<Storage<DType::d>>*>(at);     \
        else q = {{*at, *at, *at, *at}};                                         \
        _Pragma("unroll") for (int v = 0; v < most_elements; ++v) x[v] =         \
            Element<DType::d>::template get<T>(q.element[v]);                    \
        break;                                                                   \
    }
            NNTILE_EACH_DTYPE(DO)
#undef DO
            default: break;
        }
    }
#pragma unroll
    for (int v = 0; v < most_elements; ++v) as<T>(mine.at(slot, v)) = x[v];
}
template <class T>
__device__ void store_quad(Mine mine, int slot, const JobBlock& b, int64_t offset) {
    switch (b.dtype) {
#define DO(d)                                                                    \
    case DType::d: {                                                             \
        Quad<Storage<DType::d>> q;                                               \
        _Pragma("unroll") for (int v = 0; v < most_elements; ++v) q.element[v] = \
            Element<DType::d>::put(as<T>(mine.at(slot, v)));                     \
        auto* at = static_cast<Storage<DType::d>*>(b.data) + offset;             \
        *reinterpret_cast<Quad<Storage<DType::d>>*>(at) = q;                     \
        break;                                                                   \
    }
        NNTILE_EACH_DTYPE(DO)
#undef DO
        default: break;
    }
}
__device__ inline void run_quads(const MapJob& job) {
    const auto& space = job.blocks;
    const Mine mine{most_elements};
    const int64_t all = int64_t{gridDim.x} * map_threads;
    for (int64_t e = int64_t{blockIdx.x} * map_threads + threadIdx.x; e < space.count; e += all) {
        int32_t place[job_dims];
        int64_t rest = e;
#pragma unroll
        for (int d = job_dims; d-- > 1;)
            if (d < space.dims) place[d] = static_cast<int32_t>(take_place(rest, space.sizes[d]));
        place[0] = static_cast<int32_t>(rest);
        const auto offset_of = [&](const int64_t* strides) {
            int64_t offset = place[0] * strides[0];
#pragma unroll
            for (int d = 1; d < job_dims; ++d)
                if (d < space.dims) offset += place[d] * strides[d];
            return offset;
        };
        if (job.indexed) {
            const int64_t index = job.index_offset + offset_of(job.index_strides);
            for (int v = 0; v < most_elements; ++v)
                mine.at(job.n_slots, v).i = index + v * job.index_step;
        }
        for (int k = 0; k < job.n_in; ++k) {
            const JobBlock& b = space.blocks[k];
            const int64_t offset = b.is_number ? 0 : offset_of(b.strides);
            const bool wide = b.strides[space.dims - 1] != 0;
            if (job.kinds[k] == compute_f32) load_quad<float>(mine, job.slots[k], b, offset, wide);
            else if (job.kinds[k] == compute_f64)
                load_quad<double>(mine, job.slots[k], b, offset, wide);
            else load_quad<int64_t>(mine, job.slots[k], b, offset, wide);
        }
        run_steps(job, mine);
        for (int k = job.n_in; k < job.n_in + job.n_out; ++k) {
            const JobBlock& b = space.blocks[k];
            const int64_t offset = offset_of(b.strides);
            if (job.kinds[k] == compute_f32) store_quad<float>(mine, job.slots[k], b, offset);
            else if (job.kinds[k] == compute_f64) store_quad<double>(mine, job.slots[k], b, offset);
            else store_quad<int64_t>(mine, job.slots[k], b, offset);
        }
    }
}

// One kernel: what kernels call, ptxas compiles for each of them anew.
__global__ void __launch_bounds__(map_threads, 8) run_map(const __grid_constant__ MapJob job) {
    if (job.quads) run_quads(job);
    else run_elements(job);
}

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
    void take(int r, Compute kind) {
        kinds[r] = kind;
        if (free.empty()) free.push_back(static_cast<uint8_t>(count++));
        of[r] = free.back();
        free.pop_back();
    }
    void leave(int r, int instruction) {
        if (last_use[r] == instruction) free.push_back(of[r]);
    }
};

// As MapEngine has it (map_plan.cc): a cast to bool computes in the type of its source, whose
// fraction it must see, and not of a bool is logical.
static bool add_step(MapJob& job, const Instruction& i, const Args& args, Slots& slots) {
    const MapRow& row = map_rows()[i.primitive];
    if (i.in.size() > most_in || i.out.size() > most_out) return false;
    const int number = job.n_steps++;
    Step& step = job.steps[number];
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
    if (i.result != dtype_of(step.compute) && row.types != Types::compare) step.narrow = i.result;
    for (uint8_t r : i.in) {
        step.kinds[step.n_in] = slots.kinds[r];
        step.in[step.n_in++] = slots.of[r];
    }
    // A thread reads all of an element's operands before it writes results.
    for (size_t k = 0; k < i.in.size(); ++k)
        if (std::find(i.in.begin(), i.in.begin() + k, i.in[k]) == i.in.begin() + k)
            slots.leave(i.in[k], number);
    for (uint8_t r : i.out) {
        slots.take(r, step.compute);
        step.out[step.n_out++] = slots.of[r];
    }
    for (uint8_t r : i.out) slots.leave(r, -1);  // nobody reads it
    return true;
}

static int64_t slot_bytes(const MapJob& job) {  // for one element of each thread
    return (job.n_slots + job.indexed) * int64_t{map_threads} * sizeof(Register);
}

// Makes an element of the job out of four, where all that move lie side by side.
static void make_quads(MapJob& job) {
    auto& space = job.blocks;
    const int last = space.dims - 1, operands = job.n_in + job.n_out;
    if (last < 0 || space.sizes[last] % most_elements != 0 ||
        slot_bytes(job) * most_elements > most_bytes)
        return;
    for (int k = 0; k < operands; ++k) {
        const JobBlock& b = space.blocks[k];
        if (b.is_number || (b.strides[last] == 0 && k < job.n_in)) continue;
        if (b.strides[last] != 1) return;
        const auto bytes = static_cast<uintptr_t>(most_elements * size_of(b.dtype));
        if (reinterpret_cast<uintptr_t>(b.data) % bytes != 0) return;
        for (int d = 0; d < last; ++d)
            if (b.strides[d] % most_elements != 0) return;
    }
    job.quads = true;
    space.sizes[last] /= most_elements;
    space.count /= most_elements;
    job.index_step = job.index_strides[last];
    job.index_strides[last] *= most_elements;
    for (int k = 0; k < operands; ++k) space.blocks[k].strides[last] *= most_elements;
}

static bool make_map_job(MapJob& job, const Args& args) {
    const Program& program = *args.program;
    if (args.params.size() > most_params || program.n_registers > max_map_registers ||
        program.code.size() > max_map_instructions)
        return false;
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
        slots.take(k, compute_of(args.blocks[k].dtype));
        known_as(k, k);
    }
    for (const Instruction& i : program.code)
        if (!add_step(job, i, args, slots)) return false;
    for (int k = 0; k < job.n_out; ++k) known_as(job.n_in + k, program.n_registers - job.n_out + k);
    job.n_slots = slots.count;
    const int64_t bytes = slot_bytes(job);
    // A few elements are better given to many threads.
    job.elements = loose_elements;
    while (job.elements > 1 &&
           (bytes * job.elements > good_bytes || job.blocks.count < int64_t{job.elements} << 17))
        job.elements /= 2;
    const int64_t longest = *std::max_element(job.blocks.sizes, std::end(job.blocks.sizes));
    return bytes <= most_bytes && longest <= INT32_MAX;
}

static int start_map(const Args& args, const CudaPlace* place) {
    MapJob job;
    if (!make_map_job(job, args)) return not_on_device;
    if (!place || job.blocks.count == 0) return 0;
    for (int k = 0; k < job.n_steps && !job.refused; ++k)
        if (job.steps[k].check != MapCheck::none)
            if (const cudaError_t error = place->watch(job.refused)) return status_of(args, error);
    make_quads(job);
    const int elements = job.quads ? most_elements : job.elements;
    const Grid grid =
        grid_of(job.blocks.count, map_threads * static_cast<unsigned>(job.quads ? 1 : elements));
    const auto shared = static_cast<size_t>(slot_bytes(job) * elements);
    return status_of(args,
                     launch<run_map>(grid.blocks, dim3(map_threads), shared, place->stream, job));
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

NNTILE_CUDA_KERNEL(map) { return cuda::start_map(args, place); }

NNTILE_CUDA_KERNEL(copy) {
    const DType from = args.blocks[0].dtype, to = args.blocks[1].dtype;
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
