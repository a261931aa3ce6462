// SPDX-License-Identifier: BSD-3-Clause
#include "shapes/learned.h"

#include <bit>

#include "contract/device.h"

namespace torch_nntile {
namespace {

constexpr size_t most_rules = 256;  // of one overload; then it starts anew
constexpr size_t most_dims = 64;    // of all tensors of a call: bits of a word
constexpr int enough_examples = 3;

uint64_t equal_to(int64_t size, c10::ArrayRef<int64_t> sizes) {
    uint64_t same = 0;
    for (size_t k = 0; k < sizes.size(); ++k) same |= uint64_t{sizes[k] == size} << k;
    return same;
}

}  // namespace

bool LearnedShapes::read(const c10::OperatorHandle& op, Arguments arguments, Signature& structure,
                         Sizes& sizes) {
    structure.push_back(call_state());
    for (size_t k = 0; k < arguments.size(); ++k) {
        if (op.schema().arguments()[k].is_out()) return false;
        const c10::IValue& v = arguments[k];
        bool dense = true, any = false;
        each_tensor(v, [&](const at::Tensor& t) {
            any = true;
            if (!t.defined()) return structure.push_back(-1);
            dense &= t.numel() > 0 && t.strides() == dense_strides(t.sizes());
            structure.push_back(t.dim() | static_cast<int64_t>(t.scalar_type()) << 8 |
                                int64_t{ours(t)} << 16 |
                                int64_t{t.unsafeGetTensorImpl()->is_wrapped_number()} << 17);
            sizes.append(t.sizes().begin(), t.sizes().end());
        });
        if (!dense || sizes.size() > most_dims) return false;
        if (any || v.isTensorList() || v.isOptionalTensorList()) structure.push_back(-2);
        else append_signature(v, false, structure);
    }
    return !sizes.empty();
}

bool LearnedShapes::fits(const Rule& rule, const Sizes& sizes) {
    for (size_t k = 0; k < sizes.size(); ++k) {
        const Dim& dim = rule.arguments[k];
        if (dim.is_constant && dim.constant != sizes[k]) return false;
        if (dim.same & ~equal_to(sizes[k], sizes)) return false;
    }
    return true;
}

std::optional<Shapes> LearnedShapes::guess(const c10::OperatorHandle& op, Arguments arguments) {
    Signature structure;
    Sizes sizes;
    if (!read(op, arguments, structure, sizes)) return std::nullopt;
    std::lock_guard lock(mutex_);
    const auto it = rules_.find(structure);
    if (it == rules_.end()) return std::nullopt;
    const Rule& rule = it->second;
    if (rule.hopeless || rule.examples < enough_examples || !fits(rule, sizes)) return std::nullopt;
    Shapes shapes;
    for (const auto& list : rule.results) {
        auto& made = shapes.emplace_back();
        for (const Result& result : list) {
            Shape& shape = made.emplace_back();
            shape.dtype = result.dtype;
            for (const Dim& dim : result.dims)
                shape.sizes.push_back(dim.is_constant ? dim.constant
                                                      : sizes[std::countr_zero(dim.same)]);
            shape.strides = dense_strides(shape.sizes);
        }
    }
    return shapes;
}

void LearnedShapes::learn(Rule& rule, const Sizes& sizes, const Shapes& shapes) {
    const auto see = [&](Dim& dim, int64_t size) {
        dim.is_constant &= dim.constant == size;
        dim.same &= equal_to(size, sizes);
    };
    for (size_t k = 0; k < sizes.size(); ++k) see(rule.arguments[k], sizes[k]);
    for (size_t r = 0; r < shapes.size(); ++r)
        for (size_t i = 0; i < shapes[r].size(); ++i) {
            const Shape& shape = shapes[r][i];
            Result& result = rule.results[r][i];
            rule.hopeless |= shape.sizes.size() != result.dims.size() ||
                             shape.dtype != result.dtype ||
                             shape.strides != dense_strides(shape.sizes);
            for (size_t d = 0; d < result.dims.size() && !rule.hopeless; ++d) {
                see(result.dims[d], shape.sizes[d]);
                rule.hopeless |= !result.dims[d].is_constant && !result.dims[d].same;
            }
        }
    ++rule.examples;
}

void LearnedShapes::teach(const c10::OperatorHandle& op, Arguments arguments,
                          const Shapes& shapes) {
    Signature structure;
    Sizes sizes;
    if (!read(op, arguments, structure, sizes)) return;
    std::lock_guard lock(mutex_);
    if (rules_.size() >= most_rules) rules_.clear();
    const auto [it, fresh] = rules_.try_emplace(std::move(structure));
    Rule& rule = it->second;
    if (fresh) {
        for (const int64_t size : sizes) rule.arguments.push_back({size, true, ~Dims{0}});
        for (const auto& list : shapes) {
            auto& results = rule.results.emplace_back();
            for (const Shape& shape : list) {
                Result& result = results.emplace_back();
                result.dtype = shape.dtype;
                for (const int64_t size : shape.sizes)
                    result.dims.push_back({size, true, ~Dims{0}});
            }
        }
    }
    rule.hopeless |= rule.results.size() != shapes.size();
    for (size_t r = 0; r < shapes.size() && !rule.hopeless; ++r)
        rule.hopeless |= rule.results[r].size() != shapes[r].size();
    if (!rule.hopeless) learn(rule, sizes, shapes);
}

}  // namespace torch_nntile
