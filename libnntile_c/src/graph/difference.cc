// SPDX-License-Identifier: BSD-3-Clause
#include "graph/difference.hh"

#include <algorithm>

#include "base/error.hh"
#include "base/shape.hh"

namespace nntile::graph {

std::string difference(const Graph& before, const Graph& now) {
    if (now.nodes.size() != before.nodes.size())
        return text_of(now.nodes.size(), " nodes were recorded together, before it were ", before.nodes.size());
    for (size_t k = 0; k < now.nodes.size(); ++k) {
        const std::string name = name_of(now, now.nodes[k]), old = name_of(before, before.nodes[k]);
        if (name != old) return text_of("node ", k, " is ", name, ", it was ", old);
    }
    for (size_t k = 0; k < std::min(now.inputs.size(), before.inputs.size()); ++k) {
        const Value &v = now.value(now.inputs[k].value), &w = before.value(before.inputs[k].value);
        if (v.dtype != w.dtype) return text_of("input ", k, " is ", name_of(v.dtype), ", it was ", name_of(w.dtype));
        if (v.sizes != w.sizes)
            return text_of("input ", k, " has shape ", text_of_dims(v.sizes), ", it had ", text_of_dims(w.sizes));
    }
    if (now.inputs.size() != before.inputs.size())
        return text_of("it reads ", now.inputs.size(), " tensors, before it read ", before.inputs.size());
    for (size_t k = 0; k < std::min(now.values.size(), before.values.size()); ++k) {
        const Value &v = now.values[k], &w = before.values[k];
        if (v.sizes != w.sizes)
            return text_of("%", k, " has shape ", text_of_dims(v.sizes), ", it had ", text_of_dims(w.sizes));
        if (v.dtype != w.dtype) return text_of("%", k, " is ", name_of(v.dtype), ", it was ", name_of(w.dtype));
    }
    if (now.outputs.size() != before.outputs.size())
        return text_of(now.outputs.size(), " results are kept, before it were ", before.outputs.size());
    for (size_t k = 0; k < now.inputs.size(); ++k)
        if (now.inputs[k].overwritable != before.inputs[k].overwritable)
            return text_of("input ", k, now.inputs[k].overwritable ? " is not needed later, it was"
                                                                   : " is needed later, it was not");
    return "a view, an attribute or a name of an axis is another one";
}

}  // namespace nntile::graph
