// SPDX-License-Identifier: BSD-3-Clause
// Preparing a map task: the chunk, then the steps that every chunk takes and the buffers between
// them.
#include <algorithm>
#include <cstdlib>

#include "base/error.hh"
#include "base/merge_dims.hh"
#include "kernels/map_engine.hh"

namespace nntile::kernels {

int MapEngine::prepare() {
    const int blocks = program.n_in + program.n_out;
    if (blocks > max_map_blocks || program.n_registers > max_map_registers ||
        program.code.size() > max_map_instructions)
        return fail_task(args, static_cast<int>(Status::unsupported),
                         "map: the program is too long");
    uses_index = kernels::uses_index(program);

    const int64_t* strides[max_operands];
    for (int k = 0; k < blocks; ++k) strides[k] = args.blocks[k].strides;
    if (uses_index) strides[blocks] = args.index_strides;
    const int first_output = program.n_in;
    if (int status = space.make(args, std::span(strides, blocks + uses_index), {first_output, 0}))
        return status;
    if (space.empty()) return 0;
    for (bool may_be_whole : {true, false}) {
        choose_chunk(may_be_whole);
        for (int k = 0; k < space.operands; ++k) footprints[k] = footprint_of(k);
        if (int status = plan()) return status;
        if (!whole || !has_registers()) break;
    }
    return 0;
}

// What has no chunks must not go through registers, which are as large as one.
bool MapEngine::has_registers() const {
    return std::any_of(steps, steps + n_steps, [&](const Step& s) {
        switch (s.kind) {
            case Step::compute: return false;  // what it computes into a register is stored
            case Step::load: return s.from < 0 && !slots[s.slot].uniform;
            case Step::store: return slots[s.slot].buffer >= 0;
            default: return true;
        }
    });
}

void MapEngine::choose_chunk(bool may_be_whole) {
    // A result is narrowed in a buffer, as what it is narrowed to.
    const bool wide =
        uses_index || std::any_of(program.code.begin(), program.code.end(), [](auto& i) {
            return i.compute != DType::f32 || size_of(i.result) > size_of(DType::f32);
        });
    const bool single = program.code.size() == 1 && !uses_index;
    const int last = space.dims - 1;
    bool plain = single, apart = false, varies = false;
    for (int k = 0; k < program.n_in + program.n_out; ++k) {
        const int64_t* strides = space.strides[k];
        const bool as_computed = !single || args.blocks[k].dtype == program.code[0].compute;
        const bool direct = strides[last] != 0 && is_innermost(k) &&
                            ((strides[last] == 1 && as_computed) || is_converted_by_loop(k));
        const bool uniform = k < program.n_in && strides[last] == 0 && may_be_uniform(k);
        plain = plain && (direct || uniform);
        varies = varies || (uniform &&
                            std::any_of(strides, strides + last, [](int64_t s) { return s != 0; }));
        apart =
            apart || (direct && last > 0 && strides[last - 1] != space.sizes[last] * strides[last]);
    }
    const int64_t size_of_row = space.sizes[last], most_elements = chunk_bytes / (wide ? 8 : 4);
    // Long rows of blocks are read and written where they are; others that lie apart one at a time:
    // a chunk of several would be copied.
    const bool repeats = varies && size_of_row >= long_uniform_row;
    const bool lies = may_be_whole && plain && !varies;
    in_rows = last > 0 && !repeats && size_of_row % map_block == 0 && is_of_loops() &&
              (lies || size_of_row <= most_elements);
    const bool by_rows =
        repeats || (!in_rows && apart && size_of_row >= (single ? long_row : long_row_of_chain));
    // A single primitive on plain arrays needs no registers and so no chunks.
    whole = may_be_whole && plain && (last == 0 || by_rows || (in_rows && lies));
    const int64_t limit = whole ? INT64_MAX : most_elements;

    if (space.dims > 1 && !whole) choose_plane();
    in_rows = in_rows && columns == 0;
    if (columns > 0) return;
    split = space.dims;
    inner = 1;
    while (!by_rows && split > (in_rows ? last : 1) && space.sizes[split - 1] <= limit / inner)
        inner *= space.sizes[--split];
    const int64_t size = space.sizes[split - 1], most = limit / inner;
    const int64_t pieces = (size - 1) / most + 1;
    rows = (size - 1) / pieces + 1;
    if (inner == 1) rows = std::min(most, (rows - 1) / map_block * map_block + map_block);
}

// Cache lines of an operand in m elements of a dim by n of the last one.
double MapEngine::lines(int operand, int dim, int64_t m, int64_t n) const {
    constexpr double line = 64;
    const double bytes =
        operand < program.n_in + program.n_out ? size_of(args.blocks[operand].dtype) : 0;
    double along = std::abs(space.strides[operand][space.dims - 1]) * bytes;
    double across = std::abs(space.strides[operand][dim]) * bytes;
    if (along == 0 || across == 0) return 1;  // what repeats stays in the cache
    double count = static_cast<double>(n), times = static_cast<double>(m);
    if (across < along) {
        std::swap(along, across);
        std::swap(count, times);
    }
    return std::max(1.0, count * std::min(1.0, along / line)) *
           std::max(1.0, times * std::min(1.0, across / line));
}

// Where an operand lies along another dim than the first result does, a chunk along the last dim
// would take an element of each cache line, and the line again for the next chunk. A chunk of some
// rows by some columns takes whole lines.
void MapEngine::choose_plane() {
    constexpr int64_t limit = plane_elements;
    // Elements of the other dim: a line of numbers of 8, 4, 2 or 1 bytes
    constexpr int64_t sides[] = {8, 16, 32, 64};
    constexpr double better = 0.75, row = 0.25;  // that a run of its own costs, in lines
    const int last = space.dims - 1;
    const int64_t size = space.sizes[last];
    if (std::all_of(space.strides, space.strides + space.operands,
                    [&](auto& s) { return std::abs(s[last]) <= 1; }))
        return;
    const auto cost = [&](int dim, int64_t m, int64_t n) {
        double sum = 0;
        for (int k = 0; k < space.operands; ++k)
            sum += lines(k, dim, m, n) + row * static_cast<double>(m);
        return sum / static_cast<double>(m * n);
    };
    const int64_t whole = std::min(size, limit);
    double least = better * cost(last - 1, std::min(space.sizes[last - 1], limit / whole), whole);
    int best = -1;
    for (int dim = last; dim-- > 0;)
        for (int64_t side : sides) {
            const int64_t n = std::min(size, limit / std::min(space.sizes[dim], side));
            const double now = cost(dim, std::min(space.sizes[dim], limit / n), n);
            if (now >= least) continue;
            least = now;
            best = dim;
            columns = n;
        }
    if (best < 0) return;
    std::rotate(space.sizes + best, space.sizes + best + 1, space.sizes + last);
    for (int k = 0; k < space.operands; ++k)
        std::rotate(space.strides[k] + best, space.strides[k] + best + 1, space.strides[k] + last);
    split = last;
    inner = columns;
    rows = std::min(space.sizes[last - 1], limit / columns);
}

// Whether all that reads an input goes through it in blocks, so that one block of equal elements is
// enough.
bool MapEngine::may_be_uniform(int reg) const {
    return std::all_of(program.code.begin(), program.code.end(), [&](const Instruction& i) {
        return map_rows()[i.primitive].by_blocks ||
               std::find(i.in.begin(), i.in.end(), reg) == i.in.end();
    });
}

// Whether loops are all that reads and writes an operand: steps that convert go through chunks.
bool MapEngine::is_of_loops() const {
    const auto& code = program.code;
    return std::all_of(code.begin(), code.end(), [&](const Instruction& i) {
        const MapRow& row = map_rows()[i.primitive];
        return row.by_blocks && row.check == MapCheck::none && !row.uses_index &&
               i.primitive != number_of_cast && i.compute == code[0].compute;
    });
}

// Whether loops can read and write an operand where it lies.
bool MapEngine::lies_in_rows(const Footprint& f) const {
    return f.step() != 0 && (f.dims == 1 || (in_rows && f.dims == 2));
}

// Whether no other dim of an operand has elements that lie closer to each other than the last has.
bool MapEngine::is_innermost(int operand) const {
    const int64_t* strides = space.strides[operand];
    const int64_t step = std::abs(strides[space.dims - 1]);
    return std::all_of(strides, strides + space.dims,
                       [&](int64_t s) { return s == 0 || std::abs(s) >= step; });
}

// Whether a block is read or written by one instruction, whose loop converts it, or reads and
// writes it where its elements lie apart.
bool MapEngine::is_converted_by_loop(int block) const {
    const DType dtype = args.blocks[block].dtype;
    const bool is_input = block < program.n_in;
    const bool is_half = dtype == DType::bf16 || dtype == DType::f16;
    const int reg = is_input ? block : block - program.n_in + program.n_registers - program.n_out;
    int uses = 0;
    for (const Instruction& i : program.code) {
        const auto has = [&](auto& list) {
            return std::find(list.begin(), list.end(), reg) != list.end();
        };
        const bool reads = has(i.in), writes = has(i.out);
        if (!reads && !writes) continue;
        const MapRow& row = map_rows()[i.primitive];
        const bool takes = row.by_blocks && row.check == MapCheck::none &&
                           i.primitive != number_of_cast &&
                           (is_input || ((is_half ? i.compute == DType::f32 : i.compute == dtype) &&
                                         (i.result == DType::none || i.result == dtype)));
        if (!takes || reads != is_input || ++uses > 1) return false;
    }
    return uses == 1;
}

// A register that is where its block lies.
void MapEngine::direct_slot(int reg, int block, Compute compute) {
    const DType dtype = args.blocks[block].dtype;
    const Footprint& f = footprints[block];
    const int64_t stride = f.step(), bytes = size_of(dtype);
    const int64_t row = f.dims == 2 ? f.strides[0] : inner * stride;
    Stored stored{nullptr, stride * bytes, stride, row * bytes};
    if (dtype != dtype_of(compute) || stride != 1)
        stored.convert = block < program.n_in ? loader(dtype, compute) : storer(compute, dtype);
    slots[n_slots] = {
        compute, static_cast<int16_t>(reg), static_cast<int16_t>(block), -1, false, false, stored,
        nullptr};
    slot_of[reg][compute] = static_cast<int16_t>(n_slots);
    direct[n_direct++] = static_cast<int16_t>(n_slots++);
}

// Dims from the piece dim inwards, merged as far as this operand alone allows.
MapEngine::Footprint MapEngine::footprint_of(int operand) const {
    const int64_t* strides = space.strides[operand];
    Footprint f;
    const int dims = space.dims - split + 1;
    std::copy_n(space.sizes + split - 1, dims, f.sizes);
    std::copy_n(strides + split - 1, dims, f.strides);
    f.sizes[0] = 1;
    if (columns > 0) f.sizes[1] = columns;
    const auto nothing = [](int64_t s) { return s == 0; };
    f.invariant = std::all_of(strides, strides + (columns > 0 ? space.dims : split), nothing);
    f.dims = dims;
    // Sizes[1] changes from chunk to chunk: nothing can be merged
    if (columns > 0 && !f.invariant) return f;
    int64_t* array = f.strides;
    f.dims = merge_dims({f.sizes, static_cast<size_t>(dims)}, {&array, 1});
    return f;
}

int MapEngine::plan() {
    const int last = static_cast<int>(program.code.size());
    n_slots = n_steps = n_buffers = n_free = n_direct = 0;
    index_slot = -1;
    std::fill_n(last_use, max_map_registers, int16_t{-1});
    std::fill_n(&slot_of[0][0], max_map_registers * compute_count, int16_t{-1});
    for (int r = 0; r < program.n_in; ++r)
        compute_of_register[r] = compute_of(args.blocks[r].dtype);
    for (int i = 0; i < last; ++i)
        for (uint8_t r : program.code[i].in) last_use[r] = static_cast<int16_t>(i);
    for (int k = 0; k < program.n_out; ++k)
        last_use[program.n_registers - program.n_out + k] = static_cast<int16_t>(last);

    if (uses_index) {
        index_slot = new_slot(0, compute_i64, true);
        new_step(Step::index, index_slot, -1, nullptr);
    }
    for (int i = 0; i < last && !full; ++i)
        if (int status = plan_instruction(i)) return status;
    if (!full)
        if (int status = plan_stores()) return status;
    if (full)
        return fail_task(args, static_cast<int>(Status::unsupported),
                         "map: the program is too long");
    return 0;
}

int MapEngine::plan_instruction(int number) {
    const Instruction& instruction = program.code[number];
    const MapRow& row = map_rows()[instruction.primitive];
    const Compute compute = compute_for(instruction);
    const DType target = target_of(instruction);
    const bool is_not = instruction.primitive == number_of_bitwise_not && target == DType::boolean;
    const size_t primitive = is_not ? size_t{number_of_logical_not} : instruction.primitive;
    const MapLoop loop = map_loops().loop[primitive][compute];
    if (!loop || std::max(instruction.in.size(), instruction.out.size()) > max_instruction_operands)
        return fail_task(args, static_cast<int>(Status::internal), "map: %s does not take %s",
                         row.name, name_of(dtype_of(compute)));

    int16_t in[max_instruction_operands];
    for (size_t k = 0; k < instruction.in.size(); ++k)
        in[k] = static_cast<int16_t>(slot_for(instruction.in[k], compute));
    // What is only converted is stored from where it is read.
    if (program.code.size() == 1 && instruction.primitive == number_of_cast &&
        !slots[in[0]].uniform) {
        const int out = instruction.out[0];
        compute_of_register[out] = compute;
        slot_of[out][compute] = in[0];
        // Or is read into the result itself, where that lies as it is computed.
        if (n_steps > 0 && !footprints[0].invariant && writes_directly(out, instruction, number))
            steps[n_steps - 1].from = static_cast<int16_t>(program.n_in);
        return 0;
    }
    Step& step = new_step(Step::compute, 0, -1, nullptr);
    std::copy_n(in, instruction.in.size(), step.in);
    step.n_in = static_cast<uint8_t>(instruction.in.size());
    step.n_out = static_cast<uint8_t>(instruction.out.size());
    step.first_param = instruction.first_param;
    step.loop = loop;
    step.dtype = target;
    const bool fails = row.check != MapCheck::divisor || compute == compute_i64;
    step.check = fails ? row.check : MapCheck::none;
    step.checked = row.checked;
    for (size_t k = 0; k < instruction.out.size() && !full; ++k) {
        const int r = instruction.out[k];
        compute_of_register[r] = compute;
        if (writes_directly(r, instruction, number)) {
            direct_slot(r, program.n_in + r - (program.n_registers - program.n_out), compute);
        } else {
            new_slot(r, compute, false);
        }
        step.out[k] = slot_of[r][compute];
        const DType result = instruction.result;
        if (slots[step.out[k]].stored.convert || result == DType::none ||
            result == dtype_of(compute) || row.types == Types::compare)
            continue;
        if (row.by_blocks) step.convert_run = narrower(compute, result);
        else new_step(Step::narrow, slot_of[r][compute], -1, narrower(compute, result));
    }
    release(number);
    return 0;
}

int MapEngine::plan_stores() {
    for (int k = 0; k < program.n_out; ++k) {
        const int r = program.n_registers - program.n_out + k, block = program.n_in + k;
        const int slot = slot_of[r][compute_of_register[r]];
        if (slot < 0 || r < program.n_in)
            return fail_task(args, static_cast<int>(Status::internal),
                             "map: output %d is not computed", k);
        if (slots[slot].block == block) continue;
        const Step* last = n_steps > 0 ? &steps[n_steps - 1] : nullptr;
        if (last && last->kind == Step::load && last->from == block) continue;
        new_step(Step::store, slot, block, storer(slots[slot].compute, args.blocks[block].dtype));
    }
    return 0;
}

// Dtype of the first result, as the program's user sees it.
DType MapEngine::target_of(const Instruction& instruction) const {
    if (instruction.result != DType::none) return instruction.result;
    const int output = instruction.out[0] - (program.n_registers - program.n_out);
    return output < 0 ? instruction.compute : args.blocks[program.n_in + output].dtype;
}

// A cast to bool must see the fraction of a float, so it computes in the type of its source.
Compute MapEngine::compute_for(const Instruction& instruction) const {
    if (instruction.primitive == number_of_cast && target_of(instruction) == DType::boolean)
        return compute_of_register[instruction.in[0]];
    return compute_of(instruction.compute);
}

// The slot that holds a register as a compute type before an instruction; loads or converts if
// there is none.
int MapEngine::slot_for(int reg, Compute compute) {
    if (slot_of[reg][compute] >= 0 || full) return slot_of[reg][compute];
    if (reg >= program.n_in) {
        const int from = slot_of[reg][compute_of_register[reg]];
        const int slot = new_slot(reg, compute, false);
        if (!full)
            new_step(Step::convert, slot, from,
                     loader(dtype_of(compute_of_register[reg]), compute));
        return slot;
    }
    const Block& b = args.blocks[reg];
    const Footprint& f = footprints[reg];
    const bool as_computed = f.step() == 1 && b.dtype == dtype_of(compute);
    if (lies_in_rows(f) &&
        (as_computed || ((f.plain() || !f.invariant || whole) && is_converted_by_loop(reg)))) {
        direct_slot(reg, reg, compute);
        return slot_of[reg][compute];
    }
    const int slot = new_slot(reg, compute, footprints[reg].invariant);
    slots[slot].block = static_cast<int16_t>(reg);
    slots[slot].uniform = footprints[reg].uniform() && may_be_uniform(reg);
    if (!full) new_step(Step::load, slot, -1, loader(b.dtype, compute));
    return slot;
}

// Into the tile itself, unless an input that lies there is still read afterwards.
bool MapEngine::writes_directly(int reg, const Instruction& instruction, int number) const {
    const int output = reg - (program.n_registers - program.n_out);
    if (output < 0) return false;
    const Block& b = args.blocks[program.n_in + output];
    const DType compute = dtype_of(compute_of_register[reg]);
    const Footprint& f = footprints[program.n_in + output];
    if (!lies_in_rows(f)) return false;
    const bool as_computed = f.step() == 1 && b.dtype == compute &&
                             (instruction.result == DType::none || instruction.result == compute);
    if (!as_computed && !is_converted_by_loop(program.n_in + output)) return false;
    for (int r = 0; r < program.n_in; ++r)
        if (args.blocks[r].data == b.data && last_use[r] > number) return false;
    return true;
}

int MapEngine::new_slot(int reg, Compute compute, bool pinned) {
    // What stays over all chunks gets a buffer that nobody had before.
    const bool reuse = n_free > 0 && !pinned;
    if (!reuse && n_buffers == max_buffers) {
        full = true;
        return 0;
    }
    const int64_t size = size_of(dtype_of(compute));
    const int16_t buffer = reuse ? free_buffers[--n_free] : static_cast<int16_t>(n_buffers++);
    slots[n_slots] = {compute,
                      static_cast<int16_t>(reg),
                      -1,
                      buffer,
                      pinned,
                      false,
                      {nullptr, size, 1, inner * size},
                      buffers[buffer]};
    if (!(uses_index && index_slot < 0)) slot_of[reg][compute] = static_cast<int16_t>(n_slots);
    return n_slots++;
}

MapEngine::Step& MapEngine::new_step(Step::Kind kind, int slot, int from, Convert run) {
    Step& step = steps[n_steps++];
    step.kind = kind;
    step.slot = static_cast<int16_t>(slot);
    step.from = static_cast<int16_t>(from);
    step.convert_run = run;
    return step;
}

// Buffers of registers that nobody reads after this instruction are free again.
void MapEngine::release(int number) {
    for (int k = 0; k < n_slots; ++k) {
        Slot& s = slots[k];
        if (s.buffer < 0 || s.pinned || last_use[s.reg] > number) continue;
        free_buffers[n_free++] = s.buffer;
        s.buffer = -1;
    }
}

}  // namespace nntile::kernels
