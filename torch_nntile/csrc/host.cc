// SPDX-License-Identifier: BSD-3-Clause
// An op without a row as a node of the graph: PyTorch's CPU kernel on the dense blocks that a task gets.
// The call is kept with Meta tensors in the place of its tensors; they say sizes and dtypes.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "device.h"
#include "errors.h"
#include "fallback.h"
#include "operand.h"
#include "rng.h"
#include "storage.h"

namespace torch_nntile {
namespace {

using at::Tensor;
using c10::IValue;

struct HostCall {
    c10::OperatorHandle op;
    torch::jit::Stack arguments;  // Meta tensors stand for blocks
    Shapes results;
    std::vector<bool> read, written;  // arguments
    size_t inputs = 0;
    int generator = -1;
    Draw random{};
    int64_t bytes = 0;
    FallbackCounter *counter;
};

// A worker is one of many: a kernel of PyTorch that starts a team of threads in each would fight for the
// cores. at::set_num_threads is no help, it is also the default of threads that start later; so ask the
// OpenMP library that PyTorch itself uses. Without OpenMP its pool is shared and nothing is needed.
void use_one_thread() {
    thread_local const bool done = [] {
        at::get_num_threads();  // the first use in a thread sets the default
        if (void *torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD)) {
            if (auto set = reinterpret_cast<void (*)(int)>(dlsym(torch, "omp_set_num_threads"))) set(1);
            dlclose(torch);
        }
        return true;
    }();
    (void)done;
}

Tensor block(void *data, c10::IntArrayRef sizes, c10::ScalarType dtype) {
    return at::from_blob(data, sizes, at::TensorOptions(at::kCPU).dtype(dtype));
}

// The call with blocks for its tensors. What the op changes is copied to the output block first.
torch::jit::Stack with_blocks(const HostCall &call, void *const *data, void *const **results) {
    torch::jit::Stack stack;
    void *const *in = data, *const *out = data + call.inputs;
    for (size_t k = 0; k < call.arguments.size(); ++k) {
        const bool read = call.read[k], written = call.written[k];
        stack.push_back(map_tensors(call.arguments[k], [&](const Tensor &t) {
            if (!t.is_meta()) return t;
            void *from = read ? *in++ : nullptr;
            if (!written) return block(from, t.sizes(), t.scalar_type());
            void *to = *out++;
            if (read && from != to && t.nbytes()) std::memcpy(to, from, t.nbytes());
            return block(to, t.sizes(), t.scalar_type());
        }));
    }
    if (call.generator >= 0) {
        const uint64_t seed = call.random.seed ^ (call.random.offset * 0x9e3779b97f4a7c15u);
        stack[call.generator] = at::detail::createCPUGenerator(seed);
    }
    *results = out;
    return stack;
}

void run(const HostCall &call, void *const *data) {
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    void *const *out = nullptr;
    torch::jit::Stack stack = with_blocks(call, data, &out);
    call.op.callBoxed(&stack);
    const auto &returns = call.op.schema().returns();
    for (size_t r = 0; r < returns.size(); ++r) {
        if (returns[r].alias_info()) continue;
        auto shape = call.results[r].begin();
        each_tensor(stack[r], [&](const Tensor &t) {
            const Shape &s = *shape++;
            if (s.dtype == c10::ScalarType::Undefined) return;
            Tensor to = block(*out++, s.sizes, s.dtype);
            if (!t.defined() || t.numel() == 0) {  // not needed, as the statistics of batch_norm in eval mode
                to.zero_();
                return;
            }
            TORCH_CHECK(t.sizes() == s.sizes, "the host's kernel gives sizes ", t.sizes(), " where ",
                        c10::IntArrayRef(s.sizes), " were expected");
            to.copy_(t);
        });
    }
}

int run_host(void *user, void *const *data, char *error_text) {
    const auto &call = *static_cast<const HostCall *>(user);
    use_one_thread();
    const auto start = std::chrono::steady_clock::now();
    nntile_error *error = nullptr;
    const nntile_status status = guarded(&error, [&] { run(call, data); });
    call.counter->nanoseconds += (std::chrono::steady_clock::now() - start).count();
    call.counter->bytes += call.bytes;
    ++call.counter->calls;
    if (status != NNTILE_OK) std::snprintf(error_text, 256, "%s", nntile_error_message(error));
    nntile_error_destroy(error);
    return status;
}

// Tensors on the CPU among the arguments: indices may be there, numbers may; others are the user's mistake.
// Returns the tensor to use.
Tensor admit(const Tensor &t, const c10::OperatorHandle &op, const c10::Argument &argument, bool indices) {
    if (ours(t) || (t.is_cpu() && t.dim() == 0)) return t;
    TORCH_CHECK(t.is_cpu() && indices, "Expected all tensors to be on the same device, but found at least two devices, ",
                device(), " and ", t.device(), "! (when checking argument for argument ", argument.name(),
                " in method ", op.operator_name(), ")");
    return t.to(device());
}

// What makes two calls different for the plan cache: everything that run() sees besides the blocks.
uint64_t signature_of(const HostCall &call, Arguments arguments) {
    Signature s{static_cast<int64_t>(std::hash<c10::OperatorName>()(call.op.operator_name())),
                static_cast<int64_t>(call.random.seed), static_cast<int64_t>(call.random.offset)};
    append_signature(arguments, true, s);
    for (const IValue &v : arguments)
        each_tensor(v, [&](const Tensor &t) {
            if (!t.defined() || ours(t)) return;
            const size_t at = s.size();
            s.resize(at + (t.nbytes() + 7) / 8);
            std::memcpy(s.data() + at, t.const_data_ptr(), t.nbytes());
        });
    return hash_of(s);
}

}  // namespace

bool record_on_host(const c10::OperatorHandle &op, FallbackOp &known, torch::jit::Stack *stack) {
    const auto &schema = op.schema();
    const size_t n = schema.arguments().size();
    for (size_t k = 0; k < n; ++k) {
        IValue &v = torch::jit::peek(*stack, k, n);
        const c10::Argument &a = schema.arguments()[k];
        const bool indices = v.isOptionalTensorList() || a.name() == "lengths" || a.name() == "batch_sizes";
        v = map_tensors(v, [&](const Tensor &t) { return admit(t, op, a, indices); });
    }
    const Arguments arguments = torch::jit::last(*stack, n);
    std::shared_ptr<const Shapes> shapes;
    try {
        shapes = known.shapes.shapes(op, arguments);
    } catch (const std::exception &) {
        return false;  // no Meta kernel, or bad arguments: the host's kernel says which
    }
    const auto &returns = schema.returns();
    for (size_t r = 0; r < returns.size(); ++r) {
        if (!returns[r].alias_info()) continue;
        for (size_t k = 0; k < n; ++k) {
            const c10::Argument &a = schema.arguments()[k];
            if (a.is_out() && *a.alias_info() == *returns[r].alias_info() && arguments[k].isTensor())
                at::native::resize_output(arguments[k].toTensor(), (*shapes)[r][0].sizes);
        }
    }

    auto call = std::make_unique<HostCall>(HostCall{op, {}, *shapes, {}, {}, 0, known.generator, {}, 0, &known.counter});
    Operands operands;
    std::vector<Tensor> outputs;
    for (size_t k = 0; k < n; ++k) {
        const bool out = schema.arguments()[k].is_out();
        call->read.push_back(!out);
        call->written.push_back(known.written[k]);
        each_tensor(arguments[k], [&](const Tensor &t) {
            if (!t.defined() || !ours(t)) return;
            if (!out) operands.tensor(t);
            if (known.written[k]) outputs.push_back(t);
            call->bytes += static_cast<int64_t>(t.nbytes());
        });
        call->arguments.push_back(
            arguments[k].isDevice() ? IValue(c10::Device(at::kCPU)) : map_tensors(arguments[k], [](const Tensor &t) {
                return ours(t) ? meta_like(t, false) : t.clone();
            }));
    }
    call->inputs = operands.size();

    std::vector<IValue> results;
    for (size_t r = 0; r < returns.size(); ++r) {
        if (returns[r].alias_info()) {
            for (size_t k = 0; k < n; ++k) {
                const auto *alias = schema.arguments()[k].alias_info();
                if (alias && *alias == *returns[r].alias_info()) results.push_back(arguments[k]);
            }
            continue;
        }
        std::vector<Tensor> made;
        for (const Shape &s : (*shapes)[r]) {
            made.push_back(s.make());
            if (!made.back().defined()) continue;
            outputs.push_back(made.back());
            call->bytes += static_cast<int64_t>(made.back().nbytes());
        }
        if (returns[r].type()->kind() == c10::TypeKind::ListType)
            results.emplace_back(std::move(made));
        else
            results.emplace_back(std::move(made.at(0)));
    }
    for (const Tensor &t : outputs) operands.tensor(t);
    if (known.generator >= 0) {
        const auto given = arguments[known.generator].toOptional<at::Generator>();
        call->random = draw(given, outputs.empty() ? 1 : outputs[0].numel());
        call->arguments[known.generator] = IValue();
    }

    nntile_error *error = nullptr;
    const uint64_t signature = signature_of(*call, arguments);
    const std::string name = toString(op.operator_name());
    const size_t inputs = call->inputs;
    check(nntile_record_host(record(), name.c_str(), signature, &run_host, call.get(),
                             [](void *user) { delete static_cast<HostCall *>(user); }, operands.data(), inputs,
                             outputs.size(), nullptr, &error), error);
    call.release();
    torch::jit::drop(*stack, n);
    for (IValue &v : results) stack->push_back(std::move(v));
    return true;
}

}  // namespace torch_nntile
