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
// For a function on the host, whose seed is no number of the graph.
Draw draw_for_host(const std::optional<at::Generator>& generator, int64_t numel);
// A generator of the CPU that starts there.
at::Generator host_generator(const Draw& draw);
// Draws up to now that no replay of a captured graph can repeat: for the host, and of generators of
// the user's own.
int64_t draws_outside();

Draw default_state();
void set_default_state(Draw state);

}  // namespace torch_nntile
