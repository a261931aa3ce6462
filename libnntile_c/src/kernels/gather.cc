// SPDX-License-Identifier: BSD-3-Clause
// Elements read by index.
#include <algorithm>

#include "kernels/copy_run.hh"
#include "kernels/functions.hh"
#include "kernels/index.hh"

namespace nntile::kernels {
namespace {

// One index: a wrong one reads the first element, and is told of at the end.
template <class I, class T>
bool gather_by_one(const Indices& indices, const T* x, int64_t offset, int64_t step, T* y,
                   int64_t from, int64_t to, int64_t n) {
    const I* index = reinterpret_cast<const I*>(indices.blocks[0].data) + offset;
    const int64_t size = indices.sizes[0], stride = indices.strides[0],
                  more = indices.wrap ? size : 0;
    uint64_t wrong = 0;
    I held[piece_of_indices];
    const auto run = [&](int64_t some, int64_t by, int64_t s, int64_t f, int64_t t) {
        const I* own = beside(index, by, some, held);
        if (all_inside(own, some, size)) {
            for (int64_t j = 0; j < some; ++j)
                y[j * t] = x[static_cast<int64_t>(own[j]) * s + j * f];
            return;
        }
        for (int64_t j = 0; j < some; ++j) {
            const int64_t given = own[j], at = given + (given >> 63 & more);
            const bool inside = static_cast<uint64_t>(at) < static_cast<uint64_t>(size);
            wrong |= !inside;
            y[j * t] = x[(inside ? at : 0) * s + j * f];
        }
    };
    for (int64_t first = 0; first < n; first += piece_of_indices) {
        const int64_t some = std::min(piece_of_indices, n - first);
        if (step == 1 && to == 1 && from == 0 && stride == 1) run(some, 1, 1, 0, 1);
        else if (step == 1 && to == 1 && from == 0) run(some, 1, stride, 0, 1);
        else if (step == 1 && to == 1 && from == 1) run(some, 1, stride, 1, 1);
        else run(some, step, stride, from, to);
        index += some * step;
        x += some * from;
        y += some * to;
    }
    return wrong == 0;
}

// The usual case. False: an index is wrong.
template <class T>
bool gather_run(const Indices& indices, const T* x, const int64_t* offsets, const int64_t* steps,
                T* y, int64_t from, int64_t to, int64_t n) {
    if (indices.blocks.size() == 1 && indices.sizes[0] > 0)
        return indices.blocks[0].dtype == DType::i64
                   ? gather_by_one<int64_t>(indices, x, *offsets, *steps, y, from, to, n)
                   : gather_by_one<int32_t>(indices, x, *offsets, *steps, y, from, to, n);
    constexpr int64_t piece = 128;  // checked, then moved: neither loop has a branch
    for (int64_t first = 0; first < n; first += piece) {
        const int64_t some = std::min(piece, n - first);
        int64_t places[piece] = {}, wrong = 0;
        for (size_t k = 0; k < indices.blocks.size(); ++k) {
            const int64_t offset = offsets[k] + first * steps[k];
            wrong |= indices.blocks[k].dtype == DType::i64
                         ? indices.add_places<int64_t>(k, offset, steps[k], some, places)
                         : indices.add_places<int32_t>(k, offset, steps[k], some, places);
        }
        if (wrong < 0) return false;
        const T* source = x + first * from;
        T* target = y + first * to;
        if (from == 0 && to == 1)
            for (int64_t j = 0; j < some; ++j) target[j] = source[places[j]];
        else
            for (int64_t j = 0; j < some; ++j) target[j * to] = source[j * from + places[j]];
    }
    return true;
}

// One index leads to many elements, which lie in another order in x than in y: they are one copy.
struct Planes {
    Space outer;  // what an index varies along
    SmallVector<int64_t, 6> sizes, x_strides, y_strides;

    explicit Planes(const Space& s) {
        outer.operands = s.operands;
        for (int d = 0; d < s.dims; ++d) {
            bool same = true;
            for (int k = 2; k < s.operands; ++k) same = same && s.strides[k][d] == 0;
            if (same) {
                sizes.push_back(s.sizes[d]);
                x_strides.push_back(s.strides[1][d]);
                y_strides.push_back(s.strides[0][d]);
                continue;
            }
            outer.sizes[outer.dims] = s.sizes[d];
            for (int k = 0; k < s.operands; ++k) outer.strides[k][outer.dims] = s.strides[k][d];
            ++outer.dims;
        }
    }
    bool worth_it(const Space& s) const {
        constexpr int64_t least = 256;  // elements: to begin a copy costs more than a loop over few
        int64_t count = 1;
        bool nearer = false;
        for (size_t d = 0; d < sizes.size(); ++d) {
            count *= sizes[d];
            nearer = nearer || (sizes[d] > 1 && x_strides[d] != 0 &&
                                std::abs(x_strides[d]) < std::abs(s.strides[1][s.dims - 1]));
        }
        return nearer && count >= least;
    }
    int gather(const Args& args, const Indices& indices) const {
        const Block &x = args.blocks.front(), &y = args.blocks.back();
        const int64_t bytes = size_of(y.dtype);
        Block blocks[] = {{nullptr, x.dtype, x_strides.data()},
                          {nullptr, y.dtype, y_strides.data()}};
        Args part = args;
        part.sizes = sizes;
        part.blocks = blocks;
        Walk walk(outer, outer.dims);
        do {
            int64_t place;
            if (int status = indices.lead(walk.offset + 2, &place)) return status;
            blocks[0].data = x.data + (walk.offset[1] + place) * bytes;
            blocks[1].data = y.data + walk.offset[0] * bytes;
            if (int status = copy(part)) return status;
        } while (walk.next());
        return 0;
    }
};

template <class T>
int gather_of(const Args& args, const Indices& indices, const Space& s) {
    const T* x = reinterpret_cast<const T*>(args.blocks.front().data);
    T* y = reinterpret_cast<T*>(args.blocks.back().data);
    const int last = s.dims - 1;
    const int64_t n = s.sizes[last], to = s.strides[0][last], from = s.strides[1][last];
    const size_t count = indices.blocks.size();
    bool one = true;  // index for a whole run
    int64_t steps[max_operands];
    for (size_t k = 0; k < count; ++k) {
        steps[k] = s.strides[2 + k][last];
        one = one && (n == 1 || steps[k] == 0);
    }
    Walk walk(s, last);
    int64_t place;
    do {
        const T* row = x + walk.offset[1];
        T* out = y + walk.offset[0];
        if (one) {
            if (int status = indices.lead(walk.offset + 2, &place)) return status;
            row += place;
            if (to == 1 && from == 1) copy_run(out, row, static_cast<size_t>(n) * sizeof(T));
            else
                for (int64_t j = 0; j < n; ++j) out[j * to] = row[j * from];
            continue;
        }
        int64_t at[max_operands];
        std::copy_n(walk.offset + 2, count, at);
        // Else the loop below says what is wrong.
        if (gather_run(indices, row, at, steps, out, from, to, n)) continue;
        for (int64_t j = 0; j < n; ++j) {
            if (int status = indices.lead(at, &place)) return status;
            out[j * to] = row[j * from + place];
            for (size_t k = 0; k < count; ++k) at[k] += s.strides[2 + k][last];
        }
    } while (walk.next());
    return 0;
}

}  // namespace

int gather(const Args& args) {
    const size_t count = args.blocks.size() - 2, rank = args.sizes.size() - count;
    const bool of_dim = args.params[0].i;
    const Block &x = args.blocks.front(), &y = args.blocks.back();
    const Indices indices{args,
                          of_dim ? Refusal::gather : Refusal::indexing,
                          args.blocks.subspan(1, count),
                          args.sizes.data() + rank,
                          x.strides + rank,
                          args.params[1].i != 0};
    Strides strides{y.strides, x.strides};
    for (const Block& b : indices.blocks) strides.push_back(b.strides);
    Space s;
    if (int status = outer_space(args, 0, rank, strides, true, s)) return status;
    if (s.empty()) return 0;
    if (const Planes planes(s); planes.worth_it(s)) return planes.gather(args, indices);
    switch (size_of(y.dtype)) {
        case 1: return gather_of<uint8_t>(args, indices, s);
        case 2: return gather_of<uint16_t>(args, indices, s);
        case 4: return gather_of<uint32_t>(args, indices, s);
        default: return gather_of<uint64_t>(args, indices, s);
    }
}

}  // namespace nntile::kernels
