// SPDX-License-Identifier: BSD-3-Clause
// Random tile graphs launched again and again without a wait, against a sequential interpreter.
#include <algorithm>
#include <random>

#include "toy.hh"

using namespace toy;

namespace {

// Plans on a common set of stored values; launches overlap; an interpreter says what must come out.
struct Random {
    explicit Random(uint64_t seed) : random(seed) {}
    size_t below(size_t n) { return random() % n; }
    std::mt19937_64 random;
};

struct Program {
    Builder builder{0};
    std::vector<size_t> reads, writes;  // stored values, by position in inputs and outputs
    std::shared_ptr<runtime::Plan> plan;
};

Program random_program(Random& r, size_t stored, int64_t n) {
    Program p;
    Builder& b = p.builder = Builder(n);
    struct Source {
        uint32_t tile;
        size_t stored;  // input of this stored value; else ~0
    };
    std::vector<Source> sources;
    std::vector<bool> replaced(stored, false);
    for (size_t s = 0; s < stored; ++s)
        if (r.below(2)) {
            sources.push_back({b.input(), s});
            p.reads.push_back(s);
        }
    const size_t tasks = 1 + r.below(30);
    for (size_t t = 0; t < tasks; ++t) {
        std::vector<uint32_t> reads;
        for (size_t k = r.below(4); k > 0 && !sources.empty(); --k)
            reads.push_back(sources[r.below(sources.size())].tile);
        const bool in_place = !sources.empty() && r.below(3) == 0;
        const size_t victim = in_place ? r.below(sources.size()) : 0;
        const auto microseconds = static_cast<int64_t>(r.below(4) ? 0 : r.below(40));
        const auto add = static_cast<int64_t>(r.below(1000));
        if (in_place && b.graph.tiles[sources[victim].tile].role == TileRole::output) {
            b.task(reads, sources[victim].tile, add, r.below(2) == 0,
                   microseconds);  // writes it again
            continue;
        }
        // The old value of an input that is overwritten must be replaced in the set of stored
        // values.
        const size_t old = in_place ? sources[victim].stored : ~size_t{0};
        const size_t target = old != ~size_t{0} ? old : r.below(stored);
        const bool output = (old != ~size_t{0} || r.below(3) == 0) && !replaced[target];
        if (old != ~size_t{0} && !output) continue;
        const uint32_t reuses = in_place ? sources[victim].tile : none;
        const uint32_t out = output ? b.output(reuses) : b.temporary(reuses);
        if (in_place) {
            if (std::find(reads.begin(), reads.end(), reuses) == reads.end())
                reads.push_back(reuses);
            sources.erase(sources.begin() + static_cast<std::ptrdiff_t>(victim));
        }
        // In place the kernel reads each element before it writes it, so mix() may get the tile
        // twice.
        b.task(reads, out, add, false, microseconds);
        sources.push_back({out, ~size_t{0}});
        if (output) {
            replaced[target] = true;
            p.writes.push_back(target);
        }
    }
    p.plan = b.plan();
    return p;
}

void random_graphs(int ncpu, uint64_t seed, int64_t n) {
    begin(ncpu);
    Random r(seed);
    constexpr size_t stored = 6;
    std::vector<StorageRef> tiles;
    std::vector<std::vector<int64_t>> expected;
    for (size_t s = 0; s < stored; ++s) {
        tiles.push_back(filled(n, static_cast<int64_t>(s)));
        expected.emplace_back(static_cast<size_t>(n), static_cast<int64_t>(s));
    }
    std::vector<Program> programs;
    for (int i = 0; i < 40; ++i) programs.push_back(random_program(r, stored, n));
    for (int round = 0; round < 400; ++round) {
        const Program& p = programs[r.below(programs.size())];
        const tile::TileGraph& graph = p.builder.graph;
        std::vector<StorageRef> in;
        std::vector<std::vector<int64_t>> memory(graph.tiles.size());
        for (size_t i = 0; i < p.reads.size(); ++i) {
            in.push_back(tiles[p.reads[i]]);
            memory[p.builder.inputs[i]] = expected[p.reads[i]];
        }
        std::vector<StorageRef> out = launch(*p.plan, in, p.writes.size(), n);
        interpret(graph, memory);
        const std::vector<uint32_t> root = graph.memories();
        for (size_t i = 0; i < p.writes.size(); ++i) {
            tiles[p.writes[i]] = out[i];
            expected[p.writes[i]] = memory[root[p.builder.outputs[i]]];
        }
        if (r.below(20) == 0) {
            const size_t s = r.below(stored);
            CHECK(values(*tiles[s]) == expected[s]);
        }
    }
    for (size_t s = 0; s < stored; ++s) CHECK(values(*tiles[s]) == expected[s]);
    runtime::wait();
    CHECK(runtime::stats().in_flight == 0 && runtime::stats().launches == 400);
}

}  // namespace

int main(int argc, char** argv) {
    run_all({{"1 worker", [] { random_graphs(1, 1, 16); }},
             {"2 workers", [] { random_graphs(2, 2, 16); }},
             {"4 workers", [] { random_graphs(4, 3, 300); }},
             {"2 workers, larger tiles", [] { random_graphs(2, 4, 3000); }}},
            argc > 1 ? argv[1] : nullptr);
    return 0;
}
