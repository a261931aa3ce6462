// SPDX-License-Identifier: BSD-3-Clause
// What runs graphs. executor.cc implements it, so that record/ needs neither tiles nor StarPU.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.hh"
#include "record/host_call.hh"

namespace nntile::record {

// The plan of a graph that is so small that the thread that records it may as well run it.
class SmallPlan {
public:
    virtual ~SmallPlan() = default;
    // inputs, scalars, outputs: as of the graph. In the calling thread, or by workers where tasks
    // in flight use the tiles, or they are not in memory.
    virtual void run(std::span<const graph::StoredRef* const> inputs,
                     std::span<const kernels::Param> scalars, Place place,
                     std::span<graph::StoredRef> outputs) = 0;
};

class Executor {
public:
    virtual ~Executor() = default;
    struct Result {
        std::vector<graph::StoredRef> outputs;  // as graph.outputs
        // Index into graph.inputs
        std::vector<std::pair<uint32_t, graph::StoredRef>> retiled_inputs;
    };
    virtual void start() = 0;                  // what runs graphs, if nothing does yet
    virtual bool idle() = 0;                   // it has nothing to do
    virtual bool imagines() = 0;               // what it is given runs nowhere: an estimate
    virtual bool runs_here() = 0;              // small graphs may run in the calling thread
    virtual int64_t most_waiting_bytes() = 0;  // of results of calls that may be held back
    virtual void compile(const graph::Graph& graph, const graph::AxisCuts& cuts) = 0;
    // hash: of the graph.
    // calls are cleared once the graph is submitted; after an exception nothing has been. lowered:
    // there is a plan, so that a later exception comes from the run (memory) and not from the
    // graph. awaited: the caller reads a result next.
    virtual Result run(const graph::Graph& graph, const Hash& hash, std::vector<HostCall>& calls,
                       const graph::AxisCuts& cuts, bool& lowered, bool awaited) = 0;
    // nullptr: it is larger. The executor outlives it.
    virtual std::shared_ptr<SmallPlan> small(const graph::Graph& graph,
                                             const graph::AxisCuts& cuts) = 0;
    virtual graph::StoredRef write(DType dtype, std::span<const int64_t> sizes,
                                   const void* host) = 0;
    virtual void read(const graph::Stored& stored, void* host) = 0;  // waits; throws a task's error
    // Likewise a view of the value; false, and nothing is done: it takes a graph.
    virtual bool read_view(const graph::Stored& stored, DType dtype, const Layout& view,
                           void* host) = 0;
    virtual std::string axes(const graph::Graph& graph, const graph::AxisCuts& cuts) = 0;
    // Cuts as a text: the named ones that are given, and those that were chosen for graphs with
    // plans. load_cuts() takes the latter and gives the former back; extents of the names that are
    // known, to check them.
    virtual std::string save_cuts(const graph::AxisCuts& cuts) = 0;
    virtual graph::AxisCuts load_cuts(std::string_view text,
                                      const std::map<std::string, std::set<int64_t>>& extents) = 0;
    virtual std::string text(std::string_view stage) = 0;  // of the last lowering
    virtual void reset() = 0;                              // forget plans
};

}  // namespace nntile::record
