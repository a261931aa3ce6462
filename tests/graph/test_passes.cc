// SPDX-License-Identifier: BSD-3-Clause
// Each pass against the texts of tests/graph/passes, and graphs that verify() refuses. With the
// argument "write" the texts after the passes are written as they are now; read the difference
// before you keep it.
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "../check.hh"
#include "graph/passes/passes.hh"
#include "graph/program.hh"
#include "graph/text.hh"

namespace nntile {
namespace {

using graph::Graph;
using graph::parse;
using graph::print;

const schema::OpRow& row(const char* name) { return *schema::find_op(name); }

// A file of tests/graph/passes: "== title", a graph, "-- after", a graph, and so on.
struct Case {
    std::string title, before, after;
};

std::string path_of(const std::string& pass) { return std::string(EXPECTED "/") + pass + ".txt"; }

std::vector<Case> cases_of(const std::string& pass) {
    std::ifstream file(path_of(pass));
    if (!file) test::report(__FILE__, __LINE__, "no file " + path_of(pass));
    std::vector<Case> cases;
    std::string* into = nullptr;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("== ")) {
            cases.push_back({line.substr(3), {}, {}});
            into = &cases.back().before;
        } else if (line == "-- after") {
            into = &cases.back().after;
        } else if (!line.empty()) {
            *into += line + "\n";
        }
    }
    return cases;
}

void check_case(const std::string& pass, const std::function<void(Graph&)>& run, Case& c,
                bool write) {
    const auto wrong = [&](const std::string& text) {
        test::report(__FILE__, __LINE__, pass + ", " + c.title + ": " + text);
    };
    const std::string error = test::error_of([&] {
        Graph g = parse(c.before);
        if (write) c.before = print(g);
        if (print(g) != c.before) wrong("the text before is written as\n" + print(g));
        graph::verify(g);
        run(g);
        graph::verify(g);
        const std::string text = print(g);
        if (write) c.after = text;
        if (text != c.after) wrong("expected\n" + c.after + "but got\n" + text);
        const Graph again = parse(text);
        if (print(again) != text) wrong("it reads back as\n" + print(again));
        if (again.hash() != g.hash()) wrong("it reads back with another hash");
        run(g);
        if (print(g) != text) wrong("the second time gives\n" + print(g));
    });
    if (!error.empty()) wrong(error);
}

void run_pass(const std::string& name, Graph& g) {
    for (const graph::Pass& pass : graph::passes())
        if (pass.name == name) return pass.run(g);
    test::report(__FILE__, __LINE__, "no pass " + name);
}

// Each pass has its texts.
void texts(bool write) {
    std::vector<graph::Pass> passes = graph::passes();
    passes.push_back({"recompute", [](Graph& g) { graph::recompute(g, 400); }});
    for (const graph::Pass& pass : passes) {
        std::vector<Case> cases = cases_of(pass.name);
        CHECK(cases.size() >= 5);
        for (Case& c : cases) check_case(pass.name, pass.run, c, write);
        if (!write) continue;
        std::ofstream file(path_of(pass.name));
        for (const Case& c : cases)
            file << (&c == &cases[0] ? "" : "\n") << "== " << c.title << "\n"
                 << c.before << "-- after\n"
                 << c.after;
    }
}

// x -> exp -> neg, right as it is.
Graph two_nodes() {
    Graph g;
    const uint32_t x = g.add_input(DType::f32, Dims{4}, "x");
    const uint32_t y = g.add(row("exp"), std::vector<uint32_t>{x}, {})[0];
    g.set_output(g.add(row("neg"), std::vector<uint32_t>{y}, {})[0], "z");
    g.name_axis(x, 0, "rows");
    graph::verify(g);
    return g;
}

void wrong_graphs() {
    const struct {
        const char* part;
        std::function<void(Graph&)> spoil;
    } cases[] = {
        {"exp reads %2 before it is made", [](Graph& g) { g.nodes[0].inputs[0] = 2; }},
        {"neg reads %7 of 3", [](Graph& g) { g.nodes[1].inputs[0] = 7; }},
        {"neg reads %2 before it is made", [](Graph& g) { g.nodes[1].inputs[0] = 2; }},
        {"%2 is no result of its node", [](Graph& g) { g.values[2].source = 0; }},
        {"%2 comes from 2 of 2", [](Graph& g) { g.values[2].source = 2; }},
        {"%1 is no result of its node", [](Graph& g) { g.values[1].output = 1; }},
        {"node 1 gives %0, which another one makes",
         [](Graph& g) { g.nodes[1].outputs.push_back(0); }},
        {"%0 is no input", [](Graph& g) { g.inputs[0].value = 1; }},
        {"the graph reads %3 of 3", [](Graph& g) { g.outputs[0].value = 3; }},
        {"a name of %0", [](Graph& g) { g.marks[0].dim = 1; }},
        {"a name of %9", [](Graph& g) { g.marks[0].value = 9; }},
        {"%3 is a view of %3",
         [](Graph& g) {
             g.add_view(1, {{2}, {1}, 0});
             g.views[0].base = 3;
             g.nodes[1].inputs[0] = 3;
         }},
    };
    for (const auto& c : cases) {
        Graph g = two_nodes();
        c.spoil(g);
        test::check_error(__FILE__, __LINE__, Status::internal,
                          std::string("a pass left a wrong graph: ") + c.part,
                          [&] { graph::verify(g); });
    }
}

// Spoils the program that fuse_maps makes of two_nodes(): r1 = exp(r0); r2 = neg(r1).
void wrong_programs() {
    using kernels::Program;
    const struct {
        const char* part;
        std::function<void(Program&)> spoil;
    } cases[] = {
        {"map: neg reads r1, which is never written", [](Program& p) { p.code[0].out[0] = 2; }},
        {"map: exp writes r0, which is no register of its own",
         [](Program& p) { p.code[0].out[0] = 0; }},
        {"map: exp reads r3, which is never written", [](Program& p) { p.code[0].in[0] = 3; }},
        {"map: output r2 is never written", [](Program& p) { p.code.pop_back(); }},
        {"map: exp takes 1 operands and gives 1", [](Program& p) { p.code[0].in.push_back(0); }},
        {"map: neg has parameters of another instruction",
         [](Program& p) { p.code[1].first_param = 1; }},
        {"map: a program of 2 inputs and 1 outputs for 1 and 1 values",
         [](Program& p) { p.n_in = 2; }},
    };
    for (const auto& c : cases) {
        Graph g = two_nodes();
        run_pass("fuse_maps", g);
        CHECK(g.nodes.size() == 1 && g.nodes[0].program);
        auto program = std::make_shared<Program>(*g.nodes[0].program);
        c.spoil(*program);
        g.nodes[0].program = program;
        test::check_error(__FILE__, __LINE__, Status::invalid_argument, c.part,
                          [&] { graph::verify(g); });
    }
}

// Spoils %2 = relu(x @ w + r): r2 = add(r1, r0); r3 = relu(r2), where r1 is the product.
void wrong_epilogues() {
    using kernels::Program;
    const struct {
        const char* part;
        std::function<void(graph::Node&, Program&)> spoil;
    } cases[] = {
        {"matmul: add reads r4, which is never written",
         [](auto&, Program& p) { p.code[0].in[0] = 4; }},
        {"matmul: a program of 1 inputs and 1 outputs for 2 and 1 values",
         [](auto&, Program& p) { p.n_in = 1; }},
        {"matmul: 3 parameters for 1",
         [](graph::Node& n, auto&) { n.attrs.resize(5, n.attrs[0]); }},
        {"matmul: relu gives bf16, but its value is f32",
         [](auto&, Program& p) { p.code[1].result = DType::bf16; }},
        {"matmul: an input is absent",
         [](graph::Node& n, auto&) { n.inputs[3] = graph::no_value; }},
        {"matmul: an input of shape (3, 5) for outputs of shape (4, 5)",
         [](graph::Node& n, auto&) { n.inputs[3] = 1; }},
        {"matmul: the program is too long", [](auto&, Program& p) { p.n_registers = 63; }},
    };
    for (const auto& c : cases) {
        Graph g = parse(R"(graph {
  %0 : f32[4, 3] = input
  %1 : f32[3, 5] = input
  %2 : f32[4, 5] = input
  %3 : f32[4, 5], %4 : f32[4, 5] = matmul(%0, %1, none, %2) [r2 = add(r1, r0) : f32; r3 = relu(r2) : f32]
  return %4
}
)");
        graph::verify(g);
        CHECK(graph::name_of(g, g.nodes[0]) == "matmul+add+relu");
        auto program = std::make_shared<Program>(*g.nodes[0].program);
        c.spoil(g.nodes[0], *program);
        g.nodes[0].program = program;
        test::check_error(__FILE__, __LINE__, Status::invalid_argument, c.part,
                          [&] { graph::verify(g); });
    }
}

// Spoils a write of exp(x[:4]): r1 = exp(r0).
void wrong_prologues() {
    using kernels::Program;
    const struct {
        const char* part;
        std::function<void(graph::Node&, Program&)> spoil;
    } cases[] = {
        {"view_write: exp reads r2, which is never written",
         [](auto&, Program& p) { p.code[0].in[0] = 2; }},
        {"view_write: 1 parameters for 0", [](graph::Node& n, auto&) { n.attrs.push_back({}); }},
        {"view_write: an input is absent",
         [](graph::Node& n, auto&) { n.inputs[1] = graph::no_value; }},
        {"view_write: an input of shape (8,) for outputs of shape (4,)",
         [](graph::Node& n, auto&) { n.inputs[1] = 0; }},
        {"view_write: a program of 1 inputs and 1 outputs for 1 and 0 values",
         [](graph::Node& n, auto&) { n.outputs.resize(1); }},
    };
    for (const auto& c : cases) {
        Graph g = parse(R"(graph {
  %0 : f32[8] = input overwritable
  %1 : f32[4] = view of %0 sizes (4,) strides (1,) offset 0
  %2 : f32[8], %3 : f32[4] = view_write(%0, %1) {strides = (1,), offset = 4} [r1 = exp(r0) : f32]
  return %2
}
)");
        graph::verify(g);
        CHECK(graph::name_of(g, g.nodes[0]) == "exp");
        auto program = std::make_shared<Program>(*g.nodes[0].program);
        c.spoil(g.nodes[0], *program);
        g.nodes[0].program = program;
        test::check_error(__FILE__, __LINE__, Status::invalid_argument, c.part, [&] {
            for (const graph::Node& node : g.nodes) graph::check_program(g, node);
        });
    }
}

// Programs are a part of the hash.
void hashes() {
    const auto of = [](const std::string& row, const std::string& code) {
        return parse("graph {\n  %0 : f32[4, 4] = input\n  %1 : f32[4, 4], %2 : f32[4, 4] = " +
                     row + "(%0, %0, %0) " + code + "\n  return %2\n}\n")
            .hash();
    };
    CHECK(of("matmul", "[r1 = relu(r0) : f32]") == of("matmul", "[r1 = relu(r0) : f32]"));
    CHECK(of("matmul", "[r1 = relu(r0) : f32]") != of("matmul", "[r1 = exp(r0) : f32]"));
    CHECK(of("matmul", "[r1 = relu(r0) : f32]") != of("addmm", "[r1 = relu(r0) : f32]"));
    const auto of_write = [](const std::string& code) {
        return parse(
                   "graph {\n  %0 : f32[8] = input\n  %1 : f32[8], %2 : f32[8] = view_write(%0, "
                   "%0) " +
                   code + "\n  return %1\n}\n")
            .hash();
    };
    const std::string whole = "{strides = (1,), offset = 0} ";
    CHECK(of_write(whole + "[r1 = relu(r0) : f32]") == of_write(whole + "[r1 = relu(r0) : f32]"));
    CHECK(of_write(whole + "[r1 = relu(r0) : f32]") != of_write(whole + "[r1 = exp(r0) : f32]"));
}

// A text with some characters exchanged is refused or is another graph; nothing else happens.
void damage(const std::string& text) {
    std::mt19937 random(1);
    int parsed = 0;
    for (int round = 0; round < 3000; ++round) {
        std::string damaged = text;
        for (size_t k = 0; k < 1 + random() % 2; ++k)
            damaged[random() % damaged.size()] = "%0(,)[]=;r12: \nx"[random() % 16];
        const std::string error = test::error_of([&] {
            const Graph other = parse(damaged);
            ++parsed;
            graph::verify(other);
            CHECK(print(parse(print(other))) == print(other));
        });
        CHECK(error.find('\n') == std::string::npos);
    }
    CHECK(parsed > 50 && parsed < 2900);
}

void damaged_texts() {
    for (const char* pass : {"fuse_maps", "fuse_writes", "fuse_epilogues"}) {
        std::string text;
        for (const Case& c : cases_of(pass))
            if (c.after.size() > text.size() && c.after.size() < 1500) text = c.after;
        damage(text);
    }
}

void bad_programs() {
    const auto in = [](const std::string& code, const std::string& left = "%1 : f32[4]") {
        return "graph {\n  %0 : f32[4] = input \"x\"\n  " + left + " = map(%0) [" + code + "]\n}\n";
    };
    const auto write = [](const std::string& left, const std::string& operands = "%0, %0") {
        return "graph {\n  %0 : f32[8] = input \"x\"\n  " + left + " = view_write(" + operands +
               ") {strides = (1,), offset = 0} [r1 = exp(r0) : f32]\n}\n";
    };
    std::string chain = "r1 = exp(r0) : f32";
    for (int k = 1; k < 33; ++k) chain += text_of("; r", k + 1, " = exp(r", k, ") : f32");
    std::string blocks = "graph {\n";
    std::string list;
    for (int k = 0; k < 16; ++k) {
        blocks += text_of("  %", k, " : f32[4] = input\n");
        list += text_of(k ? ", %" : "%", k);
    }
    blocks += "  %16 : f32[4] = map(" + list + ") [r16 = add(r0, r15) : f32]\n}\n";
    const struct {
        std::string text;
        const char* part;
    } cases[] = {
        {in("r1 = neg(r2) : f32"), "map: neg reads r2, which is never written"},
        {in("r1 = exp(r0) : f32; r2 = neg(r1) : f32", "%1 : f32[4], %2 : f32[4], %3 : f32[4]"),
         "map: output r3 is never written"},
        {in("r1 = exp(r64) : f32"), "line 3: no register r64"},
        {in("r1 = exp(r-1) : f32"), "line 3: no register r"},
        {in("r1 = exp(x0) : f32"), "line 3: no register x0"},
        {in("r1 = exp(r) : f32"), "line 3: no register r"},
        {in("r1 = epx(r0) : f32"), "line 3: no element-wise op epx"},
        {in("r1 = sum(r0) : f32"), "line 3: no element-wise op sum"},
        {in("r1 = add(r0) : f32"), "map: add takes 2 operands and gives 1"},
        {in("r1, r2 = exp(r0) : f32"), "map: exp takes 1 operands and gives 1"},
        {in("r1 = exp(r0) : f32; r1 = neg(r0) : f32"), "map: neg writes r1 a second time"},
        {in("r0 = exp(r0) : f32"), "map: exp writes r0, which is no register of its own"},
        {in(chain), "map: the program is too long"},
        {blocks, "map: the program is too long"},
        {in("r1 = exp(r0) : f99"), "line 3: no dtype f99"},
        {in("r1 = exp(r0) : bf16 in bf16"),
         "line 3: exp is computed in f32, f64 or i64, not in bf16"},
        {in("r1 = exp(r0) : f32 {alpha = 1}"), "line 3: exp has no attribute alpha"},
        {in("r1 = exp(r0)"), "line 3: expected ':'"},
        {in(""), "line 3: expected a word"},
        {in("r1 = exp(r0) : f32; r2 = neg(r0) : f32", "%1 : f32[4], %2 : f32[5]"),
         "map: outputs of several shapes"},
        {in("r1 = exp(r0) : f32", "%1 : f32[5]"),
         "map: an input of shape (4,) for outputs of shape (5,)"},
        {in("r1 = exp(r0) : f32", "%1 : f32[]"),
         "map: an input of shape (4,) for outputs of shape ()"},
        {in("r1 = exp(r0) : i64"), "map: exp is not computed in i64"},
        {in("r1 = exp(r0) : f32", "%1 : bf16[4]"), "map: exp gives f32, but its value is bf16"},
        {"graph {\n  %0 : f32[4] = map(none) [r1 = exp(r0) : f32]\n}\n",
         "map: no value %4294967295"},
        {"graph {\n  %0 : f32[4, 4] = input\n  %1 : f32[4] = sum(%0) [r1 = exp(r0) : f32]\n}\n",
         "line 3: sum takes no program"},
        {"graph {\n  %0 : f32[4, 4] = input\n  %1 : f32[4, 4] = matmul(%0, %0) [r1 = exp(r0) : "
         "f32]\n}\n",
         "matmul: a program of 1 inputs and 0 outputs for 1 and 0 values"},
        {"graph {\n  %0 : f32[4, 4] = input\n  matmul(%0, %0) [r1 = exp(r0) : f32]\n}\n",
         "line 3: matmul takes no program"},
        {write("%1 : f32[8]"), "view_write: no program can make 1 results with it"},
        {write("%1 : f32[8], %2 : f32[4], %3 : f32[4]"),
         "view_write: no program can make 3 results with it"},
        {write("%1 : f32[8], %2 : f32[9]"),
         "view_write: the view ends beyond the 8 elements of base (8,)"},
        {write("%1 : f32[8], %2 : f32[2, 2]"),
         "view_write: data (2, 2) and strides (1,) differ in rank"},
        {write("%1 : f32[8], %2 : bf16[4]"), "view_write: exp gives f32, but its value is bf16"},
        {write("%1 : f32[8], %2 : f32[4]", "none, %0"), "view_write: input base is missing"},
        {write("%1 : f32[8], %2 : f32[4]", "%0, none"), "view_write: no value %4294967295"},
        {write("%1 : f32[8], %2 : f32[4]", "%0"),
         "view_write: exp reads r0, which is never written"},
    };
    for (const auto& c : cases) {
        const std::string message = test::error_of([&] { parse(c.text); });
        if (message.find(c.part) == std::string::npos)
            test::report(__FILE__, __LINE__,
                         text_of("expected '", c.part, "', got '", message, "' for\n", c.text));
    }
}

}  // namespace
}  // namespace nntile

int main(int argc, char** argv) {
    nntile::texts(argc > 1 && std::string(argv[1]) == "write");
    nntile::wrong_graphs();
    nntile::wrong_programs();
    nntile::wrong_epilogues();
    nntile::wrong_prologues();
    nntile::hashes();
    nntile::bad_programs();
    nntile::damaged_texts();
    return nntile::test::result();
}
