// SPDX-License-Identifier: BSD-3-Clause
// What norms of images do to each pixel, with numbers of its channel, in one pass.
#include <algorithm>

#include "kernels/functions.hh"
#include "kernels/panels.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
namespace {

enum Operand : size_t { a, b, p, q, s, r, y, operands };

template <class T>
int blend(const Args& args) {
    constexpr Compute compute = sizeof(T) == 4 ? compute_f32 : compute_f64;
    const int64_t* strides[operands];
    for (size_t k = 0; k < operands; ++k) strides[k] = args.blocks[k].data ? args.blocks[k].strides : nullptr;
    Space space;
    if (int status = space.make(args, strides, {y, a})) return status;
    if (space.empty()) return 0;
    const int inner = space.dims - 1;
    const int64_t n = space.sizes[inner];
    Line lines[operands];
    for (size_t k : {a, b, y}) lines[k].make(args.blocks[k], compute, n == 1 ? 1 : space.strides[k][inner]);
    bool each = false, in_place = true;
    for (size_t k : {p, q, s, r}) each |= args.blocks[k].data && space.strides[k][inner] != 0;
    for (size_t k : {a, b, y}) in_place &= !lines[k] || lines[k].in_place();
    // Numbers of channels are converted once for all pixels that have them.
    constexpr int64_t most = Line::piece;
    alignas(64) T numbers[4][most];
    int64_t held[4] = {-1, -1, -1, -1}, held_at = -1;
    const int64_t piece = in_place && !each ? n : most;
    Walk walk(space, inner);
    do {
        for (size_t k : {a, b, y}) lines[k].move_to(walk.offset[k]);
        for (int64_t at = 0; at < n; at += piece) {
            const int64_t count = std::min(piece, n - at);
            for (size_t k : {p, q, s, r}) {
                const Block& own = args.blocks[k];
                if (!own.data || (held[k - p] == walk.offset[k] && held_at == at)) continue;
                const int64_t step = space.strides[k][inner];
                loader(own.dtype, compute)(own.data + (walk.offset[k] + at * step) * size_of(own.dtype), numbers[k - p],
                                           step, each ? count : 1);
                held[k - p] = walk.offset[k];
            }
            held_at = at;
            panel_tables().table[compute].blend(lines[a].read(at, count), lines[b].read(at, count), count, each,
                                                numbers[0], numbers[1], numbers[2], numbers[3], lines[y].target(at));
            lines[y].flush(at, count);
        }
    } while (walk.next());
    return 0;
}

}  // namespace

int channel_blend(const Args& args) {
    return args.blocks[a].dtype == DType::f64 ? blend<double>(args) : blend<float>(args);
}

}  // namespace nntile::kernels
