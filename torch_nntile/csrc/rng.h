// SPDX-License-Identifier: BSD-3-Clause
// Generator of the device: a Philox seed and an offset. The numbers are made by the tasks.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

namespace torch_nntile {

struct Draw {
    uint64_t seed;
    uint64_t offset;
};

// Takes the counters for `numel` elements from the given generator, or the default one.
Draw draw(const std::optional<at::Generator>& generator, int64_t numel);

Draw default_state();
void set_default_state(Draw state);

}  // namespace torch_nntile
