// SPDX-License-Identifier: BSD-3-Clause
// DistributedDataParallel's statistics: without a timer of the device it has none, and warns of it
// for each model. Times are those of the host, when it has recorded.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "contract/device.h"

namespace torch_nntile {
namespace {

class Timer final : public c10d::Timer {
public:
    explicit Timer(c10::Device) {}
    std::optional<int64_t> measureDifference(Event start, Event end) override {
        const auto from = getTimestamp(start), to = getTimestamp(end);
        if (!from || !to || *to < *from) return std::nullopt;
        return *to - *from;
    }
};

}  // namespace
}  // namespace torch_nntile

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, torch_nntile::device_type, torch_nntile::Timer)
}
