// SPDX-License-Identifier: BSD-3-Clause
#include "device/steps.h"

#include <ATen/record_function.h>

#include <cstring>
#include <memory>

#include "contract/device.h"
#include "contract/errors.h"

namespace torch_nntile {
namespace {

thread_local int open_steps = 0;

struct Depth : at::ObserverContext {
    int steps = open_steps;
};

// PyTorch calls a step, with its hooks, in a range of the profiler of this name. It ends whatever
// happens in it, the hook behind the step does not.
std::unique_ptr<at::ObserverContext> range_begins(const at::RecordFunction& range) {
    constexpr const char* name = "Optimizer.step#";
    if (std::strncmp(range.name(), name, std::strlen(name)) != 0) return nullptr;
    return std::make_unique<Depth>();
}

// What does not fit says so to whoever needs it: here an exception is under way already.
void range_ends(const at::RecordFunction&, at::ObserverContext* context) {
    if (!context) return;
    while (open_steps > static_cast<Depth*>(context)->steps)
        (void)guarded(nullptr, [] { end_step(); });
}

}  // namespace

void begin_step() {
    call(nntile_record_step, record(), 1);
    ++open_steps;
}

void end_step() {
    if (open_steps == 0) return;
    --open_steps;
    call(nntile_record_step, record(), 0);
}

void watch_steps() {
    at::addGlobalCallback(at::RecordFunctionCallback(&range_begins, &range_ends)
                              .scopes({at::RecordScope::USER_SCOPE}));
}

}  // namespace torch_nntile
