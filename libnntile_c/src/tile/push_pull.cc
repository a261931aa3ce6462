// SPDX-License-Identifier: BSD-3-Clause
// Cuts through an access map: base cut -> window -> split along the radix -> slice per digit ->
// merge per view dim, and back. Every step tells whether it is exact.
#include "base/error.hh"
#include "tile/cuts.hh"

namespace nntile::tile {

Merged merged(const AccessMap& map) {
    Merged out{map, {}};
    for (size_t i = 0; i <= map.shape.size(); ++i) out.first.push_back(i);
    while (out.map.carry) {
        std::vector<size_t> first;
        for (size_t g = 0; g < out.first.size(); ++g)
            if (g + 1 == out.first.size() || !(out.map.carry & bit(g)))
                first.push_back(out.first[g]);
        out.first = std::move(first);
        Dims shape;
        for (size_t g = 0; g + 1 < out.first.size(); ++g) {
            std::span<const int64_t> all = map.shape;
            shape.push_back(product(all.subspan(out.first[g], out.group_size(g))));
        }
        out.map = access_map(shape, map.layout);
    }
    return out;
}

Pushed push(const Path& path, std::span<const Cut> base) {
    check(base.size() == path.map.shape.size(), Status::internal, "push of ", base.size(),
          " cuts through a map of ", path.map.shape.size(), " base dims");
    const Merged& flat = path.flat;
    const AccessMap& m = flat.map;
    const Form& form = path.form;
    Pushed out;
    std::vector<std::optional<std::vector<Cut>>> fine;  // by base dim, by refined dim
    for (size_t g = 0; g < m.shape.size(); ++g) {
        std::span<const Cut> group = base.subspan(flat.first[g], flat.group_size(g));
        for (const Cut& c : group.subspan(1)) out.exact &= is_whole(c);
        Cut cut = merge(group);
        if (form.opaque & bit(g)) out.exact &= is_whole(cut);
        const Window& w = form.windows[g];
        std::optional<Cut> seen = take(cut, m.shape[g], w.offset, w.step, w.extent);
        fine.push_back(seen ? split(*seen, form.radix[g]) : std::nullopt);
        out.exact &= fine.back().has_value();
    }
    std::vector<std::vector<Cut>> parts(m.layout.sizes.size());
    for (size_t j = 0; j < m.digits.size(); ++j) {
        const Digit& d = m.digits[j];
        const RefinedDim& s = form.digits[j];
        std::optional<Cut> c;
        if (s.placed() && fine[s.base]) {
            c = take((*fine[s.base])[s.dim], s.extent, s.offset, s.step, d.size);
            out.exact &= c.has_value();
        }
        parts[d.dim].push_back(c ? std::move(*c) : whole(d.size));
    }
    for (const std::vector<Cut>& p : parts) out.cuts.push_back(merge(p));
    return out;
}

namespace {

// What the view asks of an affine map's base dims: a cut of every refined dim, and ranges of
// slices.
struct Wanted {
    std::vector<std::vector<Cut>> cuts;
    std::vector<std::optional<Range>> ranges;
    bool exact = true;
};

Wanted wanted_slots(const AccessMap& m, const Form& form, std::span<const Cut> view) {
    Wanted out;
    out.ranges.resize(m.shape.size());
    for (const Dims& radix : form.radix) {
        out.cuts.emplace_back();
        for (int64_t n : radix) out.cuts.back().push_back(whole(n));
    }
    size_t next = 0;
    for (size_t k = 0; k < view.size(); ++k) {
        size_t first = next;
        Dims sizes;
        for (; next < m.digits.size() && m.digits[next].dim == k; ++next)
            sizes.push_back(m.digits[next].size);
        std::optional<std::vector<Cut>> parts = split(view[k], sizes);
        out.exact &= parts.has_value();
        if (!parts) continue;
        for (size_t j = first; j < next; ++j) {
            const Digit& d = m.digits[j];
            const RefinedDim& s = form.digits[j];
            const Cut& c = (*parts)[j - first];
            if (!s.placed()) {
                out.exact &= d.n_steps == 0 || is_whole(c);
                continue;
            }
            std::optional<Cut> p = put(c, s.extent, s.offset, s.step, d.size);
            out.exact &= p.has_value();
            out.cuts[s.base][s.dim] = p ? std::move(*p) : whole(s.extent);
            if (form.radix[s.base].size() == 1 && d.size * s.step < s.extent)
                out.ranges[s.base] = Range{s.offset, s.offset + s.step * (d.size - 1) + 1};
        }
    }
    return out;
}

}  // namespace

Pulled pull(const Path& path, std::span<const Cut> view) {
    const AccessMap& map = path.map;
    check(view.size() == map.layout.sizes.size(), Status::internal, "pull of ", view.size(),
          " cuts through a map of ", map.layout.sizes.size(), " view dims");
    const Merged& flat = path.flat;
    const AccessMap& m = flat.map;
    const Form& form = path.form;
    Wanted want = wanted_slots(m, form, view);
    Pulled out;
    out.exact = want.exact;
    for (size_t g = 0; g < m.shape.size(); ++g) {
        const Window& w = form.windows[g];
        std::optional<Cut> c = put(merge(want.cuts[g]), m.shape[g], w.offset, w.step, w.extent);
        out.exact &= c.has_value();
        if (!c) c = whole(m.shape[g]);
        std::optional<Range> range = want.ranges[g];
        if (w.extent < m.shape[g]) range = Range{w.offset, w.offset + w.step * (w.extent - 1) + 1};
        if (flat.group_size(g) == 1) {
            out.cuts.push_back(std::move(*c));
            out.ranges.push_back(range);
            continue;
        }
        std::span<const int64_t> all = map.shape;
        std::span<const int64_t> shape = all.subspan(flat.first[g], flat.group_size(g));
        std::optional<std::vector<Cut>> parts = split(*c, shape);
        out.exact &= parts.has_value();
        for (size_t i = 0; i < shape.size(); ++i) {
            out.cuts.push_back(parts ? std::move((*parts)[i]) : whole(shape[i]));
            out.ranges.emplace_back();
            if (i > 0) out.exact &= is_whole(out.cuts.back());
        }
    }
    return out;
}

}  // namespace nntile::tile
