// SPDX-License-Identifier: BSD-3-Clause
// A call of any op, found by trying: a new row gets its test for nothing.
#pragma once

#include <optional>

#include "../check.hh"
#include "graph/graph.hh"

namespace nntile::test {

struct Sample {
    std::vector<schema::Type> inputs;
    std::vector<schema::Attr> attrs;
};

inline DType dtype_for(const schema::OpRow& row, const std::string& type, bool first) {
    if (type == "index") return DType::i64;
    if (type == "T" && !schema::takes(row.types, DType::f32)) return DType::i64;
    if (type == "T") return DType::f32;
    if (type == "any") return first ? DType::f32 : DType::i64;
    return *dtype_of(type);
}

inline std::vector<uint32_t> add(graph::Graph& g, const schema::OpRow& row, const Sample& sample) {
    std::vector<uint32_t> in;
    for (const schema::Type& t : sample.inputs)
        in.push_back(t.dtype == DType::none ? graph::no_value : g.add_input(t.dtype, t.sizes));
    return g.add(row, in, sample.attrs, DType::none, {},
                 "model.py:" + std::to_string(g.nodes.size()));
}

// Shapes that go together, and what lists of integers may be; none: their defaults.
struct Family {
    std::vector<Dims> shapes, lists;
    std::vector<Dims> sizes = {};  // attribute `sizes`, where that is another one
};

// The first accepted one of all combinations of a few shapes; optional inputs are given.
inline std::optional<Sample> sample_of(const schema::OpRow& row, const Family& family) {
    const size_t n = row.inputs.size(), ways = std::max(family.lists.size(), family.sizes.size());
    size_t combinations = ways;
    for (size_t k = 0; k < n; ++k) combinations *= family.shapes.size();
    for (size_t c = 0; c < 2 * combinations; ++c) {
        const bool floats = c >= combinations;  // a row may want them where its type is any
        Sample sample;
        size_t rest = c % combinations / ways;
        for (size_t k = 0; k < n; ++k, rest /= family.shapes.size())
            sample.inputs.push_back({dtype_for(row, row.inputs[k].type, k == 0 || floats),
                                     family.shapes[rest % family.shapes.size()], false});
        sample.attrs = schema::default_attrs(row);
        for (size_t k = 0; k < row.attrs.size(); ++k) {
            if (row.attrs[k].kind == schema::AttrKind::integers) {
                if (!family.lists.empty()) sample.attrs[k].ints = family.lists[c % ways];
                else if (row.attrs[k].name == "sizes")
                    sample.attrs[k].ints = family.sizes[c % ways];
            }
            if (row.attrs[k].name.starts_with("num_")) sample.attrs[k].i = 4;
        }
        graph::Graph g;
        if (error_of([&] { add(g, row, sample); }).empty()) return sample;
    }
    return std::nullopt;
}
inline std::optional<Sample> sample_of(const schema::OpRow& row) {
    const Family families[] = {
        {{{2, 4, 4}, {2, 4}, {4}}, {{1}, {}}},  // batches
        {{{4, 4}, {4}, {}, {4, 1}}, {{4, 4}, {4, 1}, {0}, {}}},
        // Images
        {{{2, 2, 4, 4}, {2, 2, 1, 1}, {2}}, {}, {{2, 2, 4, 4}, {2, 2, 1, 1}}},
        {{{4, 3, 8}, {8, 2}, {3, 2}, {4, 3, 2}}, {}, {{}}},  // LSTM
        // GRU
        {{{4, 3, 6}, {6, 2}, {6}, {3, 2}, {4, 3, 2}, {4, 3, 8}}, {}, {{}}},
        {{{4, 3, 2}, {2, 2}, {3, 2}}, {}, {{}}},     // plain
        {{{2, 2, 3, 4}, {2, 3}, {2, 2}}, {}, {{}}},  // group norm
        {{{3, 6}, {3, 2}, {6}, {3, 10}}, {}, {{}}},  // cells
        // Pixels of a grid
        {{{2, 2, 4, 4}, {2, 3, 2}, {2, 2, 3}}, {}, {{}}}};
    for (const Family& family : families)
        if (auto found = sample_of(row, family)) return found;
    return std::nullopt;
}

}  // namespace nntile::test
