// SPDX-License-Identifier: BSD-3-Clause
// Tile graphs as text: what is printed parses back, and bad texts are refused with their line.
#include <random>

#include "../check.hh"
#include "tile/text.hh"

namespace nntile {
namespace {

using tile::Access;
using tile::none;
using tile::Operand;
using tile::parse;
using tile::print;
using tile::TileGraph;
using tile::TileRole;

Operand operand(uint32_t tile, Access access, DType dtype, int64_t offset, Dims strides) {
    Operand o;
    o.tile = tile;
    o.access = access;
    o.dtype = dtype;
    o.offset = offset;
    o.strides = strides;
    return o;
}

// Every feature once: absent operands, a value with two grids, in-place reuse, chains, scalars,
// host functions.
TileGraph example() {
    TileGraph g;
    g.op_names = {"matmul", "aten::foo"};
    g.places = {place_of("model.py:14"), 0};
    g.tiles = {{0, 0, 401408, TileRole::input, none},
               {1, 0, 802816, TileRole::input, none},
               {none, 0, 65536, TileRole::temporary, none},
               {4, 1, 65536, TileRole::output, 2},
               {0, 0, 200704, TileRole::output, none}};
    tile::Task gemm;
    gemm.kernel = kernels::find_kernel("gemm");
    gemm.sizes = {64, 256, 784};
    gemm.operands = {operand(0, Access::read, DType::f32, 0, {784, 0, 1}),
                     operand(1, Access::read, DType::f32, 50176, {0, 784, 1}),
                     operand(none, Access::read, DType::none, 0, {}),
                     operand(2, Access::write, DType::f32, 0, {256, 1, 0})};
    gemm.params = {{{}, 3}, {{.i = -1}}};
    gemm.node = 0;
    gemm.flops = 25690112;
    gemm.bytes = 950272.5;
    tile::Task map;
    map.kernel = kernels::find_kernel("map");
    map.sizes = {16384};
    auto program = std::make_shared<kernels::Program>();
    for (const char* name : {"add", "gelu"})
        program->code.emplace_back().primitive = static_cast<uint16_t>(kernels::find_map(name));
    map.program = program;
    map.operands = {operand(2, Access::read, DType::f32, 0, {1}),
                    operand(3, Access::read_write, DType::bf16, 7, {1})};
    map.index_offset = 128;
    map.index_strides = {784};
    tile::Task host;
    host.host_call = 0;
    host.node = 1;
    host.operands = {operand(3, Access::read, DType::bf16, 0, {1}),
                     operand(4, Access::write, DType::i64, 0, {})};
    g.tasks = {gemm, map, host};
    return g;
}

constexpr const char* example_text = R"(tiles {
  n0 : matmul  # model.py:14
  n1 : "aten::foo"
  %0[0]  : 401408 bytes input
  %1[0]  : 802816 bytes input
  tmp2   : 65536 bytes
  %4[1]  : 65536 bytes output reuses tmp2
  %0[0]' : 200704 bytes output
  t0 : gemm (64, 256, 784) params (@3, -1) node 0 flops 25690112 bytes 950272.5
    in    f32 %0[0]  +0 (784, 0, 1)
    in    f32 %1[0]  +50176 (0, 784, 1)
    in    none none
    out   f32 tmp2   +0 (256, 1, 0)
  t1 : map {add, gelu} (16384,) index 128 (784,) flops 0 bytes 0
    in    f32 tmp2   +0 (1,)
    inout bf16 %4[1]  +7 (1,)
  t2 : host 0 () node 1 flops 0 bytes 0
    in    bf16 %4[1]  +0 (1,)
    out   i64 %0[0]' +0 ()
}
)";

void round_trip() {
    const TileGraph g = example();
    const std::string text = print(g);
    if (text != example_text) test::report(__FILE__, __LINE__, "the form changed:\n" + text);
    const TileGraph again = parse(text);
    CHECK(print(again) == text);
    CHECK(again.edges() == g.edges());
    CHECK(again.tasks[0].kernel == g.tasks[0].kernel && again.tasks[2].kernel == nullptr);
    CHECK(again.tiles[3].reuses == 2 && again.tiles[4].value == 0);
    // The text of all stages, as the C ABI prints it.
    CHECK(print(parse("axes {\n  batch = 128 cut (64, 64)\n}\n" + text + "plan { 3 tasks }\n")) ==
          text);
    CHECK(print(parse("tiles {\n}\n")) == print(TileGraph()));
}

void bad_texts() {
    const auto in = [](const std::string& lines) {
        return "tiles {\n  %0[0] : 64 bytes\n" + lines + "}\n";
    };
    const struct {
        std::string text;
        const char* part;
    } cases[] = {
        {"", "line 1: expected 'tiles'"},
        {"axes {", "line 1: a '}' is missing"},
        {in("  %0[0] : 64 bytes\n"), "line 3: there is a tile %0[0] already"},
        {in("  %0[1] : -64 bytes\n"), "line 3: a tile of -64 bytes"},
        {in("  %0[1] : 64 bytes reuses %0[2]\n"), "no tile %0[2]"},
        {in("  tmp1 : 64 bytes reuses tmp2\n  tmp2 : 64 bytes reuses tmp1\n"),
         "reuse each other in a circle"},
        {in("  t1 : copy (4,) flops 0 bytes 0\n"), "line 3: expected n0, t0 or a tile, got 't1'"},
        {in("  t0 : nokernel (4,) flops 0 bytes 0\n"), "line 3: no kernel nokernel"},
        {in("  t0 : map {nomap} (4,) flops 0 bytes 0\n"), "line 3: no element-wise op nomap"},
        {in("  t0 : copy (4,) node 0 flops 0 bytes 0\n"), "line 3: no node n0"},
        {in("  t0 : copy (4,)\n"), "line 3: expected 'flops', got the end of the line"},
        {in("  in f32 %0[0] +0 (1,)\n"), "line 3: an operand before any task"},
        {in("  t0 : copy (4,) flops 0 bytes 0\n  in f32 %0[1] +0 (1,)\n"), "line 4: no tile %0[1]"},
    };
    for (const auto& c : cases) {
        const std::string message = test::error_of([&] { parse(c.text); });
        if (message.find(c.part) == std::string::npos)
            test::report(__FILE__, __LINE__,
                         text_of("expected '", c.part, "', got '", message, "' for\n", c.text));
    }
}

void damaged_texts() {
    std::mt19937 random(1);
    int parsed = 0;
    for (int round = 0; round < 2000; ++round) {
        std::string damaged = example_text;
        damaged[random() % damaged.size()] = "%0(,)[]t\"9- \nx"[random() % 14];
        const std::string error = test::error_of([&] {
            const TileGraph g = parse(damaged);
            ++parsed;
            g.edges();
            CHECK(print(parse(print(g))) == print(g));
        });
        CHECK(error.find('\n') == std::string::npos);
    }
    CHECK(parsed > 100 && parsed < 1900);
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::round_trip();
    nntile::bad_texts();
    nntile::damaged_texts();
    return nntile::test::result();
}
