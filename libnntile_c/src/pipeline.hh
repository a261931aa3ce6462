// SPDX-License-Identifier: BSD-3-Clause
// All stages on one page: graph -> passes -> tiling -> tile graph -> plan. Start reading in
// pipeline.cc.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/runtime.hh"
#include "tile/lower.hh"

namespace nntile {

// A lowered graph, ready to be launched many times.
struct Compiled {
    struct Kept {                // a value that outlives a run
        uint32_t value, source;  // in the graph; of an input its number there
        DType dtype;
        Dims sizes;
        std::vector<tile::Cut> cuts;
        std::vector<std::string> names;
        uint64_t hints;                                     // as Stored::hints
        std::shared_ptr<runtime::Storage> storage() const;  // without tiles
    };
    graph::Graph graph;  // after passes
    tile::Tiling tiling;
    tile::TileGraph tiles;
    std::vector<uint32_t> inputs;  // values to be bound at launch, in order
    std::vector<Kept> outputs;     // values that a launch gives, in order
    std::shared_ptr<runtime::Plan> plan;
    size_t copies = 0, host_calls = 0;
};

// After each pass: its name, and the graph as it left it.
using PassSeen = std::function<void(const char* pass, const graph::Graph& graph)>;
void run_passes(graph::Graph& graph, const PassSeen& seen = nullptr);
// The graph as it was recorded and after each pass, checked; NNTILE_PRINT=passes prints it for each
// lowering.
std::string passes_text(graph::Graph graph);

// graph must have its outputs set. Pure but for the plan's slots; throws Error.
std::shared_ptr<Compiled> compile(const graph::Graph& graph, const tile::AxisCuts& cuts,
                                  const tile::SavedGraph* saved = nullptr);

}  // namespace nntile
