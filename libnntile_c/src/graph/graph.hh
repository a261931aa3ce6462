// SPDX-License-Identifier: BSD-3-Clause
// The tensor graph: SSA values and the nodes that make them, in recording order.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.hh"
#include "base/place.hh"
#include "graph/stored.hh"
#include "schema/op_row.hh"

namespace nntile::graph {

using schema::Attr;
using schema::no_value;
using schema::OpRow;
using schema::Type;

enum class ValueKind : uint8_t { input, result, view, scalar };

struct Value {
    DType dtype;
    ValueKind kind;
    uint16_t output = 0;         // result: which output of its node
    uint32_t source = no_value;  // index into inputs, nodes, views or scalars
    Dims sizes;
};

struct View {
    uint32_t base;  // never a view itself
    Layout layout;  // in elements of the dense base
};

struct Input {
    uint32_t value;
    std::string name;           // empty: recorded from a buffer
    StoredRef stored;           // nullptr in a graph built by hand
    bool overwritable = false;  // nobody reads the stored data after this graph
};

struct Node {
    const OpRow* row;
    DType compute;                 // dtype of variable T
    int32_t host_call = -1;        // rule host: index of the run's host call
    uint32_t recorded = no_value;  // the recorded node, index into Graph::places
    SmallVector<uint32_t, 5> inputs, outputs;
    std::vector<Attr> attrs;
    // Several map nodes in one; see program.hh
    std::shared_ptr<const kernels::Program> program = nullptr;
};

// A program with its operands.
struct Code {
    std::shared_ptr<const kernels::Program> program;
    std::vector<uint32_t> inputs;  // each once
    std::vector<Attr> attrs;       // of its instructions, one after the other
};

struct Output {
    uint32_t value;
    std::string name;
    // That it takes the place of, in Graph::inputs: parameters that are updated
    uint32_t input = no_value;
};

// The user called dim `dim` of a value by this name.
struct AxisMark {
    uint32_t value;
    uint32_t dim;
    std::string name;
    bool before(const AxisMark& m) const {
        return value != m.value ? value < m.value : dim < m.dim;
    }
};

// How a named axis is cut: nothing: automatic; one size: uniform; else the segments.
using AxisCut = std::vector<int64_t>;
using AxisCuts = std::map<std::string, AxisCut>;

// By operand and dim of a function of the host: the axis along which it may be cut, or -1.
using HostAxes = std::vector<Dims>;

// A function of the host, as far as a graph knows it.
struct Host {
    std::string name;
    uint64_t signature;  // stands for everything the function depends on
    // Empty: none. An axis that all outputs have is parallel; one that none has is reduced: outputs
    // are sums over it
    HostAxes axes = {};
    bool ranges = false;  // it needs to know where a part is: a range along each axis, all parallel
    uint32_t updated = 0;  // the first so many outputs may be in the memory of the first inputs
    bool effect = false;   // it runs even if nobody reads what it gives
    void add_to(Hash& hash) const;
};

class Graph final : private schema::Builder {
public:
    using schema::Builder::copy;
    using schema::Builder::in_dtype;
    uint32_t add_input(DType dtype, std::span<const int64_t> sizes, std::string name = {},
                       StoredRef stored = nullptr);
    uint32_t add_scalar(DType dtype, double f, int64_t i);
    // Views of views fold; dense: the base itself
    uint32_t add_view(uint32_t base, const Layout& layout);
    // Adds an op (or the parts it is composed of). compute none: dtype of the first T input.
    // `wanted`: what the caller knows the outputs to be; a map may have another output dtype there.
    std::vector<uint32_t> add(const OpRow& row, std::span<const uint32_t> inputs,
                              std::vector<Attr> attrs, DType compute = DType::none,
                              std::span<const Type> wanted = {}, std::string_view place_text = {});
    // Rule host: outputs are what `outputs` says.
    std::vector<uint32_t> add_host(Host host, std::span<const uint32_t> inputs,
                                   std::span<const Type> outputs, std::string_view place_text = {});
    // Several map nodes in one; outputs are of one shape.
    void add_program(Code code, std::span<const Type> outputs, std::string_view place_text = {});
    // The last node, whose row has `epilogue`, runs a program on its result; see program.hh.
    void add_epilogue(Code code, std::span<const Type> outputs);
    // As add(), but a program makes the operand that the row has as `prologue`; see program.hh.
    // `inputs` are without it, `wanted` are all outputs, the operand last.
    void add_prologue(const OpRow& row, std::span<const uint32_t> inputs, std::vector<Attr> attrs,
                      Code code, DType compute, std::span<const Type> wanted,
                      std::string_view place_text = {});
    void set_output(uint32_t value, std::string name = {});
    void name_axis(uint32_t value, uint32_t dim, std::string name);
    // not_found for a name that no dim has; invalid_argument where the segments do not fill its
    // extent.
    void check_cut(std::string_view name, const AxisCut& cut) const;

    // No outputs, and nothing that runs for its effect
    bool is_idle() const;
    Type type_of(uint32_t value) const override;
    const Value& value(uint32_t v) const { return values[v]; }
    // The dense value that a value is stored as, and its layout there (identity unless it is a
    // view).
    uint32_t base_of(uint32_t v) const override {
        return values[v].kind == ValueKind::view ? views[values[v].source].base : v;
    }
    Layout layout_of(uint32_t v) const override {
        return values[v].kind == ValueKind::view ? views[values[v].source].layout
                                                 : Layout::dense(values[v].sizes);
    }
    // Equal structures have equal hashes; run-time scalars, names of inputs and stored data do not
    // count.
    Hash hash() const;
    void forget_known_views() { known_views_.clear(); }  // after a pass has renumbered values
    void clear();  // the memory of a small one serves the next

    std::vector<Value> values;
    std::vector<Node> nodes;
    std::vector<View> views;
    // Run-time scalars; a value of kind scalar or a real attribute
    std::vector<kernels::Param> scalars;
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    std::vector<AxisMark> marks;  // by value and dim
    std::vector<Place> places;    // of the nodes as they were recorded
    Place place = 0;              // of what is added without one
    std::vector<Mark> callers;    // as `places`, by a profiler; shorter where the rest have none
    Mark caller = 0;              // of what is added
    std::vector<Host> hosts;      // by Node::host_call

private:
    std::vector<uint32_t> op(std::string_view name, std::span<const uint32_t> inputs,
                             std::vector<Attr> attrs, DType compute) override;
    uint32_t view(uint32_t base, Layout layout) override { return add_view(base, layout); }
    uint32_t scalar(DType dtype, double f, int64_t i) override { return add_scalar(dtype, f, i); }
    void check_axes(const Host& host, std::span<const uint32_t> inputs,
                    std::span<const Type> outputs) const;
    void check_updated(const Host& host, std::span<const uint32_t> inputs,
                       std::span<const Type> outputs) const;
    std::vector<Type> types_of(std::string_view op, std::span<const uint32_t> values) const;
    // What a row gives; attrs and compute are completed. Throws where it does not take these
    // operands.
    static std::vector<Type> results_of(const OpRow& row, std::span<const Type> inputs,
                                        std::vector<Attr>& attrs, DType& compute,
                                        std::span<const Type> wanted);
    void append(Node node, std::span<const Type> outputs);
    void place_scalars(const OpRow& row, std::span<Attr> attrs);
    void place_scalars(const kernels::Program& program, std::span<Attr> attrs);
    void add_outputs(uint32_t node, std::span<const Type> outputs);
    uint32_t add_value(DType dtype, ValueKind kind, uint32_t source,
                       std::span<const int64_t> sizes);
    void check_value(uint32_t v, std::string_view op) const;

    std::unordered_map<Hash, uint32_t> known_views_;  // (base, layout) -> value
};

// Display name of a node: its op, the host function's name, or the first ops of its program. A
// write with a program has the name of that.
std::string name_of(const Graph& graph, const Node& node);
const OpRow& host_row();
// Of a node of rule write: its data, and where that lies in its result.
uint32_t data_of(const Node& node);
Layout target_of(const Graph& graph, const Node& node);

// The place of the nodes that are added as long as it lives; none: as before.
class Placed {
public:
    Placed(Place& place, std::string_view text) : place_(place), before_(place) {
        if (!text.empty()) place_ = place_of(text);
    }
    ~Placed() { place_ = before_; }

private:
    Place &place_, before_;
};

}  // namespace nntile::graph
