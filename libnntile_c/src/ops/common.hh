// SPDX-License-Identifier: BSD-3-Clause
// How a file of rows presents itself: `NNTILE_ROWS(reduce) { return {...}; }` in ops/reduce.cc. The
// build lists the files (all_ops.inc), ops/table.cc joins them: a lost file is a link error.
#pragma once

#include <algorithm>
#include <numeric>

#include "base/error.hh"
#include "schema/op_row.hh"

#define NNTILE_ROWS(stem) std::vector<nntile::schema::OpRow> nntile::ops::stem##_rows()

namespace nntile::ops {

#define NNTILE_OPS(stem) std::vector<schema::OpRow> stem##_rows();
#include "all_ops.inc"
#undef NNTILE_OPS

using namespace nntile::schema;
using kernels::Types;

inline constexpr size_t all_dims = 64;  // kernel_dims of a kernel that knows each of them

using Labels = SmallVector<int8_t, 8>;

inline Labels iota_labels(size_t n, int first = 0) {
    Labels l(n);
    std::iota(l.begin(), l.end(), static_cast<int8_t>(first));
    return l;
}

// Labels of an operand that is broadcast to `sizes` from the right; sizes are labels 0..rank-1.
inline Labels broadcast_labels(std::span<const int64_t> own, std::span<const int64_t> sizes) {
    Labels l(own.size());
    const size_t shift = sizes.size() - own.size();
    for (size_t d = 0; d < own.size(); ++d)
        l[d] = own[d] == sizes[shift + d] ? static_cast<int8_t>(shift + d) : int8_t{-1};
    return l;
}

inline void parallel_labels(std::span<const int64_t> sizes, Relation& r) {
    for (int64_t n : sizes) r.labels.push_back({n, LabelKind::parallel});
}

inline ParamSpec fixed_param(int64_t i) { return {-1, {.i = i}}; }
inline ParamSpec attr_param(const OpRow& row, std::string_view name) {
    return {static_cast<int>(attr_index(row, name)), {}};
}
inline Attr integer(int64_t i) { return {.i = i, .f = 0, .ints = {}, .scalar = no_value}; }
inline Attr real(double f) { return {.i = 0, .f = f, .ints = {}, .scalar = no_value}; }

// Of a dense value.
inline uint32_t reshaped(Builder& graph, uint32_t value, const Dims& sizes) {
    return graph.type_of(value).sizes == sizes ? value : graph.view(value, Layout::dense(sizes));
}

}  // namespace nntile::ops
