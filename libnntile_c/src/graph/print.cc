// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <map>

#include "base/text.hh"
#include "graph/program.hh"
#include "graph/text.hh"

namespace nntile::graph {
namespace {

using schema::AttrKind;

struct Line {
    std::string left, right, comment;  // "%3 : f32[4]", "gelu(%2)", "model.py:14"
};

class Printer {
public:
    explicit Printer(const Graph& graph) : g_(graph) {}

    std::vector<Line> lines() {
        size_t node = 0;
        std::vector<Line> out;
        for (uint32_t v = 0; v < g_.values.size(); ++v) {
            const Value& value = g_.values[v];
            if (value.kind != ValueKind::result) {
                out.push_back({typed(v), right_of(value), {}});
            } else if (value.output == 0) {
                while (node <= value.source) out.push_back(line_of(g_.nodes[node++]));
            }
        }
        while (node < g_.nodes.size()) out.push_back(line_of(g_.nodes[node++]));
        return out;
    }

private:
    std::string typed(uint32_t v) {  // "%3 : f32[batch=128, hidden]"
        std::string dims;
        const Dims& sizes = g_.values[v].sizes;
        for (uint32_t d = 0; d < sizes.size(); ++d) {
            const auto mark =
                std::find_if(g_.marks.begin(), g_.marks.end(),
                             [&](const AxisMark& m) { return m.value == v && m.dim == d; });
            dims += d ? ", " : "";
            dims += mark == g_.marks.end() ? std::to_string(sizes[d]) : named(mark->name, sizes[d]);
        }
        return text_of("%", v, " : ", name_of(g_.values[v].dtype), "[", dims, "]");
    }

    // The extent stands where a name is new or has another extent than before.
    std::string named(const std::string& name, int64_t extent) {
        const auto [at, fresh] = extents_.try_emplace(name, extent);
        if (!fresh && at->second == extent) return word_or_quoted(name);
        at->second = extent;
        return word_or_quoted(name) + "=" + std::to_string(extent);
    }

    // Slots are counted in the order of the text; one that is not its turn is written.
    std::string scalar_text(uint32_t scalar) {
        const std::string text = scalar == next_scalar_ ? "" : " @" + std::to_string(scalar);
        next_scalar_ = std::max(next_scalar_, scalar + 1);
        return text;
    }

    std::string number_text(const kernels::Param& p, bool real, uint32_t scalar) {
        return (real ? text_of_real(p.f) : std::to_string(p.i)) + scalar_text(scalar);
    }

    std::string right_of(const Value& value) {
        if (value.kind == ValueKind::scalar)
            return "scalar " +
                   number_text(g_.scalars[value.source], is_floating(value.dtype), value.source);
        if (value.kind == ValueKind::view) {
            const View& view = g_.views[value.source];
            return text_of("view of %", view.base, " sizes ", text_of_dims(view.layout.sizes),
                           " strides ", text_of_dims(view.layout.strides), " offset ",
                           view.layout.offset);
        }
        const Input& in = g_.inputs[value.source];
        std::string text = "input";
        if (!in.name.empty()) text += " " + quoted(in.name);
        if (in.overwritable) text += " overwritable";
        if (in.stored) text += " stored [" + stored_text(*in.stored) + "]";
        return text + (in.stored && in.stored->undefined ? " undefined" : "");
    }

    static std::string stored_text(const Stored& stored) {  // "batch=4 x 6 cut [3], 8"
        std::string text;
        for (size_t d = 0; d < stored.sizes.size(); ++d) {
            text += d ? ", " : "";
            if (d < stored.names.size() && !stored.names[d].empty())
                text += word_or_quoted(stored.names[d]) + "=";
            if (d >= stored.cuts.size() || stored.cuts[d].empty())
                text += std::to_string(stored.sizes[d]);
            else text += cut_text(stored.cuts[d]);
            if (stored.hints >> d & 1) text += " hint";
        }
        return text;
    }

    static std::string cut_text(const Cut& cut) {
        std::string text;
        for (const Factor& f : cut) {
            text += (text.empty() ? "" : " x ") + std::to_string(f.extent);
            if (f.positions.empty()) continue;
            text += " cut [";
            for (size_t k = 0; k < f.positions.size(); ++k)
                text += (k ? ", " : "") + std::to_string(f.positions[k]);
            text += "]";
        }
        return text;
    }

    Line line_of(const Node& node) {
        Line line;
        for (uint32_t v : node.outputs) line.left += (line.left.empty() ? "" : ", ") + typed(v);
        if (node.recorded != no_value) line.comment = text_of_place(g_.places[node.recorded]);
        if (node.host_call >= 0) {
            const Host& host = g_.hosts[node.host_call];
            line.right =
                text_of("host ", quoted(host.name), arguments(node, node.inputs.size()),
                        axes_text(host.axes), host.ranges ? " ranges" : "",
                        host.updated ? text_of(" updates ", host.updated) : "",
                        host.effect ? " effect" : "", " signature 0x", std::hex, host.signature);
            return line;
        }
        size_t n =
            node.inputs.size();  // absent ones at the end are not written, but for an open list
        if (node.row->inputs.empty() || !node.row->inputs.back().variadic())
            while (n > 0 && node.inputs[n - 1] == no_value) --n;
        line.right = node.row->name + arguments(node, n);
        const Parts parts = parts_of(node);
        if (parts.own) {
            line.right += program_text(parts.own);
            return line;
        }
        if (node.outputs.empty() || node.compute != g_.values[node.outputs[0]].dtype)
            line.right += std::string(" in ") + name_of(node.compute);
        line.right += attrs_text(*node.row, parts.own.attrs);
        if (parts.program()) line.right += program_text(parts.program());
        return line;
    }

    static std::string arguments(const Node& node, size_t n) {
        std::string text = "(";
        for (size_t k = 0; k < n; ++k) {
            text += k ? ", " : "";
            text += node.inputs[k] == no_value ? "none" : "%" + std::to_string(node.inputs[k]);
        }
        return text + ")";
    }

    static std::string axes_text(const HostAxes& axes) {  // of each operand
        std::string text = axes.empty() ? "" : " axes";
        for (const Dims& own : axes) text += " " + text_of_dims(own);
        return text;
    }

    std::string attrs_text(const OpRow& op, std::span<const Attr> attrs) {
        std::string text;
        for (size_t k = 0; k < attrs.size(); ++k) {
            const schema::AttrRow& row = op.attrs[k];
            text += (k ? ", " : " {") + row.name + " = " + attr_text(row, attrs[k]);
        }
        return text + (text.empty() ? "" : "}");
    }

    // " [r3 = mul(r0, r1) : f32; r4 = add(r3, r2) : bf16 in f32 {alpha = 1}]": registers, dtype of
    // the result, and the type in which it is computed where that is another one.
    std::string program_text(const Part& part) {
        std::string text;
        const auto list = [](const auto& registers) {
            std::string out;
            for (uint8_t r : registers) out += (out.empty() ? "r" : ", r") + std::to_string(r);
            return out;
        };
        for (const kernels::Instruction& i : part.program->code) {
            const OpRow& row = row_of(i);
            text += (text.empty() ? " [" : "; ") + list(i.out) + " = " + row.name + "(" +
                    list(i.in) + ") : " + name_of(i.result);
            if (i.compute != i.result) text += std::string(" in ") + name_of(i.compute);
            text += attrs_text(row, part.attrs.subspan(i.first_param, param_count(row)));
        }
        return text + "]";
    }

    std::string attr_text(const schema::AttrRow& row, const Attr& attr) {
        switch (row.kind) {
            case AttrKind::real: return number_text(g_.scalars[attr.scalar], true, attr.scalar);
            case AttrKind::seed: return number_text(g_.scalars[attr.scalar], false, attr.scalar);
            case AttrKind::integers: return text_of_dims(attr.ints);
            case AttrKind::text: return quoted(schema::choice_word(row, attr.i));
            case AttrKind::integer: break;
        }
        return std::to_string(attr.i);
    }

    const Graph& g_;
    uint32_t next_scalar_ = 0;
    std::map<std::string, int64_t> extents_;
};

}  // namespace

std::string print(const Graph& graph, const NamedCuts& cuts) {
    constexpr size_t widest_left = 48,
                     widest_right = 60;  // longer ones do not push the others to the right
    const std::vector<Line> lines = Printer(graph).lines();
    size_t left = 0, right = 0;
    for (const Line& line : lines) {
        if (line.left.size() <= widest_left) left = std::max(left, line.left.size());
        if (!line.comment.empty() && line.right.size() <= widest_right)
            right = std::max(right, line.right.size());
    }
    std::string out = "graph {\n";
    for (const Line& line : lines) {
        out += "  ";
        if (!line.left.empty()) {
            out += line.left;
            out.append(left - std::min(left, line.left.size()), ' ');
            out += " = ";
        }
        out += line.right;
        if (!line.comment.empty()) {
            out.append(right - std::min(right, line.right.size()), ' ');
            out += "  # " + line.comment;
        }
        out += '\n';
    }
    for (size_t k = 0; k < graph.outputs.size(); ++k) {
        const Output& o = graph.outputs[k];
        out += (k ? ", %" : "  return %") + std::to_string(o.value);
        if (!o.name.empty()) out += " " + quoted(o.name);
    }
    if (!graph.outputs.empty()) out += '\n';
    for (const auto& [name, cut] : cuts)
        if (!cut.empty()) out += "  cut " + word_or_quoted(name) + " " + text_of_dims(cut) + "\n";
    return out + "}\n";
}

}  // namespace nntile::graph
