// SPDX-License-Identifier: BSD-3-Clause
// Elements written by index, or joined with what is there.
#include <algorithm>
#include <limits>

#include "kernels/bfloat16.hh"
#include "kernels/convert.hh"
#include "kernels/float16.hh"
#include "kernels/functions.hh"
#include "kernels/index.hh"
#include "kernels/scatter.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {
namespace {

// How a table of floats of 16 bits stores its elements.
template <DType D, float (*widened)(uint16_t), uint16_t (*rounded)(float)>
struct Short {
    static constexpr DType dtype = D;
    uint16_t bits;

    Short() = default;
    Short(float x) : bits(rounded(x)) {}
    operator float() const { return widened(bits); }
};
using BFloat16 = Short<DType::bf16, f32_of_bf16, bf16_of_f32>;
using Float16 = Short<DType::f16, plain_f32_of_f16, plain_f16_of_f32>;

// Points of `own` are those of the result, those of `more` come to them one after the other: in
// row-major order, so that the bits depend on no cut.
// T: the numbers that are joined; Y: how they are stored, where they are read and joined in place.
template <class T, class Y = T>
struct Scatter {
    static constexpr Compute compute = std::is_same_v<T, float>    ? compute_f32
                                       : std::is_same_v<T, double> ? compute_f64
                                                                   : compute_i64;
    const Args& args;
    const Indices& indices;
    const Space &own, &more;
    Block x, y;
    T alpha;
    static constexpr DType stored = [] {
        if constexpr (std::is_same_v<Y, T>) return dtype_of(compute);
        else return Y::dtype;
    }();
    bool in_place = y.dtype == stored;
    static constexpr int64_t piece = 256;
    T values[piece] = {};

    template <int mode, class X>
    static void join_run(const X* from, Y* to, T by, int64_t step, int64_t out_step, int64_t n) {
        if (step == 1 && out_step == 1)
            for (int64_t j = 0; j < n; ++j) to[j] = joined<mode, T>(to[j], from[j], by);
        else
            for (int64_t j = 0; j < n; ++j)
                to[j * out_step] = joined<mode, T>(to[j * out_step], from[j * step], by);
    }

    // Element j goes to the place of index j, and as many elements further as j steps. Gives how
    // many there are before a wrong index.
    template <int mode, class X>
    static int64_t join_by_one(const Indices& all, const int64_t* index, int64_t index_step,
                               const X* from, int64_t step, Y* to, int64_t out_step, T by,
                               int64_t n) {
        const int64_t size = all.sizes[0], stride = all.strides[0], more = all.wrap ? size : 0;
        int64_t held[piece_of_indices];
        const auto run = [&](int64_t some, int64_t i, int64_t s, int64_t f, int64_t t) {
            const int64_t* own = beside(index, i, some, held);
            if (all_inside(own, some, size)) {
                for (int64_t j = 0; j < some; ++j) {
                    Y& element = to[own[j] * s + j * t];
                    element = joined<mode, T>(element, from[j * f], by);
                }
                return some;
            }
            for (int64_t j = 0; j < some; ++j) {
                const int64_t given = own[j], at = given + (given >> 63 & more);
                if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(size)) return j;
                Y& element = to[at * s + j * t];
                element = joined<mode, T>(element, from[j * f], by);
            }
            return some;
        };
        for (int64_t first = 0; first < n; first += piece_of_indices) {
            const int64_t some = std::min(piece_of_indices, n - first);
            const bool dense = index_step == 1 && step == 1;
            const int64_t done = dense && stride == 1 && out_step == 0 ? run(some, 1, 1, 1, 0)
                                 : dense && out_step == 1
                                     ? run(some, 1, stride, 1, 1)
                                     : run(some, index_step, stride, step, out_step);
            if (done < some) return first + done;
            index += some * index_step;
            from += some * step;
            to += some * out_step;
        }
        return n;
    }

    // The same of some rows that have one index, which is read once for all of them.
    template <int mode, int rows>
    static bool join_rows(const Indices& all, const int64_t* index, int64_t index_step,
                          const Y* from, int64_t step, int64_t from_row, Y* to, int64_t out_step,
                          int64_t to_row, T by, int64_t n) {
        const int64_t stride = all.strides[0];
        if (index_step != 1 || !all_inside(index, n, all.sizes[0])) return false;
        for (int64_t j = 0; j < n; ++j) {
            const Y* x = from + j * step;
            Y* element = to + index[j] * stride + j * out_step;
            for (int r = 0; r < rows; ++r)
                element[r * to_row] = joined<mode, T>(element[r * to_row], x[r * from_row], by);
        }
        return true;
    }

    // n elements of x from `from` on, where the index is one or one for each of them; advances
    // `at`, of the index.
    template <int mode, class X>
    int plain_run(const X* from, int64_t step, Y* to, int64_t out_step, int64_t* at,
                  int64_t index_step, int64_t n) {
        int64_t place = 0;
        if (index_step == 0) {
            if (int status = indices.lead(at, &place)) return status;
            join_run<mode>(from, to + place, alpha, step, out_step, n);
            return 0;
        }
        const int64_t* index = reinterpret_cast<const int64_t*>(indices.blocks[0].data) + *at;
        const int64_t done =
            join_by_one<mode>(indices, index, index_step, from, step, to, out_step, alpha, n);
        *at += done * index_step;
        return done == n ? 0 : indices.lead(at, &place);
    }

    // What is the same for all lines of a space along one dim.
    struct Line {
        int64_t n, to, from;
        int64_t index_steps[max_operands];
        bool one;  // index for all of a line
        bool run;  // y is read and written where it is, and its places are of one kind
    };
    Line line_of(const Space& s, int dim) const {
        const size_t count = indices.blocks.size();
        Line l;
        l.n = s.sizes[dim], l.to = s.strides[0][dim], l.from = s.strides[1][dim];
        l.one = true;
        for (size_t k = 0; k < count; ++k) {
            l.index_steps[k] = s.strides[2 + k][dim];
            l.one = l.one && (l.n == 1 || l.index_steps[k] == 0);
        }
        l.run = in_place && (l.one || (count == 1 && indices.blocks[0].dtype == DType::i64));
        return l;
    }
    template <int mode>
    int line(const int64_t* offsets, const Line& l) {
        const auto& [n, to, from, index_steps, one, run] = l;
        const size_t count = indices.blocks.size();
        int64_t at[max_operands];
        std::copy_n(offsets + 2, count, at);
        const int64_t index_step = one ? 0 : index_steps[0];
        Y* const out = reinterpret_cast<Y*>(y.data);
        if (run && x.dtype == y.dtype)  // read where they are
            return plain_run<mode>(reinterpret_cast<const Y*>(x.data) + offsets[1], from,
                                   out + offsets[0], to, at, index_step, n);
        const Convert load = loader(x.dtype, compute), read = loader(y.dtype, compute),
                      store = storer(compute, y.dtype);
        const int64_t bytes = size_of(y.dtype);
        int64_t place = 0;
        if (one)
            if (int status = indices.lead(at, &place)) return status;
        for (int64_t first = 0; first < n; first += piece) {
            const int64_t some = std::min(piece, n - first);
            load(x.data + (offsets[1] + first * from) * size_of(x.dtype), values, from, some);
            if (run) {
                if (int status = plain_run<mode>(values, 1, out + offsets[0] + first * to, to, at,
                                                 index_step, some))
                    return status;
                continue;
            }
            for (int64_t j = 0; j < some; ++j) {
                if (!one) {
                    if (int status = indices.lead(at, &place)) return status;
                    for (size_t k = 0; k < count; ++k) at[k] += index_steps[k];
                }
                const int64_t target = offsets[0] + place + (first + j) * to;
                if (in_place) {
                    out[target] = joined<mode, T>(out[target], values[j], alpha);
                    continue;
                }
                std::byte* element = y.data + target * bytes;
                T before{};
                if (mode != put) read(element, &before, 1, 1);
                before = joined<mode>(before, values[j], alpha);
                store(&before, element, 1, 1);
            }
        }
        return 0;
    }

    static constexpr int64_t turned_lines = 16;
    template <int mode>
    int turned(const int64_t* begin, const int64_t* steps, int64_t some, const Line& l) {
        int64_t held[turned_lines * piece_of_indices];
        Y held_x[turned_lines * piece_of_indices];
        const auto* index = reinterpret_cast<const int64_t*>(indices.blocks[0].data) + begin[2];
        const Y* from = reinterpret_cast<const Y*>(x.data) + begin[1];
        int64_t index_line = steps[2], index_step = l.index_steps[0], x_line = steps[1],
                x_step = l.from;
        const auto turn = [&](auto*& data, int64_t& line, int64_t& step, auto* room) {
            transpose_of(sizeof *room)(data, step, room, l.n, some, l.n);
            data = room, line = l.n, step = 1;
        };
        if (!l.one && apart(index_step, index_line)) turn(index, index_line, index_step, held);
        if (apart(x_step, x_line)) turn(from, x_line, x_step, held_x);
        for (int64_t i = 0; i < some; ++i) {
            const Y* own = from + i * x_line;
            Y* const to = reinterpret_cast<Y*>(y.data) + begin[0] + i * steps[0];
            int64_t place = 0, done = 0;
            if (l.one) {
                if (int status = lead_of(begin, steps, i, &place)) return status;
                join_run<mode>(own, to + place, alpha, x_step, l.to, l.n);
                continue;
            }
            done = join_by_one<mode>(indices, index + i * index_line, index_step, own, x_step, to,
                                     l.to, alpha, l.n);
            const int64_t at = begin[2] + i * steps[2] + done * l.index_steps[0];
            if (done < l.n)
                if (int status = indices.lead(&at, &place)) return status;
        }
        return 0;
    }
    int lead_of(const int64_t* begin, const int64_t* steps, int64_t line, int64_t* place) const {
        int64_t at[max_operands];
        for (size_t k = 0; k < indices.blocks.size(); ++k)
            at[k] = begin[2 + k] + line * steps[2 + k];
        return indices.lead(at, place);
    }
    // Elements of neighbouring lines lie beside each other, those of a line do not.
    static bool apart(int64_t step, int64_t line) { return step != 1 && line == 1; }

    // The loop over the dim along which x is read, and y read and written, closest is the inner
    // one.
    template <int mode>
    int run() {
        const int a = own.dims - 1, b = more.dims - 1;
        int64_t along_table = INT64_MAX;
        for (size_t k = 0; k < indices.blocks.size(); ++k)
            along_table = std::min(along_table, std::abs(indices.strides[k]));
        const auto cost = [](const Space& s, int d, int64_t y_step) {
            return s.sizes[d] == 1 ? INT64_MAX : std::abs(s.strides[1][d]) + 2 * y_step;
        };
        const bool inner_is_own =
            cost(own, a, std::abs(own.strides[0][a])) <= cost(more, b, along_table);
        const Space &other = inner_is_own ? more : own, &inner = inner_is_own ? own : more;
        const int last = inner.dims - 1;
        const Line l = line_of(inner, last);
        // Points of the result do not wait for each other, and what comes to one keeps its order:
        // all dims but that of the lines may be walked outside of the other loop.
        Space outer = inner;
        outer.dims = last + other.dims;
        std::copy_n(other.sizes, other.dims, outer.sizes + last);
        for (int k = 0; k < other.operands; ++k)
            std::copy_n(other.strides[k], other.dims, outer.strides[k] + last);
        // Lines that lie beside each other in x follow each other
        const int first = inner_is_own ? 0 : last, end = inner_is_own ? last : outer.dims;
        for (int d = first; d < end && l.from != 1; ++d) {
            if (outer.strides[1][d] != 1 || outer.sizes[d] == 1) continue;
            const auto to_end = [&](int64_t* list) {
                std::rotate(list + d, list + d + 1, list + outer.dims);
            };
            to_end(outer.sizes);
            for (int k = 0; k < outer.operands; ++k) to_end(outer.strides[k]);
            break;
        }
        // The last dim of the outer loop is one of its own: lines may be short.
        const int along = outer.dims - 1;
        constexpr int at_once = 4;
        const bool plain = l.run && x.dtype == y.dtype;
        const bool several = plain && !l.one && !inner_is_own && outer.strides[2][along] == 0;
        const bool across = plain && l.n <= piece_of_indices &&
                            ((!l.one && apart(l.index_steps[0], outer.strides[2][along])) ||
                             apart(l.from, outer.strides[1][along]));
        Walk walk(outer, along);
        do {
            for (int64_t i = 0; i < outer.sizes[along]; ++i) {
                int64_t begin[max_operands];
                for (int k = 0; k < outer.operands; ++k)
                    begin[k] = walk.offset[k] + i * outer.strides[k][along];
                if (several && i + at_once <= outer.sizes[along] &&
                    join_rows<mode, at_once>(
                        indices,
                        reinterpret_cast<const int64_t*>(indices.blocks[0].data) + begin[2],
                        l.index_steps[0], reinterpret_cast<const Y*>(x.data) + begin[1], l.from,
                        outer.strides[1][along], reinterpret_cast<Y*>(y.data) + begin[0], l.to,
                        outer.strides[0][along], alpha, l.n)) {
                    i += at_once - 1;
                } else if (across) {
                    const int64_t some = std::min(turned_lines, outer.sizes[along] - i);
                    int64_t steps[max_operands];
                    for (int k = 0; k < outer.operands; ++k) steps[k] = outer.strides[k][along];
                    if (int status = turned<mode>(begin, steps, some, l)) return status;
                    i += some - 1;
                } else if (int status = line<mode>(begin, l)) {
                    return status;
                }
            }
        } while (walk.next());
        return 0;
    }
    int run(int64_t mode) {
        switch (mode) {
            case put_add: return run<put_add>();
            case put_mul: return run<put_mul>();
            case put_amin: return run<put_amin>();
            case put_amax: return run<put_amax>();
            default: return run<put>();
        }
    }
};

template <class T, class Y = T>
int scatter_of(const Args& args, const Indices& indices, const Space& own, const Space& more) {
    const int64_t mode = args.params[3].i, with_own = args.params[4].i;
    const Block &x = args.blocks[1], &y = args.blocks.back();
    if (!with_own) {  // what is there does not count
        const T none = neutral<T>(static_cast<int>(mode), y.dtype);
        auto* data = reinterpret_cast<std::byte*>(const_cast<T*>(&none));
        const Block nothing{data, dtype_of(Scatter<T, Y>::compute), nullptr};
        Space flat_own = own, flat_more = more;
        std::fill_n(flat_own.strides[1], max_dims, 0);
        std::fill_n(flat_more.strides[1], max_dims, 0);
        if (int status =
                Scatter<T, Y>{args, indices, flat_own, flat_more, nothing, y, T(1)}.run(put))
            return status;
    }
    const double alpha = y.dtype == DType::boolean ? args.params[5].f != 0 : args.params[5].f;
    return Scatter<T, Y>{args, indices, own, more, x, y, static_cast<T>(alpha)}.run(mode);
}

}  // namespace

int scatter(const Args& args) {
    const size_t count = args.blocks.size() - 3, rank = args.sizes.size() - count;
    const size_t own_dims = rank - static_cast<size_t>(args.params[2].i);
    const bool of_dim = args.params[0].i;
    const Block &base = args.blocks[0], &x = args.blocks[1], &y = args.blocks.back();
    if (base.data != y.data) {
        Dims sizes(args.sizes);
        for (size_t d = own_dims; d < rank; ++d) sizes[d] = 1;
        const Block pair[] = {base, y};
        Args whole = args;
        whole.sizes = sizes;
        whole.blocks = pair;
        if (int status = copy(whole)) return status;
    }
    const Indices indices{args,
                          of_dim ? Refusal::scatter : Refusal::index_put,
                          args.blocks.subspan(2, count),
                          args.sizes.data() + rank,
                          y.strides + rank,
                          args.params[1].i != 0};
    Strides strides{y.strides, x.strides};
    for (const Block& b : indices.blocks) strides.push_back(b.strides);
    Space own, more;
    if (int status = outer_space(args, 0, own_dims, strides, true, own)) return status;
    if (int status = outer_space(args, own_dims, rank, strides, false, more)) return status;
    if (own.empty() || more.empty()) return 0;
    switch (compute_of(y.dtype)) {
        case compute_f32:
            return y.dtype == DType::bf16  ? scatter_of<float, BFloat16>(args, indices, own, more)
                   : y.dtype == DType::f16 ? scatter_of<float, Float16>(args, indices, own, more)
                                           : scatter_of<float>(args, indices, own, more);
        case compute_f64: return scatter_of<double>(args, indices, own, more);
        default: return scatter_of<int64_t>(args, indices, own, more);
    }
}

}  // namespace nntile::kernels
