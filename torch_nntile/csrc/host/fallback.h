// SPDX-License-Identifier: BSD-3-Clause
// Ops without a row: PyTorch's CPU kernel, as a task of the graph where the result's shape is known
// beforehand, else at once on the host.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/Synchronized.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>

#include "shapes/habits.h"
#include "shapes/meta.h"

namespace torch_nntile {

struct FallbackCounter {
    std::atomic<int64_t> calls{0}, bytes{0}, nanoseconds{0};
};

// What is known of one overload that runs on the host.
struct FallbackOp {
    explicit FallbackOp(const c10::OperatorHandle& op);

    std::string name;
    FallbackCounter counter;
    MetaCache shapes{true, Refusal::by_caller};  // the host's kernel gets the values themselves
    bool synchronous;  // the result's shape depends on data, or it is not a tensor
    bool by_mask;      // it does so where an index is a mask
    bool view;
    bool elementwise;
    bool splits;  // some results have the batch, some are sums over it: a call for each kind
    int generator = -1;
    std::vector<bool> written;  // arguments, those too that the schema forgets
    BatchDims batch;
    std::atomic<bool> warned{false};

    c10::Synchronized<std::set<uint64_t>> proven;  // dtypes that the host's kernel has taken before
};

// The boxed kernel of PrivateUse1 for all ops without a row.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The same for a call that a row refused, mostly for its dtypes. The host may refuse them too, so
// the first call with these dtypes runs at once: its error comes at the user's line and in
// PyTorch's class.
void fallback_refused(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// What is known of an op that is to run on the host; warns or throws as the user asked.
FallbackOp& admit_op(const c10::OperatorHandle& op);

// Throws PyTorch's error of a tensor that is on another device.
[[noreturn]] void wrong_device(const c10::OperatorName& op, size_t argument,
                               const at::Tensor& found);

// Numbers may be on the CPU, and indices and lengths; other tensors there are the user's mistake.
void check_devices(const c10::OperatorHandle& op, Arguments arguments);

// True for an op whose results share the memory of an argument.
bool is_view(const c10::FunctionSchema& schema);

// Records the op as a host function. False: it has no such form, nothing was recorded.
bool record_on_host(const c10::OperatorHandle& op, FallbackOp& known, torch::jit::Stack* stack);

// Runs the op on the host now, on copies of its operands; `key` names PyTorch's kernel. What the op
// has written goes back into the operands, results go to the device, or where the call names one.
// copies: one operand may be on the CPU.
void run_now(const c10::OperatorHandle& op, FallbackOp& known, torch::jit::Stack* stack,
             c10::DispatchKey key = c10::DispatchKey::CPU, bool copies = false);

// A tensor of any kind on another device; a tensor of the device becomes what an op has made of its
// copy on the host.
at::Tensor moved(const at::Tensor& t, c10::Device to);
void become(const at::Tensor& t, const at::Tensor& host);

// The key at which an overload of a composition ("elu.out") runs on the host; no device of
// PyTorch's has it.
inline constexpr auto host_key = c10::DispatchKey::PrivateUse2;
void register_composition_on_host(const char* name);
// How many calls of this thread came there. PyTorch tells nobody of a call that is passed on.
int64_t compositions_on_host();

// Structured ops without a kernel of the device run on the host as they are called. PyTorch's
// kernel for all devices would call their out= form with a result like the operands before they are
// cast.
void register_structured_on_host();

void set_fallback_mode(int mode);
std::string fallback_report();
void reset_fallback_report();

}  // namespace torch_nntile
