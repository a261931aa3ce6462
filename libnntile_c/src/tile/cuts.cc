// SPDX-License-Identifier: BSD-3-Clause
#include "tile/cuts.hh"

#include <set>

#include "base/error.hh"

namespace nntile::tile {

Cut normal(const Cut& cut) {
    Cut out;
    for (const Factor& f : cut) {
        if (f.extent <= 1) continue;
        if (!out.empty() && f.positions.empty()) {
            out.back().extent *= f.extent;
            for (int64_t& p : out.back().positions) p *= f.extent;
            continue;
        }
        out.push_back(f);
        Positions& at = out.back().positions;
        std::sort(at.begin(), at.end());
        at.resize(static_cast<size_t>(std::unique(at.begin(), at.end()) - at.begin()));
    }
    return out;
}

Cut whole(int64_t extent) { return extent > 1 ? Cut{{extent, {}}} : Cut{}; }

Cut in_ranges(Cut cut) {
    for (size_t k = 1; k < cut.size(); ++k) cut[k].positions.clear();
    return normal(cut);
}

bool is_whole(const Cut& cut) {
    return std::all_of(cut.begin(), cut.end(), [](const Factor& f) { return f.positions.empty(); });
}

Cut cut_of_segments(int64_t extent, std::span<const int64_t> segments) {
    Factor factor{extent, {}};
    int64_t end = 0;
    bool fits = true;
    for (int64_t s : segments) {
        fits = fits && s > 0 && s <= extent - end;
        if (!fits) break;
        end += s;
        if (end < extent) factor.positions.push_back(end);
    }
    check(fits && end == extent, Status::invalid_argument, "segments ", text_of_dims(segments),
          " do not fill an axis of extent ", extent);
    return normal({factor});
}

Cut even_cut(int64_t extent, int64_t segments) {
    int64_t length = (extent + segments - 1) / segments;
    const int64_t round = (length + 7) / 8 * 8;
    if (length > 16 && (extent + round - 1) / round == segments &&
        extent - (segments - 1) * round >= round * 3 / 4)
        length = round;
    Factor f{extent, {}};
    for (int64_t at = length; at < extent; at += length) f.positions.push_back(at);
    return normal({f});
}

Cut halved(const Cut& cut) {
    Cut out = cut;
    for (Factor& f : out) {
        Positions all;
        int64_t begin = 0;
        for (size_t k = 0; k <= f.positions.size(); ++k) {
            const int64_t end = k < f.positions.size() ? f.positions[k] : f.extent;
            int64_t half = (end - begin + 1) / 2;
            if (half > 8) half = std::min((half + 7) / 8 * 8, end - begin - 1);
            if (half < end - begin) all.push_back(begin + half);
            if (end < f.extent) all.push_back(end);
            begin = end;
        }
        f.positions = std::move(all);
    }
    return out;
}

bool refines(const Cut& wanted, const Cut& of) {
    if (is_whole(of) || wanted == of) return true;
    if (wanted.size() != of.size()) return false;
    for (size_t f = 0; f < of.size(); ++f)
        if (wanted[f].extent != of[f].extent ||
            !std::includes(wanted[f].positions.begin(), wanted[f].positions.end(),
                           of[f].positions.begin(), of[f].positions.end()))
            return false;
    return true;
}

int64_t longest(const Cut& cut) {
    int64_t n = 1;
    for (const Factor& f : cut) {
        int64_t begin = 0, most = 0;
        for (int64_t p : f.positions) {
            most = std::max(most, p - begin);
            begin = p;
        }
        n *= std::max(most, f.extent - begin);
    }
    return n;
}

std::string text_of(const Cut& cut) {
    constexpr size_t most = 8;  // segments shown
    std::string out;
    for (const Factor& f : cut) {
        out += (out.empty() ? "" : " x ") + std::to_string(f.extent);
        if (f.positions.empty()) continue;
        size_t segments = f.positions.size() + 1;
        int64_t begin = 0;
        for (size_t i = 0; i < std::min(segments, most); ++i) {
            int64_t end = i + 1 < segments ? f.positions[i] : f.extent;
            out += (i ? ", " : " cut (") + std::to_string(end - begin);
            begin = end;
        }
        if (segments > most) out += ", ... " + std::to_string(segments) + " segments";
        out += ")";
    }
    return out.empty() ? "1" : out;
}

namespace {

struct Halves {
    Positions outer, inner;
};

// One factor of extent n as outer n / r and inner r: possible only if the positions are all those
// of the product, i.e. every outer border and the same inner positions within each outer index.
std::optional<Halves> halve(const Factor& f, int64_t r) {
    Halves h;
    for (int64_t p : f.positions) {
        if (p < r) h.inner.push_back(p);
        if (p % r == 0) h.outer.push_back(p / r);
    }
    size_t rows = static_cast<size_t>(f.extent / r);
    if (!h.inner.empty() && h.outer.size() != rows - 1) return std::nullopt;
    if (f.positions.size() != h.outer.size() + rows * h.inner.size()) return std::nullopt;
    for (int64_t p : f.positions)
        if (p % r != 0 && !std::binary_search(h.inner.begin(), h.inner.end(), p % r))
            return std::nullopt;
    return h;
}

int64_t inner_extent(const Cut& cut) {  // of all factors but the outermost
    int64_t n = 1;
    for (size_t i = 1; i < cut.size(); ++i) n *= cut[i].extent;
    return n;
}

bool is_all(int64_t extent, int64_t offset, int64_t step, int64_t n) {
    return offset == 0 && step == 1 && n == extent;
}

Cut with_outer(const Cut& cut, int64_t extent, const std::set<int64_t>& positions) {
    Factor outer{extent, {}};
    for (int64_t p : positions)
        if (0 < p && p < extent) outer.positions.push_back(p);
    Cut out = cut;
    out[0] = std::move(outer);
    return normal(out);
}

}  // namespace

std::optional<Peeled> peel(const Cut& cut, int64_t r) {
    Cut rest = cut, inner;  // inner: innermost factor first
    while (r > 1) {
        if (rest.empty()) return std::nullopt;
        Factor f = std::move(rest.back());
        rest.pop_back();
        if (f.extent > 0 && r % f.extent == 0) {
            r /= f.extent;
            inner.push_back(std::move(f));
        } else if (f.extent % r == 0) {
            std::optional<Halves> h = halve(f, r);
            if (!h) return std::nullopt;
            inner.push_back({r, std::move(h->inner)});
            rest.push_back({f.extent / r, std::move(h->outer)});
            r = 1;
        } else {
            return std::nullopt;
        }
    }
    std::reverse(inner.begin(), inner.end());
    return Peeled{normal(rest), normal(inner)};
}

std::optional<std::vector<Cut>> split(const Cut& cut, std::span<const int64_t> radix) {
    std::vector<Cut> out(radix.size());
    Cut rest = cut;
    for (size_t i = radix.size(); i-- > 0;) {
        std::optional<Peeled> pair = peel(rest, radix[i]);
        if (!pair) return std::nullopt;
        rest = std::move(pair->outer);
        out[i] = std::move(pair->inner);
    }
    return out;
}

Cut merge(std::span<const Cut> cuts) {
    Cut all;
    for (const Cut& c : cuts) all.append(c.begin(), c.end());
    return normal(all);
}

std::optional<Cut> take(const Cut& cut, int64_t extent, int64_t offset, int64_t step, int64_t n) {
    if (cut.empty() || is_all(extent, offset, step, n)) return cut;
    int64_t block = inner_extent(cut);
    if (block > 1 && (step != 1 || offset % block || n % block)) return std::nullopt;
    std::set<int64_t> seen;
    int64_t first = offset / block;
    for (int64_t p : cut[0].positions)
        if (p > first) seen.insert((p - first + step - 1) / step);
    return with_outer(cut, n / block, seen);
}

std::optional<Cut> put(const Cut& cut, int64_t extent, int64_t offset, int64_t step, int64_t n) {
    if (cut.empty() || is_all(extent, offset, step, n)) return cut;
    int64_t block = inner_extent(cut);
    if (block > 1 && (step != 1 || offset % block || extent % block)) return std::nullopt;
    std::set<int64_t> at;
    if (!cut[0].positions.empty()) {
        int64_t first = offset / block;
        first -= first % step;
        at = {first, first + step * (n / block)};
        for (int64_t p : cut[0].positions) at.insert(first + step * p);
    }
    return with_outer(cut, extent / block, at);
}

std::optional<Cut> join(const Cut& a, const Cut& b) {
    Cut left = a, right = b, out;  // out: innermost factor first
    while (!left.empty() && !right.empty()) {
        int64_t r = std::min(left.back().extent, right.back().extent);
        std::optional<Peeled> p = peel(left, r), q = peel(right, r);
        if (!p || !q || p->inner.size() > 1 || q->inner.size() > 1) return std::nullopt;
        Positions x, y;
        if (!p->inner.empty()) x = std::move(p->inner[0].positions);
        if (!q->inner.empty()) y = std::move(q->inner[0].positions);
        if (!x.empty() && !y.empty() && x != y) return std::nullopt;
        out.push_back({r, x.empty() ? std::move(y) : std::move(x)});
        left = std::move(p->outer);
        right = std::move(q->outer);
    }
    Cut all = left;
    all.append(right.begin(), right.end());
    all.append(out.rbegin(), out.rend());
    return normal(all);
}

Pieces tile_pieces(const Grid& base, const Layout& layout, const Grid& view, size_t limit) {
    if (limit == 0) limit = std::max<size_t>(4096, 64 * static_cast<size_t>(view.tiles()));
    return pieces(base, refined_layout(layout, view), view, limit);
}

}  // namespace nntile::tile
