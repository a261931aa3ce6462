// SPDX-License-Identifier: BSD-3-Clause
// First step of a call through a row: its inputs, and the dtype that they are promoted to.
#include <ATen/native/TypeProperties.h>

#include "contract/device.h"
#include "host/fallback.h"
#include "rows/rows.h"

namespace torch_nntile {

using at::Tensor;
using c10::IValue;
using c10::ScalarType;

const IValue& Row::View::operator[](int k) const {
    static const auto* none = new IValue;
    const IValue& v = arguments[k];
    if (element < 0 || !row.t_.walked[k] || v.isNone()) return v;
    const auto list = v.toListRef();
    return static_cast<size_t>(element) < list.size() ? list[element] : *none;
}

Row::Value Row::read_value(const IValue& v, int argument) const {
    if (v.isTensor()) {
        const Tensor& t = v.toTensor();
        if (!t.defined()) return {};
        if (ours(t)) return {&t, {}};
        if (t.is_cpu() && t.dim() == 0) return {nullptr, number_of(t)};
        wrong_device(t_.aten, argument, t);
    }
    if (v.isNone()) return {};
    return {nullptr, number_of(v.toScalar())};
}

void Row::read_inputs(const View& view, Inputs& in) const {
    for (const InputSource& source : t_.inputs) {
        if (source.variadic && source.argument != no_argument) {
            for (const IValue& v : view[source.argument].toListRef())
                in.values.push_back(read_value(v, source.argument));
        } else if (source.constant) {
            in.values.push_back({nullptr, source.number});
        } else if (source.argument != no_argument) {
            in.values.push_back(read_value(view[source.argument], source.argument));
        } else if (!source.variadic) {
            in.values.emplace_back();
        }
    }
    for (const Value& v : in.values)
        in.foreign |= v.tensor ? dtype_of(v.tensor->scalar_type()) == NNTILE_NONE
                               : v.number.type == ScalarType::ComplexDouble;
    promote(view, in);
    if (t_.saturates && c10::isIntegralType(in.common, false)) saturate(in);
}

// What no integer of T passes is refused: PyTorch's words.
void Row::saturate(Inputs& in) const {
    for (size_t i = 0; i < in.values.size(); ++i) {
        Number& bound = in.values[i].number;
        if (!c10::isIntegralType(bound.type, false)) continue;
        const int64_t held = nearest(bound.i, in.common);
        const InputSource& source = source_of(i);
        TORCH_CHECK(!(source.low && held < bound.i) && !(source.high && held > bound.i), "Clamp ",
                    source.low ? "min" : "max", " value ", static_cast<double>(bound.i),
                    " is outside the representable range of ", in.common);
        bound.i = held;
    }
}

// PyTorch's result_type over the inputs of type T. Equal dtypes with plain numbers are nearly all
// calls.
void Row::promote(const View& view, Inputs& in) const {
    if (!t_.has_variable) return;
    // visit(value, argument) for each input of type T that is given by the caller.
    const auto each = [&](auto&& visit) {
        for (size_t i = 0; i < in.values.size(); ++i) {
            const InputSource& source = source_of(i);
            const Value& v = in.values[i];
            if (!source.variable || source.constant ||
                (!v.tensor && v.number.type == ScalarType::Undefined))
                continue;
            const IValue& argument = view[source.argument];
            visit(v, source.variadic ? argument.toListRef()[i + 1 - t_.inputs.size()] : argument);
        }
    };
    bool same = true, any_dim = false, plain = true;
    each([&](const Value& v, const IValue& argument) {
        if (!v.tensor) {
            plain &= !argument.isTensor() ||
                     argument.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
            return;
        }
        if (in.common == ScalarType::Undefined) in.common = v.tensor->scalar_type();
        same &= v.tensor->scalar_type() == in.common;
        any_dim |= v.tensor->dim() > 0;
    });
    if (in.common == ScalarType::Undefined) return;
    same &= plain || any_dim;
    const bool floating = c10::isFloatingType(in.common);  // no number outranks it
    each([&](const Value& v, const IValue&) {
        if (v.tensor) return;
        same &= floating || v.number.type == in.common;
        in.doubtful |= v.number.type == ScalarType::Bool || (!floating && v.number.i < 0);
    });
    in.uniform = same;
    if (same) return;
    at::native::ResultTypeState state;
    each([&](const Value&, const IValue& argument) {
        state = argument.isTensor()
                    ? at::native::update_result_type_state(argument.toTensor(), state)
                    : at::native::update_result_type_state(argument.toScalar(), state);
    });
    in.common = at::native::result_type(state);
    in.uniform = true;
    each([&](const Value& v, const IValue&) {
        in.uniform &= !v.tensor || v.tensor->scalar_type() == in.common;
    });
}

}  // namespace torch_nntile
