// SPDX-License-Identifier: BSD-3-Clause
#include "tile/advice.hh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/text.hh"
#include "graph/program.hh"
#include "tile/cuts.hh"
#include "tile/relation.hh"

namespace nntile::tile {

using graph::no_value;
using graph::ValueKind;
using schema::LabelKind;

namespace {

std::vector<int64_t> task_bytes(const TileGraph& graph) {
    const std::vector<uint32_t> memory = graph.memories();
    std::vector<int64_t> all;
    all.reserve(graph.tasks.size());
    std::vector<uint32_t> seen(graph.tiles.size(), none);
    for (uint32_t t = 0; t < graph.tasks.size(); ++t) {
        int64_t bytes = 0;
        for (const Operand& o : graph.tasks[t].operands) {
            if (o.tile == none || seen[memory[o.tile]] == t) continue;
            seen[memory[o.tile]] = t;
            bytes += graph.tiles[o.tile].bytes;
        }
        all.push_back(bytes);
    }
    return all;
}

std::string text_of_bytes(int64_t bytes) {
    constexpr const char* units[] = {" bytes", " KiB", " MiB", " GiB", " TiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
    return text_of_real(std::round(value * 10) / 10) + units[unit];
}

class Adviser {
public:
    Adviser(const graph::Graph& graph, const AxisCuts& cuts, const Tiling& tiling,
            const TileGraph& tiles, int64_t most)
        : graph_(graph), cuts_(cuts), tiling_(tiling), tiles_(tiles), most_(most) {}

    std::string text(const Largest& largest) const {
        const std::string what = text_of_bytes(largest.bytes) +
                                 " for its operands and results, where a task may have " +
                                 text_of_bytes(most_);
        if (largest.node == none)
            return text_of("a task that brings data into other tiles needs ", what, ": ",
                           moved(largest.task), "; ", read_once);
        const graph::Node& node = graph_.nodes[largest.node];
        std::string text =
            text_of("a task of ", graph::name_of(graph_, node), " needs ", what, ": ");
        text += operands(node) + "; ";
        const std::string large = large_tile(node);
        if (!large.empty()) return text + large;
        return text + cut_that_fits(node, largest);
    }

private:
    struct Axis {
        uint32_t value, dim;
        int64_t extent;
        std::string name;  // "": it has none
        std::string where;
    };

    static constexpr const char* read_once =
        "tiles that are stored have to be read as they are: cut the data where it is made, or make "
        "it in parts";

    std::string text_of_value(uint32_t v) const {
        const graph::Value& value = graph_.value(v);
        std::string text = text_of(name_of(value.dtype), " ", text_of_dims(value.sizes));
        const uint32_t base = graph_.base_of(v);
        const graph::Value& whole = graph_.value(base);
        if (base != v) text += text_of(", a view of ", text_of_dims(whole.sizes), ",");
        const Dims tile = tile_of(base);
        return tile == whole.sizes ? text + " in one tile"
                                   : text_of(text, " in tiles of ", text_of_dims(tile));
    }

    const graph::Stored* stored_of(uint32_t base) const {
        const graph::Value& value = graph_.value(base);
        return value.kind == ValueKind::input ? graph_.inputs[value.source].stored.get() : nullptr;
    }
    Dims stored_tile(uint32_t base) const {
        Dims sizes = graph_.value(base).sizes;
        const auto& cuts = stored_of(base)->cuts;
        for (size_t d = 0; d < sizes.size() && d < cuts.size(); ++d)
            if (sizes[d] > 0) sizes[d] = longest(cuts[d]);
        return sizes;
    }
    // Sizes of the largest tile that tasks read.
    Dims tile_of(uint32_t base) const {
        if (stored_of(base) && tiling_.values[base].as_stored) return stored_tile(base);
        Dims sizes = graph_.value(base).sizes;
        const auto& cuts = tiling_.values[base].cuts;
        for (size_t d = 0; d < sizes.size() && d < cuts.size(); ++d)
            if (sizes[d] > 0) sizes[d] = longest(cuts[d]);
        return sizes;
    }

    std::string operands(const graph::Node& node) const {
        std::string text;
        std::vector<uint32_t> seen;
        for (const auto* list : {&node.inputs, &node.outputs})
            for (uint32_t v : *list) {
                if (v == no_value || graph_.value(v).kind == ValueKind::scalar) continue;
                if (std::find(seen.begin(), seen.end(), v) != seen.end()) continue;
                seen.push_back(v);
                text += text_of(text.empty() ? "" : ", ", list == &node.outputs ? "result " : "",
                                text_of_value(v));
            }
        return text;
    }

    std::string moved(uint32_t task) const {
        for (const Operand& o : tiles_.tasks[task].operands) {
            const uint32_t v = o.tile == none ? none : tiles_.tiles[o.tile].value;
            if (v == none || !stored_of(v)) continue;
            const Dims tile = stored_tile(v);
            return text_of(
                text_of_value(v), ", stored in ",
                tile == graph_.value(v).sizes ? "one" : text_of("tiles of ", text_of_dims(tile)));
        }
        return "";
    }

    // Of data that is stored in tiles of which not one fits.
    std::string large_tile(const graph::Node& node) const {
        for (uint32_t v : node.inputs) {
            if (v == no_value) continue;
            const uint32_t base = graph_.base_of(v);
            if (!stored_of(base) || !tiling_.values[base].as_stored) continue;
            if (product(stored_tile(base)) * size_of(graph_.value(base).dtype) > most_)
                return text_of("of ", text_of_value(v), ", ", read_once);
        }
        return "";
    }

    // Those along which the node's work can be cut, each once.
    std::vector<Axis> axes_of(const graph::Node& node) const {
        const NodeSpace space = space_of(graph_, node);
        std::vector<Axis> axes;
        std::vector<bool> known(space.relation.labels.size(), false);
        const auto look = [&](uint32_t v, size_t operand, const std::string& where) {
            if (v == no_value || operand >= space.relation.operands.size()) return;
            const auto& labels = space.labels_of(operand);
            const Dims& sizes = graph_.value(v).sizes;
            for (size_t d = 0; d < labels.size() && d < sizes.size(); ++d) {
                if (labels[d] < 0 || known[labels[d]] || sizes[d] < 2) continue;
                known[labels[d]] = true;
                if (space.relation.labels[labels[d]].kind == LabelKind::whole) continue;
                const auto& names = tiling_.values[v].names;
                axes.push_back({v, static_cast<uint32_t>(d), sizes[d],
                                d < names.size() ? names[d] : "",
                                text_of("dim ", d, " of ", where)});
            }
        };
        for (size_t k = 0; k < node.outputs.size(); ++k)
            look(node.outputs[k], node.inputs.size() + k, "its result");
        for (size_t k = 0; k < node.inputs.size(); ++k)
            look(node.inputs[k], k, text_of("its operand ", k));
        return axes;
    }

    // What the largest tasks of the node, and of all, would need if the axis had such segments.
    std::pair<int64_t, int64_t> with(const Axis& axis, int64_t segment, uint32_t node) const {
        graph::Graph graph = graph_;
        AxisCuts cuts = cuts_;
        const std::string name = axis.name.empty() ? "\n" : axis.name;  // no user's
        if (axis.name.empty()) {
            graph.name_axis(axis.value, axis.dim, name);
            // The first source of an axis wins
            std::rotate(graph.marks.begin(),
                        std::find_if(graph.marks.begin(), graph.marks.end(),
                                     [&](const graph::AxisMark& m) { return m.name == name; }),
                        graph.marks.end());
        }
        cuts[name] = {segment};
        const Lowered lowered = lower(graph, choose_tiling(graph, cuts, false));
        const std::vector<int64_t> bytes = task_bytes(lowered.tiles);
        int64_t own = 0, all = 0;
        for (size_t t = 0; t < bytes.size(); ++t) {
            all = std::max(all, bytes[t]);
            if (lowered.tiles.tasks[t].node == node) own = std::max(own, bytes[t]);
        }
        return {own, all};
    }

    std::string cut_that_fits(const graph::Node& node, const Largest& largest) const {
        const std::vector<Axis> axes = axes_of(node);
        if (axes.empty()) return "no axis of it can be cut";
        struct Found {
            const Axis* axis;
            int64_t segments, segment;
            bool all;
        };
        std::optional<Found> best;
        const auto first = static_cast<int64_t>(
            std::bit_ceil(static_cast<uint64_t>((largest.bytes + most_ - 1) / most_)));
        for (const Axis& axis : axes) {
            constexpr int tries = 4;
            int64_t segments = first;
            for (int k = 0; k < tries; ++k, segments *= 2) {
                const int64_t segment = std::max<int64_t>(axis.extent / segments, 1);
                const auto [own, all] = with(axis, segment, largest.node);
                if (own <= most_) {
                    const Found found{&axis, (axis.extent + segment - 1) / segment, segment,
                                      all <= most_};
                    if (!best || (found.all && !best->all) ||
                        (found.all == best->all && found.segments < best->segments))
                        best = found;
                    break;
                }
                if (segment == 1) break;
            }
        }
        const auto called = [](const Axis& axis) {
            return axis.name.empty() ? axis.where : text_of("axis '", axis.name, "'");
        };
        if (best) {
            const std::string others =
                best->all ? "" : ", but other tasks of this step need more too";
            return text_of(called(*best->axis), " cut into ", best->segments, " of ", best->segment,
                           " would fit", others);
        }
        std::string text;
        for (const Axis& axis : axes)
            text += text_of(text.empty() ? "" : ", ", called(axis), " of ", axis.extent);
        return text_of("no cut of one axis makes it fit; it may be cut along ", text);
    }

    const graph::Graph& graph_;
    const AxisCuts& cuts_;
    const Tiling& tiling_;
    const TileGraph& tiles_;
    const int64_t most_;
};

}  // namespace

Largest largest_task(const TileGraph& tiles) {
    const std::vector<int64_t> bytes = task_bytes(tiles);
    const auto most = std::max_element(bytes.begin(), bytes.end());
    if (most == bytes.end()) return {};
    const auto task = static_cast<uint32_t>(most - bytes.begin());
    return {task, tiles.tasks[task].node, *most};
}

Advice advice(const graph::Graph& graph, const AxisCuts& cuts, const Tiling& tiling,
              const TileGraph& tiles, int64_t most_bytes) {
    Advice found{largest_task(tiles), {}};
    if (found.largest.bytes > most_bytes)
        found.text = Adviser(graph, cuts, tiling, tiles, most_bytes).text(found.largest);
    return found;
}

}  // namespace nntile::tile
