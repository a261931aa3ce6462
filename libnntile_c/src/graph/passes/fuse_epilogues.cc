// SPDX-License-Identifier: BSD-3-Clause
// An element-wise node or program joins the last made of the products that it reads, as an
// epilogue. The node stands where the program stood. A result of the product that others read later
// stays one; else its memory is the first output's. A program that reads the result under other
// sizes, as that of a linear layer of three dims is read, gets the sizes of the product: its
// outputs become views, and so do its other operands.
#include <algorithm>

#include "base/settings.hh"
#include "graph/passes/passes.hh"
#include "graph/passes/readers.hh"
#include "graph/passes/rewrite.hh"
#include "graph/program.hh"

namespace nntile::graph {

namespace {

class EpilogueFusion {
public:
    explicit EpilogueFusion(Graph& graph) : g_(graph), readers_(graph) {}

    void run() {
        Rewriter rewriter(g_);
        bool any = false;
        for (uint32_t n = 0; n < g_.nodes.size(); ++n) {
            const Node& node = g_.nodes[n];
            if (node.row != &program_row() && !may_be_instruction(g_, node)) continue;
            const uint32_t seen = result_of(n);
            if (seen == no_value) continue;
            fuse(seen, n, rewriter);
            any = true;
        }
        if (any) rewriter.finish();
    }

private:
    // The operand of node n that is the result of the product whose epilogue n becomes; no_value:
    // none.
    uint32_t result_of(uint32_t n) const {
        uint32_t found = no_value, last = 0;
        for (uint32_t v : g_.nodes[n].inputs) {
            const Value& base = g_.value(g_.base_of(v));
            if (base.kind != ValueKind::result || (found != no_value && base.source <= last))
                continue;
            if (!may_join(v, n)) continue;
            found = v;
            last = base.source;
        }
        return found;
    }

    bool may_join(uint32_t seen, uint32_t n) const {
        const uint32_t result = g_.base_of(seen), product = g_.value(result).source;
        const Node &maker = g_.nodes[product], &node = g_.nodes[n];
        if (!maker.row->epilogue || maker.program) return false;
        const Dims &own = g_.value(result).sizes, &sizes = g_.value(node.outputs[0]).sizes;
        if (g_.value(seen).sizes != sizes) return false;
        for (uint32_t v : node.inputs)  // another view of the result asks for other elements
            if (v != seen && g_.base_of(v) == result) return false;
        if (seen != result && !may_reshape(seen, own, node)) return false;
        // One block and two registers more, where parts of the result are joined first.
        if (node.inputs.size() + node.outputs.size() + 1 > kernels::max_map_blocks) return false;
        const size_t registers =
            node.program ? node.program->n_registers : node.inputs.size() + node.outputs.size();
        if (registers + 2 > kernels::max_map_registers) return false;
        const uint32_t both[] = {product, n};
        return readers_.may_wait(both);
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

    void fuse(uint32_t seen, uint32_t n, Rewriter& rewriter) {
        const uint32_t result = g_.base_of(seen), product = g_.value(result).source;
        Node fused = g_.nodes[product];
        Node& node = g_.nodes[n];
        if (seen != result) reshape(node, seen, rewriter);
        fused.where = node.where;
        append_program(fused, with_result_last(code_of(g_, node), result));
        fused.outputs.append(node.outputs.begin(), node.outputs.end());
        rewriter.erase(product);
        rewriter.replace(n, std::move(fused));
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
    Readers readers_;
};

}  // namespace

void fuse_epilogues(Graph& graph) {
    if (settings().fuse && graph.nodes.size() > 1) EpilogueFusion(graph).run();
}

}  // namespace nntile::graph
