// SPDX-License-Identifier: BSD-3-Clause
// A program of rows of map.def as a device takes it: steps over slots of registers, in which each
// step reads and writes registers of its own type and nothing else: where types differ, or a
// result is narrower than its register, other steps convert. map.cu interprets them, map_source.cc
// writes them down as code.
#pragma once

#include <type_traits>

#include "kernels/cuda/job.hh"
#include "kernels/cuda/map_call.hh"
#include "kernels/map_loop.hh"

namespace nntile::kernels::cuda {

inline constexpr int most_in = 8, most_out = 4, most_steps = 64;
inline constexpr int lanes = 4;        // elements of a thread
inline constexpr int loose_lanes = 2;  // where they do not lie side by side

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
    uint8_t unused = 0;                            // no byte is left open: see map_source.cc
};
static_assert(std::has_unique_object_representations_v<Step>);
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

// False: a device does not take it.
bool make_map_job(MapJob& job, const Args& args);
// Makes an element of the job out of four, where all that move lie side by side.
void make_quads(MapJob& job);

}  // namespace nntile::kernels::cuda
