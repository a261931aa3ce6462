// SPDX-License-Identifier: BSD-3-Clause
// A linear map along each of one to three dims, the same for all rows, with few inputs for each
// output: interpolation as torch.nn.functional.interpolate has it (nearest, linear, cubic,
// antialiased), padding by reflected and repeated elements; and transposed, which is their
// gradient. Dim after dim: what lies between stays in the cache.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/convert.hh"
#include "kernels/functions.hh"
#include "kernels/scratch.hh"
#include "kernels/space.hh"
#include "kernels/tap_weights.hh"
#include "kernels/taps.hh"

namespace nntile::kernels {
namespace {

constexpr size_t most_axes = 3;
constexpr int64_t ring = 8;          // rows that wait between two dims
constexpr int64_t cached = 1 << 18;  // elements of a block of images that the cache holds

// What the outputs of a dim are made of. V: of the elements. Integers are moved and added only;
// int16_t are two bytes of whatever dtype that are only moved.
template <class V>
struct Inputs {
    int64_t n, m;  // elements of x and of y
    std::vector<int64_t> ends, inputs;
    std::vector<V> weights, place_weights;
    std::vector<int32_t> places;
    std::vector<TapList::Pick> picks;
    TapList taps;
    bool moves;  // every output is an input
    struct Run {
        int64_t output, input, count;
    };
    std::vector<Run> runs;  // of outputs that are inputs beside each other, if most are
    int64_t reach;          // the largest difference of the inputs of an output

    template <class T>
    Inputs(const Taps<T>& t, int64_t of_x) : n(of_x), m(std::ssize(t.ends)) {
        ends = t.ends;
        inputs = t.inputs;
        weights.assign(t.weights.begin(), t.weights.end());
        const size_t each = m > 0 ? inputs.size() / static_cast<size_t>(m) : 0;
        bool same = each > 0 && each <= 4 && n <= std::numeric_limits<int32_t>::max();
        for (size_t o = 0; o < ends.size(); ++o)
            same &= ends[o] == static_cast<int64_t>((o + 1) * each);
        for (size_t k = 0; same && k < each; ++k)
            for (size_t at = k; at < inputs.size(); at += each) {
                places.push_back(static_cast<int32_t>(inputs[at]));
                place_weights.push_back(weights[at]);
            }
        taps = {ends.data(),
                inputs.data(),
                weights.data(),
                m,
                same ? static_cast<int64_t>(each) : 0,
                places.data(),
                place_weights.data(),
                nullptr,
                n};
        if (same && find_picks()) taps.picks = picks.data();
        moves = taps.each == 1 &&
                std::all_of(weights.begin(), weights.end(), [](V w) { return w == V(1); });
        if (moves) find_runs();
        reach = 0;
        for (size_t o = 0, k = 0; o < ends.size(); k = static_cast<size_t>(ends[o++]))
            if (k < static_cast<size_t>(ends[o])) {
                const auto [low, high] =
                    std::minmax_element(inputs.begin() + k, inputs.begin() + ends[o]);
                reach = std::max(reach, *high - *low);
            }
    }
    void find_runs() {
        constexpr int64_t shortest = 8;  // on average: shorter ones are better picked one by one
        for (int64_t o = 0; o < m; ++o) {
            const int64_t i = inputs[static_cast<size_t>(o)];
            if (!runs.empty() && runs.back().input + runs.back().count == i) ++runs.back().count;
            else runs.push_back({o, i, 1});
        }
        if (static_cast<int64_t>(runs.size()) * shortest > m) runs.clear();
    }
    bool find_picks() {
        constexpr int64_t lanes = 64 / sizeof(V);
        if (m < lanes || lanes > 16) return false;
        for (int64_t k = 0; k < taps.each; ++k)
            for (int64_t b = 0; b < (m + lanes - 1) / lanes; ++b) {
                const int32_t* own = places.data() + k * m + std::min(b * lanes, m - lanes);
                const auto [low, high] = std::minmax_element(own, own + lanes);
                const int64_t latest = std::max<int64_t>(n - lanes, 0),
                              first = std::min<int64_t>(*low, latest);
                const int64_t second = std::min(first + lanes, latest);
                if (*high >= second + lanes) return false;
                TapList::Pick pick{static_cast<int32_t>(first), static_cast<int32_t>(second), {}};
                for (int64_t j = 0; j < lanes; ++j) {
                    const int64_t at = own[j] - first;
                    pick.from[j] = static_cast<int32_t>(at < lanes ? at : own[j] - second + lanes);
                }
                picks.push_back(pick);
            }
        return true;
    }
};

// They take longer to find than to use, where there are few rows. A thread keeps some.
template <class V, class T>
std::shared_ptr<const Inputs<V>> inputs_of(const Shape& s, bool transposed) {
    using Key = std::array<double, 8>;
    constexpr int64_t most = 1 << 20;  // outputs that are kept, of all dims together
    thread_local std::map<Key, std::shared_ptr<const Inputs<V>>> known;
    thread_local int64_t kept = 0;
    const Key key{double(s.mode), double(s.align_corners), double(s.antialias),
                  double(s.left), double(s.scale),         double(s.n),
                  double(s.m),    double(transposed)};
    if (const auto it = known.find(key); it != known.end()) return it->second;
    const auto taps = transposed ? taps_of<T>(s).transposed(s.n) : taps_of<T>(s);
    auto made = std::make_shared<const Inputs<V>>(taps, transposed ? s.m : s.n);
    if (made->m > most) return made;
    if (kept + made->m > most) {
        known.clear();
        kept = 0;
    }
    kept += made->m;
    return known[key] = std::move(made);
}

// A dim that is resampled: elements of x and of y, and how far apart they are.
template <class V>
struct Axis {
    int64_t n, m, step_x, step_y;
    std::shared_ptr<const Inputs<V>> of;
};

// A block of images: all elements of the axes, of one row or of some rows beside each other.
template <class V>
class Blocks {
public:
    static constexpr Compute compute = std::is_integral_v<V> ? compute_i64
                                       : sizeof(V) == 4      ? compute_f32
                                                             : compute_f64;
    static constexpr bool is_short = std::is_same_v<V, int16_t>;

    Blocks(const Block& x, const Block& y, std::vector<Axis<V>> axes, int64_t most_lanes)
        : x_(x),
          y_(y),
          axes_(std::move(axes)),
          loops_(is_short ? tap_tables().of_short : tap_tables().table[compute]) {
        const size_t last = axes_.size() - 1;
        // A row of its own is the slow pass: dims that shrink come before it.
        if (most_lanes == 1)
            for (size_t d = 0; d < last; ++d)
                if (axes_[d].m < axes_[d].n) order_.push_back(d);
        for (size_t d = axes_.size(); d-- > 0;)
            if (std::find(order_.begin(), order_.end(), d) == order_.end()) order_.push_back(d);
        // What passes leave behind; the last one may leave it in y.
        int64_t sizes[most_axes], total = 1;
        for (size_t d = 0; d < axes_.size(); ++d) total *= sizes[d] = axes_[d].n;
        rooms_.push_back(total);
        for (size_t d : order_) {
            total = total / std::max<int64_t>(sizes[d], 1) * axes_[d].m;
            sizes[d] = axes_[d].m;
            rooms_.push_back(total);
        }
        // Where the next dim outwards follows, and its outputs have few inputs, a row is made when
        // it is asked for.
        for (size_t k = 0; k + 1 < order_.size(); ++k) {
            const Axis<V>& outer = axes_[order_[k + 1]];
            if (order_[k + 1] + 1 != order_[k] || (!outer.of->moves && outer.of->reach >= ring))
                continue;
            joined_ = static_cast<int>(k);
            int64_t row = axes_[order_[k]].m;
            for (size_t d = order_[k] + 1; d < axes_.size(); ++d) row *= axes_[d].m;
            rooms_[k + 1] = outer.of->moves ? 0 : row * ring;
            break;
        }
        const auto limit = static_cast<size_t>(cached) * sizeof(V);
        lanes_ = most_lanes;
        if (places_of(most_lanes).bytes > limit) {
            const int64_t largest = *std::max_element(rooms_.begin(), rooms_.end());
            lanes_ =
                std::min(most_lanes, std::max<int64_t>(cached / std::max<int64_t>(largest, 1), 16));
        }
    }
    // Of the rows that lie beside each other from these places on.
    void run(int64_t at_x, int64_t at_y, int64_t rows) {
        for (int64_t first = 0; first < rows; first += lanes_)
            part(at_x + first, at_y + first, std::min(lanes_, rows - first));
    }
    void run_row(int64_t at_x, int64_t at_y) { part(at_x, at_y, 1); }

private:
    static bool lies_as_computed(const Block& b) {
        return is_short || b.dtype == dtype_of(compute);
    }
    static void load(const Block& x, const std::byte* from, V* to, int64_t step, int64_t n) {
        if constexpr (is_short) {
            const V* own = reinterpret_cast<const V*>(from);
            for (int64_t j = 0; j < n; ++j) to[j] = own[j * step];
        } else {
            loader(x.dtype, compute)(from, to, step, n);
        }
    }
    static void store(const Block& y, const V* from, std::byte* to, int64_t step, int64_t n) {
        if constexpr (is_short) {
            V* own = reinterpret_cast<V*>(to);
            for (int64_t j = 0; j < n; ++j) own[j * step] = from[j];
        } else {
            storer(compute, y.dtype)(from, to, step, n);
        }
    }
    bool dense(const Block& b, int64_t Axis<V>::* size, int64_t Axis<V>::* step,
               int64_t lanes) const {
        if (!lies_as_computed(b)) return false;
        int64_t inner = lanes;
        for (size_t d = axes_.size(); d-- > 0; inner *= axes_[d].*size)
            if (axes_[d].*size != 1 && axes_[d].*step != inner) return false;
        return true;
    }
    // move(element of the block, element of dense memory, elements, how far apart) for runs of a
    // block.
    template <class Move>
    void runs(const Block& b, int64_t at, int64_t Axis<V>::* size, int64_t Axis<V>::* step,
              int64_t lanes, Move&& move) const {
        const size_t last = axes_.size() - 1;
        const int64_t bytes = size_of(b.dtype), row = axes_[last].*size,
                      between = axes_[last].*step;
        // Pixels of a row are one run
        const bool joined = lanes == 1 || between == lanes || row == 1;
        int64_t index[most_axes] = {}, memory = 0;
        for (bool more = true; more;) {
            int64_t offset = at;
            for (size_t d = 0; d < last; ++d) offset += index[d] * (axes_[d].*step);
            if (joined) {
                move(b.data + offset * bytes, memory, row * lanes, lanes == 1 ? between : 1);
            } else {
                for (int64_t k = 0; k < row; ++k)
                    move(b.data + (offset + k * between) * bytes, memory + k * lanes, lanes,
                         int64_t{1});
            }
            memory += row * lanes;
            more = false;
            for (size_t d = last; d-- > 0 && !more;) {
                more = ++index[d] < axes_[d].*size;
                if (!more) index[d] = 0;
            }
        }
    }

    // How so many lanes are read and written, and what of them is in memory of its own.
    struct Places {
        bool read, write, strided;  // strided: the first pass reads pixels wherever they lie
        size_t bytes;
    };
    Places places_of(int64_t lanes) const {
        Places p{!dense(x_, &Axis<V>::n, &Axis<V>::step_x, lanes),
                 !dense(y_, &Axis<V>::m, &Axis<V>::step_y, lanes), false, 0};
        const size_t last = axes_.size() - 1;
        p.strided = p.read && order_[0] == last && lies_as_computed(x_) &&
                    (lanes > 1 || axes_[last].step_x == 1);
        for (size_t k = p.read && !p.strided ? 0 : 1; k < rooms_.size() - (p.write ? 0 : 1); ++k)
            p.bytes += padded(static_cast<size_t>(rooms_[k] * lanes) * sizeof(V));
        return p;
    }

    void part(int64_t at_x, int64_t at_y, int64_t lanes) {
        const auto [read, write, strided, needed] = places_of(lanes);
        constexpr size_t most_kept = size_t{1} << 24;  // of a large image a thread keeps nothing
        thread_local Scratch kept;
        Scratch own;
        Scratch& scratch = needed <= most_kept ? kept : own;
        scratch.begin(needed);
        V* from = nullptr;
        if (read && !strided) {
            from = scratch.take<V>(static_cast<size_t>(rooms_[0] * lanes));
            runs(x_, at_x, &Axis<V>::n, &Axis<V>::step_x, lanes,
                 [&](std::byte* at, int64_t memory, int64_t n, int64_t step) {
                     load(x_, at, from + memory, step, n);
                 });
        } else {
            from = reinterpret_cast<V*>(x_.data) + at_x;
            x_row_ = from;
        }
        V* ring_at = nullptr;
        int64_t sizes[most_axes];
        for (size_t d = 0; d < axes_.size(); ++d) sizes[d] = axes_[d].n;
        for (size_t k = 0; k < order_.size(); ++k) {
            const bool final = k + 1 == order_.size();
            V* const to = final && !write
                              ? reinterpret_cast<V*>(y_.data) + at_y
                              : scratch.take<V>(static_cast<size_t>(rooms_[k + 1] * lanes));
            const V* x = k == 0 && strided ? nullptr : from;
            if (static_cast<int>(k) == joined_) {
                ring_at = to;
                continue;
            }
            if (joined_ >= 0 && static_cast<int>(k) == joined_ + 1) {
                joined(order_[k], sizes, joined_ == 0 && strided ? nullptr : from, lanes, ring_at,
                       to);
                sizes[order_[k - 1]] = axes_[order_[k - 1]].m;
            } else {
                pass(order_[k], sizes, x, lanes, to);
            }
            sizes[order_[k]] = axes_[order_[k]].m;
            from = to;
        }
        if (!write) return;
        runs(y_, at_y, &Axis<V>::m, &Axis<V>::step_y, lanes,
             [&](std::byte* at, int64_t memory, int64_t n, int64_t step) {
                 store(y_, from + memory, at, step, n);
             });
    }
    // Row i of the axis, of dense memory, or of x where its last dim is the first that is
    // resampled.
    const V* row_of(size_t d, const int64_t* sizes, const V* dense, int64_t after, int64_t i,
                    int64_t* step) const {
        *step = dense ? after : axes_[d].step_x;
        if (dense) return dense + i * axes_[d].n * after;
        const V* from = x_row_;
        for (size_t k = d; k-- > 0; i /= sizes[k]) from += i % sizes[k] * axes_[k].step_x;
        return from;
    }
    void pass(size_t d, const int64_t* sizes, const V* from, int64_t lanes, V* to) const {
        int64_t before = 1, after = lanes, step;
        for (size_t k = 0; k < d; ++k) before *= sizes[k];
        for (size_t k = d + 1; k < axes_.size(); ++k) after *= sizes[k];
        for (int64_t i = 0; i < before; ++i, to += axes_[d].m * after) {
            const V* own = row_of(d, sizes, from, after, i, &step);
            row(axes_[d], own, step, after, to);
        }
    }
    // A pass of dim d + 1, and at once that of dim d.
    void joined(size_t d, const int64_t* sizes, const V* from, int64_t lanes, V* rows, V* to) {
        const Axis<V>&outer = axes_[d], &inner = axes_[d + 1];
        int64_t before = 1, after = lanes, step;
        for (size_t k = 0; k < d; ++k) before *= sizes[k];
        for (size_t k = d + 2; k < axes_.size(); ++k) after *= sizes[k];
        const int64_t wide = inner.m * after;
        made_.resize(static_cast<size_t>(outer.n));
        for (int64_t b = 0; b < before; ++b, to += outer.m * wide) {
            const auto make = [&](int64_t i, V* target) {
                const V* own = row_of(d + 1, sizes, from, after, b * outer.n + i, &step);
                row(inner, own, step, after, target);
            };
            int64_t holds[ring];
            std::fill_n(holds, ring, int64_t{-1});
            std::fill(made_.begin(), made_.end(), int64_t{0});
            for (int64_t o = 0, k = 0; o < outer.m; k = outer.of->ends[static_cast<size_t>(o++)]) {
                const int64_t *inputs = outer.of->inputs.data() + k,
                              count = outer.of->ends[static_cast<size_t>(o)] - k;
                if (outer.of->moves) {
                    int64_t& before_it = made_[static_cast<size_t>(*inputs)];
                    if (before_it) std::copy_n(to + (before_it - 1) * wide, wide, to + o * wide);
                    else make(*inputs, to + o * wide);
                    before_it = o + 1;
                    continue;
                }
                slots_.clear();
                for (int64_t j = 0; j < count; ++j)
                    slots_.push_back(put(inputs[j], holds, make, rows, wide));
                loops_.of_rows(rows, wide, slots_.data(), outer.of->weights.data() + k, count, wide,
                               to + o * wide);
            }
        }
    }
    template <class Make>
    static int64_t put(int64_t i, int64_t* holds, Make&& make, V* rows, int64_t wide) {
        const int64_t slot = i % ring;
        if (holds[slot] != i) make(i, rows + slot * wide);
        holds[slot] = i;
        return slot;
    }
    // n elements of the axis, `step` apart, each `wide` numbers beside each other.
    void row(const Axis<V>& axis, const V* from, int64_t step, int64_t wide, V* to) const {
        if (step == wide && !axis.of->runs.empty()) {
            for (const auto& run : axis.of->runs)
                std::copy_n(from + run.input * wide, run.count * wide, to + run.output * wide);
            return;
        }
        if (wide == 1 && step == 1) return loops_.of_row(from, axis.of->taps, to);
        loops_.of_pixels(from, step, axis.of->taps, wide, to);
    }

    const Block &x_, &y_;
    const std::vector<Axis<V>> axes_;
    const TapLoops& loops_;
    int64_t lanes_;
    const V* x_row_ = nullptr;
    std::vector<int64_t> made_, slots_;  // made: 1 + output that has the row
    int joined_ = -1;                    // the pass that is one with the next
    SmallVector<size_t, 3> order_;       // of the passes
    SmallVector<int64_t, 4> rooms_;      // elements of a lane before each pass, and at the end
};

// T: of the weights.
template <class V, class T>
int resample_of(const Args& args) {
    const Block &x = args.blocks[0], &y = args.blocks[1];
    const auto count = static_cast<size_t>(args.params[4].i);
    const size_t first = args.sizes.size() - 2 * count;
    const bool transposed = args.params[3].i;
    std::vector<Axis<V>> axes(count);
    for (size_t d = 0; d < count; ++d) {
        Axis<V>& axis = axes[d];
        const size_t at = first + 2 * d;
        axis.m = args.sizes[at];
        axis.n = args.sizes[at + 1];
        axis.step_y = y.strides[at];
        axis.step_x = x.strides[at + 1];
        Shape s{static_cast<Mode>(args.params[0].i),
                args.params[1].i != 0,
                args.params[2].i != 0,
                args.params[5 + d].i,
                args.params[5 + count + d].f,
                axis.n,
                axis.m};
        if (transposed) std::swap(s.n, s.m);
        axis.of = inputs_of<V, T>(s, transposed);
        if (axis.m == 0) return 0;
    }
    Args rows = args;
    rows.sizes = args.sizes.first(first);
    const int64_t* strides[] = {x.strides, y.strides};
    Space space;
    if (int status = space.make(rows, strides, {1})) return status;
    if (space.empty()) return 0;
    const int inner = space.dims - 1;
    const int64_t lanes =
        space.strides[0][inner] == 1 && space.strides[1][inner] == 1 ? space.sizes[inner] : 1;
    Blocks<V> blocks(x, y, std::move(axes), lanes);
    Walk walk(space, lanes > 1 ? inner : space.dims);
    do {
        if (lanes > 1) blocks.run(walk.offset[0], walk.offset[1], lanes);
        else blocks.run_row(walk.offset[0], walk.offset[1]);
    } while (walk.next());
    return 0;
}

}  // namespace

int resample(const Args& args) {
    const DType dtype = args.blocks[0].dtype;
    const auto mode = static_cast<Mode>(args.params[0].i);
    const bool moves = mode != linear && mode != cubic && args.params[3].i == 0;
    if (moves && size_of(dtype) == 2) return resample_of<int16_t, float>(args);
    if (!is_floating(dtype)) return resample_of<int64_t, float>(args);
    return dtype == DType::f64 ? resample_of<double, double>(args)
                               : resample_of<float, float>(args);
}

}  // namespace nntile::kernels
