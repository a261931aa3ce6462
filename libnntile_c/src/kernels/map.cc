// SPDX-License-Identifier: BSD-3-Clause
// The map engine: a program of element-wise primitives, run chunk by chunk over a strided iteration
// space. A chunk is what fits registers of 4 to 8 KiB, so that a fused chain stays in the L1 cache.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/functions.hh"
#include "kernels/map_engine.hh"
#include "kernels/refuse.hh"
#include "kernels/scratch.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {

namespace {

enum class Spread { dense, one, other };

// How an operand lies in the elements of the task; a number has no strides.
Spread spread_of(const Args& args, const int64_t* strides) {
    if (!strides) return Spread::one;
    int64_t dense = 1;
    bool is_dense = true, is_one = true;
    for (size_t d = args.sizes.size(); d-- > 0;) {
        if (args.sizes[d] == 1) continue;
        is_dense = is_dense && strides[d] == dense;
        is_one = is_one && strides[d] == 0;
        dense *= args.sizes[d];
    }
    return is_dense ? Spread::dense : is_one ? Spread::one : Spread::other;
}

// A cast of dense elements from or to what it computes in. False: it takes the engine.
bool run_cast(const Args& args) {
    const Program& program = *args.program;
    if (program.code.size() != 1 || program.code[0].primitive != number_of_cast ||
        args.blocks.size() != 2)
        return false;
    const Block &x = args.blocks[0], &y = args.blocks[1];
    const DType result = program.code[0].result;
    const Compute compute = compute_of(program.code[0].compute);
    if (y.dtype == DType::boolean || (result != DType::none && result != y.dtype) ||
        spread_of(args, x.strides) != Spread::dense || spread_of(args, y.strides) != Spread::dense)
        return false;
    int64_t n = 1;
    for (int64_t size : args.sizes) n *= size;
    if (x.dtype == dtype_of(compute)) storer(compute, y.dtype)(x.data, y.data, 1, n);
    else if (y.dtype == dtype_of(compute)) loader(x.dtype, compute)(x.data, y.data, 1, n);
    else return false;
    return true;
}

// One formula on operands that are dense, or one element: nothing is to be planned. What has
// another dtype is converted as a whole, so there must be few. False: it takes the engine.
bool run_formula(const Args& args) {
    constexpr size_t most = 5;  // operands
    constexpr int64_t few = 256;
    const Program& program = *args.program;
    if (program.code.size() != 1 || args.blocks.size() > most) return false;
    const Instruction& formula = program.code[0];
    const MapRow& row = map_rows()[formula.primitive];
    const Compute compute = compute_of(formula.compute);
    const DType dtype = dtype_of(compute);
    const MapLoop loop = map_loops().loop[formula.primitive][compute];
    if (!loop || !row.by_blocks || row.check != MapCheck::none || row.uses_index ||
        formula.primitive == number_of_cast || formula.primitive == number_of_bitwise_not ||
        (formula.result != DType::none && formula.result != dtype))
        return false;
    int64_t n = 1;
    for (int64_t size : args.sizes) n *= size;
    if (n == 0) return false;
    alignas(64) double room[most][few];
    const void* in[most];
    void* out[most];
    bool uniform[most] = {};
    Stored stored[most];
    std::fill_n(stored, most, Stored{nullptr, size_of(dtype)});
    for (size_t k = 0; k < formula.in.size(); ++k) {
        if (formula.in[k] >= program.n_in) return false;
        const Block& b = args.blocks[formula.in[k]];
        const Spread spread = spread_of(args, b.strides);
        in[k] = b.data;
        if (spread == Spread::dense && b.dtype == dtype) continue;
        uniform[k] = spread == Spread::one || n == 1;
        if (!uniform[k] && (spread == Spread::other || n > few)) return false;
        if (uniform[k]) loader(b.dtype, compute)(b.data, room[k], 0, map_block);
        else loader(b.dtype, compute)(b.data, room[k], 1, n);
        in[k] = room[k];
    }
    const Block* result = nullptr;  // the one that is converted
    for (size_t k = 0; k < formula.out.size(); ++k) {
        const int block = program.n_in + formula.out[k] - (program.n_registers - program.n_out);
        if (block < program.n_in) return false;
        const Block& b = args.blocks[static_cast<size_t>(block)];
        if (spread_of(args, b.strides) != Spread::dense) return false;
        out[k] = b.data;
        if (b.dtype == dtype) continue;
        if (formula.out.size() > 1 || n > few) return false;
        result = &b;
        out[k] = room[most - 1];
    }
    if (static_cast<size_t>(program.n_out) != formula.out.size()) return false;
    const DType target = result ? result->dtype : dtype;
    loop({n, 1, in, uniform, out, stored, args.params.data() + formula.first_param, nullptr,
          target});
    if (result) storer(compute, result->dtype)(room[most - 1], result->data, 1, n);
    return true;
}

int run_map(const Args& args) {
    if (run_cast(args) || run_formula(args)) return 0;
    MapEngine engine(args);
    if (int status = engine.prepare()) return status;
    return engine.run();
}

// Dims along which no input varies, as of the gradient of a mean. Results are the same along them.
// False: there are too few.
bool repeated_dims(const Args& args, SmallVector<bool, 8>& repeated) {
    constexpr int64_t few = 16, most_bytes = 1 << 20;
    const Program& program = *args.program;
    if (uses_index(program)) return false;
    int64_t times = 1, once = 1;
    for (size_t d = 0; d < args.sizes.size(); ++d) {
        bool varies = args.sizes[d] == 1;
        for (int k = 0; k < program.n_in; ++k)
            varies = varies || (args.blocks[k].strides && args.blocks[k].strides[d] != 0);
        repeated.push_back(!varies);
        (varies ? once : times) *= args.sizes[d];
    }
    return once > 1 && once * size_of(DType::f64) <= most_bytes && times >= few;
}

// Results are computed once, and copied along these dims.
int map_and_repeat(const Args& args, std::span<const bool> repeated) {
    static thread_local Scratch scratch;
    const auto outputs = args.blocks.subspan(args.program->n_in);
    Dims sizes(args.sizes), strides(args.sizes);
    int64_t once = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
        if (repeated[d]) sizes[d] = 1;
        strides[d] = sizes[d] == 1 ? 0 : once;
        once *= sizes[d];
    }
    SmallVector<Block, 8> blocks;
    for (const Block& b : args.blocks) blocks.push_back(b);
    size_t bytes = 0;
    for (const Block& y : outputs) bytes += padded(static_cast<size_t>(once * size_of(y.dtype)));
    scratch.begin(bytes);
    for (size_t k = args.program->n_in; k < blocks.size(); ++k) {
        const auto room = static_cast<size_t>(once * size_of(blocks[k].dtype));
        blocks[k] = {scratch.take(room), blocks[k].dtype, strides.data()};
    }
    Args part = args;
    part.sizes = sizes;
    part.blocks = blocks;
    if (int status = run_map(part)) return status;
    for (size_t k = 0; k < outputs.size(); ++k) {
        const Block pair[] = {blocks[args.program->n_in + k], outputs[k]};
        Args spread = args;
        spread.blocks = pair;
        if (int status = copy(spread)) return status;
    }
    return 0;
}

}  // namespace

int map(const Args& args) {
    SmallVector<bool, 8> repeated;
    if (!repeated_dims(args, repeated)) return run_map(args);
    return map_and_repeat(args, repeated);
}

int MapEngine::run() {
    if (space.empty()) return 0;
    prepare_calls();
    Walk walk(space, split - 1);
    const int64_t size = space.sizes[split - 1];
    const int last = space.dims - 1;
    const int64_t across = columns > 0 ? space.sizes[last] : 1, step = columns > 0 ? columns : 1;
    bool first = true;
    do {
        for (int64_t at = 0; at < size; at += rows)
            for (int64_t c = 0; c < across; c += step) {
                for (int k = 0; k < space.operands; ++k) {
                    position[k] = walk.offset[k] + at * space.strides[k][split - 1];
                    if (columns > 0) position[k] += c * space.strides[k][last];
                }
                if (columns > 0) {
                    take_columns(std::min(step, across - c));
                    prefetch(std::min(rows, size - at), across - c);
                }
                if (int status = run_chunk(std::min(rows, size - at), first)) return status;
                first = false;
            }
    } while (walk.next());
    return 0;
}

// The chunk beside this one: its lines lie too far from each other for the processor to see that it
// comes.
void MapEngine::prefetch(int64_t count, int64_t left) const {
    constexpr int64_t line = 64;
    if (left <= columns) return;
    const int last = space.dims - 1;
    for (int k = 0; k < program.n_in + program.n_out; ++k) {
        const int64_t bytes = size_of(args.blocks[k].dtype);
        int64_t step = space.strides[k][last] * bytes, apart = space.strides[k][last - 1] * bytes;
        int64_t m = count, n = std::min(columns, left - columns);
        const std::byte* next = args.blocks[k].data + position[k] * bytes + columns * step;
        if (std::abs(apart) < std::abs(step)) {
            std::swap(step, apart);
            std::swap(m, n);
        }
        if (step <= 0) continue;
        for (int64_t i = 0; i < m; ++i)
            for (int64_t at = 0; at < n * step; at += line)
                __builtin_prefetch(next + i * apart + at, 0, 2);
    }
}

void MapEngine::take_columns(int64_t count) {
    inner = count;
    for (int k = 0; k < space.operands; ++k) footprints[k].sizes[footprints[k].dims - 1] = count;
}

int MapEngine::run_chunk(int64_t count, bool first) {
    const int64_t n = count * inner;
    for (int k = 0; k < n_direct; ++k) {
        Slot& s = slots[direct[k]];
        s.at = args.blocks[s.block].data + position[s.block] * size_of(args.blocks[s.block].dtype);
    }
    for (int k = 0; k < n_steps; ++k) {
        const Step& step = steps[k];
        const Slot& s = slots[step.slot];
        switch (step.kind) {
            case Step::load:
                // The first chunk has the most rows, so what it loads serves all others.
                if (first || !footprints[s.block].invariant) run_load(step, count);
                break;
            case Step::index: run_index(step, count); break;
            case Step::convert: step.convert_run(slots[step.from].at, s.at, 1, n); break;
            case Step::narrow: step.convert_run(s.at, s.at, 1, n); break;
            case Step::compute:
                if (int status = run_compute(step, n)) return status;
                break;
            case Step::store: run_store(step, count); break;
        }
    }
    return 0;
}

namespace {

// m rows of n elements, where they lie in an operand.
struct Plane {
    int64_t m, n, row_step, step;
    // In columns, where those are the longer runs or the shorter steps.
    bool by_columns() const {
        constexpr int64_t short_row = 16;
        if (m == 1 || n == 1) return m > n;
        return row_step != 0 &&
               (std::abs(row_step) < std::abs(step) || (n < short_row && m > n && step != 1));
    }
};

// Calls move(offset in the block, element of the chunk, plane) for each plane of the last two dims.
template <class Move>
void for_planes(const MapEngine::Footprint& f, int64_t count, Move&& move) {
    const int last = f.dims - 1;
    const auto size_of_dim = [&](int d) { return f.sizes[d] * (d == 0 ? count : 1); };
    Plane plane{1, size_of_dim(last), 0, f.strides[last]};
    if (last > 0) {
        plane.m = size_of_dim(last - 1);
        plane.row_step = f.strides[last - 1];
    }
    int64_t at[max_dims] = {}, offset = 0, element = 0;
    for (;;) {
        move(offset, element, plane);
        element += plane.m * plane.n;
        int d = last - 2;
        for (; d >= 0; --d) {
            const int64_t size = size_of_dim(d);
            offset += f.strides[d];
            if (++at[d] < size) break;
            offset -= size * f.strides[d];
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

}  // namespace

void MapEngine::run_load(const Step& step, int64_t count) {
    const Slot& s = slots[step.slot];
    const Block& b = args.blocks[s.block];
    const int64_t from = size_of(b.dtype), to = size_of(s.compute);
    const bool same = b.dtype == dtype_of(s.compute);
    const std::byte* data = b.data + position[s.block] * from;
    if (s.uniform) return step.convert_run(data, s.at, 0, map_block);
    std::byte* at = step.from < 0 ? s.at : args.blocks[step.from].data + position[step.from] * to;
    for_planes(footprints[s.block], count, [&](int64_t offset, int64_t element, const Plane& p) {
        const std::byte* x = data + offset * from;
        std::byte* y = at + element * to;
        if (p.row_step == 0 && p.m > 1) {  // one row, then twice as many at each copy
            step.convert_run(x, y, p.step, p.n);
            const int64_t row = p.n * to, all = p.m * row;
            for (int64_t done = row; done < all; done *= 2)
                std::memcpy(y + done, y, std::min(done, all - done));
            return;
        }
        if (!p.by_columns()) {
            for (int64_t i = 0; i < p.m; ++i)
                step.convert_run(x + i * p.row_step * from, y + i * p.n * to, p.step, p.n);
            return;
        }
        const Transpose transpose = transpose_of(to);
        if (same && p.row_step == 1) return transpose(x, p.step, y, p.n, p.m, p.n);
        if (from <= to && p.row_step == 1) {  // converted at once, and moved while it is short
            transpose_of(from)(x, p.step, turned, p.n, p.m, p.n);
            return step.convert_run(turned, y, 1, p.m * p.n);
        }
        for (int64_t j = 0; j < p.n; ++j)
            step.convert_run(x + j * p.step * from, turned + j * p.m * to, p.row_step, p.m);
        transpose(turned, p.m, y, p.n, p.m, p.n);
    });
}

void MapEngine::run_index(const Step& step, int64_t count) {
    int64_t* index = reinterpret_cast<int64_t*>(slots[step.slot].at);
    const int64_t start = args.index_offset + position[space.operands - 1];
    for_planes(footprints[space.operands - 1], count,
               [&](int64_t offset, int64_t element, const Plane& p) {
                   for (int64_t i = 0; i < p.m; ++i)
                       for (int64_t j = 0; j < p.n; ++j)
                           index[element + i * p.n + j] =
                               start + offset + i * p.row_step + j * p.step;
               });
}

void MapEngine::run_store(const Step& step, int64_t count) {
    const Slot& s = slots[step.slot];
    const Block& b = args.blocks[step.from];
    const int64_t from = size_of(s.compute), to = size_of(b.dtype);
    const bool same = b.dtype == dtype_of(s.compute);
    std::byte* data = b.data + position[step.from] * to;
    for_planes(footprints[step.from], count, [&](int64_t offset, int64_t element, const Plane& p) {
        const std::byte* x = s.at + element * from;
        std::byte* y = data + offset * to;
        if (!p.by_columns()) {
            for (int64_t i = 0; i < p.m; ++i)
                step.convert_run(x + i * p.n * from, y + i * p.row_step * to, p.step, p.n);
            return;
        }
        const Transpose transpose = transpose_of(from);
        if (same && p.row_step == 1) return transpose(x, p.n, y, p.step, p.n, p.m);
        if (to <= from && p.row_step == 1) {
            step.convert_run(x, turned, 1, p.m * p.n);
            return transpose_of(to)(turned, p.n, y, p.step, p.n, p.m);
        }
        transpose(x, p.n, turned, p.m, p.n, p.m);
        for (int64_t j = 0; j < p.n; ++j)
            step.convert_run(turned + j * p.m * from, y + j * p.step * to, p.row_step, p.m);
    });
}

namespace {

template <class T>
bool are_probabilities(const void* data, int64_t n) {  // a nan is none
    const T* p = static_cast<const T*>(data);
    return std::all_of(p, p + n, [](T x) { return x >= 0 && x <= 1; });
}

}  // namespace

int MapEngine::check_input(const Step& step, const void* input, int64_t n) const {
    if (step.check == MapCheck::divisor) {
        const int64_t* divisor = static_cast<const int64_t*>(input);
        if (std::find(divisor, divisor + n, 0) == divisor + n) return 0;
        return refuse(args, {Refusal::zero_divisor});
    }
    const Compute compute = slots[step.in[step.checked]].compute;
    const bool fit = compute == compute_f32   ? are_probabilities<float>(input, n)
                     : compute == compute_f64 ? are_probabilities<double>(input, n)
                                              : are_probabilities<int64_t>(input, n);
    if (fit) return 0;
    return refuse(args, {Refusal::no_probability});
}

// All but where the chunk lies is the same for every one.
void MapEngine::prepare_calls() {
    int16_t count = 0;
    for (int k = 0; k < n_steps; ++k) {
        Step& step = steps[k];
        if (step.kind != Step::compute) continue;
        step.from = count;
        Call& call = calls[count++];
        const int64_t* index =
            index_slot < 0 ? nullptr : reinterpret_cast<const int64_t*>(slots[index_slot].at);
        call.loop = {0,
                     1,
                     call.in,
                     call.uniform,
                     call.out,
                     call.stored,
                     args.params.data() + step.first_param,
                     index,
                     step.dtype};
        call.moves = false;
        const auto take = [&](int16_t slot) {
            call.moves = call.moves || !slots[slot].at;  // it lies in the block itself
            return slots[slot].at;
        };
        for (int i = 0; i < step.n_in; ++i) {
            call.in[i] = take(step.in[i]);
            call.uniform[i] = slots[step.in[i]].uniform;
            call.stored[i] = slots[step.in[i]].stored;
        }
        for (int i = 0; i < step.n_out; ++i) {
            call.out[i] = take(step.out[i]);
            Stored& stored = call.stored[step.n_in + i] = slots[step.out[i]].stored;
            if (!stored.convert) stored.convert = step.convert_run;
        }
    }
}

int MapEngine::run_compute(const Step& step, int64_t n) {
    Call& call = calls[step.from];
    if (call.moves) {
        for (int k = 0; k < step.n_in; ++k) call.in[k] = slots[step.in[k]].at;
        for (int k = 0; k < step.n_out; ++k) call.out[k] = slots[step.out[k]].at;
    }
    if (step.check != MapCheck::none) {
        const int64_t checked = call.uniform[step.checked] ? map_block : n;
        if (int status = check_input(step, call.in[step.checked], checked)) return status;
    }
    call.loop.rows = in_rows ? n / inner : 1;
    call.loop.n = in_rows ? inner : n;
    step.loop(call.loop);
    return 0;
}

}  // namespace nntile::kernels
