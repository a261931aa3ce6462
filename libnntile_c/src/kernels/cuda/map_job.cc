// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/cuda/map_job.hh"

#include <algorithm>
#include <climits>
#include <utility>
#include <vector>

namespace nntile::kernels::cuda {

namespace {

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
Compute kind_of_input(const Program& program, int r, DType dtype) {
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
bool add_step(MapJob& job, const Instruction& i, int number, const Args& args, Slots& slots) {
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

}  // namespace

void make_quads(MapJob& job) {
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

bool make_map_job(MapJob& job, const Args& args) {
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
    return longest <= INT32_MAX;
}

}  // namespace nntile::kernels::cuda
