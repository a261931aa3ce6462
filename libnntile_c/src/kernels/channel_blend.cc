// SPDX-License-Identifier: BSD-3-Clause
// What norms of images do to each pixel, with numbers of its channel, in one pass.
#include <algorithm>
#include <utility>

#include "kernels/functions.hh"
#include "kernels/panels.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
namespace {

enum Operand : size_t { a, b, p, q, s, r, y, operands };

// Whether the pixels of the row before the last dim, the channels, are one run of memory with the
// same numbers.
bool pixels_beside(const Space& space) {
    const int last = space.dims - 1;
    if (last == 0) return false;
    for (size_t k : {a, b, y}) {
        const int64_t* strides = space.strides[k];
        const bool absent = strides[last] == 0 && strides[last - 1] == 0;
        if (!absent && (strides[last] != 1 || strides[last - 1] != space.sizes[last])) return false;
    }
    for (size_t k : {p, q, s, r})
        if (space.strides[k][last - 1] != 0) return false;
    return true;
}

// Short rows: of pixels of one channel, or such that lie in another order in an operand. A map
// takes several of them at once. And rows of one channel of bfloat16, which its loops convert.
bool is_map(const Args& args, const Space& space) {
    constexpr int64_t long_row = 128;
    const int last = space.dims - 1;
    if (args.blocks[y].dtype == DType::bf16 && space.strides[p][last] == 0) return true;
    if (space.sizes[last] >= long_row || last == 0) return false;
    const auto beside = [&](size_t k) { return std::abs(space.strides[k][last]) <= 1; };
    const bool one_channel = space.strides[p][last] == 0;
    return one_channel || !beside(y) || !beside(a) || !beside(b);
}
Program program_of(Compute compute, bool two) {
    enum : uint8_t { in_a, in_b, in_p, in_q, in_s, in_r };
    Program program;
    const auto add = [&](const char* primitive, std::initializer_list<uint8_t> in, uint8_t out) {
        Instruction i;
        i.primitive = static_cast<uint16_t>(find_map(primitive));
        i.compute = dtype_of(compute);
        i.in = in;
        i.out = {out};
        program.code.push_back(i);
    };
    if (two) {
        add("sub", {in_b, in_s}, 6);
        add("addcmul", {in_r, 6, in_q}, 7);
        add("addcmul", {7, in_a, in_p}, 8);
        program.n_in = 6, program.n_registers = 9;
    } else {
        add("addcmul", {2, 0, 1}, 3);
        program.n_in = 3, program.n_registers = 4;
    }
    program.n_out = 1;
    return program;
}
int blend_as_map(const Args& args, Compute compute) {
    static const Program programs[][2] = {
        {program_of(compute_f32, false), program_of(compute_f32, true)},
        {program_of(compute_f64, false), program_of(compute_f64, true)}};
    const Param one{.f = 1};  // factors of both primitives
    SmallVector<Block, operands> blocks;
    for (const Block& block : args.blocks)
        if (block.data) blocks.push_back(block);
    Args map_of = args;
    map_of.blocks = blocks;
    map_of.params = std::span(&one, 1);
    map_of.program = &programs[compute == compute_f64][blocks.size() == operands];
    return map(map_of);
}

template <class T>
int blend(const Args& args) {
    constexpr Compute compute = sizeof(T) == 4 ? compute_f32 : compute_f64;
    const int64_t* strides[operands];
    for (size_t k = 0; k < operands; ++k)
        strides[k] = args.blocks[k].data ? args.blocks[k].strides : nullptr;
    Space space;
    if (int status = space.make(args, strides, {y, a})) return status;
    if (space.empty()) return 0;
    if (is_map(args, space)) return blend_as_map(args, compute);
    const int inner = space.dims - 1;
    bool each = false;
    for (size_t k : {p, q, s, r}) each |= args.blocks[k].data && space.strides[k][inner] != 0;
    // Numbers of channels are converted once for all pixels that have them.
    constexpr int64_t most = Line::piece;
    alignas(64) T numbers[4][most];
    const int64_t channels = each ? space.sizes[inner] : 1;
    int64_t copies = 1;
    int64_t steps[4];
    for (size_t k : {p, q, s, r}) steps[k - p] = space.strides[k][inner];
    // Many pixels of few channels are one row
    if (each && channels <= most / 2 && pixels_beside(space)) {
        copies = most / channels;
        space.sizes[inner] *= std::exchange(space.sizes[inner - 1], 1);
        for (size_t k : {p, q, s, r}) space.strides[k][inner] = 0;
    }
    constexpr size_t of_pixels[] = {a, b, y};
    Line lines[operands];
    Pieces pieces(args, space, compute, of_pixels, lines, copies > 1 ? copies * channels : most,
                  !each);
    int64_t held[4] = {-1, -1, -1, -1}, held_count = 0;
    pieces.each([&](const int64_t* offset, int64_t count) {
        for (size_t k : {p, q, s, r}) {
            const Block& own = args.blocks[k];
            T* const to = numbers[k - p];
            if (!own.data || (held[k - p] == offset[k] && count <= held_count)) continue;
            loader(own.dtype, compute)(own.data + offset[k] * size_of(own.dtype), to, steps[k - p],
                                       copies > 1 ? channels
                                       : each     ? count
                                                  : 1);
            for (int64_t c = 1; c < copies; ++c) std::copy_n(to, channels, to + c * channels);
            held[k - p] = offset[k];
        }
        held_count = count;
        panel_tables().table[compute].blend(lines[a].read(0, count), lines[b].read(0, count), count,
                                            each, numbers[0], numbers[1], numbers[2], numbers[3],
                                            lines[y].target(0));
        lines[y].flush(0, count);
    });
    return 0;
}

}  // namespace

int channel_blend(const Args& args) {
    return args.blocks[a].dtype == DType::f64 ? blend<double>(args) : blend<float>(args);
}

}  // namespace nntile::kernels
