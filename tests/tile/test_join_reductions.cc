// SPDX-License-Identifier: BSD-3-Clause
// A program and the reduction that alone reads its result are one task, where that is possible.
#include "../check.hh"
#include "lowered.hh"

namespace nntile {
namespace {

// The kernels of all tasks, "map map_reduce".
std::string kernels_of(const std::string& text) {
    const tile::TileGraph tiles = test::tiles_of(text);
    std::string found;
    for (const tile::Task& t : tiles.tasks) {
        found += (found.empty() ? "" : " ") + std::string(t.kernel->name);
        if (found.ends_with("map_reduce")) CHECK(tiles.op_names[t.node].starts_with("mul+"));
    }
    return found;
}

// `made` of %0 and %1 is %2, `read` of it %3.
std::string graph(const char* made, const char* read, const char* returned, const char* cut = "",
                  const char* input = "f32[rows=4, columns=6]") {
    return text_of("graph {\n  %0 : ", input, " = input\n  %1 : ", input, " = input\n  %2 : ", made,
                   "\n  %3 : ", read, "\n  return ", returned, "\n", cut, "}\n");
}

constexpr const char* product = "f32[rows, columns] = mul(%0, %1)";

void one_task() {
    CHECK(kernels_of(graph(product, "f32[rows] = sum(%2) {dims = (1)}", "%3")) == "map_reduce");
    CHECK(kernels_of(graph(product, "f32[] = sum(%2)", "%3")) == "map_reduce");
    CHECK(kernels_of(graph(product, "f32[1, 1] = amax(%2) {keepdim = 1}", "%3")) == "map_reduce");
    CHECK(kernels_of(graph(product, "f32[rows] = sum(%2) {dims = (1)}", "%3",
                           "  cut rows (2, 2)\n")) == "map_reduce map_reduce");
    // Parts of a total: the second is added to the first, or joined with it.
    const std::string parts =
        kernels_of(graph(product, "f32[] = sum(%2)", "%3", "  cut rows (1, 1, 1, 1)\n"));
    CHECK(parts.starts_with("map_reduce map_reduce map_reduce map_reduce"));
}

void two_tasks() {
    // Somebody else reads it
    CHECK(kernels_of(graph(product, "f32[rows] = sum(%2) {dims = (1)}", "%2, %3")) == "map reduce");
    // Rows are summed, in whose order each column is added to.
    CHECK(kernels_of(graph(product, "f32[columns] = sum(%2) {dims = (0)}", "%3")) == "map reduce");
    // It may fail, and its name is in the message
    CHECK(kernels_of(graph("i64[rows, columns] = remainder(%0, %1)", "i64[] = sum(%2)", "%3", "",
                           "i64[rows=4, columns=6]")) == "map reduce");
    CHECK(kernels_of("graph {\n  %0 : f32[4, 6] = input\n  %1 : f32[4, 6] = exp(%0)\n"
                     "  %2 : f32[4, 3] = view of %1 sizes (4, 3) strides (6, 2) offset 0\n"
                     "  %3 : f32[] = sum(%2)\n  return %3\n}\n") == "map reduce");
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::one_task();
    nntile::two_tasks();
    return nntile::test::result();
}
