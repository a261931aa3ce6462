// SPDX-License-Identifier: BSD-3-Clause
// Lowering of writes: where a program computes its result in place, and where it makes it first.
#include "../check.hh"
#include "graph/passes/passes.hh"
#include "graph/text.hh"
#include "tile/lower.hh"
#include "tile/text.hh"

namespace nntile {
namespace {

using tile::Access;
using tile::none;
using tile::Task;

struct Lines {
    const char* title;
    const char* graph;
    size_t tasks, copies;
};

tile::Lowered lowered(const char* text) {
    graph::NamedCuts cuts;
    const graph::Graph g = graph::parse(text, &cuts);
    graph::verify(g);
    tile::Lowered l = tile::lower(g, tile::choose_tiling(g, cuts));
    CHECK(print(tile::parse(print(l.tiles))) == print(l.tiles));
    return l;
}

// Columns 1 and 2 of y, which is cut in rows: each task writes a block of its tile of y.
void in_place() {
    const tile::Lowered l = lowered(R"(graph {
  %0 : f32[rows=4, 6] = input overwritable
  %1 : f32[rows, 2]   = view of %0 sizes (4, 2) strides (6, 1) offset 1
  %2 : f32[4, 6], %3 : f32[rows, 2] = view_write(%0, %1) {strides = (6, 1), offset = 1} [r1 = exp(r0) : f32]
  return %2
  cut rows (2, 2)
}
)");
    CHECK(l.tiles.tasks.size() == 2 && l.copies == 0 && l.tiles.tiles.size() == 4);
    for (const Task& t : l.tiles.tasks) {
        const tile::Operand &x = t.operands.at(0), &y = t.operands.at(1);
        CHECK(y.access == Access::read_write && y.offset == 1);
        CHECK(l.tiles.tiles[y.tile].reuses == x.tile);
    }
}

// A program that is a copy runs the kernel that moves bytes, one that converts does not.
void copies() {
    for (const bool converts : {false, true}) {
        const std::string from = converts ? "f64" : "f32";
        const tile::Lowered l =
            lowered(("graph {\n  %0 : f32[8] = input overwritable\n  %1 : " + from +
                     "[4] = input\n  %2 : f32[8], %3 : f32[4] = view_write(%0, %1) {strides = "
                     "(1,), offset = 4} [r1 = cast(r0) : f32]\n  return %2\n}\n")
                        .c_str());
        CHECK(l.tiles.tasks.size() == 1 && l.copies == 0);
        CHECK(l.tiles.tasks[0].kernel == kernels::find_kernel(converts ? "map" : "copy"));
        CHECK(!l.tiles.tasks[0].program == !converts);
    }
}

// What no place in the base can be computed in makes its result, which is then copied.
void made_first() {
    const Lines cases[] = {
        {"the base stays", R"(graph {
  %0 : f32[8] = input
  %1 : f32[4] = input
  %2 : f32[8], %3 : f32[4] = view_write(%0, %1) {strides = (1,), offset = 4} [r1 = exp(r0) : f32]
  return %2
}
)",
         3, 2},
        {"the part overlaps itself", R"(graph {
  %0 : f32[8] = input overwritable
  %1 : f32[2, 2] = input
  %2 : f32[8], %3 : f32[2, 2] = view_write(%0, %1) {strides = (1, 1), offset = 4} [r1 = exp(r0) : f32]
  return %2
}
)",
         2, 1},
        {"it reads elements that it writes elsewhere", R"(graph {
  %0 : f32[8] = input overwritable
  %1 : f32[4] = view of %0 sizes (4,) strides (1,) offset 1
  %2 : f32[8], %3 : f32[4] = view_write(%0, %1) {strides = (1,), offset = 0} [r1 = exp(r0) : f32]
  return %2
}
)",
         2, 1},
        {"another dtype", R"(graph {
  %0 : bf16[8] = input overwritable
  %1 : f32[4] = input
  %2 : bf16[8], %3 : f32[4] = view_write(%0, %1) {strides = (1,), offset = 0} [r1 = exp(r0) : f32]
  return %2
}
)",
         2, 1},
        {"the tiles do not line up", R"(graph {
  %0 : f32[all=8] = input overwritable
  %1 : f32[part=4] = input
  %2 : f32[all], %3 : f32[part] = view_write(%0, %1) {strides = (1,), offset = 2} [r1 = exp(r0) : f32]
  return %2
  cut all (4, 4)
  cut part (1, 3)
}
)",
         5, 3},
    };
    for (const Lines& c : cases) {
        const tile::Lowered l = lowered(c.graph);
        if (l.tiles.tasks.size() == c.tasks && l.copies == c.copies) continue;
        test::report(__FILE__, __LINE__,
                     text_of(c.title, ": ", l.copies, " copies in\n", print(l.tiles)));
    }
}

// What is put together for the answer whether a node writes in place is known to the tasks, too.
void gathered_for_a_place() {
    std::string graph = "graph {\n  %0 : bool[cut=3, 4, 2] = input stored [3, 4, 2]\n";
    graph +=
        "  %1 : bool[2, 3, 4] = view of %0 sizes (2, 3, 4) strides (1, 8, 2) offset 0\n"
        "  %2 : i64[3] = input stored [3]\n"
        "  %3 : bool[2, 3, 4] = index(%1, %2) {dims = (1,), wrap = 1}\n"
        "  %4 : bool[4, 3, 2] = empty() {sizes = (4, 3, 2)}\n"
        "  %5 : bool[4, 3, 2] = view_write(%4, %3) {strides = (1, 2, 6), offset = 0}\n"
        "  return %5\n  cut cut (1, 1, 1)\n}\n";
    CHECK(lowered(graph.c_str()).tiles.tasks.size() > 3);  // reads no tile behind the list's end
}

// Parts of the same rows are one task; what overlaps, or reads what is written, is a task by
// itself.
void parts_of_rows() {
    const auto kernels_of = [](const char* first, const char* second, bool reads,
                               const char* from = "(3, 1)") {
        std::string text;
        const std::string graph = text_of(
            "graph {\n  %0 : f32[4, 6] = input overwritable\n  %1 : f32[4, 6] = input\n",
            "  %2 : f32[4, 3] = view of %1 sizes (4, 3) strides ", from, " offset 0\n",
            "  %3 : f32[4, 3] = input\n  %4 : f32[4, 6] = view_write(%0, %2) {strides = ", first,
            "}\n", "  %5 : f32[4, 3] = view of %4 sizes (4, 3) strides (6, 1) offset 0\n",
            "  %6 : f32[4, 6] = view_write(%4, ", reads ? "%5" : "%3", ") {strides = ", second,
            "}\n  return %6\n}\n");
        for (const Task& t : lowered(graph.c_str()).tiles.tasks)
            text += text_of(t.kernel->name, " ");
        return text;
    };
    const char *left = "(6, 1), offset = 0", *right = "(6, 1), offset = 3";
    CHECK(kernels_of(left, right, false) == "copies ");
    CHECK(kernels_of(right, left, false) == "copies ");
    CHECK(kernels_of("(6, 2), offset = 0", "(6, 2), offset = 1", false) == "copies ");
    CHECK(kernels_of(left, "(6, 1), offset = 2", false) == "copy copy ");
    CHECK(kernels_of("(6, 2), offset = 0", "(6, 2), offset = 0", false) == "copy copy ");
    // Of which no dim is read well
    CHECK(kernels_of(left, right, false, "(6, 2)") == "copy copy ");
    CHECK(kernels_of(left, right, false, "(1, 4)") == "copies ");  // turned
    CHECK(kernels_of(left, right, true) == "copy copy copy ");     // the base is kept as it was
}

// %1 is %0 transposed: the result may not take the memory of the base, which is read when it is put
// there.
void the_base_is_read_last() {
    const tile::Lowered l = lowered(R"(graph {
  %0 : f32[3, 3] = input overwritable
  %1 : f32[3, 3], %2 : f32[3, 3] = view_write(%0, %0) {strides = (1, 3), offset = 0} [r1 = exp(r0) : f32]
  return %1
}
)");
    const Task& made = l.tiles.tasks.at(0);
    CHECK(l.tiles.tasks.size() == 2 && made.operands[0].tile != made.operands[1].tile);
    CHECK(l.tiles.tiles[made.operands[1].tile].reuses == none);
}

// The result of an op that is no program, as a permuted tensor's: made where it lies, if that is
// new memory and nobody else reads it as it is.
void rows_in_their_order() {
    const auto copies_of = [](const char* base, const char* returned) {
        const tile::Lowered l =
            lowered(text_of("graph {\n  %0 : f32[rows=4, 6] = input\n",
                            "  %1 : f32[rows, 6] = softmax(%0) {dim = 1}\n  %2 : ", base, "\n",
                            "  %3 : f32[6, rows] = view_write(%2, %1) {strides = (1, 4), ",
                            "offset = 0}\n  return ", returned, "\n  cut rows (2, 2)\n}\n")
                        .c_str());
        size_t copies = 0;
        for (const Task& t : l.tiles.tasks) {
            copies += t.kernel == kernels::find_kernel("copy");
            CHECK(t.node == 0 || t.kernel == kernels::find_kernel("copy"));
        }
        return copies;
    };
    const char *fresh = "f32[6, rows=4] = empty() {sizes = (6, 4)}",
               *given = "f32[6, rows=4] = input overwritable";
    CHECK(copies_of(fresh, "%3") == 0);
    CHECK(copies_of(fresh, "%1, %3") == 2);
    CHECK(copies_of(given, "%3") == 2);
    // Rows are whole in a task, also where the result is cut along them: made, then copied.
    const tile::Lowered l = lowered(R"(graph {
  %0 : f32[4, columns=6] = input
  %1 : f32[4, columns]   = softmax(%0) {dim = 1}
  %2 : f32[columns, 4]   = empty() {sizes = (6, 4)}
  %3 : f32[columns, 4]   = view_write(%2, %1) {strides = (1, 4), offset = 0}
  return %3
  cut columns (3, 3)
}
)");
    for (const Task& t : l.tiles.tasks)
        CHECK(t.kernel == kernels::find_kernel("copy") || t.operands.back().strides.back() == 1);
    CHECK(l.tiles.tiles[l.tiles.tasks.at(0).operands.back().tile].bytes == 4 * 6 * 4);
}

// An index counts the elements of the program, not those of the base.
void index() {
    const tile::Lowered l = lowered(R"(graph {
  %0 : f32[rows=4, 3] = input overwritable
  %1 : f32[] = scalar 5
  %2 : f32[4, 3], %3 : f32[rows, 1] = view_write(%0, %1, %1) {strides = (3, 1), offset = 2} [r2 = arange(r0, r1) : f32]
  return %2
  cut rows (1, 3)
}
)");
    CHECK(l.tiles.tasks.size() == 2);
    const Task& second = l.tiles.tasks.at(1);
    CHECK(second.index_offset == 1 && second.index_strides == Dims{1} &&
          second.operands.back().offset == 2);
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::in_place();
    nntile::copies();
    nntile::made_first();
    nntile::gathered_for_a_place();
    nntile::parts_of_rows();
    nntile::the_base_is_read_last();
    nntile::rows_in_their_order();
    nntile::index();
    return nntile::test::result();
}
