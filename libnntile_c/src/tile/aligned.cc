// SPDX-License-Identifier: BSD-3-Clause
// Views whose tiles are single blocks. No search: the segments of the view dims are intervals of
// digits or they are not, and coordinates grow with the digits, so the two corners of a view tile
// tell whether it lies in one base tile.
#include "base/error.hh"
#include "tile/pieces.hh"

namespace nntile::tile {

namespace {

struct Interval {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
};

// The digits of one refined view dim, and for each segment of it the interval of each digit.
struct DimBoxes {
    size_t first = 0, count = 0;  // digits
    std::vector<Interval> boxes;  // [segment][digit]
};

// Indices [begin, end) as one interval per digit; false if they are no such box.
bool append_box(std::span<const Digit> digits, int64_t begin, int64_t end,
                std::vector<Interval>& out) {
    for (size_t d = 0; d < digits.size(); ++d) {
        int64_t weight = digits[d].weight;
        int64_t x = begin / weight;
        if ((end - 1) / weight == x) {
            out.push_back({x, x + 1});
            begin -= x * weight;
            end -= x * weight;
            continue;
        }
        if (begin % weight || end % weight) return false;
        out.push_back({x, end / weight});
        for (++d; d < digits.size(); ++d) out.push_back({0, digits[d].size});
    }
    return true;
}

bool find_boxes(const AccessMap& map, const Grid& view, std::vector<DimBoxes>& out) {
    size_t next = 0;
    for (size_t k = 0; k < view.dims.size(); ++k) {
        DimBoxes dim;
        dim.first = next;
        while (next < map.digits.size() && map.digits[next].dim == k) ++next;
        dim.count = next - dim.first;
        std::span<const Digit> digits{map.digits.data() + dim.first, dim.count};
        for (int64_t s = 0; s < view.dims[k].segments(); ++s) {
            int64_t begin = view.dims[k].starts[s];
            if (!append_box(digits, begin, begin + view.dims[k].size(s), dim.boxes)) return false;
        }
        out.push_back(std::move(dim));
    }
    return true;
}

class Aligner {
public:
    Aligner(const Coalesced& base, const AccessMap& map, const std::vector<DimBoxes>& boxes)
        : base_(base), map_(map), boxes_(boxes) {}

    // One view tile, given by its segments; false if it is not one block with a stride per dim.
    bool block(std::span<const int64_t> segments, AlignedBlock& out) const {
        Dims low = map_.start, high = map_.start;
        for (size_t k = 0; k < boxes_.size(); ++k)
            for (size_t j = 0; j < boxes_[k].count; ++j) {
                Interval x = interval(k, segments[k], j);
                for (const Step& s : map_.steps_of(digit(k, j))) {
                    low[s.base] += s.step * x.begin;
                    high[s.base] += s.step * (x.end - 1);
                }
            }
        Dims sizes;
        for (size_t i = 0; i < base_.dims.size(); ++i) {
            const GridDim& dim = base_.dims[i];
            auto next = std::upper_bound(dim.starts.begin(), dim.starts.end(), low[i]);
            if (next != dim.starts.end() && high[i] >= *next) return false;
            int64_t segment = next - dim.starts.begin() - 1;
            out.base_tile = static_cast<uint32_t>(out.base_tile * dim.segments() + segment);
            low[i] -= dim.starts[segment];
            sizes.push_back(dim.size(segment));
        }
        Dims own = dense_strides(sizes);
        for (size_t i = 0; i < own.size(); ++i) out.offset += low[i] * own[i];
        for (size_t k = 0; k < boxes_.size(); ++k)
            if (!stride(k, segments[k], own, out.strides[k])) return false;
        return true;
    }

private:
    const Digit& digit(size_t k, size_t j) const { return map_.digits[boxes_[k].first + j]; }
    Interval interval(size_t k, int64_t segment, size_t j) const {
        return boxes_[k].boxes[segment * boxes_[k].count + j];
    }

    // The one stride of all digits of a view dim that move in this tile.
    bool stride(size_t k, int64_t segment, const Dims& own, int64_t& out) const {
        int64_t covered = 1;
        for (size_t j = boxes_[k].count; j-- > 0;) {
            int64_t size = interval(k, segment, j).size();
            if (size == 1) continue;
            int64_t here = 0;
            for (const Step& s : map_.steps_of(digit(k, j))) here += s.step * own[s.base];
            if (covered > 1 && here != out * covered) return false;
            if (covered == 1) out = here;
            covered *= size;
        }
        return true;
    }

    const Coalesced& base_;
    const AccessMap& map_;
    const std::vector<DimBoxes>& boxes_;
};

}  // namespace

std::optional<AlignedBlock> aligned_block(std::span<const Piece> of_tile,
                                          std::span<const int64_t> sizes) {
    AlignedBlock out;
    out.strides.assign(sizes.size(), 0);
    int64_t numel = product(sizes);
    if (numel == 0) return out;
    if (of_tile.size() != 1 || of_tile[0].numel() != numel) return std::nullopt;
    const Piece& p = of_tile[0];
    out.base_tile = p.base_tile;
    out.offset = p.base_offset;
    for (size_t a = 0; a < p.dims.size(); ++a) {
        if (a > 0 && p.dims[a] == p.dims[a - 1]) return std::nullopt;
        out.strides[p.dims[a]] = p.base_strides[a];
    }
    return out;
}

std::optional<std::vector<AlignedBlock>> aligned_blocks(const Grid& base, const Layout& layout,
                                                        const Grid& view) {
    Layout fine = refined_layout(layout, view);
    Coalesced flat = coalesce(base);
    AccessMap map = access_map(flat.shape, fine);
    if (map.carry) return std::nullopt;
    AlignedBlock empty;
    empty.strides.assign(view.dims.size(), 0);
    std::vector<AlignedBlock> out(view.tiles(), empty);
    if (layout.numel() == 0) return out;
    std::vector<DimBoxes> boxes;
    if (!find_boxes(map, view, boxes)) return std::nullopt;
    Aligner aligner(flat, map, boxes);
    for (size_t t = 0; t < out.size(); ++t)
        if (!aligner.block(view.segments_of(static_cast<int64_t>(t)), out[t])) return std::nullopt;
    return out;
}

}  // namespace nntile::tile
