// SPDX-License-Identifier: BSD-3-Clause
#include "shapes/habits.h"

#include <sstream>
#include <unordered_map>

#include "contract/boxed.h"

namespace torch_nntile {
namespace {

constexpr auto elementwise = NNTILE_STUB_ELEMENTWISE;
constexpr auto contiguous = NNTILE_STUB_CONTIGUOUS;
constexpr auto like_first = NNTILE_STUB_LIKE_FIRST;
constexpr auto meta = NNTILE_STUB_META;

constexpr Habit table[] = {
    // The CPU's kernel is a TensorIterator, Meta's is a function of its own.
    {"floor_divide", elementwise},
    {"logical_and", elementwise},
    {"logical_or", elementwise},
    {"logical_xor", elementwise},
    {"native_dropout_backward", elementwise},
    {"where.self_out", elementwise},
    {"hardswish", elementwise},
    {"hardswish_backward", elementwise},
    {"hardtanh_backward", elementwise},
    {"complex", elementwise, NNTILE_STUB_ON_HOST},
    {"polar", elementwise, NNTILE_STUB_ON_HOST},
    // Compositions whose last part looks at operands in another order.
    {"elu_backward", elementwise},
    {"mish_backward", elementwise},

    {"huber_loss_backward", contiguous},
    {"mse_loss_backward", contiguous},
    {"smooth_l1_loss_backward", contiguous},
    {"binary_cross_entropy", like_first},
    {"huber_loss", like_first},
    {"log_sigmoid_backward", like_first},
    {"soft_margin_loss", like_first},
    {"_scaled_dot_product_flash_attention_for_cpu", like_first},
    {"native_layer_norm", NNTILE_STUB_LAYER_NORM},
    {"convolution", NNTILE_STUB_CONVOLUTION, 0, "input", 1},
    {"convolution_backward", NNTILE_STUB_CONVOLUTION, 0, "grad_output input", 1},

    // PyTorch's own kernels for all backends end in a table that only knows its own devices, or
    // call
    // their out= form with an empty result of other strides.
    {"conj_physical.out", meta, NNTILE_STUB_ON_HOST},
    {"conj_physical_", meta, NNTILE_STUB_ON_HOST},
    {"mode.values", meta, NNTILE_STUB_ON_HOST},
    // Meta has another answer than the CPU: one dim for the loss of one sample, "no elements" for a
    // number.
    {"isin.Scalar_Tensor", meta, NNTILE_STUB_AT_ONCE},
    {"isin.Scalar_Tensor_out", meta, NNTILE_STUB_AT_ONCE},
    {"multilabel_margin_loss_forward", meta, NNTILE_STUB_AT_ONCE},
    {"index.Tensor", meta, NNTILE_STUB_BY_MASK},
    {"index.Tensor_out", meta, NNTILE_STUB_BY_MASK},
    {"native_batch_norm", meta, NNTILE_STUB_HIDES_WRITES},
    {"fill_", meta, NNTILE_STUB_FILLS},
    {"zero_", meta, NNTILE_STUB_FILLS},
    {"masked_fill_", meta, NNTILE_STUB_MAY_OVERLAP},
    {"index_fill_", meta, NNTILE_STUB_MAY_OVERLAP},
    {"aminmax.out", meta, NNTILE_STUB_EXACT_OUT},
    {"multinomial.out", meta, NNTILE_STUB_EXACT_OUT},
    {"nonzero.out", meta, NNTILE_STUB_EXACT_OUT},
    // The CPU counts floating numbers only. Other devices count integers, and models do: tokens of
    // experts.
    {"histc", meta, NNTILE_STUB_ANY_DTYPE},
    // Not asked: the CPU's reads beyond small operands
    {"_weight_int8pack_mm", meta, NNTILE_STUB_ANY_DTYPE},
    // Those of bytes are numbers of fixed point.
    {"upsample_linear1d", meta, NNTILE_STUB_INTEGERS_ON_HOST},
    {"upsample_bilinear2d", meta, NNTILE_STUB_INTEGERS_ON_HOST},
    {"upsample_trilinear3d", meta, NNTILE_STUB_INTEGERS_ON_HOST},
    {"upsample_bicubic2d", meta, NNTILE_STUB_INTEGERS_ON_HOST},
    {"_upsample_bilinear2d_aa", meta, NNTILE_STUB_INTEGERS_ON_HOST},
    {"_upsample_bicubic2d_aa", meta, NNTILE_STUB_INTEGERS_ON_HOST},
};

}  // namespace

const Habit& habit_of(const std::string& name, const std::string& overload) {
    static const Habit none{""};
    static const auto* habits = [] {
        auto* map = new std::unordered_map<std::string, const Habit*>;
        for (const Habit& habit : table) map->emplace(std::string("aten::") + habit.op, &habit);
        return map;
    }();
    auto it = habits->find(name + "." + overload);
    if (it == habits->end()) it = habits->find(name);
    return it == habits->end() ? none : *it->second;
}

const Habit& habit_of(const c10::FunctionSchema& schema) {
    return habit_of(schema.name(), schema.overload_name());
}

std::vector<const char*> overloads_with(nntile_stub_habit_flag flag) {
    std::vector<const char*> found;
    for (const Habit& habit : table)
        if (habit.is & flag) found.push_back(habit.op);
    return found;
}

BatchDims batch_dims_of(const c10::FunctionSchema& schema) {
    const Habit& habit = habit_of(schema);
    if (!*habit.batch) return {};
    const size_t n = schema.returns().size();
    BatchDims dims{std::vector<bool>(schema.arguments().size()), std::vector<bool>(n)};
    std::istringstream words(habit.batch);
    for (std::string word; words >> word;) {
        const auto k = schema.argumentIndexWithName(word);
        if (!k) return {};  // an overload with other arguments
        dims.arguments[static_cast<size_t>(*k)] = true;
    }
    for (size_t r = 0; r < n; ++r) {
        dims.results[r] = r < habit.batched;
        if (const int k = argument_of(schema, schema.returns()[r]); k >= 0)
            dims.arguments[static_cast<size_t>(k)] = dims.results[r];
    }
    return dims;
}

}  // namespace torch_nntile
