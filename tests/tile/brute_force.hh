// SPDX-License-Identifier: BSD-3-Clause
// Brute force for the algebra of views and cuts: enumerates every element of a case.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "base/error.hh"
#include "tile/axes.hh"

namespace nntile::tile {

inline int failures = 0;
inline std::function<std::string()> describe = [] { return std::string(); };

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition) && ++failures <= 10)                                  \
            std::printf("%s:%d: %s\n    %s\n", __FILE__, __LINE__, #condition, \
                        describe().c_str());                                   \
    } while (false)

// ---------------------------------------------------------------- small tools

inline std::mt19937_64 random_bits(7);
inline int64_t pick(int64_t low, int64_t high) {  // both included
    return std::uniform_int_distribution<int64_t>(low, high)(random_bits);
}

inline void for_each_index(const Dims& sizes, const std::function<void(const Dims&)>& visit) {
    int64_t total = product(sizes);
    for (int64_t a = 0; a < total; ++a) {
        Dims at(sizes.size(), 0);
        int64_t rest = a;
        for (size_t i = sizes.size(); i-- > 0; rest /= sizes[i]) at[i] = rest % sizes[i];
        visit(at);
    }
}

inline int64_t dot(std::span<const int64_t> a, std::span<const int64_t> b, int64_t start) {
    for (size_t i = 0; i < a.size(); ++i) start += a[i] * b[i];
    return start;
}

struct Place {
    uint32_t tile = 0;
    int64_t offset = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
};

// Row-major element number -> tile and offset in the dense tile.
inline Place place(const Grid& grid, int64_t element) {
    Dims at(grid.dims.size(), 0);
    for (size_t i = at.size(); i-- > 0; element /= grid.dims[i].extent)
        at[i] = element % grid.dims[i].extent;
    Place p;
    for (size_t i = 0; i < at.size(); ++i) {
        const GridDim& d = grid.dims[i];
        int64_t s = d.segments() - 1;
        while (d.starts[s] > at[i]) --s;
        p.tile = static_cast<uint32_t>(p.tile * d.segments() + s);
        p.offset = p.offset * d.size(s) + at[i] - d.starts[s];
    }
    return p;
}

inline std::string text_of_cuts(const std::vector<Cut>& cuts) {
    std::string out = "[";
    for (const Cut& c : cuts) out += (out.size() > 1 ? ", " : "") + text_of(c);
    return out + "]";
}

inline std::string text_of_case(const Dims& shape, const Layout& l) {
    return text_of_dims(shape) + " as " + text_of_dims(l.sizes) + text_of_dims(l.strides) + "+" +
           std::to_string(l.offset);
}

inline Cut random_cut(int64_t n) {
    if (n < 2 || pick(0, 2) == 0) return whole(n);
    int64_t outer = 1;
    for (int64_t f = 1; f <= n; ++f)
        if (n % f == 0 && pick(0, 1)) outer = f;
    Cut cut{{outer, {}}, {n / outer, {}}};
    for (Factor& f : cut)
        for (int64_t p = 1; p < f.extent; ++p)
            if (pick(0, 2) == 0) f.positions.push_back(p);
    return normal(cut);
}

inline std::vector<Cut> random_cuts(const Dims& sizes) {
    std::vector<Cut> out;
    for (int64_t n : sizes) out.push_back(random_cut(n));
    return out;
}

inline Dims random_shape() {
    Dims shape;
    for (int64_t i = pick(0, 4); i > 0; --i) shape.push_back(pick(1, 6));
    return shape;
}

// Overlaps, broadcasts, carries, zero sizes, junk strides of size-1 dims.
inline Layout random_layout(const Dims& shape) {
    int64_t total = product(shape);
    Dims own = dense_strides(shape);
    Layout l;
    l.offset = pick(0, 1) ? 0 : pick(0, total - 1);
    int64_t room = total - 1 - l.offset;
    for (int64_t i = pick(0, 4); i > 0; --i) {
        int64_t n = pick(0, 20) ? pick(1, 8) : 0;
        int64_t t = !own.empty() && pick(0, 2) ? own[pick(0, own.size() - 1)] : pick(0, total);
        if (n > 1 && t) n = std::min(n, room / t + 1);
        if (n > 1) room -= (n - 1) * t;
        l.sizes.push_back(n);
        l.strides.push_back(n > 1 ? t : pick(0, 99));
    }
    return l;
}

// What chains of torch view operators give.
inline Layout random_view(const Dims& shape) {
    Layout l = Layout::dense(shape);
    for (int64_t i = pick(0, 5); i > 0; --i) {
        size_t rank = l.sizes.size();
        size_t k = rank ? pick(0, rank - 1) : 0, j = rank ? pick(0, rank - 1) : 0;
        int64_t op = pick(0, 7);
        if (op == 0 && rank < 6) {  // expand
            l.sizes.insert(k, pick(1, 3));
            l.strides.insert(k, 0);
        }
        if (rank == 0 || l.numel() == 0) continue;
        int64_t& n = l.sizes[k];
        int64_t& t = l.strides[k];
        if (op == 1) {  // slice
            int64_t begin = pick(0, n - 1), step = pick(1, 3);
            l.offset += begin * t;
            n = (pick(begin + 1, n) - begin + step - 1) / step;
            t *= step;
        } else if (op == 2 || op == 3) {  // transpose
            std::swap(n, l.sizes[j]);
            std::swap(t, l.strides[j]);
        } else if (op == 4 && rank < 6) {  // split
            int64_t f = pick(1, n);
            if (n % f) continue;
            l.sizes.insert(k + 1, n / f);
            l.strides.insert(k + 1, l.strides[k]);
            l.sizes[k] = f;
            l.strides[k] *= l.sizes[k + 1];
        } else if (op == 5 && k + 1 < rank && t == l.strides[k + 1] * l.sizes[k + 1]) {  // merge
            l.sizes[k + 1] *= n;
            l.sizes.erase(k);
            l.strides.erase(k);
        } else if (op == 6 && j != k) {  // diagonal
            n = std::min(n, l.sizes[j]);
            t += l.strides[j];
            l.sizes.erase(j);
            l.strides.erase(j);
        } else if (op == 7 && rank < 6) {  // unfold
            int64_t window = pick(1, n), step = pick(1, 3);
            int64_t inner = t;
            n = (n - window) / step + 1;
            t *= step;
            l.sizes.push_back(window);
            l.strides.push_back(inner);
        }
    }
    return l;
}

// ---------------------------------------------------------------- invariants of maps and pieces

// Digits, and refined slots with their windows, reproduce every address and stay in bounds.
inline void check_map(const Dims& shape, const Layout& layout) {
    AccessMap m = access_map(shape, layout);
    if (m.carry || layout.numel() == 0) return;
    Form form = refine(m);
    Dims own = dense_strides(shape), digit_sizes, covered(layout.sizes.size(), 1);
    for (const Digit& d : m.digits) {
        digit_sizes.push_back(d.size);
        covered[d.dim] *= d.size;
    }
    CHECK(covered == layout.sizes);
    for_each_index(digit_sizes, [&](const Dims& x) {
        Dims view(layout.sizes.size(), 0), base = m.start;
        std::vector<Dims> refined;
        for (size_t i = 0; i < shape.size(); ++i) {  // the start, in each radix
            const Window& w = form.windows[i];
            int64_t rest = (m.start[i] - w.offset) / w.step;
            refined.push_back(form.radix[i]);
            for (size_t a = refined[i].size(); a-- > 0; rest /= form.radix[i][a])
                refined[i][a] = rest % form.radix[i][a];
        }
        for (size_t j = 0; j < m.digits.size(); ++j) {
            const Digit& d = m.digits[j];
            const RefinedDim& s = form.digits[j];
            view[d.dim] += d.weight * x[j];
            for (const Step& step : m.steps_of(d)) base[step.base] += step.step * x[j];
            if (!s.placed()) continue;
            CHECK(refined[s.base][s.dim] == s.offset && s.extent == form.radix[s.base][s.dim]);
            CHECK(s.offset + s.step * x[j] < s.extent);
            refined[s.base][s.dim] += s.step * x[j];
        }
        CHECK(dot(base, own, 0) == dot(view, layout.strides, layout.offset));
        for (size_t i = 0; i < shape.size(); ++i) {
            const Window& w = form.windows[i];
            CHECK(base[i] < shape[i] && product(form.radix[i]) == w.extent);
            if (form.opaque & bit(i)) continue;
            CHECK(base[i] == w.offset + w.step * dot(refined[i], dense_strides(form.radix[i]), 0));
        }
    });
}

// The pieces of a regular view partition it, and every element comes from its tile and offset.
inline void check_partition(const Grid& base, const Layout& layout, const Grid& view,
                            const Pieces& found) {
    std::map<Place, Place> expected;
    int64_t element = 0;
    for_each_index(layout.sizes, [&](const Dims& at) {
        expected[place(view, element++)] = place(base, dot(at, layout.strides, layout.offset));
    });
    int64_t total = 0;
    for (const Piece& p : found.list) {
        total += p.numel();
        for_each_index(p.sizes, [&](const Dims& at) {
            Place from{p.base_tile, dot(at, p.base_strides, p.base_offset)};
            auto want = expected.find({p.view_tile, dot(at, p.view_strides, p.view_offset)});
            CHECK(want != expected.end() && want->second == from);
        });
    }
    CHECK(total == layout.numel());
}

inline void check_aligned(const Grid& base, const Layout& layout, const Grid& view,
                          const Pieces& found) {
    std::optional<std::vector<AlignedBlock>> blocks = aligned_blocks(base, layout, view);
    bool all = !found.irregular;
    for (int64_t t = 0; t < view.tiles() && !found.irregular; ++t) {
        Dims sizes = view.sizes_of(view.segments_of(t));
        std::optional<AlignedBlock> want =
            aligned_block(found.of_tile(static_cast<uint32_t>(t)), sizes);
        all &= want.has_value();
        if (!want || !blocks) continue;
        const AlignedBlock& got = (*blocks)[t];
        CHECK(got.base_tile == want->base_tile && got.offset == want->offset &&
              got.strides == want->strides);
    }
    CHECK(blocks.has_value() == all);
}

inline void check_coverage(const Grid& base, const Layout& layout) {
    Coverage got = coverage(base, layout);
    if (got.irregular) return;
    std::map<uint32_t, std::set<int64_t>> hit;
    for_each_index(layout.sizes, [&](const Dims& at) {
        Place p = place(base, dot(at, layout.strides, layout.offset));
        hit[p.tile].insert(p.offset);
    });
    int64_t distinct = 0;
    for (const auto& [tile, offsets] : hit) distinct += offsets.size();
    CHECK(got.tiles.size() == hit.size());
    for (const Touched& t : got.tiles) {
        CHECK(hit.contains(t.base_tile));
        int64_t size = product(base.sizes_of(base.segments_of(t.base_tile)));
        if (distinct == layout.numel())
            CHECK(t.full == (static_cast<int64_t>(hit[t.base_tile].size()) == size));
    }
}

inline int regular_cases = 0, exact_cases = 0;

inline Pieces check_pieces(const Dims& shape, std::vector<Cut> cuts, const Layout& layout,
                           const std::vector<Cut>& view_cuts) {
    Grid view = grid_of(layout.sizes, view_cuts);
    while (true) {
        Grid base = grid_of(shape, cuts);
        Pieces found = tile_pieces(base, layout, view);
        check_aligned(base, layout, view, found);
        if (!found.irregular) {
            ++regular_cases;
            check_partition(base, layout, view, found);
            check_coverage(base, layout);
            return found;
        }
        bool names_a_cut = false;
        for (size_t i = 0; i < base.dims.size(); ++i)
            if (found.carry & bit(i) && base.dims[i].segments() > 1) {
                names_a_cut = true;
                cuts[base.dims[i].dim] = whole(shape[base.dims[i].dim]);
            }
        CHECK(names_a_cut);
        if (!names_a_cut) return found;
    }
}

// Partition of [0, n) that a cut means, as first-seen numbers.
inline std::vector<size_t> common(const std::vector<std::vector<size_t>>& parts) {
    std::map<std::vector<size_t>, size_t> seen;
    std::vector<size_t> out;
    for (size_t x = 0; x < parts[0].size(); ++x) {
        std::vector<size_t> key;
        for (const auto& p : parts) key.push_back(p[x]);
        out.push_back(seen.emplace(key, seen.size()).first->second);
    }
    return out;
}
inline std::vector<size_t> labels(const Cut& cut, int64_t n) {
    Grid grid = grid_of(Dims{n}, {cut});
    std::vector<size_t> tiles;
    for (int64_t x = 0; x < n; ++x) tiles.push_back(place(grid, x).tile);
    return common({tiles});
}

// Exact push or pull gives one block per view tile; pull, then push, refines the wanted cut.
inline void check_push_pull(const Dims& shape, const std::vector<Cut>& base, const Layout& layout,
                            const std::vector<Cut>& view) {
    if (layout.numel() == 0) return;
    AccessMap m = access_map(shape, layout);
    size_t tiles;
    auto count = [&](const std::vector<Cut>& b, const std::vector<Cut>& v) {
        Grid grid = grid_of(layout.sizes, v);
        tiles = static_cast<size_t>(grid.tiles());
        return tile_pieces(grid_of(shape, b), layout, grid).list.size();
    };
    Pushed there = push(Path(m), base);
    exact_cases += there.exact;
    if (there.exact) CHECK(count(base, there.cuts) == tiles);
    Pulled back = pull(Path(m), view);
    exact_cases += back.exact;
    if (!back.exact) return;
    CHECK(count(back.cuts, view) == tiles);
    Pushed again = push(Path(m), back.cuts);
    for (size_t k = 0; k < view.size(); ++k) {
        bool moves = false;
        for (const Digit& d : m.digits) moves |= d.dim == k && d.n_steps > 0;
        std::vector<size_t> fine = labels(again.cuts[k], layout.sizes[k]);
        if (moves) CHECK(common({fine, labels(view[k], layout.sizes[k])}) == fine);
    }
}

inline void check_case(const Dims& shape, const Layout& layout, const std::vector<Cut>& base,
                       const std::vector<Cut>& view) {
    describe = [&] {
        return text_of_case(shape, layout) + " cuts " + text_of_cuts(base) + " " +
               text_of_cuts(view);
    };
    check_map(shape, layout);
    check_pieces(shape, base, layout, view);
    check_push_pull(shape, base, layout, view);
}

}  // namespace nntile::tile
