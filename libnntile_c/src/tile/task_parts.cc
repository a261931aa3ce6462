// SPDX-License-Identifier: BSD-3-Clause
#include "tile/task_parts.hh"

#include "base/merge_dims.hh"
#include "graph/program.hh"
#include "tile/cost.hh"

namespace nntile::tile {

using graph::no_value;
using schema::LabelKind;

static ParamRef param_of(const schema::Attr& a) {
    ParamRef p;
    if (a.scalar != no_value) p.scalar = a.scalar;
    p.fixed.i = a.i;
    return p;
}

void add_params(Task& task, const graph::Node& node, const NodeSpace& space, bool accumulate) {
    const schema::OpRow& row = *node.row;
    std::vector<schema::ParamSpec> specs;
    if (row.params) row.params({row, space.inputs, node.attrs, node.compute}, accumulate, specs);
    else
        for (size_t a = 0; a < row.attrs.size(); ++a)
            if (row.attrs[a].kind == schema::AttrKind::real ||
                row.attrs[a].kind == schema::AttrKind::seed)
                specs.push_back({static_cast<int>(a), {}});
    for (const schema::ParamSpec& s : specs) {
        if (s.attr >= 0) task.params.push_back(param_of(node.attrs[s.attr]));
        else task.params.push_back({.fixed = s.fixed});
    }
}

void add_program_params(Task& task, const graph::Node& node) {
    for (const schema::Attr& a : graph::parts_of(node).after.attrs)
        task.params.push_back(param_of(a));
}

void set_index(Task& task, const NodeSpace& space, const Grid& iteration, const Dims& segments) {
    Dims strides;  // by label
    if (task.program) {
        if (!kernels::uses_index(*task.program)) return;
        strides = dense_strides(space.outputs[0].sizes);
    } else {
        if (!task.kernel || task.kernel->place == 0) return;
        strides.assign(space.relation.labels.size(), 0);
        strides[strides.size() - static_cast<size_t>(task.kernel->place)] = 1;
    }
    task.index_strides.assign(iteration.dims.size(), 0);
    for (size_t i = 0; i < iteration.dims.size(); ++i) {
        const GridDim& d = iteration.dims[i];
        if (d.dim >= strides.size()) continue;  // summed over
        int64_t stride = strides[d.dim];
        for (size_t j = i + 1; j < iteration.dims.size() && iteration.dims[j].dim == d.dim; ++j)
            stride *= iteration.dims[j].extent;
        task.index_strides[i] = stride;
        task.index_offset += d.starts[segments[i]] * stride;
    }
}

void make_host_call(Task& task, const graph::Graph& graph, const graph::Node& node,
                    const NodeSpace& space, const Grid& iteration, const Dims& segments,
                    bool accumulate) {
    const graph::Host& host = graph.hosts[node.host_call];
    task.host_call = node.host_call;
    task.effect = host.effect;
    task.flops = task.bytes * host_weight(host.name);
    for (Operand& o : task.operands) o.strides.clear();
    task.params.emplace_back().fixed.i = accumulate;
    const auto& labels = space.relation.labels;
    Dims extents;
    for (const schema::Label& label : labels) extents.push_back(label.extent);
    task.sizes.assign(labels.size(), 1);
    if (host.ranges) task.index_strides = dense_strides(extents);
    Dims starts(labels.size(), 0);
    for (size_t i = 0; i < iteration.dims.size(); ++i) {  // factors of one axis: outer ones first
        const GridDim& d = iteration.dims[i];
        task.sizes[d.dim] *= d.size(segments[i]);
        starts[d.dim] = starts[d.dim] * d.extent + d.starts[segments[i]];
    }
    for (size_t l = 0; l < task.index_strides.size(); ++l)
        task.index_offset += starts[l] * task.index_strides[l];
}

SmallVector<size_t, 8> coalesce_task(Task& task, const Flags& may_merge, const Flags& keep) {
    SmallVector<Dims*, 8> strides;
    for (Operand& o : task.operands)
        if (!o.strides.empty()) strides.push_back(&o.strides);
    if (!task.index_strides.empty()) strides.push_back(&task.index_strides);
    SmallVector<size_t, 8> dims;  // that are left without those of size 1
    for (size_t i = 0; i < task.sizes.size(); ++i) {
        if (task.sizes[i] == 1 && !keep[i]) continue;
        task.sizes[dims.size()] = task.sizes[i];
        for (Dims* own : strides) (*own)[dims.size()] = (*own)[i];
        dims.push_back(i);
    }
    const auto may_join = [&](int d) {
        const size_t last = dims[d - 1], own = dims[d];
        bool may = !keep[last] && !keep[own];
        for (size_t j = last; j < own; ++j) may = may && may_merge[j];
        return may;
    };
    SmallVector<int64_t*, 8> arrays;
    for (Dims* own : strides) arrays.push_back(own->data());
    SmallVector<int, 8> first(dims.size());
    const auto left = static_cast<size_t>(merge_dims(
        {task.sizes.data(), dims.size()}, {arrays.data(), arrays.size()}, may_join, first.data()));
    task.sizes.resize(left);
    for (Dims* own : strides) own->resize(left);
    SmallVector<size_t, 8> first_dims;
    for (size_t d = 0; d < left; ++d) first_dims.push_back(dims[first[d]]);
    return first_dims;
}

bool fit_kernel(Task& task, const schema::OpRow& row, const schema::Relation& relation,
                const Grid& iteration, uint32_t& misfit) {
    misfit = none;
    const size_t rank = iteration.dims.size();
    const auto& labels = relation.labels;
    auto label = [&](size_t i) { return iteration.dims[i].dim; };
    auto own = [&](size_t l) {
        return l + row.kernel_dims >= labels.size() || labels[l].kind == LabelKind::whole;
    };
    Flags merge(rank, false), keep(rank, false);
    for (size_t i = 0; i < rank; ++i) {
        merge[i] =
            i + 1 < rank && (label(i) == label(i + 1) || (!own(label(i)) && !own(label(i + 1))));
        bool ones = true;  // the last one of a label's size-1 dims stays
        for (size_t j = 0; j < rank; ++j)
            ones = ones && (label(j) != label(i) || task.sizes[j] == 1);
        keep[i] = own(label(i)) && ones && (i + 1 == rank || label(i + 1) != label(i));
    }
    const auto left = coalesce_task(task, merge, keep);
    SmallVector<int, 8> dims(labels.size(), 0);
    for (size_t i : left) ++dims[label(i)];
    for (size_t l = 0; l < labels.size(); ++l)
        if (own(l) && dims[l] != 1) return false;
    if (row.rule != schema::Rule::contract) return true;
    const size_t n = left.size();
    const int64_t M = task.sizes[n - 3], N = task.sizes[n - 2], K = task.sizes[n - 1];
    const Dims &a = task.operands[0].strides, &b = task.operands[1].strides;
    if (!kernels::gemm_layout_ok(M, K, a[n - 3], a[n - 1])) misfit = 0;
    else if (!kernels::gemm_layout_ok(K, N, b[n - 1], b[n - 2])) misfit = 1;
    return misfit == none;
}

}  // namespace nntile::tile
