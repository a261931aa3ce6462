// SPDX-License-Identifier: BSD-3-Clause
#include <unordered_map>

#include "base/shape.hh"
#include "base/text.hh"
#include "tile/text.hh"

namespace nntile::tile {
namespace {

class Parser {
public:
    explicit Parser(std::string_view text) : s_("tile text", text) {}

    TileGraph tiles() {
        s_.skip_lines();
        skip_other_stages();
        s_.expect("tiles");
        s_.expect("{");
        s_.end_line();
        while (!s_.accept("}")) {
            if (s_.accept("in")) operand(Access::read);
            else if (s_.accept("out")) operand(Access::write);
            else if (s_.accept("inout")) operand(Access::read_write);
            else statement();
            s_.end_line();
        }
        s_.end_line();
        skip_other_stages();
        if (!s_.at_end()) s_.fail("there is more text after the tiles");
        resolve_reuses();
        return std::move(g_);
    }

private:
    void skip_other_stages() {
        while (s_.accept("axes") || s_.accept("plan")) s_.skip_block();
    }

    // "n0 : matmul", "t0 : gemm ..", "%0[1] : 64 bytes", "tmp3 : 64 bytes"
    void statement() {
        if (s_.at('%')) return tile();
        const std::string word = s_.word();
        if (word.starts_with("tmp")) return tile(word);
        if (word == "n" + std::to_string(g_.op_names.size())) return node();
        if (word == "t" + std::to_string(g_.tasks.size())) return task();
        s_.fail("expected n", g_.op_names.size(), ", t", g_.tasks.size(), " or a tile, got '", word,
                "'");
    }

    void node() {
        s_.expect(":");
        g_.op_names.push_back(s_.word_or_string());
        g_.places.push_back(place_of(s_.comment()));
    }

    std::string tile_name(Tile& tile) {
        s_.expect("%");
        tile.value = s_.number();
        s_.expect("[");
        tile.index = s_.number();
        s_.expect("]");
        std::string name = text_of("%", tile.value, "[", tile.index, "]");
        while (s_.accept("'")) name += '\'';
        return name;
    }
    std::string tile_name() {
        Tile unused;
        return s_.at('%') ? tile_name(unused) : s_.word();
    }

    void tile(std::string temporary = {}) {
        Tile t;
        const std::string name = temporary.empty() ? tile_name(t) : std::move(temporary);
        s_.expect(":");
        t.bytes = s_.integer();
        if (t.bytes < 0) s_.fail("a tile of ", t.bytes, " bytes");
        s_.expect("bytes");
        if (s_.accept("input")) t.role = TileRole::input;
        else if (s_.accept("output")) t.role = TileRole::output;
        if (!numbers_.emplace(name, static_cast<uint32_t>(g_.tiles.size())).second)
            s_.fail("there is a tile ", name, " already");
        reuses_.push_back(s_.accept("reuses") ? tile_name() : "");
        g_.tiles.push_back(t);
    }

    uint32_t number_of(const std::string& name) {
        const auto at = numbers_.find(name);
        if (at == numbers_.end()) s_.fail("no tile ", name);
        return at->second;
    }

    // At the end: a tile may reuse one that comes later. Every chain must end.
    void resolve_reuses() {
        for (size_t k = 0; k < reuses_.size(); ++k)
            if (!reuses_[k].empty()) g_.tiles[k].reuses = number_of(reuses_[k]);
        for (uint32_t k = 0; k < g_.tiles.size(); ++k) {
            uint32_t t = k;
            for (size_t steps = 0; t != none; t = g_.tiles[t].reuses)
                if (++steps > g_.tiles.size()) s_.fail("tiles reuse each other in a circle");
        }
    }

    void task() {
        Task t;
        s_.expect(":");
        if (s_.accept("host")) {
            t.host_call = static_cast<int32_t>(s_.number());
            t.effect = s_.accept("effect");
        } else {
            const std::string name = s_.word();
            t.kernel = kernels::find_kernel(name);
            if (!t.kernel) s_.fail("no kernel ", name);
            if (s_.accept("{")) t.program = program();
        }
        t.sizes = s_.dims();
        if (s_.accept("params")) params(t.params);
        if (s_.accept("index")) {
            t.index_offset = s_.integer();
            t.index_strides = s_.dims();
        }
        if (s_.accept("node")) {
            t.node = s_.number();
            if (t.node >= g_.op_names.size()) s_.fail("no node n", t.node);
        }
        s_.expect("flops");
        t.flops = s_.real();
        s_.expect("bytes");
        t.bytes = s_.real();
        g_.tasks.push_back(std::move(t));
    }

    std::shared_ptr<const kernels::Program> program() {
        auto program = std::make_shared<kernels::Program>();
        do {
            const std::string name = s_.word();
            const int primitive = kernels::find_map(name);
            if (primitive < 0) s_.fail("no element-wise op ", name);
            program->code.emplace_back().primitive = static_cast<uint16_t>(primitive);
        } while (s_.accept(","));
        s_.expect("}");
        return program;
    }

    void params(std::vector<ParamRef>& out) {
        s_.expect("(");
        while (!s_.accept(")")) {
            ParamRef p;
            if (s_.accept("@")) p.scalar = s_.number();
            else p.fixed.i = s_.integer();
            out.push_back(p);
            if (!s_.at(')')) s_.expect(",");
        }
    }

    void operand(Access access) {
        if (g_.tasks.empty()) s_.fail("an operand before any task");
        Operand o;
        o.access = access;
        const std::string type = s_.word();
        const auto dtype = dtype_of(type);
        if (!dtype) s_.fail("no dtype ", type);
        o.dtype = *dtype;
        if (!s_.accept("none")) o.tile = number_of(tile_name());
        if (s_.accept("+")) {
            o.offset = s_.integer();
            o.strides = s_.dims();
        }
        g_.tasks.back().operands.push_back(std::move(o));
    }

    Scanner s_;
    TileGraph g_;
    std::unordered_map<std::string, uint32_t> numbers_;
    std::vector<std::string> reuses_;  // by tile; "" for none
};

}  // namespace

TileGraph parse(std::string_view text) { return Parser(text).tiles(); }

}  // namespace nntile::tile
