// SPDX-License-Identifier: BSD-3-Clause
// A function of the host as it was recorded.
#pragma once

#include <string>
#include <vector>

#include "base/host_function.hh"
#include "graph/graph.hh"

namespace nntile::record {

struct HostCall {
    graph::Host host;
    HostFunction function;
};

}  // namespace nntile::record
