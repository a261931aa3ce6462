// SPDX-License-Identifier: BSD-3-Clause
// The algebra of views and cuts: its invariants, exhaustive for tiny cases, at random for larger.
#include "brute_force.hh"

using namespace nntile;
using namespace nntile::tile;

namespace {

// ---------------------------------------------------------------- views

// All ways to cut n elements into segments.
std::vector<Cut> interval_cuts(int64_t n) {
    std::vector<Cut> out;
    for (uint64_t bits = 0; bits < bit(std::max<int64_t>(n - 1, 0)); ++bits) {
        Factor f{n, {}};
        for (int64_t p = 1; p < n; ++p)
            if (bits & bit(p - 1)) f.positions.push_back(p);
        out.push_back(normal({f}));
    }
    return out;
}

void each_layout(int64_t total, size_t rank, const std::function<void(const Layout&)>& visit) {
    Dims choices;
    for (size_t k = 0; k < rank; ++k) choices.push_back(5);
    for (size_t k = 0; k < rank; ++k) choices.push_back(total);
    choices.push_back(total);
    for_each_index(choices, [&](const Dims& x) {
        Layout l{{x.begin(), x.begin() + rank}, {x.begin() + rank, x.end() - 1}, x.back()};
        if (l.numel() == 0 || l.last() < total) visit(l);
    });
}

// Every layout of up to two dims in every value of up to 8 elements; the cuts take turns.
void test_exhaustive_small() {
    const std::vector<Dims> shapes = {{},     {1},       {5},       {6},   {2, 3},
                                      {3, 2}, {2, 1, 3}, {2, 2, 2}, {4, 2}};
    size_t count = 0;
    for (const Dims& shape : shapes)
        for (size_t rank = 0; rank < 3; ++rank)
            each_layout(product(shape), rank, [&](const Layout& l) {
                std::vector<Cut> base, view;
                ++count;
                size_t turn = count;
                for (int64_t n : shape) {
                    std::vector<Cut> all = interval_cuts(n);
                    base.push_back(all[turn % all.size()]);
                    turn /= all.size();
                }
                for (int64_t n : l.sizes) {
                    std::vector<Cut> all = interval_cuts(n);
                    view.push_back(all[count / 7 % all.size()]);
                }
                check_case(shape, l, base, view);
            });
    CHECK(count > 10'000);
}

// Long one-dimensional views: merges, carries, diagonals.
void test_exhaustive_flat() {
    const std::vector<Dims> shapes = {{6, 2}, {5, 3}, {3, 2, 4}, {4, 3, 2}};
    for (const Dims& shape : shapes) {
        int64_t total = product(shape);
        for_each_index({total, total, total + 1}, [&](const Dims& x) {
            Layout l{{x[2]}, {x[1]}, x[0]};
            describe = [&] { return text_of_case(shape, l); };
            if (l.numel() == 0 || l.last() < total) check_map(shape, l);
        });
    }
}

// x[o::s][: a * b].view(a, b) under every cut: windows.
void test_exhaustive_slice_then_split() {
    int before = exact_cases;
    for (int64_t n = 4; n < 14; ++n)
        for_each_index({3, 10, 3, 2}, [&](const Dims& x) {
            int64_t s = x[0] + 1, o = x[1], a = x[2] + 2, b = x[3] + 2;
            if (o + s * (a * b - 1) >= n) return;
            Layout l{{a, b}, {s * b, s}, o};
            AccessMap m = access_map(Dims{n}, l);
            describe = [&] { return text_of_case({n}, l); };
            CHECK(m.carry == 0 && refine(m).opaque == 0);
            for (int64_t c = 1; c < n; ++c) {
                Cut rows{{a, {1}}}, columns{{b, {1}}};
                check_case({n}, l, {{{n, {c}}}}, {rows, c % 2 ? columns : whole(b)});
            }
        });
    CHECK(exact_cases - before > 400);
}

void test_random() {
    for (int i = 0; i < 12'000; ++i) {
        Dims shape = random_shape();
        Layout l = pick(0, 1) ? random_layout(shape) : random_view(shape);
        if (l.numel() > 500) continue;
        check_case(shape, l, random_cuts(shape), random_cuts(l.sizes));
    }
}

// A value cut in its first dim only is one-dimensional: it has no irregular layout.
void test_first_dim_cut_is_never_irregular() {
    for (int i = 0; i < 1'000; ++i) {
        Dims shape = random_shape();
        Layout l = random_layout(shape);
        std::vector<Cut> cuts;
        bool first = true;
        for (int64_t n : shape) {
            Positions at;
            for (int64_t p = 1; p < n && first; ++p)
                if (pick(0, 1)) at.push_back(p);
            cuts.push_back(normal({{n, at}}));
            first &= n == 1;
        }
        describe = [&] { return text_of_case(shape, l) + " cuts " + text_of_cuts(cuts); };
        CHECK(!tile_pieces(grid_of(shape, cuts), l, grid_of(l.sizes, {})).irregular);
    }
}

void test_coalesce_keeps_tiles() {
    for (int i = 0; i < 300; ++i) {
        Dims shape = random_shape();
        Grid grid = grid_of(shape, random_cuts(shape));
        Coalesced flat = coalesce(grid);
        Grid merged{flat.dims};
        for (int64_t x = 0; x < product(shape); ++x) CHECK(place(grid, x) == place(merged, x));
    }
}

// What a view of (4, 6) costs if dim 1 is cut in two and the view has its natural cuts.
void test_corners() {
    struct Corner {
        Layout layout;
        const char* kind;
    };
    const std::vector<Corner> corners = {
        {{{6, 4}, {1, 6}}, "aligned"},        // transpose
        {{{}, {}, 2}, "aligned"},             // one element, 0-dim
        {{{3, 2}, {7, 1}}, "pieces"},         // window along a diagonal
        {{{3}, {7}}, "aligned"},              // diagonal inside one tile
        {{{4}, {7}}, "pieces"},               // diagonal across the cut
        {{{0, 6}, {6, 1}}, "aligned"},        // empty
        {{{0}, {1}, 24}, "aligned"},          // empty, offset one past the end
        {{{1, 6}, {999, 1}}, "aligned"},      // junk stride of a size-1 dim
        {{{5, 4, 6}, {0, 6, 1}}, "aligned"},  // expand
        {{{4, 2, 3}, {6, 3, 1}}, "aligned"},  // split at the cut
        {{{4, 3, 2}, {6, 2, 1}}, "pieces"},   // split across the cut
        {{{24}, {1}}, "aligned"},             // flatten: a factored cut
        {{{15}, {1}, 5}, "irregular"},        // flat[5:20]
        {{{3}, {5}, 5}, "irregular"},         // anti-diagonal
        {{{4, 5, 2}, {6, 1, 1}}, "pieces"},   // unfold over the cut
    };
    const Dims shape{4, 6};
    for (const Corner& c : corners) {
        describe = [&] { return text_of_case(shape, c.layout) + " should be " + c.kind; };
        for (bool cut : {false, true}) {
            std::vector<Cut> base{whole(4), cut ? Cut{{6, {3}}} : whole(6)};
            Pushed there = push(Path(access_map(shape, c.layout)), base);
            Grid grid = grid_of(shape, base), view = grid_of(c.layout.sizes, there.cuts);
            Pieces found = tile_pieces(grid, c.layout, view);
            const char* kind = found.irregular                        ? "irregular"
                               : aligned_blocks(grid, c.layout, view) ? "aligned"
                                                                      : "pieces";
            CHECK(std::string_view(kind) == (cut ? c.kind : "aligned"));  // whole: never a copy
        }
    }
}

// A stepped slice that one tile holds, flattened: two strides in the tile, so no aligned block.
void test_folded() {
    Layout l{{6}, {2}, 1};  // x.view(-1)[1::2] of (3, 4)
    std::vector<Cut> base{whole(3), {{4, {1}}}};
    Grid grid = grid_of(Dims{3, 4}, base), view = grid_of(l.sizes, {whole(6)});
    check_case({3, 4}, l, base, {whole(6)});
    Pieces found = tile_pieces(grid, l, view);
    CHECK(found.list.size() == 1 && found.list[0].dims.size() == 2);
    CHECK(!aligned_block(found.list, l.sizes) && !aligned_blocks(grid, l, view));
    for (int64_t c = 1; c < 6; ++c) check_case({3, 4}, l, base, {{{6, {c}}}});
    check_case({2, 4}, {{4}, {2}, 1}, {whole(2), {{4, {1}}}}, {{{4, {3}}}});  // ends inside a row
    // Cut along its rows or columns, every tile has one stride.
    for (const Cut& cut : {Cut{{6, {2, 4}}}, Cut{{3, {}}, {2, {1}}}})
        CHECK(aligned_blocks(grid, l, grid_of(l.sizes, {cut})));
}

template <class F>
bool throws(F&& call) {
    try {
        call();
    } catch (const Error&) {
        return true;
    }
    return false;
}

void test_bounds() {
    describe = [] { return std::string("bounds"); };
    CHECK(throws([] { access_map(Dims{4}, {{2}, {-1}, 1}); }));
    CHECK(throws([] { access_map(Dims{4}, {{3}, {2}, 0}); }));
    CHECK(throws([] { access_map(Dims{4}, {{}, {}, 4}); }));
    CHECK(throws([] { access_map(Dims{4}, {{3, 3}, {INT64_MAX / 2, INT64_MAX / 2}, 1}); }));
    CHECK(throws([] { access_map(Dims{0, 3}, {{1}, {1}}); }));
    CHECK(throws([] { cut_of_segments(10, Dims{5, 6}); }));
    CHECK(throws([] { cut_of_segments(10, Dims{5, 0, 5}); }));
    CHECK(throws([] { cut_of_segments(10, Dims{5, 4}); }));
    CHECK(throws([] { cut_of_segments(10, Dims{5, 5, 0}); }));
    CHECK(throws([] { cut_of_segments(10, Dims{5, 5, 3}); }));
    Grid empty = grid_of(Dims{0, 3}, {{}, {{3, {1}}}});
    CHECK(tile_pieces(empty, {{0, 3}, {3, 1}}, grid_of(Dims{0, 3}, {})).list.empty());
    Grid halves = grid_of(Dims{3, 0}, {{{3, {1}}}, {}});
    CHECK(aligned_blocks(empty, {{3, 0}, {1, 3}}, halves)->size() == 2);
    // One row through every tile, more pieces than the limit.
    Grid fine = grid_of(Dims{9}, {{{9, {1, 2, 3, 4, 5, 6, 7, 8}}}});
    CHECK(tile_pieces(fine, Layout::dense(Dims{9}), grid_of(Dims{9}, {}), 8).carry == 1);
    CHECK(tile_pieces(fine, Layout::dense(Dims{9}), grid_of(Dims{9}, {}), 9).list.size() == 9);
}

// ---------------------------------------------------------------- cuts

bool means_product(const Cut& cut, const Cut& outer, const Cut& inner, int64_t n, int64_t r) {
    std::vector<size_t> a = labels(outer, n / r), b = labels(inner, r), x, y;
    for (int64_t i = 0; i < n; ++i) {
        x.push_back(a[i / r]);
        y.push_back(b[i % r]);
    }
    return labels(cut, n) == common({x, y});
}

void test_peel() {
    size_t found = 0;
    auto check = [&](const Cut& cut, int64_t n, int64_t r) {
        describe = [&] { return text_of(cut) + " by " + std::to_string(r); };
        std::optional<Peeled> p = peel(cut, r);
        found += p.has_value();
        if (!p) return;
        CHECK(means_product(cut, p->outer, p->inner, n, r));
        std::optional<std::vector<Cut>> parts = split(cut, Dims{n / r, r});
        CHECK(parts && labels(merge(*parts), n) == labels(cut, n));
    };
    for (int64_t n = 2; n < 9; ++n)
        for (const Cut& cut : interval_cuts(n))
            for (int64_t r = 1; r <= n; ++r)
                if (n % r == 0) check(cut, n, r);
    for (int i = 0; i < 2'000; ++i) {
        int64_t n = pick(1, 4) * 6, r = pick(1, n);
        if (n % r == 0) check(random_cut(n), n, r);
    }
    CHECK(found > 500);
    // Every cut that is a product must be found to be one.
    for (const Cut& outer : interval_cuts(4))
        for (const Cut& inner : interval_cuts(3)) {
            std::optional<Peeled> p = peel(merge(std::vector<Cut>{outer, inner}), 3);
            CHECK(p && p->outer == outer && p->inner == inner);
        }
}

void test_join() {
    std::vector<Cut> six;
    for (int64_t f : {1, 2, 3, 6})
        for (const Cut& a : interval_cuts(f))
            for (const Cut& b : interval_cuts(6 / f)) six.push_back(merge(std::vector<Cut>{a, b}));
    size_t met = 0;
    for (const Cut& a : six)
        for (const Cut& b : six) {
            describe = [&] { return text_of(a) + " and " + text_of(b); };
            std::optional<Cut> j = join(a, b);
            met += j.has_value();
            CHECK(!j || labels(*j, 6) == common({labels(a, 6), labels(b, 6)}));
            CHECK(j.has_value() || (!is_whole(a) && !is_whole(b)));
        }
    CHECK(met > 150);
}

void test_take_and_put() {
    size_t found = 0;
    for (int i = 0; i < 4'000; ++i) {
        int64_t n = pick(2, 24), o = pick(0, n - 1), s = pick(1, 3);
        int64_t k = pick(1, (n - 1 - o) / s + 1);
        Cut cut = random_cut(n), wanted = random_cut(k);
        describe = [&] {
            return text_of(cut) + ", " + text_of(wanted) + " at " + text_of_dims(Dims{o, s, k});
        };
        auto seen_by_slice = [&](const Cut& c) {
            std::vector<size_t> all = labels(c, n), out;
            for (int64_t x = 0; x < k; ++x) out.push_back(all[o + s * x]);
            return common({out});
        };
        std::optional<Cut> got = take(cut, n, o, s, k), base = put(wanted, n, o, s, k);
        found += got.has_value();
        if (got) CHECK(labels(*got, k) == seen_by_slice(cut));
        if (base && !base->empty()) CHECK(seen_by_slice(*base) == labels(wanted, k));
        if (base) CHECK(is_whole(*base) == is_whole(wanted));
    }
    CHECK(found > 1'000);
    // The borders of a slice are cut, also where they fall between the elements of a stepped one.
    describe = [] { return std::string("borders"); };
    CHECK(put({{4, {2}}}, 12, 4, 1, 4) == Cut({{12, {4, 6, 8}}}));
    CHECK(put({{4, {2}}}, 12, 2, 2, 4) == Cut({{12, {2, 6, 10}}}));
    CHECK(put({{6, {3}}}, 12, 1, 2, 6) == put({{6, {3}}}, 12, 0, 2, 6));
}

void test_merged_keeps_other_dims() {
    // A relative shift of (8, 6, 7): the last two dims carry, the batch passes.
    describe = [] { return std::string("relative shift"); };
    Layout l{{8, 6, 6}, {42, 6, 1}, 6};
    AccessMap m = access_map(Dims{8, 6, 7}, l);
    CHECK(m.carry != 0);
    std::vector<Cut> base{{{8, {3}}}, whole(6), whole(7)};
    Pushed there = push(Path(m), base);
    CHECK(there.exact && there.cuts[0] == base[0]);
    CHECK(pull(Path(m), there.cuts).cuts == base);
    CHECK(aligned_blocks(grid_of(m.shape, base), l, grid_of(l.sizes, there.cuts)));
}

}  // namespace

int main() {
    test_exhaustive_small();
    test_exhaustive_flat();
    test_exhaustive_slice_then_split();
    test_random();
    test_first_dim_cut_is_never_irregular();
    test_coalesce_keeps_tiles();
    test_corners();
    test_folded();
    test_bounds();
    test_peel();
    test_join();
    test_take_and_put();
    test_merged_keeps_other_dims();
    std::printf("algebra: %d regular cases, %d exact cuts, %d failures\n", regular_cases,
                exact_cases, failures);
    return failures == 0 ? 0 : 1;
}
