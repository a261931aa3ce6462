// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <map>

#include "base/shape.hh"
#include "base/text.hh"
#include "tile/text.hh"

namespace nntile::tile {
namespace {

// "%4[1]": tile 1 of value 4, with a ' for each earlier tile of that name (the old and the new grid
// of a value); "tmp7": tile 7, which belongs to no value.
std::vector<std::string> names_of(const std::vector<Tile>& tiles) {
    std::map<std::pair<uint32_t, uint32_t>, int> seen;
    std::vector<std::string> names;
    for (size_t k = 0; k < tiles.size(); ++k) {
        const Tile& t = tiles[k];
        if (t.value == none) names.push_back("tmp" + std::to_string(k));
        else
            names.push_back(text_of("%", t.value, "[", t.index, "]",
                                    std::string(seen[{t.value, t.index}]++, '\'')));
    }
    return names;
}

const char* word_of(TileRole role) {
    constexpr const char* words[] = {"", " input", " output"};
    return words[static_cast<int>(role)];
}

const char* word_of(Access access) {
    constexpr const char* words[] = {"", "in   ", "out  ", "inout"};
    return words[static_cast<int>(access)];
}

std::string kernel_text(const Task& task) {
    if (!task.kernel)
        return "host " + std::to_string(task.host_call) + (task.effect ? " effect" : "");
    std::string text = task.kernel->name;
    if (!task.program) return text;
    text += " {";
    for (const kernels::Instruction& i : task.program->code)
        text +=
            (text.back() == '{' ? "" : ", ") + std::string(kernels::map_rows()[i.primitive].name);
    return text + "}";
}

// "@2": number 2 of the run's scalars
std::string params_text(const std::vector<ParamRef>& params) {
    std::string text;
    for (const ParamRef& p : params) {
        text += text.empty() ? " params (" : ", ";
        text += p.is_fixed() ? std::to_string(p.fixed.i) : "@" + std::to_string(p.scalar);
    }
    return text + (text.empty() ? "" : ")");
}

std::string task_text(const Task& task) {
    std::string text =
        kernel_text(task) + " " + text_of_dims(task.sizes) + params_text(task.params);
    if (task.index_offset != 0 || !task.index_strides.empty())
        text += text_of(" index ", task.index_offset, " ", text_of_dims(task.index_strides));
    if (task.node != none) text += text_of(" node ", task.node);
    return text + " flops " + text_of_real(task.flops) + " bytes " + text_of_real(task.bytes);
}

}  // namespace

std::string print(const TileGraph& graph) {
    const std::vector<std::string> names = names_of(graph.tiles);
    size_t width = 4;
    for (const std::string& name : names) width = std::max(width, name.size());
    const auto padded = [&](const std::string& name) {
        return name + std::string(width - name.size(), ' ');
    };
    std::string out = "tiles {\n";
    for (size_t k = 0; k < graph.op_names.size(); ++k) {
        out += text_of("  n", k, " : ", word_or_quoted(graph.op_names[k]));
        const std::string place = k < graph.places.size() ? text_of_place(graph.places[k]) : "";
        out += (place.empty() ? "" : "  # " + place) + "\n";
    }
    for (size_t k = 0; k < graph.tiles.size(); ++k) {
        const Tile& t = graph.tiles[k];
        out += text_of("  ", padded(names[k]), " : ", t.bytes, " bytes", word_of(t.role));
        out += (t.reuses == none ? "" : " reuses " + names[t.reuses]) + "\n";
    }
    for (size_t k = 0; k < graph.tasks.size(); ++k) {
        out += text_of("  t", k, " : ", task_text(graph.tasks[k]), "\n");
        for (const Operand& o : graph.tasks[k].operands) {
            out += text_of("    ", word_of(o.access), " ", name_of(o.dtype), " ",
                           o.tile == none ? "none" : padded(names[o.tile]));
            if (o.tile != none || o.offset != 0 || !o.strides.empty())
                out += text_of(" +", o.offset, " ", text_of_dims(o.strides));
            out += "\n";
        }
    }
    return out + "}\n";
}

}  // namespace nntile::tile
