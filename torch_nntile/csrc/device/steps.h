// SPDX-License-Identifier: BSD-3-Clause
// Steps of optimizers: what one calls is one graph.
#pragma once

namespace torch_nntile {

void begin_step();
void end_step();     // does nothing where none has begun in this thread
void watch_steps();  // from now on a step that raises ends too

}  // namespace torch_nntile
