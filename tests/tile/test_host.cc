// SPDX-License-Identifier: BSD-3-Clause
// Lowering of functions of the host: one task for each segment of their batch.
#include "../check.hh"
#include "graph/passes/passes.hh"
#include "graph/text.hh"
#include "tile/lower.hh"
#include "tile/text.hh"

namespace nntile {
namespace {

using graph::Graph;
using tile::Access;

struct Made {
    tile::Tiling tiling;
    tile::Lowered lowered;
    std::vector<tile::Task> host;  // tasks
};

Made made(Graph& g, const tile::AxisCuts& cuts) {
    graph::own_outputs(g);
    Made m{tile::choose_tiling(g, cuts), {}, {}};
    m.lowered = tile::lower(g, m.tiling);
    for (const tile::Task& t : m.lowered.tiles.tasks)
        if (t.host_call >= 0) m.host.push_back(t);
    CHECK(m.host.size() == m.lowered.host_calls);
    const std::string text = print(m.lowered.tiles);
    CHECK(print(tile::parse(text)) == text);
    return m;
}

// y = f(x, w) with a batch in x and y, or summed into y.
Graph call(uint32_t& x, bool sums, graph::StoredRef stored = nullptr) {
    Graph g;
    x = g.add_input(DType::f32, Dims{6, 2}, "x", std::move(stored));
    const uint32_t w = g.add_input(DType::f32, Dims{3, 2}, "w");
    const schema::Type out{DType::f32, sums ? Dims{3, 2} : Dims{6, 3}, false};
    const graph::HostAxes axes{{0, -1}, {-1, -1}, {sums ? -1 : 0, -1}};
    const auto y = g.add_host({"f", 1, axes}, std::vector<uint32_t>{x, w}, {&out, 1});
    g.name_axis(x, 0, "batch");
    g.set_output(y[0], "y");
    return g;
}

int64_t rows(const tile::Task& t) { return t.sizes[0]; }
bool accumulates(const tile::Task& t) {
    CHECK(t.params.size() == 1 && t.sizes.size() == 1);
    const Access access = t.operands.back().access;
    CHECK(access == (t.params[0].fixed.i ? Access::read_write : Access::write));
    return t.params[0].fixed.i != 0;
}

void whole() {
    for (bool sums : {false, true}) {
        uint32_t x;
        Graph g = call(x, sums);
        const Made m = made(g, {});
        CHECK(m.host.size() == 1 && m.lowered.tiles.tasks.size() == 1 && rows(m.host[0]) == 6);
        CHECK(!accumulates(m.host[0]));
    }
}

void parts() {
    uint32_t x;
    Graph g = call(x, false);
    const Made m = made(g, {{"batch", {1, 5}}});
    CHECK(m.tiling.retiles.empty() && m.lowered.copies == 0);
    CHECK(m.host.size() == 2 && rows(m.host[0]) == 1 && rows(m.host[1]) == 5);
    for (size_t k = 0; k < m.host.size(); ++k) {
        const auto& operands = m.host[k].operands;
        const auto tile = [&](size_t o) { return m.lowered.tiles.tiles[operands[o].tile]; };
        CHECK(operands.size() == 3 && !accumulates(m.host[k]));
        CHECK(tile(0).index == k && tile(0).bytes == rows(m.host[k]) * 2 * 4);
        CHECK(tile(1).index == 0 && tile(1).bytes == 3 * 2 * 4);
        CHECK(tile(2).index == k && tile(2).bytes == rows(m.host[k]) * 3 * 4);
    }
}

// Six parts in four lanes, the lanes joined in a tree: the order depends on nothing but the cut.
void sums() {
    uint32_t x;
    Graph g = call(x, true);
    const Made m = made(g, {{"batch", {1}}});
    CHECK(m.host.size() == 6 && m.lowered.copies == 0);
    for (size_t k = 0; k < m.host.size(); ++k) CHECK(accumulates(m.host[k]) == (k >= 4));
    CHECK(m.host[4].operands[2].tile == m.host[0].operands[2].tile);
    CHECK(m.lowered.tiles.tasks.size() == 6 + 3);
}

// The batch 2 x 3 cut inside: rows 0 and 3 are a part, the four others the second.
void factored() {
    auto stored = std::make_shared<graph::Stored>();
    stored->dtype = DType::f32;
    stored->sizes = {6, 2};
    stored->cuts = {{{2, {}}, {3, {1}}}, {{2, {}}}};
    uint32_t x;
    Graph g = call(x, false, stored);
    const Made m = made(g, {});
    CHECK(m.host.size() == 2 && rows(m.host[0]) == 2 && rows(m.host[1]) == 4);
    CHECK(m.lowered.copies == 0);
}

// A kernel with two axes, y[i, j] = f(x[i, j], r[j]): each part knows where it begins. Its text is
// parsed again.
void axes() {
    Graph g;
    auto stored = std::make_shared<graph::Stored>();
    stored->dtype = DType::f32;
    stored->sizes = {6, 4};
    stored->cuts = {{{2, {1}}, {3, {1}}}, {{4, {}}}};
    const uint32_t x = g.add_input(DType::f32, Dims{6, 4}, "x", stored);
    const uint32_t r = g.add_input(DType::f32, Dims{4}, "r");
    const schema::Type out{DType::f32, {6, 4}, false};
    const graph::HostAxes axes{{0, 1}, {1}, {0, 1}};
    const auto y = g.add_host({"f", 1, axes, true}, std::vector<uint32_t>{x, r}, {&out, 1});
    g.name_axis(r, 0, "columns");
    g.set_output(y[0], "y");
    CHECK(print(g).find("axes (0, 1) (1,) (0, 1) ranges") != std::string::npos);
    Graph again = graph::parse(print(g));
    CHECK(again.hash() == g.hash());
    again.hosts[0].axes[0] = {1, 0};
    CHECK(!(again.hash() == g.hash()));
    graph::own_outputs(g);
    const tile::Tiling tiling = tile::choose_tiling(g, {{"columns", {3, 1}}});
    const tile::Lowered lowered = tile::lower(g, tiling);
    std::vector<tile::Task> tasks;
    for (const tile::Task& t : lowered.tiles.tasks)
        if (t.host_call >= 0) tasks.push_back(t);
    // Of the rows 2 x 3 only the outer cut is one into ranges.
    CHECK(tasks.size() == 4 && lowered.host_calls == 0);
    const int64_t offsets[] = {0, 3, 12, 15};
    for (size_t k = 0; k < tasks.size(); ++k) {
        const Dims sizes{3, k % 2 ? 1 : 3};
        CHECK(tasks[k].sizes == sizes && tasks[k].index_strides == (Dims{4, 1}));
        CHECK(tasks[k].index_offset == offsets[k]);
    }
    CHECK(print(tile::parse(print(lowered.tiles))) == print(lowered.tiles));
}

// Strided blocks are made dense; dense ones are taken where they are.
void views() {
    for (bool dense : {false, true}) {
        Graph g;
        const uint32_t x = g.add_input(DType::f32, Dims{6, 2, 3}, "x");
        const Layout all{{6, 2, 3}, {6, dense ? 3 : 1, dense ? 1 : 2}, 0},
            later{{4, 2, 3}, {6, 3, 1}, 12};
        const uint32_t v = g.add_view(x, dense ? later : all);
        const schema::Type out{DType::f32, {g.value(v).sizes[0]}, false};
        const auto y =
            g.add_host({"f", 1, {{0, -1, -1}, {0}}}, std::vector<uint32_t>{v}, {&out, 1});
        g.name_axis(x, 0, "batch");
        g.set_output(y[0], "y");
        const Made m = made(g, {{"batch", {2, 4}}});
        CHECK(m.lowered.copies == (dense ? 0 : 2));
        CHECK(m.host.size() == (dense ? 1 : 2));
    }
}

// The user's cut of another dim, or of a whole operand, is undone by copies.
void cut_elsewhere() {
    uint32_t x;
    Graph g = call(x, false);
    g.name_axis(x, 1, "features");
    const Made m = made(g, {{"features", {1}}, {"batch", {3}}});
    CHECK(m.host.size() == 2);
    CHECK(m.lowered.copies == 4);  // two tiles of x for each part
    for (const tile::Task& t : m.host)
        CHECK(m.lowered.tiles.tiles[t.operands[0].tile].bytes == 3 * 2 * 4);
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::whole();
    nntile::parts();
    nntile::sums();
    nntile::factored();
    nntile::axes();
    nntile::views();
    nntile::cut_elsewhere();
    return nntile::test::result();
}
