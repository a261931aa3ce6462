// SPDX-License-Identifier: BSD-3-Clause
// Results in the memory of operands that nobody needs any more.
#include "../check.hh"
#include "lowered.hh"
#include "tile/text.hh"

namespace nntile {
namespace {

using tile::none;

// For each task of a kernel the operands whose memory its result takes: "0 -" for two tasks, of
// which the second takes none.
std::string taken(const std::string& text, const char* kernel) {
    const tile::TileGraph tiles = test::tiles_of(text);
    std::string found;
    for (const tile::Task& t : tiles.tasks) {
        if (t.kernel != kernels::find_kernel(kernel)) continue;
        const uint32_t from = tiles.tiles[t.operands.back().tile].reuses;
        std::string by = "-";
        for (size_t k = 0; k + 1 < t.operands.size(); ++k)
            if (from != none && t.operands[k].tile == from) by = std::to_string(k);
        found += (found.empty() ? "" : " ") + by;
    }
    return found;
}

// Softmax reads each element before it writes it, as a map does.
void rows() {
    const auto graph = [](const char* op, const char* returned) {
        return text_of("graph {\n  %0 : f32[rows=4, 6] = input\n  %1 : f32[rows, 6] = exp(%0)\n",
                       "  %2 : f32[rows, 6] = ", op, "\n  return ", returned,
                       "\n  cut rows (2, 2)\n}\n");
    };
    CHECK(taken(graph("softmax(%1) {dim = 1}", "%2"), "softmax") == "0 0");
    CHECK(taken(graph("softmax(%1) {dim = 1}", "%1, %2"), "softmax") == "- -");
    CHECK(taken(graph("softmax(%0) {dim = 1}", "%2"), "softmax") == "- -");
    CHECK(taken(graph("softmax_backward(%0, %1) {dim = 1}", "%2"), "softmax_backward") == "1 1");
    CHECK(taken(graph("softmax_backward(%1, %1) {dim = 1}", "%2"), "softmax_backward") == "- -");
}

// What other kernels read after their first write is not known.
void other_rows_have_their_own() {
    CHECK(taken("graph {\n  %0 : f32[4, 6] = input\n  %1 : f32[4, 6] = exp(%0)\n"
                "  %2 : f32[4, 6] = cumsum(%1) {dim = 1}\n  return %2\n}\n",
                "scan") == "-");
}

// An operand that a task puts together from tiles is its own.
void joined() {
    CHECK(taken("graph {\n  %0 : f32[rows=4, columns=6] = input\n"
                "  %1 : f32[rows, all=6] = softmax_backward(%0, %0) {dim = 1}\n"
                "  return %1\n  cut columns (3, 3)\n}\n",
                "softmax_backward") == "-");
    CHECK(taken("graph {\n  %0 : f32[rows=4, columns=6] = input\n  %1 : f32[4, 6] = input\n"
                "  %2 : f32[rows, all=6] = softmax_backward(%0, %1) {dim = 1}\n"
                "  return %2\n  cut columns (3, 3)\n}\n",
                "softmax_backward") == "0");
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::rows();
    nntile::other_rows_have_their_own();
    nntile::joined();
    return nntile::test::result();
}
