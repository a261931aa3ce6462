// SPDX-License-Identifier: BSD-3-Clause
// Helpers on factored cuts that more than one floor needs: the refined shape of a value and its
// grid.
#pragma once

#include <span>
#include <vector>

#include "base/shape.hh"
#include "graph/stored.hh"

namespace nntile::tile {

using graph::Cut;
using graph::Factor;
using graph::Positions;

// One refined dim: extent and the starts of its segments (starts[0] == 0); a whole dim has one
// segment.
struct GridDim {
    int64_t extent = 0;
    uint32_t dim = 0;  // dim of the value that it refines
    SmallVector<int64_t, 2> starts;
    int64_t segments() const { return static_cast<int64_t>(starts.size()); }
    int64_t size(int64_t s) const {
        return (s + 1 < segments() ? starts[s + 1] : extent) - starts[s];
    }
};

// The refined dims of a value, in storage order: every factor of every dim's cut. A dim of extent 1
// or 0, or without factors, gives one whole refined dim of that extent, so that no dim disappears.
struct Grid {
    SmallVector<GridDim, 4> dims;

    int64_t tiles() const {
        int64_t n = 1;
        for (const GridDim& d : dims) n *= d.segments();
        return n;
    }
    // Row-major tile index -> segment of each refined dim.
    Dims segments_of(int64_t index) const {
        Dims at(dims.size(), 0);
        for (size_t i = dims.size(); i-- > 0; index /= dims[i].segments())
            at[i] = index % dims[i].segments();
        return at;
    }
    Dims sizes_of(std::span<const int64_t> segments) const {
        Dims sizes(dims.size(), 0);
        for (size_t i = 0; i < dims.size(); ++i) sizes[i] = dims[i].size(segments[i]);
        return sizes;
    }
};

inline Grid grid_of(std::span<const int64_t> sizes, const std::vector<Cut>& cuts) {
    Grid grid;
    for (uint32_t d = 0; d < sizes.size(); ++d) {
        if (cuts.empty() || cuts[d].empty()) {
            grid.dims.push_back({sizes[d], d, {0}});
            continue;
        }
        for (const Factor& f : cuts[d]) {
            GridDim g{f.extent, d, {0}};
            g.starts.append(f.positions.begin(), f.positions.end());
            grid.dims.push_back(std::move(g));
        }
    }
    return grid;
}

}  // namespace nntile::tile
