// SPDX-License-Identifier: BSD-3-Clause
// Copies between any two layouts and dtypes, and fills.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "kernels/copy_run.hh"
#include "kernels/functions.hh"
#include "kernels/space.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {
namespace {

// Programs of one instruction, by compute type.
using Programs = std::array<Program, compute_count>;
Programs programs_of(const char* primitive) {
    Programs programs;
    for (int c = 0; c < compute_count; ++c) {
        Instruction i;
        i.primitive = static_cast<uint16_t>(find_map(primitive));
        i.compute = dtype_of(static_cast<Compute>(c));
        i.in = {0};
        i.out = {1};
        programs[c] = {{i}, 1, 1, 2};
    }
    return programs;
}

int convert(const Args& args) {
    static const Programs casts = programs_of("cast");
    Args cast = args;
    cast.program = &casts[compute_of(conversion_type(args.blocks[0].dtype, args.blocks[1].dtype))];
    return map(cast);
}

// Two dims in squares, so that a transposition uses whole cache lines on both sides.
template <class T>
void copy_plane(const std::byte* from, std::byte* to, const Space& s) {
    constexpr int64_t square = 32;
    const int r = s.dims - 2, c = s.dims - 1;
    const int64_t rows = s.sizes[r], columns = s.sizes[c];
    const int64_t xr = s.strides[0][r], yr = s.strides[1][r], xc = s.strides[0][c],
                  yc = s.strides[1][c];
    const T* x = reinterpret_cast<const T*>(from);
    T* y = reinterpret_cast<T*>(to);
    if (std::abs(xr) == 1 && yc == 1) {
        // What is turned is walked from its end.
        const int64_t end = xr < 0 ? rows - 1 : 0;
        return transpose_of(sizeof(T))(x - end, xc, y + end * yr, xr * yr, rows, columns);
    }
    // Columns of x may all lie in the same few sets of a cache: each is read once
    T held[square][square];
    for (int64_t i0 = 0; i0 < rows; i0 += square)
        for (int64_t j0 = 0; j0 < columns; j0 += square) {
            const int64_t m = std::min(square, rows - i0), n = std::min(square, columns - j0);
            const T* corner = x + i0 * xr + j0 * xc;
            if (xr == 1) transpose_of(sizeof(T))(corner, xc, held, square, m, n);
            else
                for (int64_t j = 0; j < n; ++j)
                    for (int64_t i = 0; i < m; ++i) held[i][j] = corner[i * xr + j * xc];
            for (int64_t i = 0; i < m; ++i)
                for (int64_t j = 0; j < n; ++j) y[(i0 + i) * yr + (j0 + j) * yc] = held[i][j];
        }
}

// One row: where x is read best along the dim that y is written along.
template <class T>
void copy_line(const std::byte* from, std::byte* to, const Space& s) {
    const int64_t n = s.sizes[s.dims - 1], xc = s.strides[0][s.dims - 1],
                  yc = s.strides[1][s.dims - 1];
    const T* x = reinterpret_cast<const T*>(from);
    T* y = reinterpret_cast<T*>(to);
    if (xc == -1 && yc == 1)  // known, so that the loop is one of vectors
        for (int64_t j = 0; j < n; ++j) y[j] = x[-j];
    else if (xc == 0 && yc == 1) std::fill_n(y, n, *x);
    else
        for (int64_t j = 0; j < n; ++j) y[j * yc] = x[j * xc];
}

using CopyPiece = void (*)(const std::byte* from, std::byte* to, const Space& s);
template <class T>
CopyPiece piece_of(bool line) {
    return line ? copy_line<T> : copy_plane<T>;
}
CopyPiece piece_of(int64_t bytes, bool line) {
    return bytes == 1   ? piece_of<uint8_t>(line)
           : bytes == 2 ? piece_of<uint16_t>(line)
           : bytes == 4 ? piece_of<uint32_t>(line)
                        : piece_of<uint64_t>(line);
}

// The dim along which x is read best becomes the row of the plane. False: it is the last one, and
// there is no plane.
bool choose_rows(Space& s) {
    int best = s.dims - 1;
    for (int d = s.dims - 1; d-- > 0;)
        if (s.strides[0][d] != 0 && std::abs(s.strides[0][d]) < std::abs(s.strides[0][best]))
            best = d;
    if (best == s.dims - 1) return false;
    std::swap(s.sizes[best], s.sizes[s.dims - 2]);
    for (int k = 0; k < 2; ++k) std::swap(s.strides[k][best], s.strides[k][s.dims - 2]);
    return true;
}

// Columns of a few elements are not worth a plane: another dim that lies close in y takes their
// place, and they are walked next to it. False: that dim is the row, and there is no plane.
bool choose_columns(Space& s) {
    constexpr int64_t few = 8, near = 16, enough = 64;
    const int last = s.dims - 1, row = last - 1;
    if (last < 2 || s.sizes[last] >= few) return true;
    // Pairs and the like, many at once
    if (s.strides[0][row] == 1 && s.sizes[last] * s.sizes[row] >= enough) return true;
    int best = last;
    for (int d = 0; d < last; ++d)
        if (s.sizes[d] > s.sizes[last] && s.strides[1][d] != 0 &&
            std::abs(s.strides[1][d]) <= near &&
            (best == last || std::abs(s.strides[1][d]) < std::abs(s.strides[1][best])))
            best = d;
    if (best == last) return true;
    for (int64_t* of : {s.sizes, s.strides[0], s.strides[1]}) {
        std::rotate(of + best, of + best + 1, of + s.dims);
        if (best != row) std::swap(of[last - 2], of[last - 1]);
    }
    return best != row;
}

// Short runs, as those of two images that lie innermost, are elements of as many bytes. Returns
// these.
int64_t widen(Space& s, const std::byte* from, const std::byte* to, int64_t bytes) {
    constexpr int64_t widest = 8;
    const int last = s.dims - 1;
    const int64_t n = s.sizes[last], wide = n * bytes;
    if (last == 0 || wide > widest || (wide & (wide - 1)) != 0) return bytes;
    if ((std::bit_cast<uintptr_t>(from) | std::bit_cast<uintptr_t>(to)) & (wide - 1)) return bytes;
    for (int d = 0; d < last; ++d)
        for (int k : {0, 1})
            if (s.strides[k][d] % n != 0) return bytes;
    for (int d = 0; d < last; ++d)
        for (int k : {0, 1}) s.strides[k][d] /= n;
    --s.dims;
    return wide;
}

}  // namespace

int copy(const Args& args) {
    const Block &x = args.blocks[0], &y = args.blocks[1];
    if (x.dtype != y.dtype) return convert(args);
    const int64_t* strides[] = {x.strides, y.strides};
    Space s;
    if (int status = s.make(args, strides, {1, 0})) return status;
    if (s.empty()) return 0;
    const auto is_run = [&] {
        return s.strides[0][s.dims - 1] == 1 && s.strides[1][s.dims - 1] == 1;
    };
    const int64_t own = size_of(x.dtype), bytes = is_run() ? widen(s, x.data, y.data, own) : own;
    const int last = s.dims - 1;
    const bool runs = is_run();
    const bool is_plane = !runs && choose_rows(s) && choose_columns(s);
    const CopyPiece piece = piece_of(bytes, !is_plane);
    Walk walk(s, is_plane ? last - 1 : last);
    do {
        const std::byte* from = x.data + walk.offset[0] * bytes;
        std::byte* to = y.data + walk.offset[1] * bytes;
        if (runs) copy_run(to, from, static_cast<size_t>(s.sizes[last] * bytes));
        else piece(from, to, s);
    } while (walk.next());
    return 0;
}

int fill(const Args& args) {
    static const Programs fills = programs_of("fill");
    double value = args.params[0].f;
    const Block blocks[] = {{reinterpret_cast<std::byte*>(&value), DType::f64, nullptr},
                            args.blocks[0]};
    Args fill = args;
    fill.blocks = blocks;
    fill.program = &fills[compute_of(args.blocks[0].dtype)];
    return map(fill);
}

}  // namespace nntile::kernels
