// SPDX-License-Identifier: BSD-3-Clause
// Axes: which dims must be cut alike, and how cuts travel through views.
//
// Dims are united (union-find) in two ways only: relate("mk,kn->mn", ..) for dims with one letter,
// and link() for a view, slice or reshape; cat, stack and pad are links with the roles exchanged
// (an input is a slice of the output). A view dim that is a whole base dim is united, any other
// stays an edge.
//
// Conflicts. Sources come in order: user cuts, cuts of persistent data, automatic ones; in a level
// by order of definition. Sources of a level are set on their own axes first, then travel along the
// links until nothing changes. An axis that has a cut takes another only on factors (or, from
// slices, ranges) where it was whole; otherwise the earlier cut stays and the link is a retile.
// Never an error.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.hh"
#include "tile/cuts.hh"

namespace nntile::tile {

enum CutLevel : int { user_cut = 0, persistent_cut = 1, automatic_cut = 2 };

using AxisDims = SmallVector<int, 4>;  // of the dims of one value

class Axes {
public:
    int dim(int64_t extent);
    AxisDims value(std::span<const int64_t> sizes);

    // One axis from now on, unless the extents differ (one is broadcast) or are 1.
    void same(int a, int b);
    // An einsum-like row, one term per operand; '.' is a dim without relation.
    void relate(std::string_view spec, std::span<const AxisDims> operands);

    // `where` names the op that reads the view; it appears in retiles().
    void link(std::span<const int> base, std::span<const int> view, const Layout& layout,
              std::string_view where);
    AxisDims view(std::span<const int> base, const Layout& layout, std::string_view where = {});

    // A source. An axis that the user leaves whole takes no other cut either.
    void cut(int dim, const Cut& cut, std::string_view label, int level = user_cut);
    // Works out all cuts; returns the number of rounds over the links. Sources that came after the
    // last call travel on top of what is there, as if they were of a level of their own; everything
    // is worked out anew after same(), relate(), link() and a source of an earlier level. Call it
    // after the last of them, as often as there are more.
    int propagate();

    // undo() takes everything back that came after the mark; the axes are propagated at both times.
    struct Mark {
        size_t sources, notes, log;
    };
    Mark mark();
    void undo(const Mark& mark);

    int find(int dim) const;  // the dim that stands for the axis
    size_t dim_count() const { return dims_.size(); }
    int64_t extent(int dim) const { return dims_[dim].extent; }
    Cut factors(int dim) const;  // whole before propagate()
    int64_t segments(int dim) const;
    int level(int dim) const;  // of the source that its cut came from; automatic_cut if it has none
    Grid grid(std::span<const int> dims) const;

    size_t link_count() const { return links_.size(); }
    // Every tile of the link's view is one block of one tile of its base, as far as a look at the
    // cuts can tell.
    bool lines_up(size_t link) const;

    // Links whose cuts do not line up, with both sides' cuts, and sources that lost to an earlier
    // one.
    std::vector<std::string> retiles() const;
    const std::vector<std::string>& notes() const { return notes_; }

private:
    struct Node {
        int64_t extent;
        int parent;
    };
    // What a path made of cuts. Layers have views alike, and a search tries the same cuts again and
    // again.
    struct Way {
        explicit Way(AccessMap of) : path(std::move(of)) {}
        const Path path;
        std::deque<std::pair<std::vector<Cut>, Pushed>> pushed;
        std::deque<std::pair<std::vector<Cut>, Pulled>> pulled;
    };
    struct Link {  // a view between dims that are not all united
        AxisDims base, view;
        Way* way;
        std::string where;
    };
    struct Source {
        int level;
        int dim;
        Cut cut;
        std::string label;
    };
    // What propagate() knows about an axis; kept at the dim that stands for it.
    struct State {
        Cut cut;                    // empty: none yet
        std::vector<Range> ranges;  // slices that have spoken; empty: the whole axis is decided
        bool fixed = false;         // a source's own axis
        int level = automatic_cut;  // of the first cut
    };

    Way& way_of(const Dims& shape, const Layout& layout);
    void restart();
    State& changing(int axis);  // its state, kept for undo()
    void touched(int axis);
    bool propose(int dim, const Cut& cut, const std::optional<Range>& range);
    bool update(State& state, const Cut& cut, const std::optional<Range>& range);
    void set_source(const Source& source);
    template <class Made>
    const Made& known(std::deque<std::pair<std::vector<Cut>, Made>>& all, std::span<const int> dims,
                      const Path& path, Made (*make)(const Path&, std::span<const Cut>)) const;
    const Pushed& pushed(const Link& link) const;
    const Pulled& pulled(const Link& link) const;
    void visit(const Link& link);
    const Cut& cut_of(int dim) const;  // empty: whole
    bool all_whole(std::span<const int> dims) const;
    bool are_cut(std::span<const int> dims, std::span<const Cut> cuts) const;
    std::vector<Cut> cuts_of(std::span<const int> dims) const;
    std::string describe(std::span<const int> dims) const;

    mutable std::vector<Node> dims_;                       // find() shortens paths
    std::unordered_map<Hash, std::unique_ptr<Way>> ways_;  // by shape and layout
    std::vector<Link> links_;
    std::vector<Source> sources_;
    std::vector<std::string> notes_;
    // Of propagate():
    bool ready_ = false;                         // for the links and unions as they are
    size_t done_ = 0;                            // sources that have travelled
    int level_ = automatic_cut;                  // being set
    std::vector<State> states_;                  // by dim
    std::vector<SmallVector<int, 4>> links_at_;  // by dim that stands for an axis
    std::set<int> pending_;  // links with an axis that changed since their last visit
    mutable std::vector<int8_t> lines_up_;  // by link; -1: not known
    bool logging_ = false;
    std::vector<std::pair<int, State>> log_;  // what an axis was
};

}  // namespace nntile::tile
