// SPDX-License-Identifier: BSD-3-Clause
#include "shapes/cpu_strides.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/addcmul_meta_dispatch.h>
#include <ATen/ops/mul_meta_dispatch.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>

#include "shapes/habits.h"
#include "shapes/structured.h"

namespace torch_nntile {
namespace {

using at::MemoryFormat;
using at::Tensor;

void set_format(Shape& shape, MemoryFormat format) {
    const c10::IntArrayRef sizes(shape.sizes);
    if (format == MemoryFormat::ChannelsLast && sizes.size() == 4)
        shape.strides = at::DimVector(c10::get_channels_last_strides_2d(sizes));
    else if (format == MemoryFormat::ChannelsLast3d && sizes.size() == 5)
        shape.strides = at::DimVector(c10::get_channels_last_strides_3d(sizes));
    else shape.strides = dense_strides(sizes);
}

// A CPU tensor without memory: what chooses a kernel looks at layouts only.
Tensor cpu_stand_in(const Tensor& t) {
    if (!t.defined()) return t;
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, at::kCPU)),
        c10::DispatchKeySet(c10::DispatchKey::CPU), t.dtype());
    impl->set_sizes_and_strides(t.sizes(), t.strides());
    return Tensor(std::move(impl));
}

// As ATen does with a 1d convolution: it is one of images of one row.
Tensor as_image(const Tensor& t, bool dense) {
    auto impl = t.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), false);
    at::DimVector sizes(t.sizes());
    at::DimVector strides = dense ? dense_strides(sizes) : at::DimVector(t.strides());
    sizes.insert(sizes.begin() + 2, 1);
    strides.insert(strides.begin() + 2, sizes[3] * strides[2]);
    impl->set_sizes_and_strides(sizes, strides);
    return Tensor(std::move(impl));
}

// The format of the CPU's kernel: PyTorch chooses it by dtypes and by the formats of both operands.
MemoryFormat convolution_format(const c10::FunctionSchema& schema, Arguments arguments) {
    const auto argument = [&](const char* name) -> const c10::IValue& {
        return arguments[static_cast<size_t>(*schema.argumentIndexWithName(name))];
    };
    Tensor input = cpu_stand_in(argument("input").toTensor());
    Tensor weight = cpu_stand_in(argument("weight").toTensor());
    const bool image = weight.dim() == 3;
    if (image) {
        input = as_image(input, true);
        weight = as_image(weight, false);
    }
    const auto list = [&](const char* name, int64_t first) {
        const std::vector<int64_t> ints = argument(name).toIntVector();
        std::vector<c10::SymInt> symbols(ints.begin(), ints.end());
        if (image) symbols.insert(symbols.begin(), first);
        return symbols;
    };
    const auto stride = list("stride", 1), padding = list("padding", 0),
               dilation = list("dilation", 1), output_padding = list("output_padding", 0);
    const at::native::ConvBackend backend = at::native::select_conv_backend(
        input, weight, std::nullopt, stride, padding, dilation, argument("transposed").toBool(),
        output_padding, argument("groups").toInt(), std::nullopt);
    return at::native::_determine_backend_memory_format(input, weight, backend);
}

void mend_convolution(const c10::FunctionSchema& schema, Arguments arguments, Shapes& shapes) {
    const MemoryFormat format = convolution_format(schema, arguments);
    for (auto& list : shapes)
        for (Shape& shape : list) {
            if (shape.dtype == c10::ScalarType::Undefined || shape.sizes.size() < 3) continue;
            if (shape.sizes.size() > 3) {
                set_format(shape, format);
                continue;
            }
            Shape image = shape;
            image.sizes.insert(image.sizes.begin() + 2, 1);
            set_format(image, format);
            image.strides.erase(image.strides.begin() + 2);
            shape.strides = image.strides;
        }
}

// Statistics are of the input's dtype, or float32 where the parameters are.
void mend_layer_norm(Arguments arguments, Shapes& shapes) {
    constexpr size_t input = 0, weight = 2, bias = 3;
    set_format(shapes[0][0], MemoryFormat::Contiguous);
    c10::ScalarType type = arguments[input].toTensor().scalar_type();
    for (const size_t k : {weight, bias})
        if (arguments[k].isTensor() && arguments[k].toTensor().defined() &&
            c10::isReducedFloatingType(type))
            type = arguments[k].toTensor().scalar_type();
    shapes[1][0].dtype = shapes[2][0].dtype = type;
}

void mend_elementwise(const c10::OperatorHandle& op, Arguments arguments, Shape& shape) {
    const c10::ScalarType common = promoted(op, arguments);
    std::vector<Tensor> operands;
    for (size_t k = 0; k < arguments.size(); ++k) {
        const c10::Argument& formal = op.schema().arguments()[k];
        if (formal.is_out()) continue;
        each_tensor(arguments[k], [&](const Tensor& t) {
            const bool choice = formal.name() == "condition";  // stays a bool
            operands.push_back(meta_cast(t, choice ? t.scalar_type() : common));
        });
    }
    if (operands.size() == 1) operands.push_back(operands[0]);
    Tensor like;
    if (operands.size() == 2) like = at::meta::mul(operands[0], operands[1]);
    if (operands.size() == 3) like = at::meta::addcmul(operands[0], operands[1], operands[2], 1);
    if (like.defined() && like.sizes() == shape.sizes)
        shape.strides = at::DimVector(like.strides());
}

bool is_in_place(const c10::FunctionSchema& schema) {
    return writes(schema.arguments()[0]) && !schema.arguments()[0].is_out();
}

}  // namespace

bool is_channels_last(const Tensor& t) {
    return !t.is_contiguous() && (t.is_contiguous(MemoryFormat::ChannelsLast) ||
                                  t.is_contiguous(MemoryFormat::ChannelsLast3d));
}

bool is_channels_last(const Shape& shape) {
    return is_channels_last(
        at::detail::empty_strided_meta(shape.sizes, shape.strides, shape.dtype));
}

Tensor meta_cast(const Tensor& t, c10::ScalarType dtype) {
    const bool keeps = t.scalar_type() == dtype || t.is_non_overlapping_and_dense();
    at::DimVector strides(t.strides());
    if (!keeps) strides = at::DimVector(at::infer_dense_strides(t.sizes(), t.strides()));
    Tensor like = meta_like(t, false);
    auto* impl = like.unsafeGetTensorImpl();
    impl->set_storage_and_dtype(impl->storage(), c10::scalarTypeToTypeMeta(dtype));
    impl->set_sizes_and_strides(t.sizes(), strides);
    return like;
}

c10::ScalarType promoted(const c10::OperatorHandle& op, Arguments arguments) {
    at::native::ResultTypeState state{};
    for (size_t k = 0; k < arguments.size(); ++k)
        if (!op.schema().arguments()[k].is_out())
            each_tensor(arguments[k], [&](const Tensor& t) {
                if (t.defined()) state = at::native::update_result_type_state(t, state);
            });
    return at::native::result_type(state);
}

void mend_strides(const c10::OperatorHandle& op, Arguments arguments, Shapes& shapes) {
    const auto& schema = op.schema();
    const Habit& habit = habit_of(schema);
    // Meta has functions of its own for out= forms that are no structured kernels.
    const bool elementwise = habit.layout == NNTILE_STUB_ELEMENTWISE ||
                             (schema.is_mutable() && op.hasTag(at::Tag::pointwise));
    if ((habit.layout == NNTILE_STUB_META && !elementwise) || is_in_place(schema)) return;
    // An out= form that PyTorch generates resizes without regard to strides.
    if (schema.is_mutable() && op.hasTag(at::Tag::generated)) return;
    Shape& first = shapes[0][0];
    if (elementwise) {
        if (!structured_meta(op)) mend_elementwise(op, arguments, first);
        return;
    }
    if (schema.is_mutable()) return;
    switch (habit.layout) {
        case NNTILE_STUB_CONVOLUTION: return mend_convolution(schema, arguments, shapes);
        case NNTILE_STUB_LAYER_NORM: return mend_layer_norm(arguments, shapes);
        case NNTILE_STUB_CONTIGUOUS: return set_format(first, MemoryFormat::Contiguous);
        default: break;
    }
    if (const Tensor& like = arguments[0].toTensor();
        like.is_non_overlapping_and_dense() && like.sizes() == at::IntArrayRef(first.sizes))
        first.strides = at::DimVector(like.strides());
}

}  // namespace torch_nntile
