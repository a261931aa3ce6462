// SPDX-License-Identifier: BSD-3-Clause
// Graphs as text: what is printed parses back to the same graph, and bad texts are refused with
// their line.
#include <cmath>
#include <random>

#include "../check.hh"
#include "graph/text.hh"
#include "sample.hh"

namespace nntile {
namespace {

using graph::Graph;
using graph::no_value;
using graph::parse;
using graph::print;
using schema::Attr;

const schema::OpRow& row(const char* name) { return *schema::find_op(name); }

void check_round_trip(const Graph& g, const std::string& what) {
    const std::string text = print(g);
    std::string again;
    const std::string error = test::error_of([&] {
        const Graph parsed = parse(text);
        again = print(parsed);
        CHECK(parsed.hash() == g.hash());
        CHECK(parsed.scalars.size() == g.scalars.size());
    });
    if (!error.empty()) test::report(__FILE__, __LINE__, what + ": " + error + "\n" + text);
    if (error.empty() && again != text)
        test::report(__FILE__, __LINE__, what + ":\n" + text + again);
}

void every_row() {
    Graph all;
    for (const schema::OpRow& r : schema::op_rows()) {
        const auto sample = test::sample_of(r);
        if (!sample) {
            test::report(__FILE__, __LINE__, "no call found that op " + r.name + " takes");
            continue;
        }
        Graph one;
        one.set_output(test::add(one, r, *sample)[0], "y");
        check_round_trip(one, r.name);
        test::add(all, r, *sample);
        for (Attr& a : all.nodes.back().attrs)
            if (a.scalar != no_value) all.scalars[a.scalar].i += 3;  // any bits: denormals as reals
    }
    check_round_trip(all, "all rows");
}

// One graph with every feature, and its text as readers know it.
void documented_form() {
    Graph g;
    auto stored = std::make_shared<graph::Stored>();
    stored->dtype = DType::f32;
    stored->sizes = {24, 8};
    stored->cuts = {{{4, {}}, {6, {3}}}, {}};
    stored->names = {"batch", ""};
    const uint32_t x = g.add_input(DType::f32, Dims{24, 8}, "x", stored);
    const uint32_t w = g.add_input(DType::f32, Dims{5, 8}, "w \"2\"");
    g.inputs[1].overwritable = true;
    const uint32_t wt = g.add_view(w, {{8, 5}, {1, 8}, 0});
    const uint32_t h = g.add(row("matmul"), std::vector<uint32_t>{x, wt, no_value}, {}, DType::none,
                             {}, "model.py:14")[0];
    const uint32_t half = g.add_scalar(DType::f32, 0.5, 0);
    const uint32_t ge = g.add(row("ge"), std::vector<uint32_t>{h, half}, {})[0];
    const schema::Type out[] = {{DType::i64, {3}, false}, {DType::f32, {}, false}};
    const auto host =
        g.add_host({"aten::foo", 0x1f}, std::vector<uint32_t>{h, no_value}, out, "model.py:15");
    g.add_host({.name = "aten::print_", .signature = 7, .effect = true},
               std::vector<uint32_t>{host[0]}, {});
    g.add_host({"aten::bar", 8, {{0, -1}, {-1, -1}, {0, -1}}}, std::vector<uint32_t>{h, w},
               {{{DType::f32, {24, 2}, false}}});
    g.add_host({.name = "sum", .signature = 9, .updated = 1}, std::vector<uint32_t>{w},
               {{g.type_of(w)}});
    g.name_axis(x, 0, "batch");
    g.name_axis(h, 0, "batch");
    g.name_axis(h, 1, "my axis");
    g.set_output(ge, "y");
    g.set_output(host[0]);
    const std::string text = print(g, {{"batch", {16, 8}}, {"my axis", {2}}});
    const char* wanted =
        R"(graph {
  %0 : f32[batch=24, 8]        = input "x" stored [batch=4 x 6 cut [3], 8]
  %1 : f32[5, 8]               = input "w \"2\"" overwritable
  %2 : f32[8, 5]               = view of %1 sizes (8, 5) strides (1, 8) offset 0
  %3 : f32[batch, "my axis"=5] = matmul(%0, %2) {alpha = 1, beta = 1}       # model.py:14
  %4 : f32[]                   = scalar 0.5
  %5 : bool[24, 5]             = ge(%3, %4) in f32
  %6 : i64[3], %7 : f32[]      = host "aten::foo"(%3, none) signature 0x1f  # model.py:15
  host "aten::print_"(%6) effect signature 0x7
  %8 : f32[24, 2]              = host "aten::bar"(%3, %1) axes (0, -1) (-1, -1) (0, -1) signature 0x8
  %9 : f32[5, 8]               = host "sum"(%1) updates 1 signature 0x9
  return %5 "y", %6
  cut batch (16, 8)
  cut "my axis" (2,)
}
)";
    if (text != wanted) test::report(__FILE__, __LINE__, "the form changed:\n" + text);
    graph::NamedCuts cuts;
    CHECK(print(parse(text, &cuts), cuts) == text);
    check_round_trip(g, "documented form");
}

// Passes drop nodes and keep scalars: the text names one whose turn it is not.
void slots() {
    Graph g;
    const uint32_t x = g.add_input(DType::f32, Dims{4}, "x");
    const uint32_t a = g.add(row("add"), std::vector<uint32_t>{x, x}, {})[0];
    g.add(row("add"), std::vector<uint32_t>{x, a}, {});
    std::swap(g.nodes[0].attrs[0].scalar, g.nodes[1].attrs[0].scalar);
    g.scalars[1].f = -0.25;
    CHECK(print(g).find("{alpha = -0.25 @1}") != std::string::npos);
    CHECK(print(g).find("{alpha = 1 @0}") != std::string::npos);
    check_round_trip(g, "slots");
    for (double f : {1e-8, 1.0 / 3, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 5e-324}) {
        g.scalars[0].f = f;
        check_round_trip(g, "scalar");
    }
}

void bad_texts() {
    const auto in = [](const std::string& lines) {
        return "graph {\n  %0 : f32[4] = input \"x\"\n" + lines + "}\n";
    };
    const struct {
        std::string text;
        const char* part;
    } cases[] = {
        {"", "line 1: expected 'graph', got the end"},
        {"graph {", "line 1: expected a word"},
        {"graph {\n  %0 : f99[4] = input\n}", "line 2: no dtype f99"},
        {"graph {\n  %0 : f32[-4] = input\n}", "negative extent"},
        {"graph {\n  %0 : f32[4000000000, 4000000000] = input\n}", "too large"},
        {"graph {\n  %0 : f32[99999999999999999999] = input\n}", "line 2: a number is too large"},
        {"graph {\n  %0 : f32[b] = input\n}", "line 2: axis b has no extent yet"},
        {"graph {\n  %0 : f32[4] = input \"x\n}", "line 2: a quote is not closed"},
        {in("  %2 : f32[4] = relu(%0)\n"),
         "line 3: values are numbered in order: expected %1, got %2"},
        {in("  %1 : f32[4] = relu(%1)\n"), "line 3: no value %1 before this line"},
        {in("  %1 : f32[4] = rleu(%0)\n"), "line 3: no op rleu"},
        {in("  %1 : f32[4] = mean(%0)\n"), "line 3: mean is a composition"},
        {in("  %1 : f32[4] = relu(%0, %0)\n"), "relu: takes 1 inputs, got 2"},
        {in("  %1 : f32[4] = empty(%0)\n"), "empty: takes 0 inputs, got 1"},
        {in("  %1 : f32[5] = relu(%0)\n"), "relu: output y has shape (5,), expected (4,)"},
        {in("  %1 : f32[4], %2 : f32[4] = relu(%0)\n"), "line 3: there are more results than %1"},
        {in("  relu(%0)\n"), "line 3: there are 1 results, not 0"},
        {in("  %1 : i64[4] = softmax(%0) in f32\n"), "line 3: %1 is f32 (4,), not i64 (4,)"},
        {in("  %1 : f32[4] = add(%0, %0) {beta = 1}\n"), "line 3: add has no attribute beta"},
        {in("  %1 : f32[4] = add(%0, %0) {alpha = one}\n"),
         "line 3: expected a real number, got 'one}'"},
        {in("  %1 : f32[4] = add(%0, %0) {alpha = 1 @999999999}\n"),
         "line 3: scalar 999999999 is too large"},
        {in("  %1 : f32[4] = gelu(%0) {approximate = \"tan\"}\n"),
         "approximate must be one of none|tanh"},
        {in("  %1 : f32[4] = view of %0 sizes (4,) strides (2,) offset 0\n"),
         "out of bounds for %0"},
        {in("  %1 : f32[4] = view of %0 sizes (4,) strides (-1,) offset 3\n"),
         "out of bounds for %0"},
        {in("  %1 : f32[4] = host \"f\"(%0) axes (0, 0) (0,) signature 0x1\n"),
         "f: operand 0 has 1 dims, 2 axes are given"},
        {in("  return %3\n"), "line 3: no value %3"},
        {in("  cut b (2, 2)\n"), "no axis is named 'b'"},
        {in("  %1 : f32[4] = relu(%0) relu\n"), "line 3: expected the end of the line, got 'relu'"},
        {in("") + "graph {\n}\n", "line 4: there is more text after the graph"},
    };
    for (const auto& c : cases) {
        const std::string message = test::error_of([&] { parse(c.text); });
        if (message.find(c.part) == std::string::npos)
            test::report(__FILE__, __LINE__,
                         text_of("expected '", c.part, "', got '", message, "' for\n", c.text));
    }
}

// A text with some characters exchanged is refused or is another graph; nothing else happens.
void damaged_texts() {
    Graph g;
    for (const schema::OpRow& r : schema::op_rows())
        if (const auto sample = test::sample_of(r)) test::add(g, r, *sample);
    const std::string text = print(g);
    std::mt19937 random(1);
    int parsed = 0;
    for (int round = 0; round < 2000; ++round) {
        std::string damaged = text.substr(0, 60 + random() % 1500);
        for (size_t k = 0; k < 1 + random() % 2; ++k)
            damaged[random() % damaged.size()] = "%0(,)[]=\"9- \nx"[random() % 14];
        damaged.resize(damaged.rfind('\n') + 1);
        const std::string error = test::error_of([&] {
            const Graph other = parse(damaged + "}\n");
            ++parsed;
            CHECK(print(parse(print(other))) == print(other));
        });
        CHECK(error.find('\n') == std::string::npos);
    }
    CHECK(parsed > 100 && parsed < 1900);
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::every_row();
    nntile::documented_form();
    nntile::slots();
    nntile::bad_texts();
    nntile::damaged_texts();
    return nntile::test::result();
}
