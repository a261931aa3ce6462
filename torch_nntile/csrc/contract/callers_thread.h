// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/AutogradState.h>

namespace torch_nntile {

// backward() of what this thread records runs in it, as on the CPU. PyTorch has a thread for each
// other device, which for us only records: to hand over and back costs 10 to 100 us a call.
inline void run_backward_here() {
    c10::AutogradState& state = c10::AutogradState::get_tls_state();
    if (state.get_multithreading_enabled()) [[unlikely]]
        state.set_multithreading_enabled(false);
}

}  // namespace torch_nntile
