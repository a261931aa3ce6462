// SPDX-License-Identifier: BSD-3-Clause
// Programs of the rows of map.def on a device: an interpreter, until a program has code of its own
// (map_source.hh).
//
// A thread goes through the program once for a few elements, so that to find out what to do costs
// little beside doing it. Registers of a program lie in shared memory, where each thread has its
// own cells of 16 bytes.
#include <utility>

#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"
#include "kernels/cuda/loops.hh"
#include "kernels/cuda/map_source.hh"
#include "kernels/map_formulas_isa.hh"

namespace nntile::kernels::cuda {

constexpr unsigned map_threads = 128;
constexpr int64_t most_bytes = 96 << 10;  // of shared memory, for a block
constexpr int light = 24;                 // flops of a row whose lanes go together, in registers

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

// The elements of an operand: four at `first`, or one for all of them; or others at both offsets.
enum class Way : uint8_t { quad, one, loose };
template <class T, DType D>
__device__ void read_lanes(Lanes<T>& to, const JobBlock& b, Way way, const int64_t* offsets) {
    const auto* x = static_cast<const Storage<D>*>(b.data) + offsets[0];
    Several<Storage<D>, lanes> q;
    if (way == Way::quad) {
        q = *reinterpret_cast<const Several<Storage<D>, lanes>*>(x);
    } else {
        q.v[0] = q.v[1] = *x;
        if (way == Way::loose) q.v[1] = static_cast<const Storage<D>*>(b.data)[offsets[1]];
        q.v[2] = q.v[3] = q.v[0];
    }
#pragma unroll
    for (int v = 0; v < lanes; ++v) to.x[v] = Element<D>::template get<T>(q.v[v]);
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
        Several<Storage<D>, lanes> q;
#pragma unroll
        for (int v = 0; v < lanes; ++v) q.v[v] = Element<D>::put(from.x[v]);
        *reinterpret_cast<Several<Storage<D>, lanes>*>(y + offsets[0]) = q;
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

static int64_t shared_bytes(const MapJob& job) {
    return int64_t{job.n_slots} * job.cells * map_threads * static_cast<int64_t>(sizeof(Cell));
}

// With code of its own, if there is some by now.
static bool start_code(cudaError_t& error, const MapJob& job, const CudaPlace& place) {
    const std::string key = map_key(job);
    const int64_t elements = job.blocks.count * (job.quads ? lanes : 1);
    const cudaKernel_t kernel =
        nntile::cuda::kernel_of(key, elements, [&] { return map_source(job, key); });
    if (!kernel) return false;
    MapCall call = map_call(job);
    void* arguments[] = {&call};
    const Grid grid = grid_of(call.count, static_cast<unsigned>(code_threads * pieces_of(job)));
    error = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid.blocks, dim3(code_threads),
                             arguments, 0, place.stream);
    return true;
}

static int start_map(const Args& args, const CudaPlace* place) {
    MapJob job;
    if (!make_map_job(job, args) || shared_bytes(job) > most_bytes) return not_on_device;
    if (!place || job.blocks.count == 0) return 0;
    cudaError_t error = cudaSuccess;
    for (int k = 0; k < job.n_steps && !job.refused; ++k)
        if (job.steps[k].check != MapCheck::none)
            if ((error = place->watch(job.refused)) != cudaSuccess) return status_of(args, error);
    make_quads(job);
    if (start_code(error, job, *place)) return status_of(args, error);
    const auto apart = static_cast<unsigned>(job.quads ? 1 : job.count);
    const Grid grid = grid_of(job.blocks.count, map_threads * apart);
    const auto shared = static_cast<size_t>(shared_bytes(job));
    error = allow_shared<run_map>(shared);
    if (error == cudaSuccess)
        error = launch<run_map>(grid.blocks, dim3(map_threads), shared, place->stream, job);
    return status_of(args, error);
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(map) { return cuda::start_map(args, place); }

}  // namespace nntile::kernels
