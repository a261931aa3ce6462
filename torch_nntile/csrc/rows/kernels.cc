// SPDX-License-Identifier: BSD-3-Clause
// A call of an op made from a user's kernel: one node. What it is for given shapes, Python says
// once, by the op's overload "plan"; calls after that are found here and need no Python.
#include "rows/kernels.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <memory>
#include <string>

#include "contract/boxed.h"
#include "contract/device.h"
#include "contract/errors.h"
#include "contract/operand.h"
#include "contract/stub.h"
#include "observe/recording.h"
#include "rows/implement.h"
#include "shapes/by_signature.h"

namespace torch_nntile {
namespace {

// What the overload "plan" gives, a list of integers: the words in this order, lists with their
// length first.
struct CallPlan {
    struct Result {
        at::ScalarType dtype;
        std::vector<int64_t> sizes;
    };
    // What the kernel changes begins, as an output, with what is there.
    struct Changed {
        int64_t bytes;              // of an element, times the dims without an axis
        std::vector<int64_t> axes;  // of the others
    };
    nntile_stub_kernel function;
    uint64_t signature;
    std::vector<int64_t> numbers, axes;
    std::vector<Result> results;
    std::vector<Changed> changed;
    size_t inputs;

    CallPlan(const std::vector<int64_t>& words, const c10::FunctionSchema& schema,
             Arguments arguments)
        : inputs(arguments.size()) {
        const int64_t* next = words.data();
        const auto list = [&] {
            const int64_t n = *next++;
            next += n;
            return std::vector<int64_t>(next - n, next);
        };
        function = reinterpret_cast<nntile_stub_kernel>(*next++);
        signature = static_cast<uint64_t>(*next++);
        numbers = list();
        axes = list();
        while (next < words.data() + words.size()) {
            const at::ScalarType dtype = type_of(static_cast<nntile_dtype>(*next++));
            results.push_back({dtype, list()});
        }
        const int64_t* axis = axes.data();
        for (size_t k = 0; k < arguments.size(); ++k) {
            if (!writes(schema.arguments()[k])) continue;
            const at::Tensor& t = arguments[k].toTensor();
            Changed& c = changed.emplace_back(Changed{static_cast<int64_t>(t.itemsize()), {}});
            for (int64_t d = 0; d < t.dim(); ++d, ++axis) {
                if (*axis < 0) c.bytes *= t.size(d);
                else c.axes.push_back(*axis);
            }
        }
    }

    static int run(void* user, const int64_t* starts, const int64_t* sizes, int /*accumulate*/,
                   void* const* data, char* error_text) {
        const CallPlan& plan = **static_cast<std::shared_ptr<const CallPlan>*>(user);
        for (size_t k = 0; k < plan.changed.size(); ++k) {
            int64_t bytes = plan.changed[k].bytes;
            for (int64_t axis : plan.changed[k].axes) bytes *= sizes[axis];
            void *const from = data[k], *const to = data[plan.inputs + k];
            if (from != to) std::memcpy(to, from, static_cast<size_t>(bytes));
        }
        return plan.function(plan.numbers.data(), starts, sizes, data, error_text);
    }
};

class KernelOp : public c10::OperatorKernel {
public:
    KernelOp(const std::string& name, uint64_t keyed)
        : full_name_(name),
          name_(name.substr(name.find("::") + 2)),
          plan_(c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "plan")),
          keyed_(keyed) {}

    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
        Recording recording(full_name_.c_str());
        const auto& formal = op.schema().arguments();
        const Arguments arguments = torch::jit::last(*stack, formal.size());
        const std::shared_ptr<const CallPlan> kept_plan = plan_of(arguments);
        const CallPlan& plan = *kept_plan;

        Operands operands;
        std::vector<at::Tensor> kept;  // that operands borrow from
        const auto add = [&](const at::Tensor& t) { operands.tensor(kept.emplace_back(t)); };
        kept.reserve(2 * formal.size() + plan.results.size());
        for (size_t k = 0; k < formal.size(); ++k)
            if (writes(formal[k])) {
                at::assert_no_internal_overlap(arguments[k].toTensor());
                add(arguments[k].toTensor());
            }
        for (size_t k = 0; k < formal.size(); ++k)
            if (arguments[k].isTensor() && !writes(formal[k]))
                add(arguments[k].toTensor().resolve_neg());
        for (const c10::IValue& v : arguments)
            if (!v.isTensor()) number(v, operands);
        for (size_t k = 0; k < plan.changed.size(); ++k) add(kept[k]);
        std::vector<at::Tensor> results;
        for (const CallPlan::Result& r : plan.results) {
            results.push_back(at::empty(r.sizes, at::TensorOptions(device()).dtype(r.dtype)));
            add(results.back());
        }
        nntile_function function{};
        function.struct_size = sizeof(function);
        function.name = name_.c_str();
        function.signature = plan.signature;
        function.run = &CallPlan::run;
        function.axes = plan.axes.data();
        function.ranges = 1;
        function.user = new std::shared_ptr<const CallPlan>(kept_plan);  // the recorder's
        function.destroy = [](void* user) {
            delete static_cast<std::shared_ptr<const CallPlan>*>(user);
        };
        call(nntile_record_function, record(), &function, operands.data(), plan.inputs,
             operands.size() - plan.inputs);
        torch::jit::drop(*stack, formal.size());
        for (at::Tensor& t : results) stack->emplace_back(std::move(t));
        recording.done();
    }

private:
    static void number(const c10::IValue& v, Operands& operands) {
        if (v.isDouble()) return operands.number({at::kDouble, v.toDouble(), 0}, NNTILE_F64);
        const int64_t i =
            v.isBool() ? int64_t{v.toBool()} : v.toSymInt().guard_int(__FILE__, __LINE__);
        operands.number({at::kLong, static_cast<double>(i), i}, NNTILE_I64);
    }

    std::shared_ptr<const CallPlan> plan_of(Arguments arguments) {
        Signature key;
        bool known = true;
        for (size_t k = 0; k < arguments.size(); ++k) {
            const c10::IValue& v = arguments[k];
            if (v.isTensor()) {
                const at::Tensor& t = v.toTensor();
                known &= t.defined() && ours(t) &&
                         !(t.is_neg() && plan_.schema().arguments()[k].alias_info());
                if (!known) break;
                key.push_back(static_cast<int64_t>(t.scalar_type()) << 8 | t.dim());
                key.append(t.sizes().begin(), t.sizes().end());
            } else if (keyed_ >> k & 1) {
                key.push_back(v.toSymInt().guard_int(__FILE__, __LINE__));
            }
        }
        if (known)
            if (auto plan = plans_.find(key)) return std::move(*plan);
        torch::jit::Stack stack(arguments.begin(), arguments.end());
        plan_.callBoxed(&stack);  // raises what is wrong with the arguments
        TORCH_CHECK(known, name_, ": its tensors cannot be used in place");
        auto plan =
            std::make_shared<const CallPlan>(stack[0].toIntVector(), plan_.schema(), arguments);
        plans_.keep(std::move(key), plan);
        return plan;
    }

    const std::string full_name_, name_;
    const c10::OperatorHandle plan_;
    const uint64_t keyed_;
    BySignature<std::shared_ptr<const CallPlan>, 4096> plans_;
};

}  // namespace

void register_kernel(const char* name, uint64_t keyed) {
    implement(name, std::make_unique<KernelOp>(name, keyed));
}

}  // namespace torch_nntile
