// SPDX-License-Identifier: BSD-3-Clause
// Second step: the results, new or written, and what may be written.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided_native.h>
#include <c10/core/DefaultDtype.h>

#include "contract/device.h"
#include "device/storage.h"
#include "host/fallback.h"
#include "rows/rows.h"

namespace torch_nntile {

using at::Tensor;
using c10::ScalarType;

namespace {

// A layout that repeats elements, without the repetition.
Tensor without_repetition(const Tensor& t) {
    at::DimVector sizes(t.sizes());
    for (size_t d = 0; d < sizes.size(); ++d)
        if (t.strides()[d] == 0) sizes[d] = std::min<int64_t>(sizes[d], 1);
    return at::native::as_strided_tensorimpl(t, sizes, t.strides(), t.storage_offset());
}

// What ATen does with an out= argument of other sizes, strides included.
void resize_out(const Tensor& t, const Shape& shape) {
    if (t.sizes() == shape.sizes) return;
    at::native::resize_output(t, shape.sizes);
    if (t.strides() != shape.strides)
        t.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes, shape.strides);
}

}  // namespace

bool Row::infer_fast(const View& view, const Inputs& in, Results& out) {
    if (!t_.map || t_.has_dtype_argument || !in.uniform || in.doubtful || t_.outputs.size() > 2)
        return false;
    bool makes = false;
    for (size_t o = 0; o < t_.outputs.size(); ++o) {
        if (learned(o, in.common).load(std::memory_order_relaxed) == ScalarType::Undefined)
            return false;
        makes |= t_.outputs[o].argument == no_argument;
    }
    at::DimVector sizes;
    bool first = true, broadcasts = false;
    for (size_t i = 0; i < in.values.size(); ++i) {
        const Tensor* t = in.values[i].tensor;
        if (!t) {  // a number is a tensor of no dims
            broadcasts |=
                source_of(i).variable && in.values[i].number.type != ScalarType::Undefined;
            continue;
        }
        // An empty tensor counts as contiguous whatever its strides, which the result takes over.
        if (makes && (!t->is_contiguous() || t->numel() == 0)) return false;
        if (!source_of(i).variable && t->scalar_type() != ScalarType::Bool)
            return false;  // Meta checks it
        if (first) sizes = t->sizes();
        else if (t->sizes() != sizes) {
            sizes = at::infer_size_dimvector(sizes, t->sizes());
            broadcasts = true;
        }
        first = false;
    }
    // Where operands broadcast, strides of dims of one element decide the order of the result's
    // dims.
    if (makes && broadcasts)
        for (const Value& v : in.values)
            if (v.tensor && v.tensor->strides() != dense_strides(v.tensor->sizes())) return false;
    at::DimVector strides;
    for (size_t o = 0; o < t_.outputs.size(); ++o) {
        const ScalarType type = learned(o, in.common).load(std::memory_order_relaxed);
        if (t_.outputs[o].argument == no_argument) {
            if (strides.empty()) strides = dense_strides(sizes);
            out.push_back(make_tensor(sizes, strides, type));
        } else {
            const Tensor& t = view[t_.outputs[o].argument].toTensor();
            if (t.sizes() != sizes || t.scalar_type() != type) {
                out.clear();
                return false;
            }
            out.push_back(t);
        }
    }
    return true;
}

void Row::infer_cached(const c10::OperatorHandle& op, const View& view, const Inputs& in,
                       Results& out, MetaCache::Guess& guess) {
    // Meta kernels let pass what the CPU refuses: x - True, bool *= int, int ** -1, random_(3, 2).
    const bool mixed = in.common != ScalarType::Undefined && !in.uniform;
    const bool doubtful = (t_.map && (mixed || in.doubtful || in.common == ScalarType::Bool)) ||
                          t_.generator != no_argument;
    const auto shapes = cache_.shapes(op, view.arguments, doubtful, t_.map ? nullptr : &guess);
    for (size_t r = 0; r < t_.returns.size(); ++r) {
        const int k = t_.returns[r];
        if (k == no_argument || !t_.out_argument[k]) continue;
        const Tensor& written = view.arguments[k].toTensor();
        if (t_.map) check_resizable(view.arguments, k, (*shapes)[r][0].sizes);
        resize_out(written, (*shapes)[r][0]);
    }
    for (const OutputSource& source : t_.outputs)
        out.push_back(source.argument == no_argument ? (*shapes)[source.result][0].make()
                                                     : view[source.argument].toTensor());
    if (!t_.map || !in.uniform) return;
    for (size_t o = 0; o < std::min<size_t>(out.size(), 2); ++o)
        if (out[o].defined())
            learned(o, in.common).store(out[o].scalar_type(), std::memory_order_relaxed);
}

void Row::check_devices(Arguments arguments) const {
    for (const OutputSource& o : t_.outputs) {
        if (o.argument == no_argument) continue;
        each_tensor(arguments[o.argument], [&](const Tensor& t) {
            if (t.defined() && !ours(t)) wrong_device(t_.aten, o.argument, t);
        });
    }
}

// TensorIterator's checks; others only ask that a written tensor does not overlap itself.
bool Row::check_writes(const Inputs& in, Results& out) const {
    bool follows = true;
    for (size_t o = 0; o < out.size(); ++o) {
        const int argument = t_.outputs[o].argument;
        if (argument == no_argument || !out[o].defined()) continue;
        if (t_.whole_write) {
            if (!out[o].is_non_overlapping_and_dense()) out[o] = without_repetition(out[o]);
            continue;
        }
        if (!t_.overlap_allowed) at::assert_no_internal_overlap(out[o]);
        follows &= !may_overlap_itself(out[o]);
        if (!t_.map) continue;
        for (const Value& v : in.values)
            if (v.tensor && !v.tensor->is_same(out[o]) && v.tensor->is_alias_of(out[o]))
                at::assert_no_partial_overlap(out[o], *v.tensor);
    }
    return follows;
}

ScalarType Row::compute_type(const Inputs& in, const Results& out) const {
    if (!t_.has_variable) return ScalarType::Undefined;
    ScalarType type = in.common;
    for (size_t o = 0; o < out.size(); ++o) {
        if (!t_.outputs[o].variable || !out[o].defined()) continue;
        const ScalarType result = out[o].scalar_type();
        // sum(dtype=...), and true division of integers.
        const bool promotes = t_.outputs[o].result >= 0 && c10::isIntegralType(type, true) &&
                              c10::isFloatingType(result);
        if (type == ScalarType::Undefined || t_.has_dtype_argument || promotes) type = result;
        // exp(int, out=float)
        if (c10::isIntegralType(type, true) && !takes(type) && c10::isFloatingType(result))
            type = c10::get_default_dtype_as_scalartype();
        // index_fill(int, 2.5): the number becomes what is there.
        if (!t_.map && c10::isIntegralType(result, true) && c10::isFloatingType(type))
            type = result;
        break;
    }
    return type;
}

bool Row::numbers_fit(const View& view, const Inputs& in, const Results& out) const {
    const ScalarType type = compute_type(in, out);
    const bool integral = c10::isIntegralType(type, true);
    for (const AttrSource& source : t_.attrs) {
        if (!t_.map || !source.is_number_argument()) continue;
        const c10::IValue& v = view[source.argument];
        if (!v.isScalar()) continue;
        const Number n = number_of(v.toScalar());
        if (n.type == ScalarType::Bool && type != n.type) return false;
        if (integral && (!c10::isIntegralType(n.type, true) || !fits(n, type))) return false;
    }
    if (!c10::isIntegralType(type, false)) return true;
    for (size_t i = 0; i < in.values.size(); ++i) {
        const Value& v = in.values[i];
        const bool counts = !v.tensor && source_of(i).variable && !source_of(i).constant;
        if (counts && v.number.type != ScalarType::Undefined && !fits(v.number, type)) return false;
    }
    return true;
}

}  // namespace torch_nntile
