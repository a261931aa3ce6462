// SPDX-License-Identifier: BSD-3-Clause
// A call through a row: read the inputs, promote, make the results, check what is written, record.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/stack.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/as_strided_native.h>
#include <c10/core/DefaultDtype.h>
#include <torch/library.h>

#include <map>

#include "device.h"
#include "fallback.h"
#include "rows.h"
#include "storage.h"

namespace torch_nntile {

using at::Tensor;
using c10::IValue;
using c10::ScalarType;

namespace {

size_t index_of(ScalarType type) { return static_cast<size_t>(type); }

at::DimVector dense_strides(c10::IntArrayRef sizes) {
    at::DimVector strides(sizes.size());
    int64_t stride = 1;
    for (size_t d = sizes.size(); d-- > 0; stride *= std::max<int64_t>(sizes[d], 1)) strides[d] = stride;
    return strides;
}

// A layout that repeats elements, without the repetition.
Tensor without_repetition(const Tensor &t) {
    at::DimVector sizes(t.sizes());
    for (size_t d = 0; d < sizes.size(); ++d)
        if (t.strides()[d] == 0) sizes[d] = std::min<int64_t>(sizes[d], 1);
    return at::native::as_strided_tensorimpl(t, sizes, t.strides(), t.storage_offset());
}

// What ATen does with an out= argument of other sizes, strides included.
void resize_out(const Tensor &t, const Shape &shape) {
    if (t.sizes() == shape.sizes) return;
    at::native::resize_output(t, shape.sizes);
    if (t.strides() != shape.strides)
        t.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes, shape.strides);
}

}  // namespace

Row::Row(RowTable table) : t_(std::move(table)), cache_(!t_.has_tensor_argument) {
    for (auto &types : learned_)
        for (auto &type : types) type.store(ScalarType::Undefined, std::memory_order_relaxed);
}

const IValue &Row::View::operator[](int k) const {
    static const auto *none = new IValue;
    const IValue &v = arguments[k];
    if (element < 0 || !row.t_.walked[k] || v.isNone()) return v;
    const auto list = v.toListRef();
    return static_cast<size_t>(element) < list.size() ? list[element] : *none;
}

void Row::wrong_device(const Tensor &found, int argument) const {
    const auto handle = c10::Dispatcher::singleton().findSchema(t_.aten);
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
                device(), " and ", found.device(), "! (when checking argument for argument ",
                handle->schema().arguments()[argument].name(), " in method ", t_.name, ")");
}

Row::Value Row::read_value(const IValue &v, int argument) const {
    if (v.isTensor()) {
        const Tensor &t = v.toTensor();
        if (!t.defined()) return {};
        if (ours(t)) return {&t, {}};
        if (t.is_cpu() && t.dim() == 0) return {nullptr, number_of(t)};
        wrong_device(t, argument);
    }
    if (v.isNone()) return {};
    return {nullptr, number_of(v.toScalar())};
}

void Row::read_inputs(const View &view, Inputs &in) const {
    for (const InputSource &source : t_.inputs) {
        if (source.variadic && source.argument != no_argument) {
            for (const IValue &v : view[source.argument].toListRef())
                in.values.push_back(read_value(v, source.argument));
        } else if (source.constant) {
            in.values.push_back({nullptr, source.number});
        } else if (source.argument != no_argument) {
            in.values.push_back(read_value(view[source.argument], source.argument));
        } else if (!source.variadic) {
            in.values.emplace_back();
        }
    }
    for (const Value &v : in.values)
        in.foreign |= v.tensor ? dtype_of(v.tensor->scalar_type()) == NNTILE_NONE
                               : v.number.type == ScalarType::ComplexDouble;
    promote(view, in);
}

// PyTorch's result_type over the inputs of type T. Equal dtypes with plain numbers are nearly all calls.
void Row::promote(const View &view, Inputs &in) const {
    if (!t_.has_variable) return;
    // visit(value, argument) for each input of type T that is given by the caller.
    const auto each = [&](auto &&visit) {
        for (size_t i = 0; i < in.values.size(); ++i) {
            const InputSource &source = source_of(i);
            const Value &v = in.values[i];
            if (!source.variable || source.constant || (!v.tensor && v.number.type == ScalarType::Undefined)) continue;
            const IValue &argument = view[source.argument];
            visit(v, source.variadic ? argument.toListRef()[i + 1 - t_.inputs.size()] : argument);
        }
    };
    bool same = true, any_dim = false, plain = true;
    each([&](const Value &v, const IValue &argument) {
        if (!v.tensor) {
            plain &= !argument.isTensor() || argument.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
            return;
        }
        if (in.common == ScalarType::Undefined) in.common = v.tensor->scalar_type();
        same &= v.tensor->scalar_type() == in.common;
        any_dim |= v.tensor->dim() > 0;
    });
    if (in.common == ScalarType::Undefined) return;
    same &= plain || any_dim;
    if (same && c10::isFloatingType(in.common)) return;  // no number outranks it
    each([&](const Value &v, const IValue &) { same &= v.tensor || v.number.type == in.common; });
    if (same) return;
    at::native::ResultTypeState state;
    each([&](const Value &, const IValue &argument) {
        state = argument.isTensor() ? at::native::update_result_type_state(argument.toTensor(), state)
                                    : at::native::update_result_type_state(argument.toScalar(), state);
    });
    in.common = at::native::result_type(state);
}

bool Row::infer_fast(const View &view, const Inputs &in, Results &out) {
    if (!t_.map || t_.has_dtype_argument || in.common == ScalarType::Undefined || t_.outputs.size() > 2) return false;
    bool makes = false;
    for (size_t o = 0; o < t_.outputs.size(); ++o) {
        if (learned_[o][index_of(in.common)].load(std::memory_order_relaxed) == ScalarType::Undefined) return false;
        makes |= t_.outputs[o].argument == no_argument;
    }
    at::DimVector sizes;
    bool first = true;
    for (size_t i = 0; i < in.values.size(); ++i) {
        const Tensor *t = in.values[i].tensor;
        if (!t) continue;
        if (makes && !t->is_contiguous()) return false;
        if (!source_of(i).variable && t->scalar_type() != ScalarType::Bool) return false;  // Meta checks it
        if (first)
            sizes = t->sizes();
        else if (t->sizes() != sizes)
            sizes = at::infer_size_dimvector(sizes, t->sizes());
        first = false;
    }
    at::DimVector strides;
    for (size_t o = 0; o < t_.outputs.size(); ++o) {
        const ScalarType type = learned_[o][index_of(in.common)].load(std::memory_order_relaxed);
        if (t_.outputs[o].argument == no_argument) {
            if (strides.empty()) strides = dense_strides(sizes);
            out.push_back(make_tensor(sizes, strides, type));
        } else {
            const Tensor &t = view[t_.outputs[o].argument].toTensor();
            if (t.sizes() != sizes || t.scalar_type() != type) return out.clear(), false;
            out.push_back(t);
        }
    }
    return true;
}

void Row::infer_cached(const c10::OperatorHandle &op, const View &view, const Inputs &in, Results &out) {
    const auto shapes = cache_.shapes(op, view.arguments);
    for (size_t r = 0; r < t_.returns.size(); ++r) {
        const int k = t_.returns[r].argument;
        if (k != no_argument && t_.out_argument[k]) resize_out(view.arguments[k].toTensor(), (*shapes)[r][0]);
    }
    for (const OutputSource &source : t_.outputs)
        out.push_back(source.argument == no_argument ? (*shapes)[source.result][0].make()
                                                     : view[source.argument].toTensor());
    if (!t_.map || in.common == ScalarType::Undefined) return;
    for (size_t o = 0; o < std::min<size_t>(out.size(), 2); ++o)
        if (out[o].defined())
            learned_[o][index_of(in.common)].store(out[o].scalar_type(), std::memory_order_relaxed);
}

// TensorIterator's checks; others only ask that a written tensor does not overlap itself.
void Row::check_writes(const Inputs &in, Results &out) const {
    for (size_t o = 0; o < out.size(); ++o) {
        const int argument = t_.outputs[o].argument;
        if (argument == no_argument || !out[o].defined()) continue;
        if (!ours(out[o])) wrong_device(out[o], argument);
        if (t_.whole_write) {
            if (!out[o].is_non_overlapping_and_dense()) out[o] = without_repetition(out[o]);
            continue;
        }
        at::assert_no_internal_overlap(out[o]);
        if (!t_.map) continue;
        for (const Value &v : in.values)
            if (v.tensor && !v.tensor->is_same(out[o]) && v.tensor->is_alias_of(out[o]))
                at::assert_no_partial_overlap(out[o], *v.tensor);
    }
}

ScalarType Row::compute_type(const Inputs &in, const Results &out) const {
    if (!t_.has_variable) return ScalarType::Undefined;
    ScalarType type = in.common;
    for (size_t o = 0; o < out.size(); ++o) {
        if (!t_.outputs[o].variable || !out[o].defined()) continue;
        const ScalarType result = out[o].scalar_type();
        // sum(dtype=...), and true division of integers.
        const bool promotes = t_.outputs[o].result >= 0 && c10::isIntegralType(type, true) && c10::isFloatingType(result);
        if (type == ScalarType::Undefined || t_.has_dtype_argument || promotes) type = result;
        // exp(int, out=float)
        if (c10::isIntegralType(type, true) && !takes(type) && c10::isFloatingType(result))
            type = c10::get_default_dtype_as_scalartype();
        break;
    }
    return type;
}

bool Row::call_one(const c10::OperatorHandle &op, torch::jit::Stack *stack, Arguments arguments) {
    const View view{*this, arguments};
    Inputs in;
    read_inputs(view, in);
    if (in.foreign) return false;
    Results out;
    if (!infer_fast(view, in, out)) infer_cached(op, view, in, out);
    check_writes(in, out);
    if (!record_node(view, in, out)) return false;

    Results returns;
    for (size_t r = 0; r < t_.returns.size(); ++r) {
        if (t_.returns[r].argument != no_argument) {
            returns.push_back(arguments[t_.returns[r].argument].toTensor());
            continue;
        }
        for (size_t o = 0; o < out.size(); ++o)
            if (t_.outputs[o].result == static_cast<int>(r)) returns.push_back(std::move(out[o]));
    }
    torch::jit::drop(*stack, arguments.size());
    for (Tensor &t : returns) stack->emplace_back(std::move(t));
    return true;
}

bool Row::call_foreach(const c10::OperatorHandle &op, torch::jit::Stack *stack, Arguments arguments) {
    size_t count = 0;
    for (size_t k = 0; k < arguments.size(); ++k) {
        if (!t_.walked[k] || arguments[k].isNone()) continue;
        const size_t n = arguments[k].toListRef().size();
        TORCH_CHECK(!count || !n || n == count, "Tensor lists must have the same number of tensors, got ", count,
                    " and ", n);
        count = std::max(count, n);
    }
    std::vector<Inputs> inputs(count);
    for (size_t k = 0; k < count; ++k) {
        read_inputs({*this, arguments, static_cast<int64_t>(k)}, inputs[k]);
        const ScalarType type = inputs[k].common;
        const bool fits = type == ScalarType::Undefined || takes(type) || c10::isIntegralType(type, true);
        if (inputs[k].foreign || !fits) return false;
    }
    // Without new tensors there is nothing to infer: the op checks the shapes of each element itself.
    const bool makes = std::any_of(t_.returns.begin(), t_.returns.end(),
                                   [](const ReturnSource &r) { return r.argument == no_argument; });
    std::shared_ptr<const Shapes> shapes;
    if (makes) shapes = cache_.shapes(op, arguments);
    std::vector<std::vector<Tensor>> made(t_.returns.size());
    for (size_t k = 0; k < count; ++k) {
        const View view{*this, arguments, static_cast<int64_t>(k)};
        Results out;
        for (const OutputSource &source : t_.outputs) {
            const bool fresh = source.argument == no_argument;
            const IValue *written = fresh ? nullptr : &view[source.argument];
            out.push_back(fresh ? (*shapes)[source.result][k].make() : written->isNone() ? Tensor() : written->toTensor());
            if (fresh) made[source.result].push_back(out.back());
        }
        check_writes(inputs[k], out);
        if (record_node(view, inputs[k], out)) continue;
        TORCH_CHECK_NOT_IMPLEMENTED(k == 0, "nntile: ", t_.name, " does not take element ", k, " of its lists");
        return false;
    }
    c10::SmallVector<IValue, 2> returns;
    for (size_t r = 0; r < t_.returns.size(); ++r) {
        const int k = t_.returns[r].argument;
        returns.push_back(k == no_argument ? IValue(std::move(made[r])) : arguments[k]);
    }
    torch::jit::drop(*stack, arguments.size());
    for (IValue &v : returns) stack->push_back(std::move(v));
    return true;
}

void Row::operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
    const auto arguments = torch::jit::last(*stack, t_.walked.size());
    if (!(t_.foreach ? call_foreach(op, stack, arguments) : call_one(op, stack, arguments))) fallback_refused(op, stack);
}

void register_row(const char *aten_name, const char *overload, const char *op, const char *arguments, int flags) {
    static auto *libraries = new std::map<std::string, torch::Library>;  // one for each namespace; kept
    RowTable table = parse_row(aten_name, overload, op, arguments, flags);
    const std::string name = table.name, space = name.substr(0, name.find("::"));
    auto [it, made] = libraries->try_emplace(space, torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1,
                                             __FILE__, __LINE__);
    it->second.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Row>(std::move(table))));
}

}  // namespace torch_nntile
