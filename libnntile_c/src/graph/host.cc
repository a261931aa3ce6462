// SPDX-License-Identifier: BSD-3-Clause
// Functions of the host as nodes.
#include <algorithm>
#include <functional>

#include "base/error.hh"
#include "graph/graph.hh"

namespace nntile::graph {

const OpRow& host_row() {
    static const OpRow row{
        .name = "host",
        .doc = "a function of the host on dense operands, whole but for their axes",
        .rule = schema::Rule::host,
        .inputs = {{"x*", "any"}},
        .outputs = {{"y*", "any"}},
        .combine = "add",
        .flops = 0};
    return row;
}

void Graph::check_axes(const Host& host, std::span<const uint32_t> in,
                       std::span<const Type> out) const {
    const HostAxes& axes = host.axes;
    const std::string& name = host.name;
    if (axes.empty()) return;
    constexpr int64_t most = 8;
    const size_t n = in.size() + out.size();
    check(axes.size() == n, Status::invalid_argument, name, ": axes of ", axes.size(),
          " operands, there are ", n);
    Dims extents;
    for (size_t k = 0; k < n; ++k) {
        const Type type = k >= in.size()      ? out[k - in.size()]
                          : in[k] == no_value ? Type{}
                                              : type_of(in[k]);
        check(axes[k].size() == type.sizes.size(), Status::invalid_argument, name, ": operand ", k,
              " has ", type.sizes.size(), " dims, ", axes[k].size(), " axes are given");
        for (size_t d = 0; d < axes[k].size(); ++d) {
            const int64_t axis = axes[k][d];
            check(axis >= -1 && axis < most, Status::invalid_argument, name, ": operand ", k,
                  " has an axis ", axis, "; there may be ", most);
            check(axis < 0 || std::count(axes[k].begin(), axes[k].end(), axis) == 1,
                  Status::invalid_argument, name, ": operand ", k, " has axis ", axis, " twice");
            while (axis >= static_cast<int64_t>(extents.size())) extents.push_back(-1);
            if (axis < 0) continue;
            int64_t& extent = extents[axis];
            if (extent < 0) extent = type.sizes[d];
            check(extent == type.sizes[d], Status::invalid_argument, name, ": axis ", axis,
                  " of operand ", k, " has extent ", type.sizes[d], ", that of another one ",
                  extent);
        }
    }
    for (size_t axis = 0; axis < extents.size(); ++axis) {
        size_t have = 0;
        for (size_t k = in.size(); k < n; ++k)
            have += std::count(axes[k].begin(), axes[k].end(), axis);
        // Else several parts of the call would write the same elements
        check(have == out.size() || (have == 0 && !host.ranges), Status::invalid_argument, name,
              ": axis ", axis, host.ranges ? " is not in all outputs" : " is in some outputs only");
    }
}

void Graph::check_updated(const Host& host, std::span<const uint32_t> in,
                          std::span<const Type> out) const {
    check(host.updated <= in.size() && host.updated <= out.size(), Status::invalid_argument,
          host.name, ": ", host.updated, " updated operands of ", in.size(), " inputs and ",
          out.size(), " outputs");
    for (size_t k = 0; k < host.updated; ++k) {
        const Type type = in[k] == no_value ? Type{} : type_of(in[k]);
        check(type.dtype == out[k].dtype && type.sizes == out[k].sizes, Status::invalid_argument,
              host.name, ": updated operand ", k, " has another shape or dtype as an output");
    }
}

std::vector<uint32_t> Graph::add_host(Host host, std::span<const uint32_t> in,
                                      std::span<const Type> out, std::string_view text) {
    const std::string& name = host.name;
    for (uint32_t v : in)
        if (v != no_value) check_value(v, name);
    check_axes(host, in, out);
    check_updated(host, in, out);
    const Placed placed(place, text);
    Node node{&host_row(), DType::none, static_cast<int32_t>(hosts.size()), no_value, {}, {}, {}};
    hosts.push_back(std::move(host));
    node.inputs.append(in.begin(), in.end());
    append(std::move(node), out);
    return {nodes.back().outputs.begin(), nodes.back().outputs.end()};
}

bool Graph::is_idle() const {
    return outputs.empty() &&
           std::none_of(hosts.begin(), hosts.end(), [](const Host& host) { return host.effect; });
}

void Host::add_to(Hash& h) const {
    h.add(signature).add(ranges).add(updated).add(effect);
    for (const Dims& own : axes) h.add_all(own);
}

}  // namespace nntile::graph
