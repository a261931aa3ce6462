// SPDX-License-Identifier: BSD-3-Clause
// How data that comes from the host is cut, before any graph has read it.
#pragma once

#include <span>
#include <vector>

#include "base/dtype.hh"
#include "tile/cut.hh"

namespace nntile::tile {

// One tile where it leaves room for others in a task of `most_task_bytes`; else tiles of which a
// task can have `tiles_in_a_task`, along the first dims: each is one range of the host's bytes.
// `hints`: as Stored::hints; no graph has to follow these cuts.
inline constexpr int64_t tiles_in_a_task = 8;
struct UploadCuts {
    std::vector<Cut> cuts;
    uint64_t hints = 0;
};
UploadCuts upload_cuts(DType dtype, std::span<const int64_t> sizes, int64_t most_task_bytes);

}  // namespace nntile::tile
