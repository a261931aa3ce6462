// SPDX-License-Identifier: BSD-3-Clause
// What compose rows compute with element-wise ops.
#pragma once

#include "ops/common.hh"

namespace nntile::ops {

// Arithmetic in one dtype, to which operands are cast.
class Numbers {
public:
    Numbers(Builder& graph, DType dtype) : graph_(graph), dtype_(dtype) {}

    uint32_t op(const char* name, std::vector<uint32_t> inputs, std::vector<Attr> attrs = {}) {
        for (uint32_t& v : inputs) v = graph_.in_dtype(v, dtype_);
        return graph_.op(name, inputs, std::move(attrs), dtype_)[0];
    }
    uint32_t number(double x) { return graph_.scalar(dtype_, x, 0); }
    uint32_t add(uint32_t a, uint32_t b, double alpha = 1) {
        return op("add", {a, b}, {real(alpha)});
    }
    uint32_t sub(uint32_t a, uint32_t b) { return op("sub", {a, b}); }
    uint32_t mul(uint32_t a, uint32_t b) { return op("mul", {a, b}); }
    uint32_t div(uint32_t a, double b) { return op("div", {a, number(b)}); }
    uint32_t neg(uint32_t a) { return op("neg", {a}); }
    uint32_t rsqrt(uint32_t a, double eps) { return op("rsqrt", {add(a, number(eps))}); }

private:
    Builder& graph_;
    const DType dtype_;
};

}  // namespace nntile::ops
