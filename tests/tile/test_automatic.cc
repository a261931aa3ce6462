// SPDX-License-Identifier: BSD-3-Clause
// Automatic cuts: a table of graphs with the cuts that a person would choose.
#include <functional>

#include "../check.hh"
#include "graph/passes/passes.hh"
#include "tile/cost.hh"
#include "tile/cuts.hh"
#include "tile/lower.hh"

namespace nntile {
namespace {

using graph::Graph;
using graph::no_value;

graph::StoredRef stored(DType dtype, const Dims& sizes,
                        std::vector<std::vector<int64_t>> segments = {}) {
    auto s = std::make_shared<graph::Stored>();
    s->dtype = dtype;
    s->sizes = sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
        const bool cut = d < segments.size() && !segments[d].empty();
        s->cuts.push_back(cut ? tile::cut_of_segments(sizes[d], segments[d])
                              : tile::whole(sizes[d]));
        if (cut) s->hints |= uint64_t{1} << d;
    }
    return s;
}

uint32_t input(Graph& g, const Dims& sizes, std::vector<std::vector<int64_t>> segments = {}) {
    return g.add_input(DType::f32, sizes, {}, stored(DType::f32, sizes, std::move(segments)));
}

uint32_t add(Graph& g, const char* op, std::vector<uint32_t> inputs) {
    return g.add(*schema::find_op(op), inputs, schema::default_attrs(*schema::find_op(op)))[0];
}

uint32_t product(Graph& g, uint32_t a, uint32_t b) { return add(g, "matmul", {a, b, no_value}); }

uint32_t transposed(Graph& g, uint32_t v) {
    const Dims s = g.value(v).sizes;
    return g.add_view(v, {{s[1], s[0]}, {1, s[1]}, 0});
}

// Layers of x @ w and relu, and the gradients of all weights.
void layers(Graph& g, int64_t rows, int64_t width, int count) {
    std::vector<uint32_t> x{input(g, {rows, width})}, w;
    for (int i = 0; i < count; ++i) {
        w.push_back(input(g, {width, width}));
        x.push_back(add(g, "relu", {product(g, x.back(), w.back())}));
    }
    uint32_t gradient = x.back();
    for (int i = count; i-- > 0;) {
        g.set_output(product(g, transposed(g, x[i]), gradient));
        gradient = add(g, "mul", {product(g, gradient, transposed(g, w[i])), x[i]});
    }
    g.set_output(gradient);
}

struct Case {
    const char* name;
    std::function<void(Graph&)> build;
    // What the value `value` of the graph must be cut into, by dim; 0: any number above 1.
    uint32_t value;
    std::vector<int64_t> tiles;
};

int64_t segments_of(const graph::Cut& cut) {
    int64_t n = 1;
    for (const graph::Factor& f : cut) n *= static_cast<int64_t>(f.positions.size()) + 1;
    return n;
}

const std::vector<Case> cases = {
    {"a small product stays whole",
     [](Graph& g) { g.set_output(product(g, input(g, {64, 64}), input(g, {64, 64}))); },
     2,
     {1, 1}},
    {"rows of a tall product",
     [](Graph& g) { g.set_output(product(g, input(g, {8192, 256}), input(g, {256, 256}))); },
     2,
     {0, 1}},
    {"columns where there are few rows",
     [](Graph& g) { g.set_output(product(g, input(g, {2, 4096}), input(g, {4096, 8192}))); },
     2,
     {1, 0}},
    {"one row",
     [](Graph& g) { g.set_output(product(g, input(g, {1, 4096}), input(g, {4096, 8192}))); },
     2,
     {1, 0}},
    {"a contraction where nothing else is long",
     [](Graph& g) { g.set_output(product(g, input(g, {4, 4000000}), input(g, {4000000, 4}))); },
     2,
     {1, 1}},
    {"rows of a prime number",
     [](Graph& g) { g.set_output(product(g, input(g, {8191, 256}), input(g, {256, 256}))); },
     2,
     {0, 1}},
    {"rows of a long map",
     [](Graph& g) { g.set_output(add(g, "tanh", {input(g, {20000, 500})})); },
     1,
     {0, 1}},
    {"images of one tile are read in long runs: not cut along rows of pixels",
     [](Graph& g) {
         const uint32_t x = input(g, {32, 64, 56, 56}), scales = input(g, {64});
         g.set_output(add(g, "mul", {x, g.add_view(scales, {{1, 64, 1, 1}, {64, 1, 1, 1}, 0})}));
     },
     3,
     {0, 1, 1, 1}},
    {"a batch that lies innermost is not cut: each half would read all",
     [](Graph& g) {
         const uint32_t x = g.add_view(input(g, {512, 1024, 2}), {{2, 512, 1024}, {1, 2048, 2}, 0});
         std::vector<schema::Attr> attrs = schema::default_attrs(*schema::find_op("softmax"));
         attrs[0].i = 1;
         g.set_output(g.add(*schema::find_op("softmax"), std::vector<uint32_t>{x}, attrs)[0]);
     },
     2,
     {1, 1, 0}},
    {"a batch is cut where a cache line has all numbers of one operand",
     [](Graph& g) {
         const uint32_t x = input(g, {8, 400'000}), scales = input(g, {8});
         const uint32_t y = add(g, "softmax", {x});
         g.set_output(add(g, "mul", {y, g.add_view(scales, {{8, 400'000}, {1, 0}, 0})}));
     },
     2,
     {0, 1}},
    {"softmax is never cut along its dim",
     [](Graph& g) {
         auto attrs = schema::default_attrs(*schema::find_op("softmax"));
         g.set_output(g.add(*schema::find_op("softmax"),
                            std::vector<uint32_t>{input(g, {2000, 3000})}, attrs)[0]);
     },
     1,
     {0, 1}},
    {"a call follows its operand, and is cut no further",
     [](Graph& g) {
         g.set_output(add(g, "tanh", {input(g, {9000, 1000}, {{3000, 3000, 3000}, {}})}));
     },
     1,
     {3, 1}},
    {"also where that is not even",
     [](Graph& g) {
         g.set_output(product(g, input(g, {9000, 400}, {{100, 8900}, {}}), input(g, {400, 300})));
     },
     2,
     {2, 1}},
    {"a whole operand beside a cut one",
     [](Graph& g) {
         g.set_output(
             add(g, "add", {input(g, {9000, 1000}), input(g, {9000, 1000}, {{4500, 4500}, {}})}));
     },
     2,
     {2, 1}},
    {"data is cut along rows and columns, and softmax wants its rows whole",
     [](Graph& g) {
         auto attrs = schema::default_attrs(*schema::find_op("softmax"));
         const uint32_t x = input(g, {2048, 2048}, {{512, 512, 512, 512}, {512, 512, 512, 512}});
         g.set_output(g.add(*schema::find_op("softmax"), std::vector<uint32_t>{x}, attrs)[0]);
     },
     1,
     {4, 1}},
    {"one operand is cut along rows, one along columns: one of both will do",
     [](Graph& g) {
         const uint32_t a = input(g, {2048, 1}, {{512, 512, 512, 512}, {}});
         const uint32_t b = input(g, {1, 2048}, {{}, {512, 512, 512, 512}});
         g.set_output(add(g, "add", {a, b}));
     },
     2,
     {4, 1}},
    {"no data, and little",
     [](Graph& g) { g.set_output(add(g, "exp", {input(g, {0, 7})})); },
     1,
     {1, 1}},
};

void table() {
    for (const Case& c : cases) {
        Graph g;
        c.build(g);
        graph::own_outputs(g);
        const tile::Tiling tiling = tile::choose_tiling(g, {});
        bool good = true;
        std::string found;
        for (size_t d = 0; d < c.tiles.size(); ++d) {
            const int64_t n = segments_of(tiling.values[c.value].cuts[d]);
            good = good && (c.tiles[d] ? n == c.tiles[d] : n > 1);
            found += " " + std::to_string(n);
        }
        if (!good) std::fprintf(stderr, "%s: found%s\n", c.name, found.c_str());
        CHECK(good);
        tile::lower(g, tiling);
    }
}

// The batch of a chain of layers, with its gradients, and nothing else; whatever its extent.
void batch() {
    for (int64_t rows : {2000, 2048, 3001}) {
        Graph g;
        layers(g, rows, 512, 4);
        graph::own_outputs(g);
        const tile::Tiling tiling = tile::choose_tiling(g, {});
        CHECK(tiling.automatic.size() == 1);
        for (uint32_t v = 0; v < g.values.size(); ++v)
            for (size_t d = 0; d < tiling.values[v].cuts.size(); ++d)
                CHECK((segments_of(tiling.values[v].cuts[d]) > 1) == (g.value(v).sizes[d] == rows));
        CHECK(tile::lower(g, tiling).copies == 0);
        // The same again, from what was saved.
        const tile::SavedGraph saved{{}, 0, tiling.automatic};
        const tile::Tiling again = tile::choose_tiling(g, {}, false, &saved);
        for (uint32_t v = 0; v < g.values.size(); ++v)
            CHECK(again.values[v].cuts == tiling.values[v].cuts);
    }
}

// Results of the first step are inputs of the second, cut as the first has left them: nothing is
// cut anew.
void settled() {
    Graph first;
    layers(first, 2048, 512, 3);
    graph::own_outputs(first);
    const tile::Tiling before = tile::choose_tiling(first, {});
    Graph second;
    layers(second, 2048, 512, 3);
    graph::own_outputs(second);
    for (graph::Input& in : second.inputs) {
        in.stored->cuts = before.values[in.value].cuts;
        in.stored->hints = before.values[in.value].hints;
    }
    const tile::Tiling after = tile::choose_tiling(second, {});
    for (uint32_t v = 0; v < second.values.size(); ++v)
        CHECK(after.values[v].cuts == before.values[v].cuts);
    CHECK(tile::lower(second, after).copies == 0);
}

// Data that gets some elements in its place is not made anew to be cut as the index is.
void written_in_place() {
    Graph g;
    const uint32_t y = input(g, {2, 512, 1024}), x = input(g, {2, 512, 8});
    const Dims sizes{2, 512, 8};
    const uint32_t index = g.add_input(DType::i64, sizes, {}, stored(DType::i64, sizes, {{1, 1}}));
    g.inputs[0].overwritable = true;
    auto attrs = schema::default_attrs(*schema::find_op("scatter_rows"));
    attrs[0].i = -1;
    const uint32_t inputs[] = {y, x, index};
    const uint32_t made = g.add(*schema::find_op("scatter_rows"), inputs, attrs)[0];
    g.set_output(made);
    graph::own_outputs(g);
    const tile::Tiling chosen = tile::choose_tiling(g, {});
    CHECK(segments_of(chosen.values[made].cuts[0]) == 1);
}

// A hint that nobody follows costs copies of blocks, and the data stays as it is.
void unfit_data() {
    Graph g;
    std::vector<int64_t> columns(64, 8);
    const uint32_t x = input(g, {4096, 512}, {{}, columns}), w = input(g, {512, 512});
    g.set_output(product(g, x, w));
    graph::own_outputs(g);
    const tile::Tiling tiling = tile::choose_tiling(g, {});
    CHECK(tiling.values[x].as_stored);
    const tile::Lowered lowered = tile::lower(g, tiling);
    CHECK(lowered.outputs.size() == 1);
    g.name_axis(x, 1, "columns");
    const tile::Tiling wanted = tile::choose_tiling(g, {{"columns", {256}}});
    CHECK(!wanted.values[x].as_stored && segments_of(wanted.values[x].cuts[1]) == 2);
    CHECK(tile::lower(g, wanted).outputs.size() == 3);  // both inputs take the user's cut for good
}

// What explain("cuts") shows: what was cut, why, what else was tried, and why nothing more.
void reasons() {
    auto lines = [](int64_t rows, int64_t width) {
        Graph g;
        layers(g, rows, width, 4);
        graph::own_outputs(g);
        return tile::choose_tiling(g, {}, true).choices;
    };
    const std::vector<std::string> found = lines(2048, 512);
    CHECK(found.size() == 2);
    for (const char* part :
         {"chosen: dim 0 of %0: 2048 cut in ", " workers from ", " tasks, ", "; next best was "})
        CHECK(found.front().find(part) != std::string::npos);
    CHECK(found.back().starts_with("then: the best of other cuts brings too little, "));
    CHECK(lines(4, 16) == std::vector<std::string>{"no cut: too short a graph for cuts"});
}

void workers() {
    const tile::Machine before = tile::cost()->machine;
    int64_t last = 0;
    for (double n : {1, 2, 4, 64}) {
        tile::Machine machine;
        machine.workers = n;
        tile::set_cost(machine);
        Graph g;
        layers(g, 8192, 512, 4);
        graph::own_outputs(g);
        const int64_t tiles = segments_of(tile::choose_tiling(g, {}).values[0].cuts[0]);
        CHECK(tiles >= last);
        last = tiles;
    }
    CHECK(last >= 8);
    tile::set_cost(before);
}

// A call that one worker runs has nobody to share with; one more op may find in a cache what the
// first one made.
void one_worker() {
    const tile::Machine before = tile::cost()->machine;
    for (double n : {1.0, 2.0}) {
        tile::Machine machine;
        machine.workers = n;
        tile::set_cost(machine);
        Graph g;
        g.set_output(add(g, "exp", {input(g, {2048, 2048})}));
        graph::own_outputs(g);
        CHECK((segments_of(tile::choose_tiling(g, {}).values[1].cuts[0]) == 1) == (n == 1));
    }
    tile::set_cost(before);
}

void absurd() {
    const tile::Machine before = tile::cost()->machine;
    for (double rate : {1e-6, 1.0, 1e30}) {
        tile::Machine machine;
        machine.product_flops = machine.functions = machine.memory_bytes = machine.cache_bytes =
            rate;
        machine.task_seconds = 1 / rate;
        machine.workers = 1e9;
        tile::set_cost(machine);
        for (const Case& c : cases) {
            Graph g;
            c.build(g);
            graph::own_outputs(g);
            tile::lower(g, tile::choose_tiling(g, {}));
        }
    }
    tile::set_cost(before);
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::table();
    nntile::batch();
    nntile::settled();
    nntile::unfit_data();
    nntile::written_in_place();
    nntile::workers();
    nntile::reasons();
    nntile::one_worker();
    nntile::absurd();
    return nntile::test::result();
}
