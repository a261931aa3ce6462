// SPDX-License-Identifier: BSD-3-Clause
// Automatic cuts keep each task below a number of bytes; where that cannot be, advice() says why.
#include <functional>
#include <set>

#include "../check.hh"
#include "graph/passes/passes.hh"
#include "tile/advice.hh"
#include "tile/cost.hh"
#include "tile/cuts.hh"
#include "tile/lower.hh"
#include "tile/upload.hh"

namespace nntile {
namespace {

using graph::Graph;
using graph::no_value;

constexpr int64_t kib = 1024, mib = 1024 * kib;

// The number holds as long as it lives.
struct Most {
    explicit Most(int64_t bytes) { tile::set_most_task_bytes(bytes); }
    ~Most() { tile::set_most_task_bytes(INT64_MAX); }
};

// How the data of inputs is there: not at all, in one tile, or as uploads are cut.
enum class From { nothing, one_tile, upload };

class Maker {
public:
    Maker(From from, int64_t most) : from_(from), most_(most) {}

    uint32_t input(const Dims& sizes, DType dtype = DType::f32) {
        if (from_ == From::nothing) return graph.add_input(dtype, sizes);
        auto s = std::make_shared<graph::Stored>();
        s->dtype = dtype;
        s->sizes = sizes;
        const auto most = from_ == From::upload ? most_ : INT64_MAX;
        tile::UploadCuts cuts = tile::upload_cuts(dtype, sizes, most);
        s->cuts = std::move(cuts.cuts);
        s->hints = cuts.hints;
        return graph.add_input(dtype, sizes, {}, s);
    }
    using Set = std::function<void(std::vector<schema::Attr>&)>;
    uint32_t op(const char* name, std::vector<uint32_t> inputs, const Set& set = nullptr) {
        const schema::OpRow& row = *schema::find_op(name);
        std::vector<schema::Attr> attrs = schema::default_attrs(row);
        if (set) set(attrs);
        return graph.add(row, inputs, attrs)[0];
    }

    Graph graph;

private:
    const From from_;
    const int64_t most_;
};

struct Case {
    const char* name;
    std::function<void(Maker&)> build;
    int64_t most;          // bytes; less than its largest task, whole, needs
    bool follows = false;  // no copy where the data is cut as uploads are
};

const std::vector<Case> cases = {
    {"a product",
     [](Maker& m) {
         m.graph.set_output(m.op("matmul", {m.input({1024, 512}), m.input({512, 768}), no_value}));
     },
     768 * kib},
    {"a product that adds along its inner dim",
     [](Maker& m) {
         m.graph.set_output(
             m.op("matmul", {m.input({8, 100'000}), m.input({100'000, 8}), no_value}));
     },
     512 * kib},
    {"maps, one after the other",
     [](Maker& m) {
         const uint32_t x = m.input({1000, 300}), row = m.input({1, 300});
         const uint32_t y = m.op("tanh", {m.op("mul", {m.op("exp", {x}), row})});
         m.graph.set_output(m.op("add", {y, x}));
     },
     200 * kib},
    {"a vector", [](Maker& m) { m.graph.set_output(m.op("exp", {m.input({1'000'003})})); },
     500 * kib, true},
    {"sums",
     [](Maker& m) {
         const uint32_t x = m.input({4096, 512});
         m.graph.set_output(m.op("sum", {x}, [](auto& a) { a[0].ints = {0}; }));
         m.graph.set_output(m.op("sum", {x}, [](auto& a) { a[0].ints = {1}; }));
     },
     512 * kib, true},
    {"softmax",
     [](Maker& m) {
         m.graph.set_output(m.op("softmax", {m.input({500, 2048})}, [](auto& a) { a[0].i = 1; }));
     },
     512 * kib, true},
    {"a convolution",
     [](Maker& m) {
         m.graph.set_output(m.op("convolution_rows",
                                 {m.input({16, 8, 32, 32}), m.input({16, 8, 3, 3}), no_value},
                                 [](auto& a) { a[1].ints = {1, 1}; }));
     },
     300 * kib, true},
    {"an embedding",
     [](Maker& m) {
         const uint32_t table = m.input({8000, 64});
         m.graph.set_output(m.op("embedding", {table, m.input({256, 64}, DType::i64)}));
     },
     768 * kib},
    {"attention",
     [](Maker& m) {
         const Dims sizes{4, 8, 256, 32};
         m.graph.set_output(
             m.op("attention", {m.input(sizes), m.input(sizes), m.input(sizes), no_value}));
     },
     512 * kib, true},
    {"a step of layers",
     [](Maker& m) {
         std::vector<uint32_t> x{m.input({512, 256})}, w;
         for (int k = 0; k < 6; ++k) {
             w.push_back(m.input({256, 256}));
             x.push_back(m.op("relu", {m.op("matmul", {x.back(), w.back(), no_value})}));
         }
         uint32_t dy = x.back();
         for (int k = 6; k-- > 0;) {
             const auto turned = [&](uint32_t v) {
                 const Dims s = m.graph.value(v).sizes;
                 return m.graph.add_view(v, {{s[1], s[0]}, {1, s[1]}, 0});
             };
             m.graph.set_output(m.op("matmul", {turned(x[k]), dy, no_value}));
             dy = m.op("mul", {m.op("matmul", {dy, turned(w[k]), no_value}), x[k]});
         }
         m.graph.set_output(dy);
     },
     256 * kib},
    {"parts of one product, and a copy into a part",
     [](Maker& m) {
         const uint32_t qkv = m.op("matmul", {m.input({512, 96}), m.input({96, 384}), no_value});
         std::vector<uint32_t> parts;
         for (int64_t k = 0; k < 3; ++k)
             parts.push_back(m.graph.add_view(qkv, {{512, 128}, {384, 1}, 128 * k}));
         m.graph.set_output(m.op("mul", {m.op("add", {parts[0], parts[1]}), parts[2]}));
     },
     200 * kib},
    {"data that is stored in another order, as the places that nonzero() finds",
     [](Maker& m) {
         const uint32_t data = m.input({20'000, 3}, DType::i64);
         const uint32_t y = m.op("empty", {}, [](auto& a) { a[0].ints = {3, 20'000}; });
         m.graph.set_output(
             m.op("view_write", {y, data}, [](auto& a) { a[0].ints = {1, 20'000}; }));
     },
     600 * kib},
    {"bytes of data, as a checkpoint has them",
     [](Maker& m) {
         const uint32_t y = m.op("exp", {m.input({700, 300})});
         const schema::OpRow& row = *schema::find_op("bits");
         m.graph.set_output(m.graph.add(row, std::vector<uint32_t>{y}, {}, DType::u8)[0]);
     },
     600 * kib},
    {"bytes of data whose tiles are no ranges",
     [](Maker& m) {
         const uint32_t w = m.input({96, 384});
         const uint32_t y = m.op("matmul", {m.input({512, 96}), w, no_value});
         const schema::OpRow& row = *schema::find_op("bits");
         m.graph.set_output(m.graph.add(row, std::vector<uint32_t>{y}, {}, DType::i16)[0]);
     },
     900 * kib},
    {"partial results that are joined",
     [](Maker& m) {
         m.graph.set_output(
             m.op("matmul", {m.input({256, 65'536}), m.input({65'536, 256}), no_value}));
     },
     400 * kib},
    {"bfloat16, as large",
     [](Maker& m) {
         const uint32_t x = m.input({256, 65'536}, DType::bf16);
         m.graph.set_output(m.op("matmul", {x, m.input({65'536, 256}, DType::bf16), no_value}));
     },
     300 * kib},
    {"bfloat16 that is summed in parts",
     [](Maker& m) {
         const uint32_t x = m.input({64, 20'000}, DType::bf16);
         m.graph.set_output(m.op("matmul", {x, m.input({20'000, 64}, DType::bf16), no_value}));
     },
     512 * kib},
};

tile::Largest largest_of(const Graph& g, const tile::AxisCuts& cuts = {}) {
    return tile::largest_task(tile::lower(g, tile::choose_tiling(g, cuts)).tiles);
}

std::string advice_of(const Graph& g, const tile::AxisCuts& cuts, int64_t most) {
    const tile::Tiling tiling = tile::choose_tiling(g, cuts);
    return tile::advice(g, cuts, tiling, tile::lower(g, tiling).tiles, most).text;
}

int64_t segments_of(const graph::Cut& cut) {
    int64_t n = 1;
    for (const graph::Factor& f : cut) n *= static_cast<int64_t>(f.positions.size()) + 1;
    return n;
}

void each_fits() {
    for (const Case& c : cases)
        for (From from : {From::nothing, From::one_tile, From::upload}) {
            Maker m(from, c.most);
            c.build(m);
            graph::own_outputs(m.graph);
            if (from == From::nothing) CHECK(largest_of(m.graph).bytes > c.most);
            const Most most(c.most);
            const tile::Tiling tiling = tile::choose_tiling(m.graph, {});
            const tile::Lowered lowered = tile::lower(m.graph, tiling);
            const auto largest = tile::largest_task(lowered.tiles);
            // Data in one tile has to be read once as it is
            const bool fits = largest.bytes <= c.most;
            const std::string text = tile::advice(m.graph, {}, tiling, lowered.tiles, c.most).text;
            CHECK(fits == text.empty());
            if (getenv("SHOW"))
                std::printf("%s %d: %lld of %lld, %zu tasks, %zu copies, %s\n", c.name, (int)from,
                            (long long)largest.bytes, (long long)c.most, lowered.tiles.tasks.size(),
                            lowered.copies, text.c_str());
            if (!fits && from != From::one_tile)
                std::fprintf(stderr, "%s, %d: %s\n", c.name, static_cast<int>(from), text.c_str());
            CHECK(fits || from == From::one_tile);
            // Maps and rows do with uploads as they are
            if (from == From::upload && c.follows) CHECK(lowered.copies == 0);
        }
}

// Other numbers: what is told to fit must be no less than what tasks need.
void sweep() {
    for (const Case& c : cases)
        for (From from : {From::nothing, From::upload})
            for (int64_t most = c.most * 5 / 8; most < 4 * c.most; most = most * 9 / 8) {
                Maker m(from, most);
                c.build(m);
                graph::own_outputs(m.graph);
                const Most holds(most);
                const int64_t needed = largest_of(m.graph).bytes;
                if (needed > most)
                    std::fprintf(stderr, "%s, %d: %lld of %lld\n", c.name, static_cast<int>(from),
                                 static_cast<long long>(needed), static_cast<long long>(most));
                CHECK(needed <= most);
            }
}

// A number that nothing exceeds changes no cut.
void ordinary() {
    for (const Case& c : cases) {
        Maker m(From::one_tile, c.most);
        c.build(m);
        graph::own_outputs(m.graph);
        const tile::Tiling before = tile::choose_tiling(m.graph, {});
        const Most most(int64_t{1} << 30);
        const tile::Tiling after = tile::choose_tiling(m.graph, {});
        CHECK(after.choices == before.choices);
        for (uint32_t v = 0; v < m.graph.values.size(); ++v)
            CHECK(after.values[v].cuts == before.values[v].cuts &&
                  after.values[v].as_stored == before.values[v].as_stored);
    }
}

// A limit that every task keeps to changes no cut either, nor what becomes of stored tiles that no
// task can read: a budget with a disk behind it gives the same bits.
void kept_to() {
    Maker m(From::one_tile, 0);
    const uint32_t table = m.input({1024, 64});
    graph::Input& in = m.graph.inputs[0];
    in.stored->cuts[0] = tile::even_cut(1024, 4);
    in.stored->hints = 1;
    m.graph.set_output(m.op("embedding", {table, m.input({8, 128}, DType::i64)}));
    const tile::Tiling free = tile::choose_tiling(m.graph, {});
    CHECK(free.values[table].as_stored);
    const Most most(largest_of(m.graph).bytes);
    const tile::Tiling limited = tile::choose_tiling(m.graph, {});
    CHECK(limited.choices == free.choices);
    for (uint32_t v = 0; v < m.graph.values.size(); ++v)
        CHECK(limited.values[v].cuts == free.values[v].cuts &&
              limited.values[v].as_stored == free.values[v].as_stored);
}

// What the user has cut, or left whole, stays; other axes make up for it, or the advice says what
// would.
void pinned() {
    Maker m(From::nothing, 0);
    const uint32_t x = m.input({1024, 512}), w = m.input({512, 768});
    const uint32_t y = m.op("matmul", {x, w, no_value});
    m.graph.set_output(y);
    m.graph.name_axis(x, 0, "rows");
    const Most most(mib);
    for (const graph::AxisCut& rows : {graph::AxisCut{512}, graph::AxisCut{1024}}) {
        const tile::AxisCuts cuts{{"rows", rows}};
        const tile::Tiling tiling = tile::choose_tiling(m.graph, cuts);
        CHECK(segments_of(tiling.values[y].cuts[0]) == 1024 / rows[0]);
        CHECK(tile::largest_task(tile::lower(m.graph, tiling).tiles).bytes <= mib);
        CHECK(advice_of(m.graph, cuts, mib).empty());
    }
    m.graph.name_axis(w, 1, "columns");
    m.graph.name_axis(w, 0, "inner");
    const tile::AxisCuts all{{"rows", {1024}}, {"columns", {768}}, {"inner", {512}}};
    const std::string text = advice_of(m.graph, all, mib);
    for (const char* part :
         {"a task of matmul needs 6.5 MiB for its operands and results, where a task may have 1 "
          "MiB",
          "f32 (1024, 512) in one tile, f32 (512, 768) in one tile, result f32 (1024, 768) in one "
          "tile; no cut of one axis makes it fit; it may be cut along axis 'rows' of 1024, axis "
          "'columns' of 768, axis 'inner' of 512"})
        CHECK(text.find(part) != std::string::npos);
    const std::string one = advice_of(m.graph, all, 5 * mib);
    CHECK(one.ends_with("; axis 'rows' cut into 2 of 512 would fit"));
    tile::AxisCuts done = all;
    done["rows"] = {512};
    CHECK(advice_of(m.graph, done, 5 * mib).empty());
}

void advised() {
    {  // rows that are longer than fits, and no axis to cut
        Maker m(From::nothing, 0);
        m.graph.set_output(m.op("softmax", {m.input({100'000})}, [](auto& a) { a[0].i = 0; }));
        const Most most(100 * kib);
        CHECK(advice_of(m.graph, {}, 100 * kib) ==
              "a task of softmax needs 781.3 KiB for its operands and results, where a task may "
              "have 100 KiB: f32 (100000,) in one tile, result f32 (100000,) in one tile; no axis "
              "of it can be cut");
    }
    {  // an axis without a name
        Maker m(From::nothing, 0);
        m.graph.set_output(m.op("exp", {m.input({64, 64})}));
        CHECK(advice_of(m.graph, {}, 16 * kib)
                  .ends_with("; dim 0 of its result cut into 2 of 32 would fit"));
    }
    {  // data in one tile that is too large
        Maker m(From::one_tile, 0);
        m.graph.set_output(m.op("exp", {m.input({1024, 1024})}));
        const Most most(mib);
        const tile::Tiling tiling = tile::choose_tiling(m.graph, {});
        const tile::Lowered lowered = tile::lower(m.graph, tiling);
        const tile::Advice said = tile::advice(m.graph, {}, tiling, lowered.tiles, mib);
        CHECK(said.largest.node == tile::none && said.largest.bytes > 4 * mib);
        CHECK(said.text.starts_with("a task that brings data into other tiles needs 4.1 MiB "));
        CHECK(said.text.find(": f32 (1024, 1024) in tiles of (32, 1024), stored in one; tiles that "
                             "are stored have to be read as they are: ") != std::string::npos);
    }
    {  // nothing at all
        Maker m(From::nothing, 0);
        m.graph.set_output(m.input({4}));
        CHECK(advice_of(m.graph, {}, 1).empty() && largest_of(m.graph).task == tile::none);
    }
}

// Tiles in the same memory, and those that two operands read, count once.
void counted_once() {
    Maker m(From::nothing, 0);
    const uint32_t x = m.input({1000});
    m.graph.set_output(m.op("mul", {x, x}));
    CHECK(largest_of(m.graph).bytes == 2 * 4000);
    m.graph.inputs[0].overwritable = true;
    CHECK(largest_of(m.graph).bytes == 4000);
}

// What explain("cuts") shows of it.
void told() {
    Maker m(From::nothing, 0);
    m.graph.set_output(m.op("exp", {m.input({64, 64})}));
    const Most most(16 * kib);
    const std::vector<std::string> lines = tile::choose_tiling(m.graph, {}, true).choices;
    CHECK(lines.size() == 2);
    if (lines.size() != 2) return;
    CHECK(lines[1].starts_with("cut to fit: dim 0 of %0: 64 cut in 8, "));
    CHECK(
        lines[1].ends_with(" a task needs 0.004 MB, before 0.033 MB, and should need 0.016 MB at "
                           "most"));
    // The same cuts, from what was saved
    const tile::Tiling tiling = tile::choose_tiling(m.graph, {});
    const tile::SavedGraph saved{{}, 0, tiling.automatic};
    CHECK(tile::choose_tiling(m.graph, {}, false, &saved).values[1].cuts == tiling.values[1].cuts);
}

// A table that was uploaded in rows takes whole columns for good, and the next graph finds it so.
void taken_over() {
    const Most most(64 * mib);
    Maker m(From::upload, 64 * mib);
    const uint32_t table = m.input({50'257, 1600});
    m.graph.set_output(m.op("embedding", {table, m.input({8, 1024}, DType::i64)}));
    CHECK(segments_of(m.graph.inputs[0].stored->cuts[0]) > 1);
    const tile::Tiling first = tile::choose_tiling(m.graph, {});
    CHECK(!first.values[table].as_stored && segments_of(first.values[table].cuts[0]) == 1);
    CHECK(segments_of(first.values[table].cuts[1]) > 1);
    CHECK(tile::lower(m.graph, first).copies > 0);
    for (graph::Input& in : m.graph.inputs) {
        in.stored->cuts = first.values[in.value].cuts;
        in.stored->hints = first.values[in.value].hints;
    }
    const tile::Tiling second = tile::choose_tiling(m.graph, {});
    CHECK(second.values[table].cuts == first.values[table].cuts);
}

// Calls read large uploads as they are cut: rows of weights are columns of a product.
void followed() {
    const Most most(64 * mib);
    const std::function<void(Maker&)> calls[] = {
        [](Maker& m) {
            const uint32_t w = m.input({16'384, 4096});
            const uint32_t turned = m.graph.add_view(w, {{4096, 16'384}, {1, 4096}, 0});
            m.graph.set_output(m.op("matmul", {m.input({64, 4096}), turned, no_value}));
        },
        [](Maker& m) {
            const uint32_t x = m.input({16'384, 4096}), row = m.input({1, 4096});
            m.graph.set_output(m.op("tanh", {m.op("mul", {x, row})}));
        },
        [](Maker& m) {
            const Dims sizes{32, 16, 1024, 64};
            m.graph.set_output(
                m.op("attention", {m.input(sizes), m.input(sizes), m.input(sizes), no_value}));
        }};
    for (const auto& build : calls) {
        Maker m(From::upload, 64 * mib);
        build(m);
        graph::own_outputs(m.graph);
        CHECK(segments_of(m.graph.inputs[0].stored->cuts[0]) > 1);
        const tile::Lowered lowered = tile::lower(m.graph, tile::choose_tiling(m.graph, {}));
        CHECK(lowered.copies == 0 && tile::largest_task(lowered.tiles).bytes <= 64 * mib);
    }
}

// What is put together for a scatter, which wants a dim whole, is written in place: twice the dim
// would not fit. The second one makes its own.
void put_in_place() {
    const int64_t most = 5 * mib;
    const Most holds(most);
    Maker m(From::upload, most);
    const uint32_t y = m.input({1 << 20}), index = m.input({8}, DType::i64), x = m.input({8});
    for (int mode : {0, 1})
        m.graph.set_output(m.op("scatter", {y, x, index}, [&](auto& attrs) {
            attrs[schema::attr_index(*schema::find_op("scatter"), "mode")].i = mode;
        }));
    graph::own_outputs(m.graph);
    const tile::Lowered lowered = tile::lower(m.graph, tile::choose_tiling(m.graph, {}));
    CHECK(tile::largest_task(lowered.tiles).bytes <= most);
    std::set<uint32_t> memory;  // of what the two begin with
    const auto roots = lowered.tiles.memories();
    for (const tile::Task& task : lowered.tiles.tasks)
        if (task.node != tile::none && task.kernel->name == std::string_view("scatter"))
            memory.insert(roots[task.operands[0].tile]);
    CHECK(memory.size() == 2);
}

// A result is written over what it changes also where that is seen flat, as x[mask] sees its
// gradient: neither twice the memory nor a copy.
void put_in_a_view() {
    Maker m(From::nothing, 0);
    const uint32_t index = m.input({8}, DType::i64), x = m.input({8});
    const uint32_t base = m.op("exp", {m.input({64, 32})});
    const uint32_t flat = m.graph.add_view(base, Layout::dense(Dims{64 * 32}));
    m.graph.set_output(m.op("scatter", {flat, x, index}));
    const tile::Lowered lowered = tile::lower(m.graph, tile::choose_tiling(m.graph, {}));
    const auto memory = lowered.tiles.memories();
    const tile::Task& task = lowered.tiles.tasks.back();
    CHECK(task.kernel->name == std::string_view("scatter") && lowered.copies == 0);
    CHECK(memory[task.operands.front().tile] == memory[task.operands.back().tile]);
}

// A number that no cut reaches ends, with a bounded number of tasks.
void hopeless() {
    Maker m(From::nothing, 0);
    m.graph.set_output(m.op("matmul", {m.input({4096, 4096}), m.input({4096, 4096}), no_value}));
    const Most most(8);
    const tile::Tiling tiling = tile::choose_tiling(m.graph, {});
    CHECK(tile::lower(m.graph, tiling).tiles.tasks.size() <= size_t{1} << 19);
    CHECK_ERROR(invalid_argument, "a task of at most 0 bytes", tile::set_most_task_bytes(0));
}

void uploads() {
    struct Row {
        Dims sizes;
        int64_t most;  // of a tile
        std::vector<int64_t> segments;
    };
    for (const Row& r : {Row{{1024, 1024}, mib, {1, 1}},
                         {{1024, 1025}, mib, {5, 1}},
                         {{10, 300'000}, mib, {10, 2}},
                         {{1, 2 << 20}, mib, {1, 8}},
                         {{425, 3084}, mib, {6, 1}},  // 5 of a multiple of 8 are too long
                         {{}, 1, {}},
                         {{0, 5}, mib, {1, 1}},
                         {{7}, 4, {7}},
                         {{3, 2, 5}, 4, {3, 2, 5}},
                         {{1'000'003}, 65'536, {62}}}) {
        const tile::UploadCuts found = tile::upload_cuts(DType::f32, r.sizes, 8 * r.most);
        CHECK(found.cuts.size() == r.sizes.size());
        int64_t bytes = 4;
        bool inner = false;  // of a dim that is cut, but not into single elements
        for (size_t d = 0; d < r.sizes.size(); ++d) {
            const graph::Cut& cut = found.cuts[d];
            CHECK(segments_of(cut) == r.segments[d]);
            CHECK((found.hints >> d & 1) == !tile::is_whole(cut));
            CHECK(!inner || tile::is_whole(cut));  // tiles are ranges
            inner = inner || (r.sizes[d] > 1 && tile::longest(cut) > 1);
            bytes *= r.sizes[d] ? tile::longest(cut) : 0;
        }
        const bool whole = product(r.sizes) * 4 <= 4 * r.most;  // half of a task
        CHECK(bytes <= r.most || whole);
    }
}

void halves() {
    for (int64_t n : {2, 3, 16, 17, 33, 1000, 1 << 20}) {
        graph::Cut cut = tile::whole(n);
        for (int k = 0; k < 22; ++k) {
            const graph::Cut next = tile::halved(cut);
            CHECK(tile::refines(next, cut) && tile::normal(next) == next);
            const int64_t before = tile::longest(cut), after = tile::longest(next);
            CHECK(before == 1 ? after == 1 : after < before && after >= before / 2);
            cut = next;
        }
        CHECK(segments_of(cut) == n);
    }
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::halves();
    nntile::uploads();
    nntile::sweep();
    nntile::ordinary();
    nntile::kept_to();
    nntile::pinned();
    nntile::advised();
    nntile::counted_once();
    nntile::told();
    nntile::taken_over();
    nntile::followed();
    nntile::hopeless();
    nntile::put_in_place();
    nntile::put_in_a_view();
    nntile::each_fits();
    return nntile::test::result();
}
