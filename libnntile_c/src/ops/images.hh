// SPDX-License-Identifier: BSD-3-Clause
// What rows over images (n, c, spatial..) share: windows, and channels that are the last dim in
// memory.
#pragma once

#include "ops/common.hh"

namespace nntile::ops {

// The values of a spatial attribute, one for each dim; one value stands for all.
inline Dims spatial(const Call& call, std::string_view name, size_t rank, int64_t least) {
    Dims values = call.attr(name).ints;
    if (values.size() == 1) values.assign(rank, values[0]);
    check(values.size() == rank, Status::invalid_argument, call.row.name, ": ", name, " has ",
          values.size(), " values for ", rank, " spatial dims");
    for (int64_t v : values)
        check(v >= least, Status::invalid_argument, call.row.name, ": ", name, " must be at least ",
              least, ", got ", text_of_dims(values));
    return values;
}

// With attribute channels_last a result has the channels as its last dim.
inline bool is_last(const Call& call) { return call.attr("channels_last").i != 0; }
inline Dims stored(const Call& call, Dims sizes) {
    if (is_last(call)) std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
    return sizes;
}
inline Labels stored(const Call& call, Labels labels) {
    if (is_last(call)) std::rotate(labels.begin() + 1, labels.begin() + 2, labels.end());
    return labels;
}

// Such a result, seen as (n, c, spatial..).
inline uint32_t in_usual_order(Builder& graph, uint32_t made) {
    Layout layout = Layout::dense(graph.type_of(made).sizes);
    std::rotate(layout.sizes.begin() + 1, layout.sizes.end() - 1, layout.sizes.end());
    std::rotate(layout.strides.begin() + 1, layout.strides.end() - 1, layout.strides.end());
    return graph.view(made, layout);
}

// The elements of an image lie with the channels last, and not in the usual order as well.
inline bool lies_last(const Builder& graph, uint32_t value) {
    const Layout layout = graph.layout_of(value);
    const auto in_order = [&](const auto& dims) {
        int64_t inner = 1;
        for (size_t k = dims.size(); k-- > 0;) {
            if (layout.sizes[dims[k]] == 1) continue;
            if (layout.strides[dims[k]] != inner) return false;
            inner *= layout.sizes[dims[k]];
        }
        return true;
    };
    SmallVector<size_t, 5> usual(layout.sizes.size());
    std::iota(usual.begin(), usual.end(), size_t{0});
    SmallVector<size_t, 5> last = usual;
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    return layout.sizes.size() > 3 && !in_order(usual) && in_order(last);
}

}  // namespace nntile::ops
