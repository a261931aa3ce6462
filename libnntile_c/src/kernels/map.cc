// SPDX-License-Identifier: BSD-3-Clause
// The map engine: a program of element-wise primitives, run chunk by chunk over a strided iteration
// space. A chunk is what fits registers of 4 KiB, so that a fused chain stays in the L1 cache.
#include <algorithm>

#include "base/error.hh"
#include "kernels/functions.hh"
#include "kernels/map_engine.hh"

namespace nntile::kernels {

int map(const Args& args) {
    MapEngine engine(args);
    if (int status = engine.prepare()) return status;
    return engine.run();
}

int MapEngine::run() {
    if (space.empty()) return 0;
    Walk walk(space, split - 1);
    const int64_t size = space.sizes[split - 1];
    bool first = true;
    do {
        for (int64_t at = 0; at < size; at += rows) {
            for (int k = 0; k < space.operands; ++k)
                position[k] = walk.offset[k] + at * space.strides[k][split - 1];
            if (int status = run_chunk(std::min(rows, size - at), first)) return status;
            first = false;
        }
    } while (walk.next());
    return 0;
}

int MapEngine::run_chunk(int64_t count, bool first) {
    const int64_t n = count * inner;
    for (int k = 0; k < n_direct; ++k) {
        Slot& s = slots[direct[k]];
        s.at = args.blocks[s.block].data + position[s.block] * size_of(s.compute);
    }
    for (int k = 0; k < n_steps; ++k) {
        const Step& step = steps[k];
        const Slot& s = slots[step.slot];
        switch (step.kind) {
            case Step::load:
                // The first chunk has the most rows, so what it loads serves all others.
                if (first || !footprints[s.block].invariant) run_load(step, count);
                break;
            case Step::index:
                run_index(step, count);
                break;
            case Step::convert:
                step.convert_run(slots[step.from].at, s.at, 1, n);
                break;
            case Step::narrow:
                step.convert_run(s.at, narrowed, 1, n);
                loader(step.dtype, s.compute)(narrowed, s.at, 1, n);
                break;
            case Step::compute:
                if (int status = run_compute(step, n)) return status;
                break;
            case Step::store:
                run_store(step, count);
                break;
        }
    }
    return 0;
}

namespace {

// Calls move(offset in the block, element of the chunk, n) for each run of equal stride.
template <class Move>
void for_runs(const MapEngine::Footprint& f, int64_t count, Move&& move) {
    const int last = f.dims - 1;
    const int64_t n = f.sizes[last] * (last == 0 ? count : 1);
    int64_t at[max_dims] = {}, offset = 0, element = 0;
    for (;;) {
        move(offset, element, n);
        element += n;
        int d = last - 1;
        for (; d >= 0; --d) {
            const int64_t size = f.sizes[d] * (d == 0 ? count : 1);
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
    const Footprint& f = footprints[s.block];
    const int64_t from = size_of(b.dtype), to = size_of(s.compute);
    const std::byte* data = b.data + position[s.block] * from;
    if (s.uniform) return step.convert_run(data, s.at, 0, map_block);
    for_runs(f, count, [&](int64_t offset, int64_t element, int64_t n) {
        step.convert_run(data + offset * from, s.at + element * to, f.last_stride(), n);
    });
}

void MapEngine::run_index(const Step& step, int64_t count) {
    int64_t* index = reinterpret_cast<int64_t*>(slots[step.slot].at);
    const Footprint& f = footprints[space.operands - 1];
    const int64_t start = args.index_offset + position[space.operands - 1];
    for_runs(f, count, [&](int64_t offset, int64_t element, int64_t n) {
        for (int64_t j = 0; j < n; ++j) index[element + j] = start + offset + j * f.last_stride();
    });
}

void MapEngine::run_store(const Step& step, int64_t count) {
    const Slot& s = slots[step.slot];
    const Block& b = args.blocks[step.from];
    const Footprint& f = footprints[step.from];
    const int64_t from = size_of(s.compute), to = size_of(b.dtype);
    std::byte* data = b.data + position[step.from] * to;
    for_runs(f, count, [&](int64_t offset, int64_t element, int64_t n) {
        step.convert_run(s.at + element * from, data + offset * to, f.last_stride(), n);
    });
}

namespace {

template <class T>
bool are_probabilities(const void* data, int64_t n) {  // a nan is none
    const T* p = static_cast<const T*>(data);
    return std::all_of(p, p + n, [](T x) { return x >= 0 && x <= 1; });
}

}  // namespace

int MapEngine::refuse(const Step& step, const void* input, int64_t n) const {
    if (step.check == MapCheck::divisor) {
        const int64_t* divisor = static_cast<const int64_t*>(input);
        if (std::find(divisor, divisor + n, 0) == divisor + n) return 0;
        return fail_task(args, static_cast<int>(Status::runtime), "ZeroDivisionError");
    }
    const Compute compute = slots[step.in[step.checked]].compute;
    const bool fit = compute == compute_f32   ? are_probabilities<float>(input, n)
                     : compute == compute_f64 ? are_probabilities<double>(input, n)
                                              : are_probabilities<int64_t>(input, n);
    if (fit) return 0;
    return fail_task(args, static_cast<int>(Status::runtime),
                     "all elements of input should be between 0 and 1");
}

int MapEngine::run_compute(const Step& step, int64_t n) {
    const void* in[max_instruction_operands];
    void* out[max_instruction_operands];
    bool uniform[max_instruction_operands];
    for (int k = 0; k < step.n_in; ++k) {
        in[k] = slots[step.in[k]].at;
        uniform[k] = slots[step.in[k]].uniform;
    }
    for (int k = 0; k < step.n_out; ++k) out[k] = slots[step.out[k]].at;
    if (step.check != MapCheck::none)
        if (int status = refuse(step, in[step.checked], uniform[step.checked] ? map_block : n)) return status;
    const int64_t* index =
        index_slot < 0 ? nullptr : reinterpret_cast<const int64_t*>(slots[index_slot].at);
    step.loop({n, in, uniform, out, args.params.data() + step.first_param, index, step.dtype});
    return 0;
}

}  // namespace nntile::kernels
