// SPDX-License-Identifier: BSD-3-Clause
// Along which dims each row is cut: tile/cuts_of_rows.txt, which the op reference shows. What a
// row's relation says is tried: each dim of a sample is cut in two, and its tasks are counted.
// `write`: makes the file anew.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "../graph/sample.hh"
#include "graph/passes/passes.hh"
#include "tile/lower.hh"
#include "tile/relation.hh"

using namespace nntile;
using graph::Graph;

namespace {

struct Call {
    Graph graph;
    size_t node;
    SmallVector<uint32_t, 4> values;  // inputs, then outputs
};

Call call_of(const schema::OpRow& row, const test::Sample& sample) {
    Call c;
    for (uint32_t v : test::add(c.graph, row, sample)) c.graph.set_output(v);
    c.node = c.graph.nodes.size() - 1;
    for (uint32_t v : c.graph.nodes[c.node].inputs) c.values.push_back(v);
    for (uint32_t v : c.graph.nodes[c.node].outputs) c.values.push_back(v);
    return c;
}

// Tasks of the row's own kernel where this dim of this operand is cut in two; none: where no dim
// is.
size_t tasks_of(const schema::OpRow& row, const test::Sample& sample, size_t operand, size_t dim) {
    Call c = call_of(row, sample);
    graph::AxisCuts cuts;
    if (operand < c.values.size()) {
        const int64_t extent = c.graph.value(c.values[operand]).sizes[dim];
        c.graph.name_axis(c.values[operand], static_cast<uint32_t>(dim), "cut");
        cuts["cut"] = {1, extent - 1};
    }
    graph::own_outputs(c.graph);
    const tile::Lowered lowered = tile::lower(c.graph, tile::choose_tiling(c.graph, cuts));
    const std::string kernel =
        row.rule == schema::Rule::map ? row.name == "copy" ? "copy" : "map" : row.kernel;
    return static_cast<size_t>(
        std::ranges::count_if(lowered.tiles.tasks, [&](const tile::Task& task) {
            return task.node == c.node && task.kernel && task.kernel->name == kernel;
        }));
}

const char* word_of(schema::LabelKind kind) {
    switch (kind) {
        case schema::LabelKind::parallel: return "cut";
        case schema::LabelKind::reduce: return "parts";
        case schema::LabelKind::whole: return "whole";
    }
    return "";
}

// "x cut whole, y cut"; a dim of one element: -.
std::string cuts_of(const schema::OpRow& row, const test::Sample& sample) {
    const Call c = call_of(row, sample);
    const tile::NodeSpace space = tile::space_of(c.graph, c.graph.nodes[c.node]);
    const size_t uncut = tasks_of(row, sample, c.values.size(), 0);
    std::string text;
    for (size_t k = 0; k < c.values.size(); ++k) {
        if (c.values[k] == graph::no_value) continue;
        const Dims& sizes = c.graph.value(c.values[k]).sizes;
        const size_t at = k < row.inputs.size() ? k : k - c.graph.nodes[c.node].inputs.size();
        const bool is_input = k < c.graph.nodes[c.node].inputs.size();
        std::string name =
            is_input ? row.inputs[std::min(at, row.inputs.size() - 1)].name : row.outputs[at].name;
        while (name.back() == '?' || name.back() == '*') name.pop_back();
        text += (text.empty() ? "" : ", ") + name;
        for (size_t d = 0; d < sizes.size(); ++d) {
            const int label = space.labels_of(k)[d];
            const char* word = sizes[d] == 1 ? "-"
                               : label < 0   ? "whole"
                                             : word_of(space.relation.labels[label].kind);
            text += std::string(" ") + word;
            if (sizes[d] == 1) continue;
            const size_t tasks = tasks_of(row, sample, k, d);
            if ((tasks > uncut) != (std::string(word) != "whole"))
                test::report(__FILE__, __LINE__,
                             text_of(row.name, ": ", name, " dim ", d, " is ", word, ", and has ",
                                     tasks, " tasks, uncut ", uncut));
        }
    }
    return text;
}

std::string table() {
    std::string text;
    for (const schema::OpRow& row : schema::op_rows()) {
        if (row.rule == schema::Rule::compose || schema::only_moves(row.rule)) continue;
        const auto sample = test::sample_of(row);
        if (sample) text += row.name + ": " + cuts_of(row, *sample) + "\n";
        else test::report(__FILE__, __LINE__, "no call found that op " + row.name + " takes");
    }
    return text;
}

}  // namespace

int main(int argc, char**) {
    const std::string found = table();
    if (argc > 1) std::ofstream(EXPECTED) << found;
    std::ifstream file(EXPECTED);
    const std::string wanted{std::istreambuf_iterator<char>(file), {}};
    if (found != wanted)
        test::report(__FILE__, __LINE__,
                     "tile/cuts_of_rows.txt is out of date: run this with `write`");
    return nntile::test::result();
}
