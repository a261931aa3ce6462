// SPDX-License-Identifier: BSD-3-Clause
#include "graph/graph.hh"

#include <algorithm>

#include "base/error.hh"
#include "graph/program.hh"

namespace nntile::graph {

std::string name_of(const Graph& graph, const Node& node) {
    constexpr size_t few = 4;
    if (node.host_call >= 0) return graph.hosts[node.host_call].name;
    if (!node.program) return node.row->name;
    std::string name = node.row->epilogue ? node.row->name : "";
    const auto& code = node.program->code;
    static const int cast = kernels::find_map("cast");
    if (parts_of(node).before && code.size() == 1 && code[0].primitive == cast) return "copy";
    for (size_t k = 0; k < code.size() && k < few; ++k)
        name +=
            (name.empty() ? "" : "+") + std::string(kernels::map_rows()[code[k].primitive].name);
    return code.size() > few ? name + "+.." : name;
}

uint32_t data_of(const Node& node) {
    const Part made = parts_of(node).before;
    return made ? made.outputs[0] : node.inputs[1];
}

Layout target_of(const Graph& graph, const Node& node) {
    const auto attr = [&](std::string_view name) -> const Attr& {
        return node.attrs[schema::attr_index(*node.row, name)];
    };
    return {graph.value(data_of(node)).sizes, attr("strides").ints, attr("offset").i};
}

void Graph::clear() {
    constexpr size_t small = 512;
    Graph next;
    const auto keep = [](auto& list, auto& of_next) {
        list.clear();
        of_next.swap(list);
    };
    if (values.capacity() <= small) {
        keep(values, next.values);
        keep(nodes, next.nodes);
        keep(views, next.views);
        keep(scalars, next.scalars);
        keep(inputs, next.inputs);
        keep(outputs, next.outputs);
        keep(places, next.places);
    }
    *this = std::move(next);
}

void Graph::check_value(uint32_t v, std::string_view op) const {
    check(v < values.size(), Status::not_found, op, ": no value %", v, "; the graph has ",
          values.size());
}

// Extents are not negative and the bytes can be counted: arithmetic on shapes needs no check from
// here on.
static void check_sizes(DType dtype, std::span<const int64_t> sizes, std::string_view op,
                        std::string_view name) {
    int64_t bytes = size_of(dtype);
    bool fits = true;
    for (int64_t n : sizes) {
        check(n >= 0, Status::invalid_argument, op, ": ", name, " has a negative extent in ",
              text_of_dims(sizes));
        // A zero extent counts as 1, as in strides.
        fits = fits && !__builtin_mul_overflow(bytes, std::max<int64_t>(n, 1), &bytes);
    }
    check(fits, Status::invalid_argument, op, ": ", name, " with shape ", text_of_dims(sizes),
          " is too large");
}

uint32_t Graph::add_value(DType dtype, ValueKind kind, uint32_t source,
                          std::span<const int64_t> sizes) {
    values.push_back({dtype, kind, 0, source, Dims(sizes)});
    return static_cast<uint32_t>(values.size() - 1);
}

uint32_t Graph::add_input(DType dtype, std::span<const int64_t> sizes, std::string name,
                          StoredRef stored) {
    check(dtype != DType::none, Status::type_error, "add_input: input '", name, "' needs a dtype");
    check_sizes(dtype, sizes, "add_input", name);
    for (const Input& in : inputs)
        check(name.empty() || in.name != name, Status::invalid_argument,
              "add_input: there is an input '", name, "' already");
    const auto index = static_cast<uint32_t>(inputs.size());
    const uint32_t v = add_value(dtype, ValueKind::input, index, sizes);
    inputs.push_back({v, std::move(name), std::move(stored), false});
    return v;
}

uint32_t Graph::add_scalar(DType dtype, double f, int64_t i) {
    kernels::Param p;
    if (is_floating(dtype)) p.f = f;
    else p.i = i;
    scalars.push_back(p);
    return add_value(dtype, ValueKind::scalar, static_cast<uint32_t>(scalars.size() - 1), {});
}

uint32_t Graph::add_view(uint32_t base, const Layout& layout) {
    check_value(base, "view");
    check(values[base].kind != ValueKind::scalar, Status::invalid_argument, "view: %", base,
          " is a number");
    if (values[base].kind == ValueKind::view) {
        // A view of a view is meant in elements of the dense result: only a dense inner view folds.
        const View& inner = views[values[base].source];
        check(is_dense({inner.layout.sizes, inner.layout.strides, 0}), Status::unsupported,
              "view: %", base, " is not dense; copy it first");
        Layout folded = layout;
        folded.offset += inner.layout.offset;
        return add_view(inner.base, folded);
    }
    const int64_t numel = product(values[base].sizes);
    check(layout.sizes.size() == layout.strides.size(), Status::invalid_argument,
          "view: sizes and strides differ in rank");
    check_sizes(values[base].dtype, layout.sizes, "view", "the view");
    check(in_bounds(layout, numel), Status::invalid_argument, "view: sizes ",
          text_of_dims(layout.sizes), ", strides ", text_of_dims(layout.strides), ", offset ",
          layout.offset, " are out of bounds for %", base, " with ", numel, " elements");
    if (layout.sizes == values[base].sizes && is_dense(layout)) return base;
    Hash key;
    key.add(base).add(layout.offset).add_all(layout.sizes).add_all(layout.strides);
    auto [it, fresh] = known_views_.try_emplace(key, no_value);
    if (fresh) {
        views.push_back({base, layout});
        it->second = add_value(values[base].dtype, ValueKind::view,
                               static_cast<uint32_t>(views.size() - 1), layout.sizes);
    }
    return it->second;
}

Type Graph::type_of(uint32_t v) const {
    return {values[v].dtype, values[v].sizes, values[v].kind == ValueKind::scalar};
}

std::vector<Type> Graph::types_of(std::string_view op, std::span<const uint32_t> in) const {
    std::vector<Type> types(in.size());
    for (size_t k = 0; k < in.size(); ++k) {
        if (in[k] == no_value) continue;
        check_value(in[k], op);
        types[k] = type_of(in[k]);
    }
    return types;
}

std::vector<Type> Graph::results_of(const OpRow& row, std::span<const Type> types,
                                    std::vector<Attr>& attrs, DType& compute,
                                    std::span<const Type> wanted) {
    // verify() refuses it without inputs
    for (size_t k = 0; k < types.size() && !row.inputs.empty(); ++k) {
        const schema::ArgRow& arg = row.inputs[std::min(k, row.inputs.size() - 1)];
        if (compute == DType::none && arg.type == "T" && !types[k].scalar) compute = types[k].dtype;
    }
    if (compute == DType::none)
        compute = !wanted.empty() ? wanted[0].dtype : !types.empty() ? types[0].dtype : DType::f32;
    if (attrs.empty() && !row.attrs.empty()) attrs = schema::default_attrs(row);
    const schema::Call call{row, types, attrs, compute};
    schema::verify(call);
    std::vector<Type> out;
    row.shape(call, out);
    for (size_t k = 0; k < wanted.size() && k < out.size(); ++k) {
        if (wanted[k].dtype == DType::none) continue;
        check(wanted[k].sizes == out[k].sizes, Status::invalid_argument, row.name, ": output ",
              row.outputs[k].name, " has shape ", text_of_dims(wanted[k].sizes), ", expected ",
              text_of_dims(out[k].sizes));
        if (row.rule == schema::Rule::map) out[k].dtype = wanted[k].dtype;
    }
    for (size_t k = 0; k < out.size(); ++k)
        check_sizes(out[k].dtype, out[k].sizes, row.name, "the result");
    return out;
}

std::vector<uint32_t> Graph::add(const OpRow& row, std::span<const uint32_t> in,
                                 std::vector<Attr> attrs, DType compute,
                                 std::span<const Type> wanted, std::string_view place_text) {
    const std::vector<Type> types = types_of(row.name, in);
    const std::vector<Type> out = results_of(row, types, attrs, compute, wanted);
    const Placed placed(place, place_text);
    if (row.compose) return row.compose(*this, {row, types, attrs, compute}, in);
    place_scalars(row, attrs);
    Node node{&row, compute, -1, no_value, {}, {}, std::move(attrs)};
    node.inputs.append(in.begin(), in.end());
    append(std::move(node), out);
    return {nodes.back().outputs.begin(), nodes.back().outputs.end()};
}

void Graph::add_prologue(const OpRow& row, std::span<const uint32_t> in, std::vector<Attr> attrs,
                         Code code, DType compute, std::span<const Type> wanted,
                         std::string_view place_text) {
    check(row.prologue >= 0 && wanted.size() == row.outputs.size() + 1, Status::invalid_argument,
          row.name, ": no program can make ", wanted.size(), " results with it");
    std::vector<Type> types = types_of(row.name, in);
    for (uint32_t v : code.inputs) check_value(v, row.name);
    types.insert(types.begin() + std::min<std::ptrdiff_t>(row.prologue, std::ssize(types)),
                 wanted.back());
    std::vector<Type> out =
        results_of(row, types, attrs, compute, wanted.first(row.outputs.size()));
    check_sizes(wanted.back().dtype, wanted.back().sizes, row.name, row.inputs[row.prologue].name);
    out.push_back(wanted.back());
    place_scalars(row, attrs);
    place_scalars(*code.program, code.attrs);
    const Placed placed(place, place_text);
    Node node{&row, compute, -1, no_value, {}, {}, std::move(attrs)};
    node.inputs.append(in.begin(), in.end());
    append_program(node, std::move(code));
    append(std::move(node), out);
    check_program(*this, nodes.back());
}

void Graph::place_scalars(const OpRow& row, std::span<Attr> attrs) {
    for (size_t k = 0; k < attrs.size(); ++k) {
        const schema::AttrKind kind = row.attrs[k].kind;
        if (kind != schema::AttrKind::real && kind != schema::AttrKind::seed) continue;
        kernels::Param p;
        if (kind == schema::AttrKind::real) p.f = attrs[k].f;
        else p.i = attrs[k].i;
        attrs[k].scalar = static_cast<uint32_t>(scalars.size());
        scalars.push_back(p);
    }
}

void Graph::place_scalars(const kernels::Program& program, std::span<Attr> attrs) {
    for (const kernels::Instruction& i : program.code) {
        const OpRow& row = row_of(i);
        check(i.first_param + param_count(row) <= attrs.size(), Status::invalid_argument,
              "map: too few parameters");
        place_scalars(row, attrs.subspan(i.first_param, param_count(row)));
    }
}

void Graph::add_program(Code code, std::span<const Type> out, std::string_view place_text) {
    for (uint32_t v : code.inputs) check_value(v, "map");
    place_scalars(*code.program, code.attrs);
    const Placed placed(place, place_text);
    Node node{&program_row(), out.empty() ? DType::none : out[0].dtype, -1, no_value, {}, {}, {}};
    append_program(node, std::move(code));
    append(std::move(node), out);
    check_program(*this, nodes.back());
}

void Graph::add_epilogue(Code code, std::span<const Type> out) {
    check(!nodes.empty() && nodes.back().row->epilogue && !nodes.back().program,
          Status::invalid_argument, nodes.empty() ? "map" : nodes.back().row->name,
          ": no program can run on its result");
    Node& node = nodes.back();
    for (uint32_t v : code.inputs) check_value(v, node.row->name);
    place_scalars(*code.program, code.attrs);
    append_program(node, std::move(code));
    add_outputs(static_cast<uint32_t>(nodes.size() - 1), out);
    check_program(*this, node);
}

void Graph::append(Node node, std::span<const Type> out) {
    node.recorded = static_cast<uint32_t>(places.size());
    places.push_back(place);
    if (caller) {
        callers.resize(places.size());
        callers.back() = caller;
    }
    nodes.push_back(std::move(node));
    add_outputs(static_cast<uint32_t>(nodes.size() - 1), out);
}

void Graph::add_outputs(uint32_t number, std::span<const Type> out) {
    auto& outputs_of_node = nodes[number].outputs;
    for (const Type& type : out) {
        const uint32_t v = add_value(type.dtype, ValueKind::result, number, type.sizes);
        values[v].output = static_cast<uint16_t>(outputs_of_node.size());
        outputs_of_node.push_back(v);
    }
}

std::vector<uint32_t> Graph::op(std::string_view name, std::span<const uint32_t> in,
                                std::vector<Attr> attrs, DType compute) {
    const OpRow* row = schema::find_op(name);
    check(row, Status::internal, "composition of unknown op ", name);
    return add(*row, in, std::move(attrs), compute);
}

void Graph::set_output(uint32_t v, std::string name) {
    check_value(v, "set_output");
    check(values[v].kind != ValueKind::scalar, Status::invalid_argument, "set_output: %", v,
          " is a number");
    for (const Output& o : outputs)
        check(name.empty() || o.name != name, Status::invalid_argument,
              "set_output: there is an output '", name, "' already");
    outputs.push_back({v, std::move(name)});
}

void Graph::name_axis(uint32_t v, uint32_t dim, std::string name) {
    check_value(v, "name_axis");
    check(dim < values[v].sizes.size(), Status::index_error, "name_axis: dim ", dim, " of %", v,
          " with shape ", text_of_dims(values[v].sizes));
    check(!name.empty(), Status::invalid_argument, "name_axis: the name is empty");
    // Sorted, so that the order of naming makes no other graph; the last name of a dim counts.
    AxisMark mark{v, dim, std::move(name)};
    const auto at =
        std::lower_bound(marks.begin(), marks.end(), mark, std::mem_fn(&AxisMark::before));
    if (at != marks.end() && !mark.before(*at)) *at = std::move(mark);
    else marks.insert(at, std::move(mark));
}

void Graph::check_cut(std::string_view name, const AxisCut& cut) const {
    int64_t sum = 0;
    for (int64_t n : cut) {
        check(n > 0, Status::invalid_argument, "axis ", name, ": a segment of ", n, " elements");
        check(!__builtin_add_overflow(sum, n, &sum), Status::invalid_argument, "axis ", name,
              ": too long a cut");
    }
    bool known = false;
    for (const AxisMark& m : marks) {
        if (m.name != name) continue;
        known = true;
        const int64_t extent = values[m.value].sizes[m.dim];
        check(cut.size() < 2 || sum == extent, Status::invalid_argument, "axis ", name,
              " has extent ", extent, ", but the segments ", text_of_dims(cut), " sum to ", sum);
    }
    check(known, Status::not_found, "no axis is named '", name, "'");
}

static void add_program_to(Hash& h, const kernels::Program& program) {
    h.add(program.code.size());
    for (const kernels::Instruction& i : program.code) {
        h.add(i.primitive)
            .add(static_cast<uint64_t>(i.compute) << 8 | static_cast<uint64_t>(i.result));
        for (const auto* registers : {&i.in, &i.out})
            for (uint8_t r : *registers) h.add(r);
    }
}

Hash Graph::hash() const {
    Hash h;
    for (const Value& v : values) {
        h.add(static_cast<uint64_t>(v.dtype) << 8 | static_cast<uint64_t>(v.kind));
        if (v.kind == ValueKind::input || v.kind == ValueKind::result) h.add_all(v.sizes);
    }
    for (const View& v : views) {
        h.add(v.base).add(v.layout.offset).add_all(v.layout.sizes);
        // Strides of size-1 dims have no meaning
        for (size_t d = 0; d < v.layout.sizes.size(); ++d)
            h.add(v.layout.sizes[d] > 1 ? v.layout.strides[d] : 0);
    }
    for (const Node& n : nodes) {
        if (n.host_call >= 0) hosts[n.host_call].add_to(h);
        else if (n.program) add_program_to(h, *n.program);
        if (n.host_call < 0 && n.row != &program_row()) h.add(schema::number_of(*n.row));
        h.add(static_cast<uint64_t>(n.compute)).add_all(n.inputs).add(n.outputs.size());
        for (size_t k = 0; k < n.attrs.size(); ++k) {
            const Attr& a = n.attrs[k];
            if (a.scalar != no_value) h.add(a.scalar);
            else h.add(a.i).add_all(a.ints);
        }
    }
    for (const Output& o : outputs) h.add(o.value).add(o.input);
    for (const Input& i : inputs) h.add(i.value << 1 | (i.overwritable ? 1 : 0));
    for (const AxisMark& m : marks) h.add(m.value).add(m.dim).add(m.name);
    return h;
}

}  // namespace nntile::graph
