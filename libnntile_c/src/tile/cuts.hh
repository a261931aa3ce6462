// SPDX-License-Identifier: BSD-3-Clause
// Factored cuts and how they travel through an access map.
//
// A cut is a list of (extent, positions), outer factor first: {{24, {12}}} are two segments of 12;
// {{4, {}}, {6, {3}}} cuts the inner factor of 24 = 4 x 6 into two tiles of 4 x 3 elements. The
// value then has the refined shape (.., 4, 6, ..), so its tiles are ordinary dense tiles. Without
// factors a batch cut would be lost at the first (seq, batch, e) -> (seq * batch, e).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hh"
#include "tile/cut.hh"
#include "tile/pieces.hh"

namespace nntile::tile {

using nntile::text_of;  // beside the one for cuts below

// Drops extents of 1 and 0, merges a whole factor into the one outside it, sorts positions: then
// equal cuts compare equal. All functions below take and give normal cuts.
Cut normal(const Cut& cut);

Cut whole(int64_t extent);
bool is_whole(const Cut& cut);
// Its segments are ranges: inner factors are whole.
Cut in_ranges(Cut cut);
// Of one dim; invalid_argument, naming the extent, if the segments do not fill it.
Cut cut_of_segments(int64_t extent, std::span<const int64_t> segments);
// So many equal segments, of a multiple of 8 where that keeps them equal: kernels like full
// vectors.
Cut even_cut(int64_t extent, int64_t segments);
// Each segment in two, where it has more than one element: tiles of the cut hold tiles of this one.
Cut halved(const Cut& cut);
// Every tile of `wanted` lies in one tile of `of`.
bool refines(const Cut& wanted, const Cut& of);
// Elements of the largest segment.
int64_t longest(const Cut& cut);
std::string text_of(const Cut& cut);  // "24 cut (12, 12)", "4 x 6 cut (3, 3)"

// The cut of a product dim, as cuts of its parts; nullopt where it has no such form.
struct Peeled {
    Cut outer;
    Cut inner;
};
std::optional<Peeled> peel(const Cut& cut, int64_t inner_extent);
std::optional<std::vector<Cut>> split(const Cut& cut, std::span<const int64_t> radix);
Cut merge(std::span<const Cut> cuts);

// The cut that a slice sees of a dim of `extent`: elements offset + step * x, 0 <= x < n.
std::optional<Cut> take(const Cut& cut, int64_t extent, int64_t offset, int64_t step, int64_t n);

// The cut of the dim that the cut of a slice wants. A slice that is cut also cuts the dim at its
// borders, so that neighbours share no tile; a whole slice asks for nothing, else every pad, shift
// and half of a head would cut its parent.
std::optional<Cut> put(const Cut& cut, int64_t extent, int64_t offset, int64_t step, int64_t n);

// Both cuts where they concern different factors; nullopt where they contradict.
std::optional<Cut> join(const Cut& a, const Cut& b);

// The map with every carrying base dim merged into the dim before it, so that it is affine, and
// which dims [first[g], first[g + 1]) each of its dims stands for. So the dims of an irregular view
// that do not carry (the batch of a relative shift) still pass their cuts.
struct Merged {
    AccessMap map;
    std::vector<size_t> first;
    size_t group_size(size_t g) const { return first[g + 1] - first[g]; }
};
Merged merged(const AccessMap& map);

// A map with what cuts need to travel through it.
struct Path {
    AccessMap map;
    Merged flat;
    Form form;  // of flat
    explicit Path(AccessMap of) : map(std::move(of)), flat(merged(map)), form(refine(flat.map)) {}
};

// Base -> view: the natural cuts of the view. Exact: every view tile is one block of one base tile.
struct Pushed {
    std::vector<Cut> cuts;
    bool exact = true;
};
Pushed push(const Path& path, std::span<const Cut> base);

// View -> base. `ranges` has the part of a base dim that a slice speaks for; nullopt: all of it.
struct Range {
    int64_t begin, end;
    friend bool operator==(const Range&, const Range&) = default;
};
struct Pulled {
    std::vector<Cut> cuts;
    std::vector<std::optional<Range>> ranges;
    bool exact = true;
};
Pulled pull(const Path& path, std::span<const Cut> view);

// The pieces of a view whose grid is that of its (unrefined) dims. Beyond `limit` pieces one gather
// is cheaper; 0: 64 for each view tile, but at least 4096.
Pieces tile_pieces(const Grid& base, const Layout& layout, const Grid& view, size_t limit = 0);

}  // namespace nntile::tile
