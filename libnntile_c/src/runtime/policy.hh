// SPDX-License-Identifier: BSD-3-Clause
// StarPU scheduling policy: depth first, sleeping. See policy.cc.
#pragma once

#include <starpu.h>
#include <starpu_scheduler.h>

namespace nntile::runtime {

starpu_sched_policy* depth_first_policy(double spin_seconds);  // for starpu_conf::sched_policy
void keep_awake();  // before starpu_shutdown, which would otherwise wait for sleepers

}  // namespace nntile::runtime
