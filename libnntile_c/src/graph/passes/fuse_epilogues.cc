// SPDX-License-Identifier: BSD-3-Clause
// An element-wise node or program joins the last made of the products that it reads, as an
// epilogue. The node stands where the program stood, and is still the user's call of the product,
// which is most of its work. A result of the product that others read later
// stays one; else its memory is the first output's. A program that reads the result under other
// sizes, as that of a linear layer of three dims is read, gets the sizes of the product: its
// outputs become views, and so do its other operands.
#include <algorithm>

#include "graph/passes/fuse.hh"
#include "graph/program.hh"

namespace nntile::graph {

namespace {

class EpilogueFusion {
public:
    EpilogueFusion(Graph& graph, Readers& readers) : g_(graph), readers_(readers) {}

    bool fits(uint32_t product, uint32_t n) const {
        const Node& node = g_.nodes[n];
        const uint32_t result = g_.nodes[product].outputs[0], seen = seen_by(node, result);
        const Dims &own = g_.value(result).sizes, &sizes = g_.value(node.outputs[0]).sizes;
        if (g_.value(seen).sizes != sizes) return false;
        for (uint32_t v : node.inputs)  // another view of the result asks for other elements
            if (v != seen && g_.base_of(v) == result) return false;
        if (seen != result && !may_reshape(seen, own, node)) return false;
        // One block and two registers more, where parts of the result are joined first.
        const size_t registers =
            node.program ? node.program->n_registers : node.inputs.size() + node.outputs.size();
        return node.inputs.size() + node.outputs.size() + 1 <= kernels::max_map_blocks &&
               registers + 2 <= kernels::max_map_registers;
    }

    void fuse(uint32_t product, uint32_t n, Rewriter& rewriter) {
        Node fused = g_.nodes[product];
        Node& node = g_.nodes[n];
        const uint32_t result = fused.outputs[0], seen = seen_by(node, result);
        if (seen != result) reshape(node, seen, rewriter);
        append_program(fused, with_result_last(code_of(g_, node), result));
        fused.outputs.append(node.outputs.begin(), node.outputs.end());
        rewriter.erase(product);
        rewriter.replace(n, std::move(fused));
    }

private:
    // The operand that is the result, or a view of it.
    uint32_t seen_by(const Node& node, uint32_t result) const {
        return *std::find_if(node.inputs.begin(), node.inputs.end(),
                             [&](uint32_t v) { return g_.base_of(v) == result; });
    }

    bool may_reshape(uint32_t seen, const Dims& to, const Node& node) const {
        const Dims& sizes = g_.value(seen).sizes;
        if (!is_dense(g_.layout_of(seen)) || product(sizes) != product(to) || product(to) == 0)
            return false;
        for (uint32_t v : node.inputs) {
            if (fits(v, sizes, to)) continue;
            if (!reshaped(v, sizes, to) || (g_.base_of(v) != v && is_named(v))) return false;
        }
        for (uint32_t v : node.outputs) {
            if (readers_.is_output(v) || is_named(v)) return false;  // it owns its data
            for (uint32_t reader : readers_.of(v))
                if (g_.nodes[reader].row->rule == schema::Rule::write &&
                    g_.nodes[reader].inputs[0] == v)
                    return false;
        }
        return true;
    }

    // Cuts of a name reach the graph through the readers of the value, which a reshape takes away.
    bool is_named(uint32_t v) const {
        return std::any_of(g_.marks.begin(), g_.marks.end(),
                           [&](const AxisMark& m) { return m.value == v; });
    }

    // Broadcasts to both sizes alike, by the last dims that they have in common.
    bool fits(uint32_t v, const Dims& sizes, const Dims& to) const {
        size_t common = 0;
        while (common < std::min(sizes.size(), to.size()) &&
               sizes[sizes.size() - 1 - common] == to[to.size() - 1 - common])
            ++common;
        return g_.value(v).sizes.size() <= common;
    }

    // An operand that is broadcast to `sizes`, seen under the sizes `to`.
    std::optional<Layout> reshaped(uint32_t v, const Dims& sizes, const Dims& to) const {
        const Layout own = g_.layout_of(v);
        Layout all{sizes, Dims(sizes.size(), 0), own.offset};
        for (size_t d = 1; d <= own.sizes.size(); ++d)
            if (own.sizes[own.sizes.size() - d] > 1)
                all.strides[sizes.size() - d] = own.strides[own.sizes.size() - d];
        return viewed(all, to);
    }

    // A text has a view once, and none that is all of a value.
    uint32_t view_of(uint32_t base, const Layout& layout) {
        if (layout.sizes == g_.value(base).sizes && is_dense(layout)) return base;
        for (uint32_t v = 0; v < g_.values.size(); ++v)
            if (g_.base_of(v) == base && v != base && g_.layout_of(v) == layout) return v;
        return g_.add_view(base, layout);
    }

    // The node under the sizes of the product.
    void reshape(Node& node, uint32_t seen, Rewriter& rewriter) {
        const Dims sizes = g_.value(seen).sizes, to = g_.value(g_.base_of(seen)).sizes;
        for (uint32_t& v : node.inputs) {
            if (v == seen) v = g_.base_of(v);
            else if (!fits(v, sizes, to)) v = view_of(g_.base_of(v), *reshaped(v, sizes, to));
        }
        for (uint32_t& v : node.outputs) v = as_view(v, to, rewriter);
    }

    // A result becomes a view of one with other sizes, which is returned. Views of it that are all
    // of that go.
    uint32_t as_view(uint32_t old, const Dims& to, Rewriter& rewriter) {
        const auto made = static_cast<uint32_t>(g_.values.size());
        Value value = g_.value(old);
        g_.values[old].kind = ValueKind::view;
        g_.values[old].output = 0;
        g_.values[old].source = static_cast<uint32_t>(g_.views.size());
        for (View& view : g_.views)
            if (view.base == old) view.base = made;
        g_.views.push_back({made, Layout::dense(value.sizes)});
        value.sizes = to;
        g_.values.push_back(std::move(value));
        readers_.rename(old, made);
        for (uint32_t v = 0; v < made; ++v) {
            if (g_.base_of(v) != made || g_.layout_of(v) != Layout::dense(to)) continue;
            rewriter.move_marks(v, made);
            for (uint32_t reader : readers_.of(made))
                for (uint32_t& in : g_.nodes[reader].inputs)
                    if (in == v) in = made;
        }
        return made;
    }

    // The program whose last input register is the result, which is no input of the code.
    static Code with_result_last(Code code, uint32_t result) {
        std::vector<uint32_t> inputs;
        std::map<uint32_t, uint8_t> registers;  // by value
        for (uint32_t v : code.inputs)
            if (v != result && registers.emplace(v, static_cast<uint8_t>(registers.size())).second)
                inputs.push_back(v);
        registers.emplace(result, static_cast<uint8_t>(registers.size()));
        const auto n_in = static_cast<uint8_t>(registers.size());
        auto program = std::make_shared<kernels::Program>(*code.program);
        const auto shift = static_cast<uint8_t>(program->n_in - n_in);  // 0: an input comes once
        for (kernels::Instruction& i : program->code) {
            for (uint8_t& r : i.in)
                r = r < program->n_in ? registers.at(code.inputs[r]) : r - shift;
            for (uint8_t& r : i.out) r -= shift;
        }
        program->n_registers -= shift;
        program->n_in = n_in;
        return {std::move(program), std::move(inputs), std::move(code.attrs)};
    }

    Graph& g_;
    Readers& readers_;
};

}  // namespace

extern const Fusion epilogue_fusion{
    "fuse_epilogues",
    2,
    Spoilt::by_taking,
    true,
    [](const Graph& g, const Node& node) {
        return node.row == &program_row() || may_be_instruction(g, node);
    },
    [](const Graph&, const Node& node) { return node.row->epilogue && !node.program; },
    [](Graph& g, Readers& readers, const Group& group) {
        return EpilogueFusion(g, readers).fits(group[0], group[1]);
    },
    [](Graph& g, Readers& readers, const Group& group, Rewriter& rewriter) {
        EpilogueFusion(g, readers).fuse(group[0], group[1], rewriter);
    },
};

}  // namespace nntile::graph
