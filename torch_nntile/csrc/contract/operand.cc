// SPDX-License-Identifier: BSD-3-Clause
#include "contract/operand.h"

#include <ATen/core/DimVector.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace torch_nntile {
namespace {

using c10::ScalarType;

// A dtype of the same bits, to move data that libnntile_c has no arithmetic for.
nntile_dtype carrier_of(ScalarType type) {
    switch (type) {
        case ScalarType::ComplexHalf: return NNTILE_F16;
        case ScalarType::ComplexFloat: return NNTILE_F32;
        case ScalarType::ComplexDouble: return NNTILE_F64;
        case ScalarType::UInt16: return NNTILE_I16;
        case ScalarType::UInt32: return NNTILE_I32;
        case ScalarType::UInt64: return NNTILE_I64;
        case ScalarType::Float8_e5m2:
        case ScalarType::Float8_e4m3fn:
        case ScalarType::Float8_e5m2fnuz:
        case ScalarType::Float8_e4m3fnuz: return NNTILE_U8;
        default:
            TORCH_CHECK_NOT_IMPLEMENTED(false, "nntile: tensors of dtype ", type,
                                        " are not supported");
    }
}

}  // namespace

nntile_dtype dtype_of(ScalarType type) {
    switch (type) {
        case ScalarType::Float: return NNTILE_F32;
        case ScalarType::Double: return NNTILE_F64;
        case ScalarType::Half: return NNTILE_F16;
        case ScalarType::BFloat16: return NNTILE_BF16;
        case ScalarType::Long: return NNTILE_I64;
        case ScalarType::Int: return NNTILE_I32;
        case ScalarType::Short: return NNTILE_I16;
        case ScalarType::Char: return NNTILE_I8;
        case ScalarType::Byte: return NNTILE_U8;
        case ScalarType::Bool: return NNTILE_BOOL;
        default: return NNTILE_NONE;
    }
}

ScalarType type_of(nntile_dtype dtype) {
    constexpr ScalarType types[] = {ScalarType::Undefined, ScalarType::Float,    ScalarType::Double,
                                    ScalarType::Half,      ScalarType::BFloat16, ScalarType::Long,
                                    ScalarType::Int,       ScalarType::Short,    ScalarType::Char,
                                    ScalarType::Byte,      ScalarType::Bool};
    return types[dtype];
}

nntile_dtype dtype_named(const char* name) {
    for (int t = NNTILE_F32; t <= NNTILE_BOOL; ++t)
        if (!std::strcmp(name, nntile_dtype_name(static_cast<nntile_dtype>(t))))
            return static_cast<nntile_dtype>(t);
    return NNTILE_NONE;
}

Number number_of(const c10::Scalar& scalar) {
    if (scalar.isFloatingPoint()) {
        const double f = scalar.toDouble();
        return {ScalarType::Double, f, 0};
    }
    // Neither is one of the library's numbers: those that are unsigned are beyond int64.
    if (scalar.isComplex() || scalar.type() == ScalarType::UInt64)
        return {ScalarType::ComplexDouble, 0, 0};
    const int64_t i = scalar.isBoolean() ? int64_t{scalar.toBool()} : scalar.toLong();
    return {scalar.isBoolean() ? ScalarType::Bool : ScalarType::Long, static_cast<double>(i), i};
}

// A wrapped Python number is the common case and read without a dispatch.
Number number_of(const at::Tensor& t) {
    switch (t.scalar_type()) {
        case ScalarType::Double: return {ScalarType::Double, *t.const_data_ptr<double>(), 0};
        case ScalarType::Long: {
            const int64_t i = *t.const_data_ptr<int64_t>();
            return {ScalarType::Long, static_cast<double>(i), i};
        }
        default: {
            Number n = number_of(t.item());
            n.type = t.scalar_type();
            return n;
        }
    }
}

bool fits(const Number& number, ScalarType integral) {
    constexpr double most = 9e18;  // an int64 has it
    const auto holds = [&](int64_t i) { return wrapped(i, integral) == i; };
    if (c10::isIntegralType(number.type, true))
        return integral == ScalarType::Bool ? number.i == (number.i != 0) : holds(number.i);
    return std::abs(number.f) < most && holds(static_cast<int64_t>(std::floor(number.f))) &&
           holds(static_cast<int64_t>(std::ceil(number.f)));
}

Number number_of(const c10::IValue& v) {
    return number_of(v.isTensor() ? v.toTensor().item() : v.toScalar());
}

namespace {

template <class T>
int64_t within(int64_t number) {
    return std::clamp<int64_t>(number, std::numeric_limits<T>::min(),
                               std::numeric_limits<T>::max());
}

}  // namespace

int64_t nearest(int64_t number, ScalarType integral) {
    switch (integral) {
        case ScalarType::Byte: return within<uint8_t>(number);
        case ScalarType::Char: return within<int8_t>(number);
        case ScalarType::Short: return within<int16_t>(number);
        case ScalarType::Int: return within<int32_t>(number);
        default: return number;
    }
}

int64_t wrapped(int64_t number, ScalarType integral) {
    switch (integral) {
        case ScalarType::Byte: return static_cast<uint8_t>(number);
        case ScalarType::Char: return static_cast<int8_t>(number);
        case ScalarType::Short: return static_cast<int16_t>(number);
        case ScalarType::Int: return static_cast<int32_t>(number);
        default: return number;
    }
}

void Operands::tensor(const at::Tensor& t) {
    c10::TensorImpl* impl = t.unsafeGetTensorImpl();
    const Address at = address_of(*impl->unsafe_storage().unsafeGetStorageImpl());
    const auto itemsize = static_cast<int64_t>(impl->itemsize());
    TORCH_CHECK(at.byte % itemsize == 0, "nntile: a storage that starts at byte ", at.byte,
                " of another cannot hold elements of ", itemsize, " bytes");
    nntile_operand& o = list_.emplace_back();
    o.kind = NNTILE_OPERAND_TENSOR;
    o.dtype = dtype_of(t.scalar_type());
    o.ndim = static_cast<int32_t>(impl->dim());
    o.buffer = at.buffer;
    o.sizes = impl->sizes().data();
    o.strides = impl->strides().data();
    o.offset = impl->storage_offset() + at.byte / itemsize;
    if (o.dtype == NNTILE_NONE) [[unlikely]] {
        o.dtype = carrier_of(t.scalar_type());
        if (t.is_complex()) pair(t, o);
    }
}

// A complex tensor is a real one with a last dim of two.
void Operands::pair(const at::Tensor& t, nntile_operand& o) {
    at::DimVector& sizes = pairs_.emplace_front(t.sizes());
    at::DimVector& strides = pairs_.emplace_front(t.strides());
    for (int64_t& s : strides) s *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    o.ndim += 1;
    o.offset *= 2;
    o.sizes = sizes.data();
    o.strides = strides.data();
}

void Operands::number(const Number& n, nntile_dtype dtype) {
    nntile_operand& o = list_.emplace_back();
    o.kind = NNTILE_OPERAND_SCALAR;
    o.dtype = dtype;
    o.f = n.f;
    if (!c10::isIntegralType(n.type, true)) {
        o.i = static_cast<int64_t>(n.f);
        if (dtype == NNTILE_BOOL) o.f = static_cast<double>(o.i = n.f != 0);
        return;
    }
    o.i = wrapped(n.i, type_of(dtype));
    if (o.i != n.i) o.f = static_cast<double>(o.i);
}

int64_t bytes_of(const nntile_operand& o) {
    const c10::IntArrayRef sizes(o.sizes, static_cast<size_t>(o.ndim));
    return c10::multiply_integers(sizes) *
           static_cast<int64_t>(nntile_dtype_size(static_cast<nntile_dtype>(o.dtype)));
}

}  // namespace torch_nntile
