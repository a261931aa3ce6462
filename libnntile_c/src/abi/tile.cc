// SPDX-License-Identifier: BSD-3-Clause
#include "abi/tile.hh"

#include <algorithm>

#include "abi/guard.hh"
#include "pipeline.hh"
#include "tile/text.hh"

using namespace nntile;
using namespace nntile::abi;

namespace {

// An input or an output under its name, with its data.
struct Port {
    std::string name;
    uint32_t value;
    DType dtype;
    Dims sizes;
    std::shared_ptr<runtime::Storage> data;  // nullptr: not written, or no run yet

    size_t bytes() const { return static_cast<size_t>(product(sizes) * size_of(dtype)); }
};

}  // namespace

struct nntile_tile {
    std::shared_ptr<Compiled> compiled;  // nullptr: made from a text, to look at
    tile::TileGraph parsed;
    std::vector<Port> inputs, outputs;

    const tile::TileGraph& tiles() const { return compiled ? compiled->tiles : parsed; }
};

nntile_tile* nntile::abi::new_tile(const graph::Graph& graph, const tile::AxisCuts& cuts) {
    auto made = std::make_unique<nntile_tile>();
    made->compiled = compile(graph, cuts);
    const graph::Graph& own = made->compiled->graph;
    const auto port_of = [&own](const std::string& name, uint32_t value) {
        return Port{name, value, own.value(value).dtype, own.value(value).sizes, nullptr};
    };
    for (const graph::Input& in : own.inputs) made->inputs.push_back(port_of(in.name, in.value));
    for (const graph::Output& out : own.outputs)
        made->outputs.push_back(port_of(out.name, out.value));
    return made.release();
}

namespace {

Port& port(std::vector<Port>& ports, const char* name, const char* function, const char* kind) {
    const auto at =
        std::find_if(ports.begin(), ports.end(), [&](const Port& p) { return p.name == name; });
    if (at != ports.end()) return *at;
    std::string names;
    for (const Port& p : ports) names += (names.empty() ? "" : ", ") + p.name;
    fail(Status::not_found, function, ": no ", kind, " '", name, "'; the graph has: ", names);
}

void check_bytes(const Port& p, size_t nbytes, const char* function) {
    check(nbytes == p.bytes(), Status::invalid_argument, function, ": '", p.name, "' is ",
          name_of(p.dtype), " ", text_of_dims(p.sizes), " of ", p.bytes(), " bytes, got ", nbytes);
}

void check_runnable(const nntile_tile& tile, const char* function) {
    check(tile.compiled != nullptr, Status::invalid_state, function,
          ": the tiles come from a text; lower a graph to run it");
    check(!runtime::forked(), Status::invalid_state, function,
          ": the runtime cannot be used in a forked child");
    check(runtime::active(), Status::invalid_state, function,
          ": no active context; call nntile_context_create first");
}

bool alive(const Port& p) { return p.data && p.data->generation == runtime::generation(); }

std::vector<std::shared_ptr<runtime::Storage>> bound_inputs(nntile_tile& tile) {
    for (const Port& p : tile.inputs) {
        check(p.data != nullptr, Status::invalid_state, "nntile_tile_run: input '", p.name,
              "' was never written; call nntile_tile_write first");
        check(alive(p), Status::invalid_state, "nntile_tile_run: input '", p.name,
              "' was written in a context that has ended; write it again");
    }
    std::vector<std::shared_ptr<runtime::Storage>> data;
    for (uint32_t value : tile.compiled->inputs)
        data.push_back(std::find_if(tile.inputs.begin(), tile.inputs.end(), [&](const Port& p) {
                           return p.value == value;
                       })->data);
    return data;
}

}  // namespace

void nntile_tile_destroy(nntile_tile* tile) {
    guard(nullptr, [&] { delete tile; });
}

size_t nntile_tile_count(const nntile_tile* tile) { return tile ? tile->tiles().tiles.size() : 0; }
size_t nntile_tile_task_count(const nntile_tile* tile) {
    return tile ? tile->tiles().tasks.size() : 0;
}
size_t nntile_tile_edge_count(const nntile_tile* tile) {
    return guard_value(size_t{0}, [&] { return tile ? tile->tiles().edges().size() : 0; });
}

nntile_status nntile_tile_task_get(const nntile_tile* tile, size_t task, const char** kernel,
                                   double* flops, double* bytes, nntile_error** error) {
    return guard(error, [&] {
        need(tile, "nntile_tile_task_get", "tile");
        const auto& tasks = tile->tiles().tasks;
        check(task < tasks.size(), Status::not_found, "nntile_tile_task_get: no task ", task,
              "; there are ", tasks.size());
        if (kernel) *kernel = tasks[task].kernel ? tasks[task].kernel->name : "host";
        if (flops) *flops = tasks[task].flops;
        if (bytes) *bytes = tasks[task].bytes;
    });
}

nntile_status nntile_tile_print(const nntile_tile* tile, char** text, nntile_error** error) {
    return guard(error, [&] {
        need(tile, "nntile_tile_print", "tile");
        need(text, "nntile_tile_print", "text");
        *text =
            copy_text(tile->compiled ? tile->compiled->tiling.text() + tile::print(tile->tiles()) +
                                           tile->compiled->plan->text()
                                     : tile::print(tile->tiles()));
    });
}

nntile_status nntile_tile_parse(const char* text, nntile_tile** out, nntile_error** error) {
    return guard(error, [&] {
        need(text, "nntile_tile_parse", "text");
        need(out, "nntile_tile_parse", "out");
        auto made = std::make_unique<nntile_tile>();
        made->parsed = tile::parse(text);
        *out = made.release();
    });
}

nntile_status nntile_tile_write(nntile_tile* tile, const char* input, const void* host,
                                size_t nbytes, nntile_error** error) {
    return guard(error, [&] {
        constexpr const char* self = "nntile_tile_write";
        need(tile, self, "tile");
        need(input, self, "input");
        check_runnable(*tile, self);
        Port& p = port(tile->inputs, input, self, "input");
        check_bytes(p, nbytes, self);
        check(host || nbytes == 0, Status::invalid_argument, self, ": host is NULL");
        // Fresh tiles: runs that still read the old ones keep them.
        auto data = std::make_shared<runtime::Storage>();
        data->dtype = p.dtype;
        data->sizes = p.sizes;
        data->cuts = tile->compiled->tiling.values[p.value].cuts;
        data->names = tile->compiled->tiling.values[p.value].names;
        runtime::allocate(*data);
        runtime::write(*data, host);
        p.data = std::move(data);
    });
}

nntile_status nntile_tile_run(nntile_tile* tile, nntile_error** error) {
    return guard(error, [&] {
        need(tile, "nntile_tile_run", "tile");
        check_runnable(*tile, "nntile_tile_run");
        const Compiled& compiled = *tile->compiled;
        check(compiled.host_calls == 0, Status::unsupported,
              "nntile_tile_run: the graph has host functions, which a text does not carry");
        const auto inputs = bound_inputs(*tile);
        std::vector<std::shared_ptr<runtime::Storage>> outputs;
        for (const Compiled::Kept& kept : compiled.outputs) outputs.push_back(kept.storage());
        compiled.plan->launch({inputs, outputs, compiled.graph.scalars, {}});
        for (Port& p : tile->outputs)
            for (size_t k = 0; k < outputs.size(); ++k)
                if (compiled.outputs[k].value == p.value) p.data = outputs[k];
    });
}

nntile_status nntile_tile_read(nntile_tile* tile, const char* output, void* host, size_t nbytes,
                               nntile_error** error) {
    return guard(error, [&] {
        constexpr const char* self = "nntile_tile_read";
        need(tile, self, "tile");
        need(output, self, "output");
        check_runnable(*tile, self);
        const Port& p = port(tile->outputs, output, self, "output");
        check_bytes(p, nbytes, self);
        check(host || nbytes == 0, Status::invalid_argument, self, ": host is NULL");
        check(alive(p), Status::invalid_state, self, ": output '", output,
              "' has no data; call nntile_tile_run first");
        runtime::read(*p.data, host);
    });
}
