// SPDX-License-Identifier: BSD-3-Clause
// What DistributedDataParallel asks when it measures its iterations: when calls were recorded.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "contract/device.h"

namespace torch_nntile {
namespace {

class RecordingTimer final : public c10d::Timer {
public:
    explicit RecordingTimer(c10::Device) {}
    std::optional<int64_t> measureDifference(Event start, Event end) override {
        const int64_t from = getTimeRef(start), to = getTimeRef(end);
        if (from == c10d::kUnsetTime || to == c10d::kUnsetTime || to < from) return std::nullopt;
        return to - from;
    }
};

}  // namespace
}  // namespace torch_nntile

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::DeviceType::PrivateUse1, torch_nntile::RecordingTimer)
}
