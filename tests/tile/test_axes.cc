// SPDX-License-Identifier: BSD-3-Clause
// Propagation of cuts between axes.
#include "brute_force.hh"

using namespace nntile;
using namespace nntile::tile;

namespace {

Cut at(int64_t extent, Positions positions) { return {{extent, std::move(positions)}}; }

void relate(Axes& axes, std::string_view spec, const std::vector<AxisDims>& operands) {
    axes.relate(spec, operands);
}

void inner_factor_travels_through_a_merged_dim() {
    Axes axes;
    AxisDims x = axes.value(Dims{16, 8, 64}), w = axes.value(Dims{64, 32});
    AxisDims y = axes.value(Dims{128, 32});
    AxisDims flat = axes.view(x, {{128, 64}, {64, 1}}, "view");
    relate(axes, "mk,kn->mn", {flat, w, y});
    AxisDims out = axes.view(y, {{16, 8, 32}, {256, 32, 1}}, "view");
    axes.cut(x[1], at(8, {3}), "batch");
    axes.propagate();
    Cut inner{{16, {}}, {8, {3}}};
    CHECK(axes.factors(y[0]) == inner && axes.factors(out[1]) == at(8, {3}));
    CHECK(axes.retiles().empty());
    CHECK(axes.grid(y).tiles() == 2 && axes.grid(y).dims.size() == 3);
    CHECK(axes.find(flat[1]) == axes.find(w[0]) && axes.find(w[1]) == axes.find(out[2]));
    // The same cut from persistent data of the merged shape, which is factored already.
    Axes back;
    AxisDims p = back.value(Dims{128}), q = back.view(p, {{16, 8}, {8, 1}});
    back.cut(p[0], inner, "data", persistent_cut);
    back.propagate();
    CHECK(back.factors(p[0]) == inner && back.factors(q[1]) == at(8, {3}));
    CHECK(back.factors(q[0]) == whole(16));
}

void user_cut_beats_persistent_and_automatic() {
    Axes axes;
    int a = axes.dim(12), b = axes.dim(12), c = axes.dim(5);
    axes.same(a, b);
    axes.cut(a, at(12, {6}), "auto", automatic_cut);
    axes.cut(a, at(12, {4}), "data", persistent_cut);
    axes.cut(b, at(12, {5}), "user");
    axes.cut(c, whole(5), "user");
    axes.propagate();
    CHECK(axes.factors(a) == at(12, {5}) && axes.notes().size() == 2);
    axes.cut(c, at(5, {2}), "auto", automatic_cut);
    axes.propagate();
    CHECK(axes.factors(c) == whole(5));  // the user said whole
}

void data_that_is_whole_leaves_the_choice() {
    Axes axes;
    int a = axes.dim(12);
    axes.cut(a, whole(12), "data", persistent_cut);
    axes.cut(a, at(12, {6}), "auto", automatic_cut);
    axes.propagate();
    CHECK(axes.factors(a) == at(12, {6}));
}

void factors_combine_and_contradictions_stop_at_the_link() {
    Layout merge{{24, 5}, {5, 1}};
    Axes axes;
    AxisDims x = axes.value(Dims{4, 6, 5}), y = axes.view(x, merge, "linear");
    axes.cut(x[0], at(4, {2}), "batch");
    axes.cut(x[1], at(6, {3}), "heads");
    axes.propagate();
    Cut both{{4, {2}}, {6, {3}}};
    CHECK(axes.factors(y[0]) == both && axes.retiles().empty());
    Axes other;
    x = other.value(Dims{4, 6, 5});
    y = other.view(x, merge, "linear");
    other.cut(x[0], at(4, {2}), "batch");
    other.cut(y[0], at(24, {7}), "flat");
    other.propagate();
    CHECK(other.factors(y[0]) == at(24, {7}) && other.factors(x[0]) == at(4, {2}));
    CHECK(other.retiles().size() == 1);
    CHECK(other.retiles()[0] ==
          "linear: [batch = 4 cut (2, 2), 6, 5] -> [flat = 24 cut (7, 17), 5]: "
          "3 blocks for 2 tiles");
}

void slices_of_one_value_speak_for_their_ranges() {
    Axes axes;
    AxisDims qkv = axes.value(Dims{5, 12});
    int heads = axes.dim(4);
    for (int64_t i = 0; i < 3; ++i)
        axes.same(axes.view(qkv, {{5, 4}, {12, 1}, 4 * i}, "split")[1], heads);
    axes.cut(heads, at(4, {1}), "heads");
    axes.propagate();
    CHECK(axes.factors(qkv[1]) == at(12, {1, 4, 5, 8, 9}) && axes.retiles().empty());
}

// logits[:-1] against labels[1:]: a cut at 4 of the sequence is one at 3 of the shifted view.
void shifted_slices() {
    Axes axes;
    AxisDims s = axes.value(Dims{8, 5});
    AxisDims a = axes.view(s, {{7, 5}, {5, 1}}, "a");
    AxisDims b = axes.view(s, {{7, 5}, {5, 1}, 5}, "b");
    axes.cut(s[0], at(8, {4}), "seq");
    axes.propagate();
    CHECK(axes.factors(a[0]) == at(7, {4}) && axes.factors(b[0]) == at(7, {3}));
    CHECK(axes.retiles().empty());
    axes.same(a[0], b[0]);
    axes.propagate();
    CHECK(axes.factors(b[0]) == at(7, {4}) && axes.retiles().size() == 1);
}

// The cut of z reaches x after the link to y was visited, in a visit that changed nothing.
void a_late_cut_visits_earlier_links_again() {
    Axes axes;
    AxisDims x = axes.value(Dims{4, 6, 5, 6});
    AxisDims y = axes.view(x, {{24, 30}, {30, 1}});
    AxisDims z = axes.view(x, {{4, 6, 5, 2, 3}, {180, 30, 6, 3, 1}});
    axes.cut(x[0], at(4, {2}), "x");
    axes.cut(y[0], at(24, {12}), "y");
    axes.cut(z[3], at(2, {1}), "z");
    CHECK(axes.propagate() == 3);
    CHECK(axes.factors(x[3]) == at(6, {3}));
    CHECK(axes.factors(y[1]) == (Cut{{5, {}}, {6, {3}}}) && axes.retiles().empty());
    CHECK(axes.propagate() == 0);  // nothing is new
}

void permute_expand_and_size_one_need_no_link() {
    Axes axes;
    AxisDims x = axes.value(Dims{4, 1, 6});
    AxisDims y = axes.view(x, {{6, 3, 4}, {1, 0, 6}}, "permute");
    CHECK(axes.find(y[0]) == axes.find(x[2]) && axes.find(y[2]) == axes.find(x[0]));
    axes.cut(y[1], at(3, {1}), "copies");
    axes.propagate();
    CHECK(axes.factors(x[1]).empty() && axes.retiles().empty());
    int one = axes.dim(1), four = axes.dim(4), rest = axes.dim(4);
    relate(axes, "a,a,.->a", {{one}, {four}, {rest}, {x[0]}});
    CHECK(axes.find(one) == one && axes.find(four) == axes.find(x[0]) && axes.find(rest) == rest);
}

// Cuts that are tried and taken back leave nothing, and a trial gives what the same cuts give in a
// chain of their own.
void trials_leave_nothing() {
    for (int c = 0; c < 400; ++c) {
        const uint64_t seed = random_bits();
        std::vector<int> dims;
        auto made = [&] {
            random_bits.seed(seed);
            Axes axes;
            dims.clear();
            std::vector<AxisDims> values;
            std::vector<Dims> shapes;
            for (int v = 0; v < 8; ++v) {
                if (values.empty() || pick(0, 3) == 0) {
                    shapes.push_back(random_shape());
                    values.push_back(axes.value(shapes.back()));
                } else {
                    auto base =
                        static_cast<size_t>(pick(0, static_cast<int64_t>(values.size()) - 1));
                    while (product(shapes[base]) == 0) --base;  // the first has elements
                    const Layout view =
                        pick(0, 1) ? random_view(shapes[base]) : random_layout(shapes[base]);
                    values.push_back(axes.view(values[base], view));
                    shapes.push_back(view.sizes);
                }
                for (int d : values.back())
                    if (axes.extent(d) > 1) dims.push_back(d);
            }
            for (int unions = 0; unions < 2 && !dims.empty(); ++unions) {
                auto any = [&] {
                    return dims[static_cast<size_t>(
                        pick(0, static_cast<int64_t>(dims.size()) - 1))];
                };
                const int a = any(), b = any();
                if (axes.extent(a) == axes.extent(b)) axes.same(a, b);
            }
            axes.propagate();
            return axes;
        };
        auto cut = [&](Axes& axes, uint64_t which) {
            const int dim = dims[which % dims.size()];
            random_bits.seed(which);
            axes.cut(dim, random_cut(axes.extent(dim)), "trial", automatic_cut);
            axes.propagate();
        };
        Axes own = made(), other = made();
        if (dims.empty()) continue;
        const uint64_t first = seed >> 1, second = seed >> 3, third = seed >> 5;
        auto check_same = [&] {
            for (int d : dims)
                CHECK(own.factors(d) == other.factors(d) && own.level(d) == other.level(d) &&
                      own.segments(d) == other.segments(d));
            for (size_t l = 0; l < own.link_count(); ++l)
                CHECK(own.lines_up(l) == other.lines_up(l));
            CHECK(own.notes() == other.notes());
        };
        cut(own, first);
        cut(other, first);
        const Axes::Mark mark = own.mark();
        for (int trial = 0; trial < 2; ++trial) {
            cut(own, second + static_cast<uint64_t>(trial));
            for (size_t l = 0; l < own.link_count(); ++l) own.lines_up(l);
            own.undo(mark);
            check_same();
        }
        cut(own, third);
        cut(other, third);
        check_same();
    }
}

}  // namespace

int main() {
    describe = [] { return std::string("axes"); };
    inner_factor_travels_through_a_merged_dim();
    user_cut_beats_persistent_and_automatic();
    data_that_is_whole_leaves_the_choice();
    factors_combine_and_contradictions_stop_at_the_link();
    slices_of_one_value_speak_for_their_ranges();
    shifted_slices();
    a_late_cut_visits_earlier_links_again();
    permute_expand_and_size_one_need_no_link();
    trials_leave_nothing();
    std::printf("axes: %d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
