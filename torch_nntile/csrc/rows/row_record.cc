// SPDX-License-Identifier: BSD-3-Clause
// The last step of a call through a row: operands and attributes in the order of the op.
#include "contract/device.h"
#include "contract/errors.h"
#include "device/rng.h"
#include "device/storage.h"
#include "device/switches.h"
#include "rows/rows.h"

#include <ATen/ops/as_strided_native.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace torch_nntile {
namespace {

using c10::IValue;
using c10::ScalarType;

// Attributes with the room that their lists need.
class Attrs {
public:
    nntile_attr& add(nntile_attr_kind kind) {
        nntile_attr& attr = list_.emplace_back();
        attr.kind = kind;
        return attr;
    }
    void ints(c10::IntArrayRef values) {
        nntile_attr& attr = add(NNTILE_ATTR_INTS);
        attr.i = static_cast<int64_t>(room_.size());  // until the room is at its final address
        attr.count = static_cast<int32_t>(values.size());
        room_.append(values.begin(), values.end());
    }
    const nntile_attr* finish() {
        for (nntile_attr& attr : list_)
            if (attr.kind == NNTILE_ATTR_INTS) attr.ints = room_.data() + attr.i;
        return list_.data();
    }
    size_t size() const { return list_.size(); }

private:
    c10::SmallVector<nntile_attr, 6> list_;
    c10::SmallVector<int64_t, 12> room_;
};

int64_t integer_of(const IValue& v) {
    if (v.isBool()) return v.toBool();
    if (v.isSymInt()) return v.toSymInt().guard_int(__FILE__, __LINE__);
    if (v.isList()) return static_cast<int64_t>(v.toListRef().size());
    return v.isTensor() ? v.toTensor().item().toLong() : v.toScalar().toLong();
}

// Integers of another dtype that T does not hold wrap before the op sees them.
bool holds(ScalarType type, ScalarType other) {
    if (!c10::isIntegralType(type, false) || !c10::isIntegralType(other, false) || type == other)
        return true;
    return type != ScalarType::Byte && c10::elementSize(other) < c10::elementSize(type);
}

// Of these the kernels compute in a wider dtype.
bool is_narrow(ScalarType type) {
    return type == ScalarType::Half || type == ScalarType::BFloat16 ||
           (c10::isIntegralType(type, true) && type != ScalarType::Long);
}

bool is_double(const Number& n) {
    constexpr int64_t most = int64_t{1} << std::numeric_limits<double>::digits;
    return !c10::isIntegralType(n.type, true) || (-most <= n.i && n.i <= most);
}

// Dims as they lie in memory, outermost first; empty: they lie in their own order, or not together.
using Order = at::DimVector;
Order order_of(const at::Tensor& x, const at::Tensor& y) {
    Order order;
    if (x.is_contiguous() || !x.is_non_overlapping_and_dense() || x.strides() != y.strides() ||
        x.sizes() != y.sizes())
        return order;
    order.resize(static_cast<size_t>(x.dim()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return x.stride(a) > x.stride(b); });
    return order;
}
at::Tensor in_order(const at::Tensor& t, const Order& order) {
    at::DimVector sizes, strides;
    for (int64_t d : order) {
        sizes.push_back(t.size(d));
        strides.push_back(t.stride(d));
    }
    return at::native::as_strided_tensorimpl(t, sizes, strides, t.storage_offset());
}
// A dim, of which `rank` PyTorch has checked, in that order.
int64_t place_of(int64_t dim, const Order& order) {
    const auto rank = static_cast<int64_t>(order.size());
    return std::find(order.begin(), order.end(), dim < 0 ? dim + rank : dim) - order.begin();
}

// `type`: dtype of the loop that takes numbers in it, or Undefined. `order`: of the dims that
// integers are, or empty.
void read_argument(const AttrSource& source, const IValue& v, ScalarType type, const Order& order,
                   Attrs& attrs) {
    if (v.isNone()) {
        attrs.add(NNTILE_ATTR_DEFAULT);
        return;
    }
    switch (source.kind) {
        case NNTILE_ATTR_REAL: {
            const Number n = number_of(v);
            const bool integral = c10::isIntegralType(n.type, true);
            const int64_t whole = integral ? n.i : static_cast<int64_t>(n.f);
            double& value = attrs.add(NNTILE_ATTR_REAL).f;
            if (type == ScalarType::Bool) value = whole != 0;
            else if (c10::isIntegralType(type, false))
                value = static_cast<double>(wrapped(whole, type));
            else value = integral ? static_cast<double>(n.i) : n.f;
            return;
        }
        case NNTILE_ATTR_INTS: {
            at::DimVector ints;
            if (v.isList())
                for (const IValue& e : v.toListRef()) ints.push_back(integer_of(e));
            else ints.push_back(integer_of(v));
            if (!order.empty())
                for (int64_t& dim : ints) dim = place_of(dim, order);
            return attrs.ints(ints);
        }
        case NNTILE_ATTR_TEXT: {
            if (v.isString()) {
                attrs.add(NNTILE_ATTR_TEXT).text = v.toStringRef().c_str();
                return;
            }
            const int64_t number = integer_of(v);
            TORCH_CHECK(number >= 0 && static_cast<size_t>(number) < source.words.size(),
                        "nntile: ", number, " is not one of the ", source.words.size(), " choices");
            attrs.add(NNTILE_ATTR_TEXT).text = source.words[number].c_str();
            return;
        }
        default: {
            const int64_t i = integer_of(v);
            attrs.add(source.kind).i = order.empty() ? i : place_of(i, order);
        }
    }
}

void read_constant(const AttrSource& source, Attrs& attrs) {
    if (source.kind == NNTILE_ATTR_INTS) return attrs.ints(source.ints);
    nntile_attr& attr = attrs.add(source.kind);
    attr.f = source.number.f;
    attr.i = source.number.i;
    attr.text = source.text.c_str();
}

}  // namespace

bool Row::takes_node(const View& view, const Inputs& in, const Results& out) const {
    const ScalarType type = compute_type(in, out);
    if (t_.has_variable && !takes(type)) return false;
    for (const at::Tensor& t : out)
        if (t.defined() && dtype_of(t.scalar_type()) == NNTILE_NONE) return false;

    for (const AttrSource& source : t_.attrs)  // they are doubles in a graph
        if (t_.map && type == ScalarType::Long && source.is_number_argument() &&
            !view[source.argument].isNone() && !is_double(number_of(view[source.argument])))
            return false;
    return true;
}

bool Row::record_node(const View& view, const Inputs& in, const Results& out) const {
    const ScalarType type = compute_type(in, out);
    const nntile_dtype compute = dtype_of(type);
    const Order order = t_.any_order && in.values[0].tensor && out[0].defined()
                            ? order_of(*in.values[0].tensor, out[0])
                            : Order();
    Operands operands;
    for (size_t i = 0; i < in.values.size(); ++i) {
        const InputSource& source = source_of(i);
        const Value& v = in.values[i];
        if (v.tensor && source.variable && !holds(type, v.tensor->scalar_type())) {
            const at::Tensor converted = v.tensor->to(type);
            operands.tensor(order.empty() ? at::Tensor(converted) : in_order(converted, order));
        } else if (v.tensor && !order.empty()) {
            operands.tensor(in_order(*v.tensor, order));
        } else if (v.tensor) {
            operands.tensor(*v.tensor);
        } else if (v.number.type == ScalarType::Undefined) {
            operands.absent();
        } else {
            const nntile_dtype own =
                c10::isFloatingType(v.number.type) ? NNTILE_F32 : dtype_of(v.number.type);
            operands.number(v.number, source.variable ? compute
                                      : source.fixed  ? source.fixed
                                                      : own);
        }
    }
    // As on the CPU, what the operands' dtype cannot hold is lost before it goes into a wider out=
    // argument.
    c10::SmallVector<at::Tensor, 2> rounded(out.size());
    for (size_t o = 0; o < out.size(); ++o) {
        const at::Tensor& t = out[o];
        if (t_.map && t.defined() && t_.outputs[o].variable && is_narrow(type) &&
            t.scalar_type() != type)
            rounded[o] = make_tensor(t.sizes(), dense_strides(t.sizes()), type);
        if (t.defined() && !order.empty()) operands.tensor(in_order(t, order));
        else if (t.defined()) operands.tensor(rounded[o].defined() ? rounded[o] : t);
        else operands.absent();
    }

    Attrs attrs;
    Draw random{};
    bool drawn = false;
    for (const AttrSource& source : t_.attrs) {
        switch (source.from) {
            case AttrSource::From::initial: attrs.add(NNTILE_ATTR_DEFAULT); break;
            case AttrSource::From::argument:
                read_argument(source, view[source.argument], t_.map ? type : ScalarType::Undefined,
                              order, attrs);
                break;
            case AttrSource::From::constant: read_constant(source, attrs); break;
            case AttrSource::From::sizes: attrs.ints(out[0].sizes()); break;
            case AttrSource::From::seed:
            case AttrSource::From::offset:
                if (!drawn) {
                    std::optional<at::Generator> generator;
                    if (t_.generator != no_argument)
                        generator = view[t_.generator].toOptional<at::Generator>();
                    random = draw(generator, out[0].numel());
                    drawn = true;
                }
                attrs.add(NNTILE_ATTR_SEED).i = static_cast<int64_t>(
                    source.from == AttrSource::From::seed ? random.seed : random.offset);
        }
    }

    if (!t_.map) follow_switches();
    nntile_error* error = nullptr;
    const nntile_status status =
        nntile_record_op(record(), t_.op, operands.data(), in.values.size(), out.size(),
                         attrs.finish(), attrs.size(), compute, &error);
    if (status == NNTILE_UNSUPPORTED) {  // a case that the op has no kernel for; the host has one
        nntile_error_destroy(error);
        return std::all_of(out.begin(), out.end(),  // of no elements nobody needs one
                           [](const at::Tensor& t) { return !t.defined() || t.numel() == 0; });
    }
    if (status != NNTILE_OK) raise(status, error);
    for (size_t o = 0; o < out.size(); ++o)
        if (rounded[o].defined()) out[o].copy_(rounded[o]);
    return true;
}

}  // namespace torch_nntile
