// SPDX-License-Identifier: BSD-3-Clause
// An op without a row as a node of the graph: PyTorch's CPU kernel on the dense blocks that a task
// gets. The call is kept with Meta tensors in the place of its tensors; they say sizes and dtypes.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "contract/device.h"
#include "contract/errors.h"
#include "contract/one_thread.h"
#include "contract/operand.h"
#include "device/rng.h"
#include "device/storage.h"
#include "host/fallback.h"
#include "shapes/cpu_strides.h"

namespace torch_nntile {
namespace {

using at::Tensor;
using c10::IValue;

struct KeptCall {
    KeptCall(const c10::OperatorHandle& op, Shapes results, FallbackCounter* counter)
        : op(op), results(std::move(results)), counter(counter) {}

    c10::OperatorHandle op;
    torch::jit::Stack arguments;      // Meta tensors stand for blocks
    std::vector<bool> read, written;  // of each argument
    // Stand-ins of written tensors whose block is all of their storage
    std::vector<Tensor> overlapping;
    Shapes results;
    size_t inputs = 0;   // blocks; those of outputs follow
    int generator = -1;  // argument
    Draw random{};
    int64_t bytes = 0;
    FallbackCounter* counter;
    const BatchDims* dims = nullptr;  // of a call that may be done in parts
    int64_t batch = 1;                // of the whole call

    bool is_batched(size_t argument) const { return dims && dims->arguments[argument]; }
};

// A tensor as its bytes lie: PyTorch's kernels take channels_last as it is, so nobody transposes
// it.
Tensor in_memory_order(const Tensor& t) { return is_channels_last(t) ? t.movedim(1, -1) : t; }

Tensor block(void* data, c10::IntArrayRef sizes, c10::ScalarType dtype, bool channels_last) {
    const at::TensorOptions options = at::TensorOptions(at::kCPU).dtype(dtype);
    if (!channels_last) return at::from_blob(data, sizes, options);
    std::vector<int64_t> memory(sizes.begin(), sizes.end());
    memory.push_back(sizes[1]);
    memory.erase(memory.begin() + 1);
    return at::from_blob(data, memory, options).movedim(-1, 1);
}

// A part of a batch has fewer rows.
at::DimVector sizes_of_part(c10::IntArrayRef whole, bool batched, int64_t rows) {
    at::DimVector sizes(whole);
    if (batched) sizes[0] = rows;
    return sizes;
}

// The CPU tensor on a block in the place of a stand-in.
Tensor on_block(const KeptCall& call, const Tensor& stand_in, bool batched, int64_t rows,
                void* data) {
    for (const Tensor& t : call.overlapping)
        if (t.is_same(stand_in))
            return at::from_blob(data, {static_cast<int64_t>(t.storage().nbytes() / t.itemsize())},
                                 at::TensorOptions(at::kCPU).dtype(t.scalar_type()))
                .as_strided(t.sizes(), t.strides(), t.storage_offset());
    return block(data, sizes_of_part(stand_in.sizes(), batched, rows), stand_in.scalar_type(),
                 is_channels_last(stand_in));
}

size_t block_bytes(const KeptCall& call, const Tensor& stand_in) {
    for (const Tensor& t : call.overlapping)
        if (t.is_same(stand_in)) return t.storage().nbytes();
    return stand_in.nbytes();
}

// The call with blocks for its tensors. What the op changes is copied to the output block first.
torch::jit::Stack with_blocks(const KeptCall& call, int64_t rows, void* const* data,
                              void* const** results) {
    torch::jit::Stack stack;
    void *const *in = data, *const *out = data + call.inputs;
    for (size_t k = 0; k < call.arguments.size(); ++k) {
        const bool read = call.read[k], written = call.written[k], batched = call.is_batched(k);
        if (batched && call.arguments[k].isIntList()) {
            std::vector<int64_t> sizes = call.arguments[k].toIntVector();
            sizes[0] = rows;
            stack.emplace_back(std::move(sizes));
            continue;
        }
        stack.push_back(map_tensors(call.arguments[k], [&](const Tensor& t) {
            if (!t.is_meta()) return t;
            void* from = read ? *in++ : nullptr;
            if (!written) return on_block(call, t, batched, rows, from);
            void* to = *out++;
            const size_t bytes = block_bytes(call, t);
            if (read && from != to && bytes) std::memcpy(to, from, bytes);
            return on_block(call, t, batched, rows, to);
        }));
    }
    if (call.generator >= 0) stack[call.generator] = host_generator(call.random);
    *results = out;
    return stack;
}

// Some kernels conjugate what they have written by a bit of the tensor; a block has only its bytes.
void resolve(const Tensor& t) {
    if (!t.defined() || !(t.is_conj() || t.is_neg())) return;
    const Tensor value = t.resolve_conj().resolve_neg();
    t._set_conj(false);
    t._set_neg(false);
    t.copy_(value);
}

// rows: of this part of a batch; accumulate: results are added to what is in their blocks.
void run(const KeptCall& call, int64_t rows, bool accumulate, void* const* data) {
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    void* const* out = nullptr;
    torch::jit::Stack stack = with_blocks(call, rows, data, &out);
    const torch::jit::Stack kept = stack;  // as call_at in shapes/meta.cc
    call.op.callBoxed(&stack);
    const auto& returns = call.op.schema().returns();
    for (size_t r = 0; r < returns.size(); ++r) {
        if (returns[r].alias_info()) {
            each_tensor(stack[r], resolve);
            continue;
        }
        const bool batched = call.dims && call.dims->results[r];
        auto shape = call.results[r].begin();
        each_tensor(stack[r], [&](const Tensor& t) {
            const Shape& s = *shape++;
            if (s.dtype == c10::ScalarType::Undefined) return;
            Tensor to =
                block(*out++, sizes_of_part(s.sizes, batched, rows), s.dtype, is_channels_last(s));
            if (!t.defined() ||
                t.numel() == 0) {  // not needed, as the statistics of batch_norm in eval mode
                if (!accumulate) to.zero_();
                return;
            }
            TORCH_CHECK(t.sizes() == to.sizes(), "the host's kernel gives sizes ", t.sizes(),
                        " where ", to.sizes(), " were expected");
            if (accumulate) to.add_(t);
            else to.copy_(t);
        });
    }
}

int run_host(void* user, const int64_t* /*starts*/, const int64_t* sizes, int accumulate,
             void* const* data, char* error_text) {
    const auto& call = *static_cast<const KeptCall*>(user);
    const int64_t batch = call.dims ? sizes[0] : 1;
    use_one_thread();
    const auto start = std::chrono::steady_clock::now();
    nntile_error* error = nullptr;
    const nntile_status status = guarded(&error, [&] { run(call, batch, accumulate, data); });
    call.counter->nanoseconds += (std::chrono::steady_clock::now() - start).count();
    call.counter->bytes += call.bytes * batch / std::max<int64_t>(call.batch, 1);
    ++call.counter->calls;
    if (status != NNTILE_OK) std::snprintf(error_text, 256, "%s", nntile_error_message(error));
    nntile_error_destroy(error);
    return status;
}

// Indices and lengths may be on the CPU. Returns the tensor to use: its bytes are its values.
// (Matrix products get conjugate views, which PyTorch resolves for most other ops.)
Tensor admit(const Tensor& t, const c10::OperatorHandle& op, const c10::Argument& argument) {
    if (ours(t)) {
        const bool plain = !t.is_conj() && !t.is_neg();
        TORCH_CHECK_NOT_IMPLEMENTED(plain || !writes(argument), "nntile: '", op.operator_name(),
                                    "' cannot write into a conjugate or negative view");
        return plain ? t : t.resolve_conj().resolve_neg();
    }
    return t.dim() == 0 ? t : t.to(device());
}

// Tensors on the CPU are refused or uploaded, in place on the stack.
void admit_all(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const auto& formal = op.schema().arguments();
    check_devices(op, torch::jit::last(*stack, formal.size()));
    for (size_t k = 0; k < formal.size(); ++k) {
        IValue& v = torch::jit::peek(*stack, k, formal.size());
        v = map_tensors(v, [&](const Tensor& t) { return admit(t, op, formal[k]); });
    }
}

bool gives_nothing(const Shapes& shapes) {
    const auto empty = [](const Shape& s) { return c10::multiply_integers(s.sizes) == 0; };
    return !shapes.empty() && std::all_of(shapes.begin(), shapes.end(), [&](const auto& list) {
        return std::all_of(list.begin(), list.end(), empty);
    });
}

// Whether results have the default dtype because no argument is floating: a task runs when it may
// be another.
bool follows_default(Arguments arguments, const Shapes& shapes) {
    const auto whole = [](c10::ScalarType type) { return c10::isIntegralType(type, true); };
    bool integers = true, promoted = false;
    for (const c10::IValue& v : arguments)
        each_tensor(v,
                    [&](const Tensor& t) { integers &= !t.defined() || whole(t.scalar_type()); });
    for (const auto& list : shapes)
        for (const Shape& s : list)
            promoted |= s.dtype != c10::ScalarType::Undefined && !whole(s.dtype);
    return integers && promoted;
}

void resize_outs(const c10::OperatorHandle& op, Arguments arguments, const Shapes& shapes) {
    const c10::FunctionSchema& schema = op.schema();
    for (size_t r = 0; r < schema.returns().size(); ++r) {
        const int k = argument_of(schema, schema.returns()[r]);
        if (k < 0 || !schema.arguments()[k].is_out() || !arguments[k].isTensor()) continue;
        const Tensor& out = arguments[k].toTensor();
        if (op.hasTag(at::Tag::pointwise)) check_resizable(arguments, k, shapes[r][0].sizes);
        at::native::resize_output(out, shapes[r][0].sizes);
        at::assert_no_internal_overlap(out);
    }
}

// Fills the call and its operands from the arguments; what the op changes goes to outputs too.
void take_arguments(KeptCall& call, const FallbackOp& known, Arguments arguments,
                    Operands& operands, std::vector<Tensor>& outputs) {
    for (size_t k = 0; k < arguments.size(); ++k) {
        // Of an out= argument whose block is all of its storage, the rest must stay.
        bool reads = !call.op.schema().arguments()[k].is_out();
        each_tensor(arguments[k], [&](const Tensor& t) {
            reads |= t.defined() && ours(t) && known.written[k] && may_overlap_itself(t);
        });
        call.read.push_back(reads);
        call.written.push_back(known.written[k]);
        each_tensor(arguments[k], [&](const Tensor& t) {
            if (!t.defined() || !ours(t)) return;
            const bool overlaps = known.written[k] && may_overlap_itself(t);
            if (reads && overlaps) operands.tensor(whole_storage(t));
            else if (reads) operands.tensor(in_memory_order(t));
            if (known.written[k]) outputs.push_back(overlaps ? whole_storage(t) : t);
        });
        if (arguments[k].isDevice()) call.arguments.emplace_back(c10::Device(at::kCPU));
        else
            call.arguments.push_back(map_tensors(arguments[k], [&](const Tensor& t) {
                if (!ours(t)) return t.clone();
                if (!known.written[k] || !may_overlap_itself(t)) return meta_like(t, false);
                call.overlapping.push_back(
                    meta_like(whole_storage(t), true)
                        .as_strided(t.sizes(), t.strides(), t.storage_offset()));
                return call.overlapping.back();
            }));
    }
    call.inputs = operands.size();
}

// The results are quantised, of which Meta kernels know nothing.
bool quantises(const c10::FunctionSchema& schema, Arguments arguments) {
    for (size_t k = 0; k < arguments.size(); ++k)
        if (arguments[k].isInt() &&
            schema.arguments()[k].real_type()->kind() == c10::TypeKind::ScalarTypeType &&
            c10::isQIntType(arguments[k].toScalarType()))
            return true;
    return false;
}

// The returns of the call: arguments that it writes, or new tensors.
std::vector<IValue> make_results(const KeptCall& call, Arguments arguments,
                                 std::vector<Tensor>& outputs) {
    const auto& schema = call.op.schema();
    std::vector<IValue> results;
    for (size_t r = 0; r < schema.returns().size(); ++r) {
        if (const int k = argument_of(schema, schema.returns()[r]); k >= 0) {
            results.push_back(arguments[k]);
            continue;
        }
        std::vector<Tensor> made;
        for (const Shape& s : call.results[r]) {
            made.push_back(s.make());
            if (made.back().defined()) outputs.push_back(made.back());
        }
        if (schema.returns()[r].type()->kind() == c10::TypeKind::ListType)
            results.emplace_back(std::move(made));
        else results.emplace_back(std::move(made.at(0)));
    }
    return results;
}

// Makes the call one that may be done in parts, along axis 0, the batch: dim 0 of operands that
// have it. Empty: it is one task. Sums of short floats would lose digits.
std::vector<int64_t> find_axes(KeptCall& call, const FallbackOp& known, Arguments arguments,
                               const Operands& operands) {
    const BatchDims& dims = known.batch;
    if (dims.arguments.empty() || !call.overlapping.empty()) return {};
    std::vector<uint8_t> inputs, outputs;
    int64_t batch = -1;
    bool fits = true, sums = false;
    const auto has = [&](bool batched, c10::IntArrayRef sizes) {
        if (!batched) return;
        if (batch < 0 && !sizes.empty()) batch = sizes[0];
        fits &= !sizes.empty() && sizes[0] == batch;
    };
    for (size_t k = 0; k < arguments.size(); ++k) {
        if (dims.arguments[k] && arguments[k].isIntList()) has(true, arguments[k].toIntVector());
        each_tensor(arguments[k], [&](const Tensor& t) {
            if (!t.defined() || !ours(t)) return;
            has(dims.arguments[k], t.sizes());
            (known.written[k] ? outputs : inputs).push_back(dims.arguments[k]);
            fits &= dims.arguments[k] || !known.written[k];  // sums are results, not out= arguments
        });
    }
    for (size_t r = 0; r < dims.results.size(); ++r) {
        if (call.op.schema().returns()[r].alias_info()) continue;
        for (const Shape& s : call.results[r]) {
            if (s.dtype == c10::ScalarType::Undefined) continue;
            has(dims.results[r], s.sizes);
            outputs.push_back(dims.results[r]);
            sums |= !dims.results[r];
            fits &= dims.results[r] || s.dtype == at::kFloat || s.dtype == at::kDouble;
        }
    }
    fits &= batch >= 0 && (!sums || std::count(outputs.begin(), outputs.end(), 1) == 0);
    if (!fits) return {};
    call.dims = &dims;
    call.batch = batch;
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    std::vector<int64_t> axes;
    for (size_t i = 0; i < operands.size(); ++i) {
        const size_t first = axes.size();
        axes.resize(first + operands.data()[i].ndim, -1);
        if (inputs[i]) axes[first] = 0;
    }
    return axes;
}

}  // namespace

bool record_on_host(const c10::OperatorHandle& op, FallbackOp& known, torch::jit::Stack* stack) {
    admit_all(op, stack);
    const Arguments arguments = torch::jit::last(*stack, op.schema().arguments().size());
    if (quantises(op.schema(), arguments)) return false;
    std::shared_ptr<const Shapes> shapes;
    try {
        shapes = known.shapes.shapes(op, arguments);
    } catch (const std::exception&) {
        return false;  // no Meta kernel, or bad arguments: the host's kernel says which
    }
    // Of element-wise ops any values tell whether the CPU takes these dtypes.
    if (known.elementwise) known.shapes.ask_cpu(op, arguments);
    if (default_dtype() && follows_default(arguments, *shapes)) return false;
    // A task for it would not run, nor refuse its arguments
    if (gives_nothing(*shapes)) return false;
    resize_outs(op, arguments, *shapes);

    auto call = std::make_unique<KeptCall>(op, *shapes, &known.counter);
    Operands operands;
    std::vector<Tensor> outputs;
    take_arguments(*call, known, arguments, operands, outputs);
    std::vector<IValue> results = make_results(*call, arguments, outputs);
    for (const Tensor& t : outputs) operands.tensor(in_memory_order(t));
    for (size_t i = 0; i < operands.size(); ++i) call->bytes += bytes_of(operands.data()[i]);
    if (known.generator >= 0) {
        call->generator = known.generator;
        call->random = draw_for_host(arguments[known.generator].toOptional<at::Generator>(),
                                     outputs.empty() ? 1 : outputs[0].numel());
        call->arguments[known.generator] = IValue();
    }

    const std::vector<int64_t> axes = find_axes(*call, known, arguments, operands);
    // Each run gets its call: seeds and numbers are its data, and a plan needs to know the op only.
    const std::string name = toString(op.operator_name());
    const size_t inputs = call->inputs;
    nntile_function function{};
    function.struct_size = sizeof(function);
    function.name = name.c_str();
    function.signature = std::hash<std::string>()(name);
    function.run = &run_host;
    function.user = call.release();  // owned by the recorder from here on
    function.destroy = [](void* user) { delete static_cast<KeptCall*>(user); };
    function.axes = axes.empty() ? nullptr : axes.data();
    torch_nntile::call(nntile_record_function, record(), &function, operands.data(), inputs,
                       outputs.size());
    torch::jit::drop(*stack, arguments.size());
    for (IValue& v : results) stack->push_back(std::move(v));
    return true;
}

}  // namespace torch_nntile
