// SPDX-License-Identifier: BSD-3-Clause
#include "host/fallback.h"

#include <torch/library.h>

#include <algorithm>
#include <map>
#include <set>
#include <shared_mutex>
#include <sstream>

#include "contract/callers_thread.h"
#include "contract/device.h"
#include "contract/notices.h"
#include "contract/stub.h"
#include "device/storage.h"
#include "observe/recording.h"
#include "shapes/structured.h"

namespace torch_nntile {
namespace {

using c10::OperatorHandle;

std::atomic<int> mode{NNTILE_STUB_WARN};

struct Known {
    std::shared_mutex mutex;
    std::map<std::string, std::unique_ptr<FallbackOp>> ops;
};
Known& known() {
    static auto* k = new Known;  // tasks may end after static objects
    return *k;
}

FallbackOp& known_op(const OperatorHandle& op) {
    check_not_forked();
    Known& k = known();
    const std::string name = toString(op.operator_name());
    {
        std::shared_lock lock(k.mutex);
        if (auto it = k.ops.find(name); it != k.ops.end()) return *it->second;
    }
    std::unique_lock lock(k.mutex);
    auto& op_of_name = k.ops[name];
    if (!op_of_name) op_of_name = std::make_unique<FallbackOp>(op);
    return *op_of_name;
}

bool is_tensor(c10::TypePtr type) {
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (auto list = type->cast<c10::ListType>()) type = list->getElementType();
    return type->kind() == c10::TypeKind::TensorType;
}

}  // namespace

void wrong_device(const c10::OperatorName& op, size_t argument, const at::Tensor& found) {
    const auto handle = c10::Dispatcher::singleton().findSchema(op);
    TORCH_CHECK(false,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                device(), " and ", found.device(), "! (when checking argument for argument ",
                handle->schema().arguments()[argument].name(), " in method ", op, ")");
}

void check_devices(const OperatorHandle& op, Arguments arguments) {
    for (size_t k = 0; k < arguments.size(); ++k) {
        const c10::Argument& formal = op.schema().arguments()[k];
        const bool lengths = formal.name() == "lengths" || formal.name() == "batch_sizes";
        each_tensor(arguments[k], [&](const at::Tensor& t) {
            if (!t.defined() || ours(t)) return;
            if (!t.is_cpu() || !(t.dim() == 0 || lengths || arguments[k].isOptionalTensorList()))
                wrong_device(op.operator_name(), k, t);
        });
    }
}

bool is_view(const c10::FunctionSchema& schema) {
    const auto& returns = schema.returns();
    return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& r) {
        return r.alias_info() && !r.alias_info()->isWrite();
    });
}

FallbackOp::FallbackOp(const OperatorHandle& op)
    : name(toString(op.operator_name())), batch(batch_dims_of(op.schema())) {
    const auto& schema = op.schema();
    const Habit& habit = habit_of(schema);
    for (size_t k = 0; k < schema.arguments().size(); ++k) {
        const c10::Argument& a = schema.arguments()[k];
        written.push_back(writes(a));
        if (habit.is & NNTILE_STUB_HIDES_WRITES &&
            (a.name() == "running_mean" || a.name() == "running_var"))
            written.back() = true;
        if (a.name() == "generator") generator = static_cast<int>(k);
    }
    const auto& returns = schema.returns();
    view = is_view(schema);
    elementwise = op.hasTag(at::Tag::pointwise) || habit.layout == NNTILE_STUB_ELEMENTWISE;
    by_mask = habit.is & NNTILE_STUB_BY_MASK;
    splits = !schema.is_mutable() && *habit.batch && habit.batched < returns.size();
    synchronous = habit.is & NNTILE_STUB_AT_ONCE || op.hasTag(at::Tag::data_dependent_output) ||
                  (op.hasTag(at::Tag::dynamic_output_shape) && !by_mask) ||
                  !std::all_of(returns.begin(), returns.end(),
                               [](const c10::Argument& r) { return is_tensor(r.type()); });
}

FallbackOp& admit_op(const OperatorHandle& op) {
    const int now = mode;
    TORCH_CHECK_NOT_IMPLEMENTED(now != NNTILE_STUB_ERROR, "nntile: '", op.operator_name(),
                                "' has no row for this call, and cpu_fallback is off. "
                                "docs/develop/add_an_op.md tells how to add one");
    FallbackOp& known = known_op(op);
    TORCH_CHECK_NOT_IMPLEMENTED(!known.view, "nntile: '", op.operator_name(),
                                "' is a view op that device nntile does not have");
    if (now == NNTILE_STUB_WARN && !known.warned.exchange(true))
        notify("nntile::runs_on_host", toString(op.operator_name()));
    return known;
}

namespace {

bool has_mask(const OperatorHandle& op, const torch::jit::Stack& stack) {
    bool found = false;
    for (const c10::IValue& v : torch::jit::last(stack, op.schema().arguments().size()))
        if (v.isOptionalTensorList() || v.isTensorList())
            each_tensor(v, [&](const at::Tensor& t) {
                found |=
                    t.defined() && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte);
            });
    return found;
}

// A task of no elements does not run, and the CPU may refuse these dtypes all the same. What an op
// writes and has no elements yet, it may resize: observers of quantisation do.
bool has_empty(const OperatorHandle& op, const FallbackOp& known, const torch::jit::Stack& stack) {
    bool any = false, empty = true, written = false;
    const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
    for (size_t k = 0; k < arguments.size(); ++k)
        each_tensor(arguments[k], [&](const at::Tensor& t) {
            any |= t.defined();
            empty &= !t.defined() || t.numel() == 0;
            written |= t.defined() && t.numel() == 0 && known.written[k] &&
                       !op.schema().arguments()[k].is_out();
        });
    return (any && empty) || written;
}

// A generator of the CPU goes on where the user's next number comes from: in the order of the
// program.
bool draws_on_cpu(const FallbackOp& known, const OperatorHandle& op,
                  const torch::jit::Stack& stack) {
    if (known.generator < 0) return false;
    const size_t n = op.schema().arguments().size();
    const auto given = torch::jit::peek(stack, known.generator, n).toOptional<at::Generator>();
    return given && given->device().is_cpu();
}

}  // namespace

void fallback(const OperatorHandle& op, torch::jit::Stack* stack) {
    FallbackOp& known = admit_op(op);
    run_backward_here();
    Recording recording(known.name.c_str());
    const bool now = known.synchronous || (known.by_mask && has_mask(op, *stack)) ||
                     has_empty(op, known, *stack) || draws_on_cpu(known, op, *stack);
    if (now || !record_on_host(op, known, stack)) run_now(op, known, stack);
    recording.done();
}

namespace {

// The gradient of the input has the batch, those of weight and bias are sums over it: a call for
// each kind.
bool split_by_batch(const OperatorHandle& op, torch::jit::Stack* stack) {
    const size_t n = op.schema().arguments().size();
    const c10::List<bool> mask = stack->back().toBoolList();
    if (!mask[0] || !(mask[1] || mask[2])) return false;
    torch::jit::Stack input = torch::jit::last(*stack, n).vec(), sums = input;
    input.back() = c10::List<bool>({true, false, false});
    sums.back() = c10::List<bool>({false, mask[1], mask[2]});
    fallback_refused(op, &input);
    fallback_refused(op, &sums);
    torch::jit::drop(*stack, n);
    torch::jit::push(*stack, input[0], sums[1], sums[2]);
    return true;
}

}  // namespace

void fallback_refused(const OperatorHandle& op, torch::jit::Stack* stack) {
    FallbackOp& known = admit_op(op);
    if (known.splits && split_by_batch(op, stack)) return;
    uint64_t types = static_cast<uint64_t>(call_state());
    bool overlaps = false;  // run_now() would copy, and lose that elements share memory
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    for (size_t k = 0; k < arguments.size(); ++k)
        each_tensor(arguments[k], [&](const at::Tensor& t) {
            const auto type = t.defined() ? static_cast<uint64_t>(t.scalar_type()) + 1 : 0;
            types = (types ^ type) * 0x9e3779b97f4a7c15u;
            overlaps |= known.written[k] && t.defined() && may_overlap_itself(t);
        });
    if (overlaps && !known.synchronous && record_on_host(op, known, stack)) return;
    const bool proven = known.proven.withLock([&](auto& all) { return all.contains(types); });
    if (known.synchronous || !proven || !record_on_host(op, known, stack)) {
        run_now(op, known, stack);
        known.proven.withLock([&](auto& all) { all.insert(types); });
    }
}

namespace {

thread_local int64_t of_compositions = 0;

// For a composition that is not for these operands.
void of_composition(const OperatorHandle& op, torch::jit::Stack* stack) {
    ++of_compositions;
    run_backward_here();
    Recording recording(known_op(op).name.c_str());
    fallback_refused(op, stack);
    recording.done();
}

}  // namespace

int64_t compositions_on_host() { return of_compositions; }

void set_fallback_mode(int value) { mode = value; }

std::string fallback_report() {
    Known& k = known();
    std::shared_lock lock(k.mutex);
    std::ostringstream out;
    for (const auto& [name, op] : k.ops)
        if (op->counter.calls)
            out << name << ' ' << op->counter.calls << ' ' << op->counter.bytes << ' '
                << static_cast<double>(op->counter.nanoseconds) * 1e-6 << '\n';
    return out.str();
}

void reset_fallback_report() {
    Known& k = known();
    std::shared_lock lock(k.mutex);
    for (auto& [name, op] : k.ops)
        op->counter.calls = op->counter.bytes = op->counter.nanoseconds = 0;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    for (const char* overload : overloads_with(NNTILE_STUB_ON_HOST))
        m.impl(overload, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

void register_composition_on_host(const char* name) {
    static auto* library =
        new torch::Library(torch::Library::IMPL, "aten", host_key, __FILE__, __LINE__);
    library->impl(name, torch::CppFunction::makeFromBoxedFunction<&of_composition>());
}

void register_structured_on_host() {
    static auto* library = new torch::Library(torch::Library::IMPL, "aten",
                                              c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    for (const std::string& name : structured_names()) {
        const size_t dot = name.find('.');
        const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
        const auto op = c10::Dispatcher::singleton().findSchema({name.substr(0, dot), overload});
        if (!op || op->schema().is_mutable() ||
            op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) ||
            op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd))
            continue;
        library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
    }
}

}  // namespace torch_nntile
