// SPDX-License-Identifier: BSD-3-Clause
// Recurrent layers: at each step a product with the weight, by cuBLAS, then a kernel with a thread
// for each element of the hidden state. A cell is one step without a product. What goes from step
// to step is in the compute type, in the task's scratch memory; if that has too little room for all
// rows, some rows take all steps, then the next ones.
#include "kernels/cells_isa.hh"
#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"

namespace nntile::kernels {

CudaFunction copy_on_cuda, gemm_on_cuda;

}  // namespace nntile::kernels

namespace nntile::kernels::cuda {

// An operand at one step: (row, element).
struct Matrix {
    void* data = nullptr;  // nullptr: absent
    DType dtype = DType::none;
    int64_t row = 0, element = 0;

    template <class T>
    __device__ T get(int64_t r, int64_t j) const {
        return data ? load_as<T>(data, dtype, r * row + j * element) : T(0);
    }
    template <class T>
    __device__ void set(int64_t r, int64_t j, T x) const {
        if (data) store_as(data, dtype, r * row + j * element, x);
    }
};

// What a step reads and writes; the formula says which of them. added: what the state adds to the
// gates. kept: of each step, for the backward pass. to_state: what the next step gets.
struct StepJob {
    int64_t n = 0, h = 0;
    Matrix x, x_bias, added, added_bias, before, hidden, cell, last_cell, kept, to_state;
    Matrix dy, dhidden, dcell, dcell_before, dx, dadded;
    bool relu = false, keeps_state = false;
};

// Gate q of the four or three, from the inputs and from the state.
template <class T>
__device__ T from_inputs(const StepJob& job, int64_t r, int64_t at) {
    return job.x.get<T>(r, at) + job.x_bias.get<T>(0, at);
}
template <class T>
__device__ T from_state(const StepJob& job, int64_t r, int64_t at) {
    return job.added.get<T>(r, at) + job.added_bias.get<T>(0, at);
}
// The next step reads what was stored, in a short float too.
template <class T>
__device__ void set_hidden(const StepJob& job, int64_t r, int64_t j, T y) {
    job.hidden.set(r, j, y);
    job.to_state.set(r, j, job.hidden.get<T>(r, j));
}

struct Lstm {
    template <class T>
    static __device__ void run(const StepJob& job, int64_t r, int64_t j) {
        T gate[4], cell, y;
        for (int q = 0; q < 4; ++q) {
            const int64_t at = q * job.h + j;
            gate[q] = from_inputs<T>(job, r, at) + from_state<T>(job, r, at);
        }
        lstm_of(gate[0], gate[1], gate[2], gate[3], job.before.get<T>(r, j), cell, y);
        for (int q = 0; q < 4; ++q) job.kept.set(r, q * job.h + j, gate[q]);
        job.cell.set(r, j, cell);
        job.last_cell.set(r, j, job.cell.get<T>(r, j));
        set_hidden(job, r, j, y);
    }
};
struct LstmBackward {
    template <class T>
    static __device__ void run(const StepJob& job, int64_t r, int64_t j) {
        T gate[4], d[4], dcell = job.dcell.get<T>(r, j);
        for (int q = 0; q < 4; ++q) gate[q] = job.kept.get<T>(r, q * job.h + j);
        lstm_backward_of(gate[0], gate[1], gate[2], gate[3], job.before.get<T>(r, j),
                         job.cell.get<T>(r, j), job.dhidden.get<T>(r, j) + job.dy.get<T>(r, j),
                         dcell, d[0], d[1], d[2], d[3]);
        for (int q = 0; q < 4; ++q) {
            job.dx.set(r, q * job.h + j, d[q]);
            job.added.set(r, q * job.h + j, d[q]);
        }
        job.dcell_before.set(r, j, dcell);
    }
};
struct Gru {
    template <class T>
    static __device__ void run(const StepJob& job, int64_t r, int64_t j) {
        const int64_t z_at = job.h + j, n_at = 2 * job.h + j;
        const T of_state = from_state<T>(job, r, n_at), before = job.before.get<T>(r, j);
        T reset = from_inputs<T>(job, r, j) + from_state<T>(job, r, j),
          update = from_inputs<T>(job, r, z_at) + from_state<T>(job, r, z_at), fresh,
          hidden = before;
        gru_of(reset, update, from_inputs<T>(job, r, n_at), of_state, fresh, hidden);
        job.kept.set(r, j, reset);
        job.kept.set(r, z_at, update);
        job.kept.set(r, n_at, fresh);
        job.kept.set(r, 3 * job.h + j, of_state);
        if (job.keeps_state) job.kept.set(r, 4 * job.h + j, before);
        set_hidden(job, r, j, hidden);
    }
};
struct GruBackward {
    template <class T>
    static __device__ void run(const StepJob& job, int64_t r, int64_t j) {
        const int64_t z_at = job.h + j, n_at = 2 * job.h + j, kept_state = 4 * job.h + j;
        const T before = job.keeps_state ? job.kept.get<T>(r, kept_state) : job.before.get<T>(r, j);
        const T reset = job.kept.get<T>(r, j);
        T dhidden = job.dhidden.get<T>(r, j) + job.dy.get<T>(r, j), dreset, dupdate, dfresh;
        gru_backward_of(reset, job.kept.get<T>(r, z_at), job.kept.get<T>(r, n_at),
                        job.kept.get<T>(r, 3 * job.h + j), before, dhidden, dreset, dupdate,
                        dfresh);
        const T d[] = {dreset, dupdate, dfresh}, dstate[] = {dreset, dupdate, dfresh * reset};
        for (int q = 0; q < 3; ++q) {
            job.dx.set(r, q * job.h + j, d[q]);
            job.dadded.set(r, q * job.h + j, dstate[q]);
            job.added.set(r, q * job.h + j, dstate[q]);
        }
        job.to_state.set(r, j, dhidden);
    }
};
struct Rnn {
    template <class T>
    static __device__ void run(const StepJob& job, int64_t r, int64_t j) {
        set_hidden(job, r, j, rnn_of(job.x.get<T>(r, j) + job.added.get<T>(r, j), job.relu));
    }
};
struct RnnBackward {
    template <class T>
    static __device__ void run(const StepJob& job, int64_t r, int64_t j) {
        const T dy = job.dhidden.get<T>(r, j) + job.dy.get<T>(r, j);
        const T dx = rnn_backward_of(job.hidden.get<T>(r, j), dy, job.relu);
        job.dx.set(r, j, dx);
        job.added.set(r, j, dx);
    }
};

template <class Formula, class T>
__global__ void recurrent_step(const __grid_constant__ StepJob job) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < job.n * job.h;
         number += all)
        Formula::template run<T>(job, number / job.h, number % job.h);
}

template <class Formula, class T>
static int start_step(const Args& args, const StepJob& job, cudaStream_t stream) {
    const Grid grid = grid_of(job.n * job.h);
    return status_of(args,
                     launch<recurrent_step<Formula, T>>(grid.blocks, grid.threads, 0, stream, job));
}

// y = x, of m rows of n.
static int copy_matrix(const Args& args, const Matrix& x, const Matrix& y, int64_t m, int64_t n,
                       const CudaPlace* place) {
    const int64_t sizes[] = {m, n}, of_x[] = {x.row, x.element}, of_y[] = {y.row, y.element};
    const Block blocks[] = {{static_cast<std::byte*>(x.data), x.dtype, of_x},
                            {static_cast<std::byte*>(y.data), y.dtype, of_y}};
    Args copy = args;
    copy.sizes = sizes;
    copy.blocks = blocks;
    return copy_on_cuda(copy, place);
}

// ---- cells; kernel dims n, gates, h, kept

enum : size_t { cell_gates = 1, cell_state = 2, cell_kept = 3 };

static Matrix of_cell(const Args& args, size_t k, size_t last) {
    const Block& b = args.blocks[k];
    return b.data ? Matrix{b.data, b.dtype, b.strides[0], b.strides[last]} : Matrix{};
}

// x, added, the state before, x_bias?, added_bias? -> the hidden state, ..
static StepJob forward_cell(const Args& args) {
    StepJob job;
    job.x = of_cell(args, 0, cell_gates);
    job.added = of_cell(args, 1, cell_gates);
    job.before = of_cell(args, 2, cell_state);
    job.x_bias = of_cell(args, 3, cell_gates);
    job.added_bias = of_cell(args, 4, cell_gates);
    job.hidden = of_cell(args, 5, cell_state);
    return job;
}

// typed: an operand whose dtype says that of the arithmetic.
template <class Formula>
static int start_cell(const Args& args, const CudaPlace* place, const Block& typed, StepJob job) {
    if (args.numbers != 0 || !is_floating(typed.dtype)) return not_on_device;
    job.n = args.sizes[0];
    job.h = args.sizes[cell_state];
    if (!place || job.n == 0 || job.h == 0) return 0;
    return typed.dtype == DType::f64 ? start_step<Formula, double>(args, job, place->stream)
                                     : start_step<Formula, float>(args, job, place->stream);
}

// ---- sequences; kernel dims n, t, gates, h, kept

enum : size_t { of_gates = 2, of_state = 3, of_kept = 4 };

// Some rows of an operand, and where it lies at a step.
struct Rows {
    const Args& args;
    int64_t first = 0, count = 0;

    // Operand k at a step: its last dim is this one.
    Matrix at(size_t k, size_t last, int64_t step = 0) const {
        const Block& b = args.blocks[k];
        if (!b.data) return {};
        const int64_t offset = step * b.strides[1] + first * b.strides[0];
        return {b.data + offset * size_of(b.dtype), b.dtype, b.strides[0], b.strides[last]};
    }
};
// What a layer keeps in scratch memory for its rows. added: what the state adds to the gates, or
// the gradient of that. through: the gradient of the cell.
struct Carried {
    Matrix added, state, through;
};
// A step of a sequence, and the one before it: -1 at the start.
struct Moment {
    int64_t step, before;
    bool last;  // of the sequence
};

// A layer forward: added = state w' and then the formula at each step. Backward the formula, and
// then state = added w; onto: it is added to what the formula left there.
enum class Way { forward, backward, backward_onto };

struct Layer {
    Way way;
    const Block& w;
    int start, end;  // operands: of the hidden state or its gradient; -1: it starts with 0, or ends
};

static int multiply(const Args& args, Way way, const Carried& carried, const Matrix& w,
                    int64_t rows, const CudaPlace* place) {
    const int64_t gates = args.sizes[of_gates], h = args.sizes[of_state];
    const bool forward = way == Way::forward;
    const Matrix &a = forward ? carried.state : carried.added,
                 &y = forward ? carried.added : carried.state;
    const int64_t sizes[] = {rows, forward ? gates : h, forward ? h : gates};
    const int64_t of_a[] = {a.row, 0, a.element}, of_y[] = {y.row, y.element, 0},
                  of_w[] = {0, forward ? w.row : w.element, forward ? w.element : w.row};
    const auto block = [](const Matrix& p, const int64_t* strides) {
        return Block{static_cast<std::byte*>(p.data), p.dtype, strides};
    };
    const Block blocks[] = {block(a, of_a), block(w, of_w), {}, block(y, of_y)};
    Param params[3];
    params[0].f = 1;
    params[1].f = 0;
    params[2].i = way == Way::backward_onto;
    Args product = args;
    product.sizes = sizes;
    product.blocks = blocks;
    product.params = params;
    return gemm_on_cuda(product, place);
}

// fill(job, rows, carried, moment) names the operands of a step.
template <class Formula, class T, class Fill>
static int run_layer(const Args& args, const CudaPlace* place, const Layer& layer, Fill&& fill) {
    constexpr DType type = std::is_same_v<T, float> ? DType::f32 : DType::f64;
    const int64_t n = args.sizes[0], steps = args.sizes[1], gates = args.sizes[of_gates],
                  h = args.sizes[of_state];
    const Block& given = layer.w;
    Matrix w{given.data, given.dtype, given.strides[of_gates], given.strides[of_state]};
    T* scratch = place ? reinterpret_cast<T*>(place->scratch) : nullptr;
    const auto take = [&](int64_t rows, int64_t width) {
        const Matrix taken{scratch, type, width, 1};
        if (scratch) scratch += rows * width;
        return taken;
    };
    const Carried nothing{{nullptr, type, gates, 1}, {nullptr, type, h, 1}, {}};
    auto room = static_cast<int64_t>(CudaPlace::scratch_bytes / sizeof(T));
    if (w.dtype != type || multiply(args, layer.way, nothing, w, 1, nullptr) != 0) {
        const Matrix dense = take(gates, h);
        room -= gates * h;
        if (copy_matrix(args, w, dense, gates, h, nullptr) != 0) return not_on_device;
        if (place && n > 0)
            if (const int status = copy_matrix(args, w, dense, gates, h, place)) return status;
        w = dense;
    }
    const int64_t most = room / (gates + 2 * h);
    if (most < 1 || multiply(args, layer.way, nothing, w, 1, nullptr) != 0) return not_on_device;
    if (!place) return 0;
    const auto step_of = [&](int64_t s) { return args.params[0].i ? steps - 1 - s : s; };
    const bool forward = layer.way == Way::forward;
    T* const own = scratch;
    for (Rows rows{args}; rows.first < n; rows.first += rows.count) {
        rows.count = std::min(most, n - rows.first);
        scratch = own;
        const Matrix added = take(rows.count, gates), state = take(rows.count, h);
        const Carried carried{added, state, take(rows.count, h)};
        const int started =
            layer.start >= 0
                ? copy_matrix(args, rows.at(size_t(layer.start), of_state), state, rows.count, h,
                              place)
                : status_of(args, cudaMemsetAsync(state.data, 0,
                                                  static_cast<size_t>(rows.count * h) * sizeof(T),
                                                  place->stream));
        if (started != 0) return started;
        for (int64_t k = 0; k < steps; ++k) {
            const int64_t s = forward ? k : steps - 1 - k;
            if (forward)
                if (const int status = multiply(args, layer.way, carried, w, rows.count, place))
                    return status;
            StepJob job;
            job.n = rows.count;
            job.h = h;
            job.added = added;
            job.to_state = state;
            if (!forward) job.dhidden = state;
            fill(job, rows, carried,
                 Moment{step_of(s), s > 0 ? step_of(s - 1) : -1, s == steps - 1});
            if (const int status = start_step<Formula, T>(args, job, place->stream)) return status;
            if (!forward)
                if (const int status = multiply(args, layer.way, carried, w, rows.count, place))
                    return status;
        }
        if (layer.end >= 0)
            if (const int status = copy_matrix(args, state, rows.at(size_t(layer.end), of_state),
                                               rows.count, h, place))
                return status;
    }
    return 0;
}
template <class Formula, class Fill>
static int start_layer(const Args& args, const CudaPlace* place, const Block& typed,
                       const Layer& layer, Fill&& fill) {
    if (args.numbers != 0 || !is_floating(typed.dtype) || !is_floating(layer.w.dtype))
        return not_on_device;
    return typed.dtype == DType::f64 ? run_layer<Formula, double>(args, place, layer, fill)
                                     : run_layer<Formula, float>(args, place, layer, fill);
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

using namespace cuda;

// x, added, cx, x_bias?, added_bias? -> hy, cy, gates
NNTILE_CUDA_KERNEL(lstm_cell) {
    StepJob job = forward_cell(args);
    job.cell = of_cell(args, 6, cell_state);
    job.kept = of_cell(args, 7, cell_gates);
    return start_cell<Lstm>(args, place, args.blocks[0], job);
}

// dhy?, dcy?, cx, cy, gates -> dgates, dcx
NNTILE_CUDA_KERNEL(lstm_cell_backward) {
    StepJob job;
    job.dy = of_cell(args, 0, cell_state);
    job.dcell = of_cell(args, 1, cell_state);
    job.before = of_cell(args, 2, cell_state);
    job.cell = of_cell(args, 3, cell_state);
    job.kept = of_cell(args, 4, cell_gates);
    job.dx = of_cell(args, 5, cell_gates);
    job.dcell_before = of_cell(args, 6, cell_state);
    return start_cell<LstmBackward>(args, place, args.blocks[2], job);
}

// x, added, hx, x_bias?, added_bias? -> hy, kept
NNTILE_CUDA_KERNEL(gru_cell) {
    StepJob job = forward_cell(args);
    job.kept = of_cell(args, 6, cell_kept);
    job.keeps_state = true;
    return start_cell<Gru>(args, place, args.blocks[0], job);
}

// dhy, kept -> dx, dadded, dhx
NNTILE_CUDA_KERNEL(gru_cell_backward) {
    StepJob job;
    job.dy = of_cell(args, 0, cell_state);
    job.kept = of_cell(args, 1, cell_kept);
    job.keeps_state = true;
    job.dx = of_cell(args, 2, cell_gates);
    job.dadded = of_cell(args, 3, cell_gates);
    job.to_state = of_cell(args, 4, cell_state);
    return start_cell<GruBackward>(args, place, args.blocks[0], job);
}

// x, w, hx, cx -> y, cy, cells, gates
NNTILE_CUDA_KERNEL(lstm_sequence) {
    return start_layer<Lstm>(args, place, args.blocks[0], {Way::forward, args.blocks[1], 2, -1},
                             [](StepJob& job, const Rows& rows, const Carried&, Moment at) {
                                 job.x = rows.at(0, of_gates, at.step);
                                 job.before = at.before < 0 ? rows.at(3, of_state)
                                                            : rows.at(6, of_state, at.before);
                                 job.hidden = rows.at(4, of_state, at.step);
                                 if (at.last) job.last_cell = rows.at(5, of_state);
                                 job.cell = rows.at(6, of_state, at.step);
                                 job.kept = rows.at(7, of_gates, at.step);
                             });
}

// dy?, dcy?, w, cx, cells, gates -> dx, dhx, dcx
NNTILE_CUDA_KERNEL(lstm_sequence_backward) {
    return start_layer<LstmBackward>(
        args, place, args.blocks[2], {Way::backward, args.blocks[2], -1, 7},
        [](StepJob& job, const Rows& rows, const Carried& carried, Moment at) {
            job.dy = rows.at(0, of_state, at.step);
            job.dcell = at.last ? rows.at(1, of_state) : carried.through;
            job.before = at.before < 0 ? rows.at(3, of_state) : rows.at(4, of_state, at.before);
            job.cell = rows.at(4, of_state, at.step);
            job.kept = rows.at(5, of_gates, at.step);
            job.dx = rows.at(6, of_gates, at.step);
            job.dcell_before = at.before < 0 ? rows.at(8, of_state) : carried.through;
        });
}

// x, w, bias?, hx -> y, kept
NNTILE_CUDA_KERNEL(gru_sequence) {
    return start_layer<Gru>(args, place, args.blocks[0], {Way::forward, args.blocks[1], 3, -1},
                            [](StepJob& job, const Rows& rows, const Carried&, Moment at) {
                                job.x = rows.at(0, of_gates, at.step);
                                job.added_bias = Rows{rows.args}.at(2, of_gates);
                                job.before = at.before < 0 ? rows.at(3, of_state)
                                                           : rows.at(4, of_state, at.before);
                                job.hidden = rows.at(4, of_state, at.step);
                                job.kept = rows.at(5, of_kept, at.step);
                            });
}

// dy, w, hx, y, kept -> dx, dadded, dhx
NNTILE_CUDA_KERNEL(gru_sequence_backward) {
    return start_layer<GruBackward>(
        args, place, args.blocks[0], {Way::backward_onto, args.blocks[1], -1, 7},
        [](StepJob& job, const Rows& rows, const Carried&, Moment at) {
            job.dy = rows.at(0, of_state, at.step);
            job.before = at.before < 0 ? rows.at(2, of_state) : rows.at(3, of_state, at.before);
            job.kept = rows.at(4, of_kept, at.step);
            job.dx = rows.at(5, of_gates, at.step);
            job.dadded = rows.at(6, of_gates, at.step);
        });
}

// x, w, hx -> y
NNTILE_CUDA_KERNEL(rnn_sequence) {
    return start_layer<Rnn>(args, place, args.blocks[0], {Way::forward, args.blocks[1], 2, -1},
                            [&](StepJob& job, const Rows& rows, const Carried&, Moment at) {
                                job.relu = args.params[1].i != 0;
                                job.x = rows.at(0, of_gates, at.step);
                                job.hidden = rows.at(3, of_state, at.step);
                            });
}

// dy, w, y -> dx, dhx
NNTILE_CUDA_KERNEL(rnn_sequence_backward) {
    return start_layer<RnnBackward>(args, place, args.blocks[0],
                                    {Way::backward, args.blocks[1], -1, 4},
                                    [&](StepJob& job, const Rows& rows, const Carried&, Moment at) {
                                        job.relu = args.params[1].i != 0;
                                        job.dy = rows.at(0, of_state, at.step);
                                        job.hidden = rows.at(2, of_state, at.step);
                                        job.dx = rows.at(3, of_gates, at.step);
                                    });
}

}  // namespace nntile::kernels
