// SPDX-License-Identifier: BSD-3-Clause
// A function of the host as it was recorded.
#pragma once

#include <string>
#include <vector>

#include "base/host_function.hh"
#include "graph/graph.hh"

namespace nntile::record {

struct HostCall {
    std::string name;
    uint64_t signature = 0;
    std::vector<uint8_t> batched;  // as of Graph::add_host()
    graph::HostAxes axes;          // likewise
    HostFunction function;
};

}  // namespace nntile::record
