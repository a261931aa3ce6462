// SPDX-License-Identifier: BSD-3-Clause
// Rows of a table by index, and the gradient of the table. The last dims are e (a row) and v (the
// whole table).
#include <cstring>

#include "kernels/functions.hh"
#include "kernels/refuse.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
namespace {

// body(offset of `row`, row of the table) for every index.
template <class Body>
int each_index(const Args& args, const Block& indices, const Block& row, Body&& body) {
    const int64_t v = args.sizes.back();
    const int64_t* strides[] = {indices.strides, row.strides};
    Args outer = args;
    outer.sizes = args.sizes.first(args.sizes.size() - 2);
    Space space;
    if (int status = space.make(outer, strides, {1})) return status;
    if (space.empty()) return 0;
    const Convert load = loader(indices.dtype, compute_i64);
    Walk walk(space, space.dims);
    do {
        int64_t index;
        load(indices.data + walk.offset[0] * size_of(indices.dtype), &index, 1, 1);
        if (index < 0 || index >= v) return refuse(args, {Refusal::index, index, v});
        body(walk.offset[1], index);
    } while (walk.next());
    return 0;
}

}  // namespace

int embedding(const Args& args) {
    const Block &w = args.blocks[0], &indices = args.blocks[1], &y = args.blocks[2];
    const size_t e = args.sizes.size() - 2, v = e + 1;
    const int64_t n = args.sizes[e], bytes = size_of(w.dtype), from = w.strides[e],
                  to = y.strides[e];
    const bool run = n == 1 || (from == 1 && to == 1);
    const Compute compute = compute_of(w.dtype);
    const Convert load = loader(w.dtype, compute), store = storer(compute, w.dtype);
    alignas(64) std::byte buffer[Line::piece * sizeof(double)];
    return each_index(args, indices, y, [&](int64_t offset, int64_t index) {
        const std::byte* x = w.data + index * w.strides[v] * bytes;
        std::byte* row = y.data + offset * bytes;
        if (run) {
            std::memcpy(row, x, n * bytes);
            return;
        }
        for (int64_t at = 0; at < n; at += Line::piece) {
            const int64_t count = std::min(Line::piece, n - at);
            load(x + at * from * bytes, buffer, from, count);
            store(buffer, row + at * to * bytes, to, count);
        }
    });
}

// In the order of the indices, so that the bits never vary.
int embedding_backward(const Args& args) {
    const Block &dy = args.blocks[0], &indices = args.blocks[1], &dw = args.blocks[2];
    const size_t e = args.sizes.size() - 2, v = e + 1;
    const int64_t n = args.sizes[e], padding = args.params[0].i;
    if (!args.params[1].i) {
        const Param value{.f = 0};
        const Block plane{dw.data, dw.dtype, dw.strides + e};
        Args zero = args;
        zero.sizes = args.sizes.last(2);
        zero.blocks = std::span(&plane, 1);
        zero.params = std::span(&value, 1);
        if (int status = fill(zero)) return status;
    }
    const Compute compute = compute_of(dw.dtype);
    Line from, to;
    from.make(dy, compute, n == 1 ? 1 : dy.strides[e]);
    to.make(dw, compute, n == 1 ? 1 : dw.strides[e]);
    auto add = [](auto* y, const auto* x, int64_t count) {
        for (int64_t j = 0; j < count; ++j) y[j] += x[j];
    };
    return each_index(args, indices, dy, [&](int64_t offset, int64_t index) {
        if (index == padding) return;
        from.move_to(offset);
        to.move_to(index * dw.strides[v]);
        for (int64_t at = 0; at < n; at += Line::piece) {
            const int64_t count = std::min(Line::piece, n - at);
            const void* x = from.read(at, count);
            to.read(at, count);
            void* y = to.target(at);
            if (compute == compute_f32)
                add(static_cast<float*>(y), static_cast<const float*>(x), count);
            else if (compute == compute_f64)
                add(static_cast<double*>(y), static_cast<const double*>(x), count);
            else add(static_cast<int64_t*>(y), static_cast<const int64_t*>(x), count);
            to.flush(at, count);
        }
    });
}

}  // namespace nntile::kernels
