// SPDX-License-Identifier: BSD-3-Clause
#include "tile/pieces.hh"

#include "base/error.hh"

namespace nntile::tile {

namespace {

int64_t segment_at(const GridDim& dim, int64_t index) {
    auto next = std::upper_bound(dim.starts.begin(), dim.starts.end(), index);
    return next - dim.starts.begin() - 1;
}

// For a positive divisor; the built-in division rounds to zero.
int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

// The constraints are the dims of the coalesced base, then the refined dims of the view: a box of
// digits must lie in one segment of each. Digits are fixed one by one, the outermost first. Where
// both ends of what the remaining digits span lie in one segment of every constraint, an interval
// of digit values is taken at once; a value whose span crosses a cut is taken alone, and the next
// digit is split.
class Walk {
public:
    Walk(const Coalesced& base, const AccessMap& map, const Grid& view, size_t limit,
         std::vector<Piece>& out)
        : base_(base), map_(map), limit_(limit), out_(out) {
        for (const GridDim& d : base.dims) constraints_.push_back(&d);
        for (const GridDim& d : view.dims) constraints_.push_back(&d);
        n_digits_ = map.digits.size();
        n_constraints_ = constraints_.size();
        choose_order();
        size_t n = n_constraints_;
        inner_.assign(n_digits_ * n, 0);
        for (size_t a = n_digits_; a-- > 1;)
            for (size_t c = 0; c < n; ++c)
                inner_[(a - 1) * n + c] =
                    inner_[a * n + c] + move(order_[a], c) * (map.digits[order_[a]].size - 1);
        low_.assign((n_digits_ + 1) * n, 0);
        segment_.assign((n_digits_ + 1) * n, -1);
        box_.resize(n_digits_);
        for (size_t c = 0; c < n; ++c) {
            if (c < map.start.size()) low_[c] = map.start[c];
            bool moved = false;
            for (size_t d = 0; d < n_digits_; ++d) moved |= move(d, c) > 0;
            if (!moved) segment_[c] = segment_at(*constraints_[c], low_[c]);
        }
    }

    // False: more pieces than the limit.
    bool run() { return visit(0); }

private:
    struct Interval {
        int64_t begin, end;
    };

    int64_t move(size_t digit, size_t constraint) const {
        return moves_[digit * n_constraints_ + constraint];
    }

    // Outer digit first in every constraint that is cut; it decides the number of pieces, not
    // whether they are right.
    void choose_order() {
        moves_.assign(n_digits_ * n_constraints_, 0);
        Dims own = dense_strides(base_.shape);
        std::vector<int64_t> address(n_digits_, 0);
        std::vector<size_t> left;
        for (size_t d = 0; d < n_digits_; ++d) {
            const Digit& digit = map_.digits[d];
            int64_t* row = moves_.data() + d * n_constraints_;
            for (const Step& s : map_.steps_of(digit)) {
                row[s.base] = s.step;
                address[d] += s.step * own[s.base];
            }
            row[base_.dims.size() + digit.dim] = digit.weight;
            left.push_back(d);
        }
        std::stable_sort(left.begin(), left.end(),
                         [&](size_t a, size_t b) { return address[a] > address[b]; });
        while (!left.empty()) {
            auto outermost = [&](size_t d) {
                for (size_t c = 0; c < n_constraints_; ++c) {
                    if (move(d, c) == 0 || constraints_[c]->segments() == 1) continue;
                    for (size_t e : left)
                        if (move(e, c) > move(d, c)) return false;
                }
                return true;
            };
            auto next = std::find_if(left.begin(), left.end(), outermost);
            if (next == left.end()) next = left.begin();
            order_.push_back(*next);
            left.erase(next);
        }
    }

    // Digit values where an end of the span enters another segment of a constraint.
    void find_marks(size_t a, std::vector<int64_t>& marks) const {
        size_t n = n_constraints_;
        int64_t size = map_.digits[order_[a]].size;
        marks = {0, size};
        for (size_t c = 0; c < n; ++c) {
            int64_t step = move(order_[a], c);
            if (step == 0 || segment_[a * n + c] >= 0) continue;
            int64_t low = low_[a * n + c], inner = inner_[a * n + c];
            const auto& starts = constraints_[c]->starts;
            auto edge = std::upper_bound(starts.begin(), starts.end(), low);
            for (; edge != starts.end() && *edge <= low + step * (size - 1) + inner; ++edge)
                for (int64_t mark :
                     {ceil_div(*edge - low, step), ceil_div(*edge - low - inner, step)})
                    if (mark > 0 && mark < size) marks.push_back(mark);
        }
        std::sort(marks.begin(), marks.end());
        marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
    }

    bool visit(size_t a) {
        if (a == n_digits_) return emit();
        size_t n = n_constraints_, digit = order_[a];
        std::vector<int64_t> marks;
        find_marks(a, marks);
        for (size_t m = 0; m + 1 < marks.size(); ++m) {
            const int64_t *low = low_.data() + a * n, *segment = segment_.data() + a * n;
            int64_t* next_low = low_.data() + (a + 1) * n;
            int64_t* next_segment = segment_.data() + (a + 1) * n;
            std::copy(segment, segment + n, next_segment);
            bool crosses = false;
            for (size_t c = 0; c < n; ++c) {
                if (move(digit, c) == 0 || segment[c] >= 0) continue;
                int64_t at = low[c] + move(digit, c) * marks[m];
                int64_t first = segment_at(*constraints_[c], at);
                if (first == segment_at(*constraints_[c], at + inner_[a * n + c]))
                    next_segment[c] = first;
                else crosses = true;
            }
            int64_t width = crosses ? 1 : marks[m + 1] - marks[m];
            for (int64_t x = marks[m]; x < marks[m + 1]; x += width) {
                box_[digit] = {x, x + width};
                for (size_t c = 0; c < n; ++c) next_low[c] = low[c] + move(digit, c) * x;
                if (!visit(a + 1)) return false;
            }
        }
        return true;
    }

    bool emit() {
        if (out_.size() >= limit_) return false;
        size_t n_base = base_.dims.size();
        const int64_t* segment = segment_.data() + n_digits_ * n_constraints_;
        Dims sizes(n_constraints_, 0);
        for (size_t c = 0; c < n_constraints_; ++c) sizes[c] = constraints_[c]->size(segment[c]);
        std::span<const int64_t> all = sizes;
        Dims base_own = dense_strides(all.first(n_base));
        Dims view_own = dense_strides(all.subspan(n_base));
        Piece p;
        for (size_t c = 0; c < n_constraints_; ++c) {
            const GridDim& dim = *constraints_[c];
            bool base = c < n_base;
            uint32_t& tile = base ? p.base_tile : p.view_tile;
            tile = static_cast<uint32_t>(tile * dim.segments() + segment[c]);
            int64_t origin = base ? map_.start[c] : 0;
            (base ? p.base_offset : p.view_offset) +=
                (origin - dim.starts[segment[c]]) * (base ? base_own[c] : view_own[c - n_base]);
        }
        for (size_t d = 0; d < n_digits_; ++d) {
            const Digit& digit = map_.digits[d];
            int64_t base_stride = 0, view_stride = digit.weight * view_own[digit.dim];
            for (const Step& s : map_.steps_of(digit)) base_stride += s.step * base_own[s.base];
            p.base_offset += base_stride * box_[d].begin;
            p.view_offset += view_stride * box_[d].begin;
            append(p, digit.dim, box_[d].end - box_[d].begin, view_stride, base_stride);
        }
        out_.push_back(std::move(p));
        return true;
    }

    // Digits of one view dim come outer first; those that go on with the same strides become one
    // entry.
    static void append(Piece& p, uint32_t dim, int64_t size, int64_t view_stride,
                       int64_t base_stride) {
        if (size == 1) return;
        if (!p.dims.empty() && p.dims.back() == dim &&
            p.view_strides.back() == view_stride * size &&
            p.base_strides.back() == base_stride * size) {
            p.sizes.back() *= size;
            p.view_strides.back() = view_stride;
            p.base_strides.back() = base_stride;
            return;
        }
        p.dims.push_back(static_cast<uint8_t>(dim));
        p.sizes.push_back(size);
        p.view_strides.push_back(view_stride);
        p.base_strides.push_back(base_stride);
    }

    const Coalesced& base_;
    const AccessMap& map_;
    size_t limit_;
    std::vector<Piece>& out_;
    std::vector<const GridDim*> constraints_;
    size_t n_digits_ = 0, n_constraints_ = 0;
    std::vector<size_t> order_;   // digits, outermost first
    std::vector<int64_t> moves_;  // [digit][constraint]
    // By level a: order_[0..a) are fixed.
    std::vector<int64_t> inner_;    // [level][constraint] span of the digits after this one
    std::vector<int64_t> low_;      // [level][constraint] lowest coordinate so far
    std::vector<int64_t> segment_;  // [level][constraint] -1: not known yet
    std::vector<Interval> box_;     // [digit]
};

uint64_t original_dims(const Coalesced& base, uint64_t carry, size_t rank) {
    uint64_t mask = 0;
    for (size_t c = 0; c < base.lead.size(); ++c) {
        size_t end = c + 1 < base.lead.size() ? base.lead[c + 1] : rank;
        if (carry & bit(c))
            for (size_t i = base.lead[c]; i < end; ++i) mask |= bit(i);
    }
    return mask;
}

void verify(const Layout& layout, const Grid& view) {
    bool same = view.dims.size() == layout.sizes.size();
    for (size_t k = 0; same && k < view.dims.size(); ++k)
        same = view.dims[k].extent == layout.sizes[k];
    if (!same)
        fail(Status::internal, "the grid of a view does not fill its sizes ",
             text_of_dims(layout.sizes));
    check(view.dims.size() <= max_rank, Status::unsupported, "a view of ", view.dims.size(),
          " refined dims; at most ", max_rank, " are supported");
}

}  // namespace

std::span<const Piece> Pieces::of_tile(uint32_t view_tile) const {
    auto first = std::lower_bound(list.begin(), list.end(), view_tile,
                                  [](const Piece& p, uint32_t t) { return p.view_tile < t; });
    auto last = first;
    while (last != list.end() && last->view_tile == view_tile) ++last;
    return {first, last};
}

Coalesced coalesce(const Grid& grid) {
    Coalesced out;
    for (uint32_t i = 0; i < grid.dims.size(); ++i) {
        const GridDim& dim = grid.dims[i];
        if (dim.extent == 1) continue;
        if (out.dims.empty() || dim.segments() > 1) {
            out.dims.push_back(dim);
            out.lead.push_back(i);
            continue;
        }
        out.dims.back().extent *= dim.extent;
        for (int64_t& s : out.dims.back().starts) s *= dim.extent;
    }
    for (const GridDim& dim : out.dims) out.shape.push_back(dim.extent);
    return out;
}

Layout refined_layout(const Layout& layout, const Grid& view) {
    Layout out;
    out.offset = layout.offset;
    for (const GridDim& dim : view.dims) {
        check(dim.dim < layout.sizes.size(), Status::internal, "the grid of a view has dim ",
              dim.dim, ", its layout ", layout.sizes.size(), " dims");
        out.sizes.push_back(dim.extent);
    }
    out.strides.assign(out.sizes.size(), 0);
    for (size_t i = view.dims.size(); i-- > 0;) {
        bool innermost = i + 1 == view.dims.size() || view.dims[i + 1].dim != view.dims[i].dim;
        out.strides[i] = innermost ? layout.strides[view.dims[i].dim]
                                   : out.strides[i + 1] * std::max<int64_t>(out.sizes[i + 1], 1);
    }
    return out;
}

Pieces pieces(const Grid& base, const Layout& layout, const Grid& view, size_t limit) {
    verify(layout, view);
    Coalesced flat = coalesce(base);
    AccessMap map = access_map(flat.shape, layout);
    Pieces out;
    if (map.carry) {
        out.irregular = true;
        out.carry = original_dims(flat, map.carry, base.dims.size());
        return out;
    }
    if (layout.numel() == 0) return out;
    if (!Walk(flat, map, view, limit, out.list).run()) {
        out.list.clear();
        out.irregular = true;
        for (size_t i = 0; i < base.dims.size(); ++i) out.carry |= bit(i);
        return out;
    }
    std::stable_sort(out.list.begin(), out.list.end(),
                     [](const Piece& a, const Piece& b) { return a.view_tile < b.view_tile; });
    return out;
}

Coverage coverage(const Grid& base, const Layout& layout) {
    Pieces found = pieces(base, layout, grid_of(layout.sizes, {}));
    Coverage out{{}, found.irregular, found.carry};
    std::stable_sort(found.list.begin(), found.list.end(),
                     [](const Piece& a, const Piece& b) { return a.base_tile < b.base_tile; });
    for (size_t i = 0; i < found.list.size();) {
        uint32_t tile = found.list[i].base_tile;
        int64_t touched = 0;
        for (; i < found.list.size() && found.list[i].base_tile == tile; ++i)
            touched += found.list[i].numel();
        out.tiles.push_back({tile, touched == product(base.sizes_of(base.segments_of(tile)))});
    }
    return out;
}

}  // namespace nntile::tile
