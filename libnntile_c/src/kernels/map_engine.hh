// SPDX-License-Identifier: BSD-3-Clause
// The state of one map task, all on the stack: steps to run per chunk and the registers between
// them.
#pragma once

#include "kernels/convert.hh"
#include "kernels/map_loop.hh"
#include "kernels/space.hh"

namespace nntile::kernels {

class MapEngine {
public:
    // How an operand lies within a chunk; sizes[0] is per row of the chunk.
    struct Footprint {
        int dims;
        bool invariant;  // the same elements in every chunk: loaded once
        int64_t sizes[max_dims], strides[max_dims];

        int64_t step() const { return strides[dims - 1]; }
        bool plain() const { return dims == 1 && step() == 1; }
        bool uniform() const { return dims == 1 && step() == 0; }
    };

    explicit MapEngine(const Args& a) : args(a), program(*a.program) {}
    int prepare();  // map_plan.cc
    int run();      // map.cc

private:
    static constexpr int64_t chunk_bytes = 4096;  // of a register
    // Of a chunk of rows and columns: the longer its runs the better, but for the cache. Timed.
    static constexpr int64_t plane_elements = 1024, register_bytes = 8 * plane_elements;
    static_assert(plane_elements <= most_indices);
    // elements: worth a chunk of its own, where several would be copied
    static constexpr int64_t long_row = 200;
    static constexpr int64_t long_row_of_chain = 512;  // whose every instruction is a call a row
    // Likewise, where several would repeat an element of each
    static constexpr int64_t long_uniform_row = 512;
    static constexpr int max_buffers = 32;
    static constexpr int max_slots = max_map_registers * compute_count + 1;  // and the index
    static constexpr int max_steps =
        max_slots + max_map_instructions + max_map_registers + max_map_blocks;
    static constexpr int max_instruction_operands = 8;

    // A register as a compute type: in a buffer, or directly in a block.
    struct Slot {
        Compute compute;
        int16_t reg;
        int16_t block;   // of an input, or of an output that is written directly; else -1
        int16_t buffer;  // -1: direct, or released
        bool pinned;     // holds an invariant or the index
        bool uniform;    // one element, map_block times
        Stored stored;   // converted by the loop only where it is direct
        std::byte* at;
    };
    struct Step {
        enum Kind : uint8_t { load, index, convert, compute, narrow, store } kind;
        DType dtype;  // compute: of the result
        MapCheck check;
        uint8_t checked;  // input
        uint8_t n_in, n_out;
        uint16_t first_param;
        int16_t slot, from;   // to and from; store: from `slot` to block `from`
        Convert convert_run;  // compute: what narrows the results, or nullptr
        MapLoop loop;
        int16_t in[max_instruction_operands], out[max_instruction_operands];
    };
    // The operands of a compute step, as its loop wants them.
    struct Call {
        Loop loop;
        const void* in[max_instruction_operands];
        void* out[max_instruction_operands];
        bool uniform[max_instruction_operands];
        Stored stored[2 * max_instruction_operands];
        bool moves;  // some lie where the chunk does
    };

    void choose_chunk(bool may_be_whole);
    bool has_registers() const;
    void choose_plane();
    double lines(int operand, int dim, int64_t m, int64_t n) const;
    Footprint footprint_of(int operand) const;
    bool may_be_uniform(int reg) const;
    bool is_innermost(int operand) const;
    bool is_of_loops() const;
    bool lies_in_rows(const Footprint& f) const;
    bool is_converted_by_loop(int block) const;
    void direct_slot(int reg, int block, Compute compute);
    int plan();
    int plan_instruction(int number);
    int plan_stores();
    int slot_for(int reg, Compute compute);
    int new_slot(int reg, Compute compute, bool pinned);
    Step& new_step(Step::Kind kind, int slot, int from, Convert run);
    DType target_of(const Instruction& instruction) const;
    Compute compute_for(const Instruction& instruction) const;
    bool writes_directly(int reg, const Instruction& instruction, int number) const;
    void release(int number);

    void take_columns(int64_t count);
    void prefetch(int64_t count, int64_t left) const;
    int run_chunk(int64_t count, bool first);
    void run_load(const Step& step, int64_t count);
    void run_index(const Step& step, int64_t count);
    void run_store(const Step& step, int64_t count);
    void prepare_calls();
    int run_compute(const Step& step, int64_t n);
    int check_input(const Step& step, const void* input, int64_t n) const;

    const Args& args;
    const Program& program;
    Space space;
    bool uses_index;
    int split;            // a chunk is `rows` of dim split - 1 with all dims from split on
    int64_t rows, inner;  // inner: elements of one row
    // Loops go through whole rows of blocks, wherever these lie.
    bool in_rows = false;
    bool whole = false;  // one chunk has all rows: nothing but uniform operands is in a register
    // Not 0: a chunk has only so many elements of the last dim, which is then split
    int64_t columns = 0;
    Footprint footprints[max_operands];
    int64_t position[max_operands];  // of the chunk, in elements

    int n_slots, n_steps, n_buffers, n_free, n_direct, index_slot;  // plan() begins with none
    bool full = false;                                              // out of buffers
    int16_t last_use[max_map_registers];
    int16_t slot_of[max_map_registers][compute_count];
    Compute compute_of_register[max_map_registers];
    int16_t free_buffers[max_buffers];
    int16_t direct[max_slots];
    Slot slots[max_slots];
    Step steps[max_steps];
    Call calls[max_map_instructions];  // of the compute steps, by Step::from
    alignas(64) std::byte buffers[max_buffers][register_bytes];
    alignas(64) std::byte turned[register_bytes];  // of a plane that is read or written in columns
};

}  // namespace nntile::kernels
