// SPDX-License-Identifier: BSD-3-Clause
#include "device/switches.h"

#include <ATen/Context.h>

#include <atomic>

#include "contract/device.h"
#include "contract/errors.h"

namespace torch_nntile {

void follow_switches() {
    static std::atomic<uint32_t> last{NNTILE_CUDNN};
    if (nntile_context_gpus() == 0) [[likely]]
        return;
    const at::Context& context = at::globalContext();
    const auto is_tf32 = [&](at::Float32Op op) {
        return context.float32Precision(at::Float32Backend::CUDA, op) == at::Float32Precision::TF32;
    };
    uint32_t math = 0;
    if (is_tf32(at::Float32Op::MATMUL)) math |= NNTILE_TF32_PRODUCTS;
    if (is_tf32(at::Float32Op::CONV)) math |= NNTILE_TF32_CONVOLUTIONS;
    if (context.userEnabledCuDNN()) math |= NNTILE_CUDNN;
    if (math == last.load(std::memory_order_relaxed)) return;
    call(nntile_record_submit, record());  // under the old ones
    call(nntile_context_gpu_math, math);
    last.store(math, std::memory_order_relaxed);
}

}  // namespace torch_nntile
