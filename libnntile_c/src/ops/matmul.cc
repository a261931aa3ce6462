// SPDX-License-Identifier: BSD-3-Clause
// Matrix products, plain and batched, with an optional addend. Kernel dims: batch.., m, n, k.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

void matmul_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &a = call.inputs[0].sizes, &b = call.inputs[1].sizes;
    const size_t n = a.size();
    bool ok = n >= 2 && b.size() == n && a[n - 1] == b[n - 2];
    for (size_t d = 0; ok && d + 2 < n; ++d) ok = a[d] == b[d];
    check(ok, Status::invalid_argument, call.row.name, ": a ", text_of_dims(a), " and b ",
          text_of_dims(b), " cannot be multiplied");
    Dims y(a);
    y[n - 1] = b[n - 1];
    if (call.has(2)) {
        const Dims& c = call.inputs[2].sizes;
        bool fits = c.size() <= n;
        for (size_t d = 0; fits && d < c.size(); ++d) {
            const int64_t want = y[n - c.size() + d];
            fits = c[d] == want || c[d] == 1;
        }
        check(fits, Status::invalid_argument, call.row.name, ": c ", text_of_dims(c),
              " does not broadcast to ", text_of_dims(y));
    }
    outputs.push_back({call.compute, y, false});
}

void matmul_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const Dims& y = outputs[0].sizes;
    const size_t n = y.size();
    parallel_labels(y, r);
    r.labels.push_back({call.inputs[0].sizes[n - 1], LabelKind::reduce});
    const auto k = static_cast<int8_t>(n);
    Labels a = iota_labels(n), b = iota_labels(n);
    a[n - 1] = k;
    b[n - 2] = k;
    r.operands = {a, b, call.has(2) ? broadcast_labels(call.inputs[2].sizes, y) : Labels{},
                  iota_labels(n)};
}

void matmul_params(const Call& call, bool accumulate, std::vector<ParamSpec>& out) {
    out = {attr_param(call.row, "alpha"), attr_param(call.row, "beta"), fixed_param(accumulate)};
}

OpRow row_of(const char* name, const char* doc, const char* c, const char* type_of_b = "T") {
    return {.name = name,
            .doc = doc,
            .rule = Rule::contract,
            .types = Types::real,
            .inputs = {{"a"}, {"b", type_of_b}, {c}},
            .outputs = {{"y"}},
            .attrs = {{"alpha", AttrKind::real, "1"}, {"beta", AttrKind::real, "1"}},
            .shape = matmul_shape,
            .relate = matmul_relate,
            .kernel = "gemm",
            .kernel_dims = 3,
            .params = matmul_params,
            .combine = "add",
            .flops = 2,
            .epilogue = true};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(matmul) {
    return {row_of("matmul", "y[.., m, n] = alpha * sum_k a[.., m, k] * b[.., k, n]", "c?"),
            row_of("addmm", "y = beta * c + alpha * a @ b; beta = 0 does not read c", "c"),
            row_of("matmul_int8",
                   "likewise, of whole numbers of 8 bits, which are read as they are", "c?", "i8")};
}
