// SPDX-License-Identifier: BSD-3-Clause
// Data of a value that outlives its graph: its own shape, cuts, axis names; the tiles themselves
// belong to runtime/, which derives from this class.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hh"
#include "base/shape.hh"

namespace nntile::graph {

// A factored cut of one dim: (extent, positions), outer factor first; see tile/cuts.hh for the
// algebra.
using Positions = SmallVector<int64_t, 3>;
struct Factor {
    int64_t extent;
    Positions positions;
    friend bool operator==(const Factor&, const Factor&) = default;
};
using Cut = SmallVector<Factor, 1>;

struct Stored {
    DType dtype = DType::none;
    Dims sizes;                      // own (storage order, dense) shape
    std::vector<Cut> cuts;           // one per dim
    std::vector<std::string> names;  // axis group of each dim; empty string: none
    uint64_t hints = 0;  // dims, as bits, whose cut was chosen for them: no graph has to follow it
    bool undefined = false;  // no tiles: never written (torch.empty)
    bool missing = false;    // no tiles: not computed (record::Missing)
    bool imagined = false;   // tiles without data, for an estimate
    virtual ~Stored() = default;
    virtual int64_t bytes() const { return 0; }
    // The same data seen as a dense value of as many bytes; nullptr where that takes a copy.
    virtual std::shared_ptr<Stored> as(DType, std::span<const int64_t> /*sizes*/) const {
        return nullptr;
    }
};
using StoredRef = std::shared_ptr<Stored>;

}  // namespace nntile::graph
