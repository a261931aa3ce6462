// SPDX-License-Identifier: BSD-3-Clause
#include "tile/axes.hh"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.hh"

namespace nntile::tile {

int Axes::dim(int64_t extent) {
    int id = static_cast<int>(dims_.size());
    dims_.push_back({extent, id});
    return id;
}

AxisDims Axes::value(std::span<const int64_t> sizes) {
    AxisDims out;
    for (int64_t n : sizes) out.push_back(dim(n));
    return out;
}

int Axes::find(int a) const {
    while (dims_[a].parent != a) {
        dims_[a].parent = dims_[dims_[a].parent].parent;
        a = dims_[a].parent;
    }
    return a;
}

void Axes::same(int a, int b) {
    a = find(a);
    b = find(b);
    if (dims_[a].extent != dims_[b].extent || dims_[a].extent == 1) return;
    dims_[std::max(a, b)].parent = std::min(a, b);
}

void Axes::relate(std::string_view spec, std::span<const AxisDims> operands) {
    std::array<int, 256> first;
    first.fill(-1);
    size_t operand = 0, at = 0;
    auto end_term = [&] {
        check(operand < operands.size() && at == operands[operand].size(), Status::internal,
              "axis relation ", spec, " does not fit operand ", operand);
        ++operand;
        at = 0;
    };
    for (size_t i = 0; i < spec.size(); ++i) {
        if (spec[i] == ',' || spec[i] == '>') {
            end_term();
            continue;
        }
        if (spec[i] == '-') continue;
        check(operand < operands.size() && at < operands[operand].size(), Status::internal,
              "axis relation ", spec, " does not fit operand ", operand);
        int d = operands[operand][at++];
        if (spec[i] == '.' || dims_[d].extent == 1) continue;
        int& of_letter = first[static_cast<unsigned char>(spec[i])];
        if (of_letter < 0) of_letter = d;
        same(of_letter, d);
    }
    end_term();
    check(operand == operands.size(), Status::internal, "axis relation ", spec, " has ", operand,
          " terms for ", operands.size(), " operands");
}

void Axes::link(std::span<const int> base, std::span<const int> view, const Layout& layout,
                std::string_view where) {
    Dims shape;
    for (int d : base) shape.push_back(dims_[d].extent);
    AccessMap map = access_map(shape, layout);
    Merged flat = merged(map);
    Form form = refine(flat.map);
    bool edge = false;
    for (size_t j = 0; j < flat.map.digits.size(); ++j) {
        const Digit& d = flat.map.digits[j];
        const Slot& s = form.slots[j];
        if (s.placed() && flat.group_size(s.base) == 1 && d.size == flat.map.shape[s.base] &&
            d.size == layout.sizes[d.dim])
            same(base[flat.first[s.base]], view[d.dim]);
        else if (d.n_steps > 0)
            edge = true;
    }
    if (edge)
        links_.push_back({{base.begin(), base.end()}, {view.begin(), view.end()}, std::move(map),
                          std::string(where)});
}

AxisDims Axes::view(std::span<const int> base, const Layout& layout,
                            std::string_view where) {
    AxisDims dims = value(layout.sizes);
    link(base, dims, layout, where);
    return dims;
}

void Axes::cut(int dim, const Cut& cut, std::string_view label, int level) {
    int64_t covered = 1;
    for (const Factor& f : cut) {
        covered *= f.extent;
        for (int64_t p : f.positions)
            check(0 < p && p < f.extent, Status::invalid_argument, label, ": cut at ", p,
                  " of an extent of ", f.extent);
    }
    check(covered == dims_[dim].extent || cut.empty(), Status::invalid_argument, label,
          ": a cut of ", covered, " elements for an axis of extent ", dims_[dim].extent);
    sources_.push_back({level, dim, cut.empty() ? whole(dims_[dim].extent) : normal(cut),
                        std::string(label)});
}

// The rule of conflicts: what `state` becomes; false if nothing changes.
bool Axes::update(State& state, const Cut& cut, const std::optional<Range>& range) {
    if (state.cut.empty()) {
        state.cut = cut;
        if (range) state.ranges = {*range};
        return true;
    }
    if (state.fixed || state.cut == cut) return false;
    if (range && !state.ranges.empty() && state.cut.size() == 1 && cut.size() == 1) {
        Factor both = state.cut[0];
        for (int64_t p : cut[0].positions) {
            bool taken = false;
            for (const Range& r : state.ranges) taken |= r.begin < p && p < r.end;
            if (!taken) both.positions.push_back(p);
        }
        bool fresh = std::find(state.ranges.begin(), state.ranges.end(), *range) ==
                     state.ranges.end();
        if (fresh) state.ranges.push_back(*range);
        Cut next = normal({both});
        fresh |= next != state.cut;
        state.cut = std::move(next);
        return fresh;
    }
    std::optional<Cut> both = join(state.cut, cut);
    if (!both || *both == state.cut) return false;
    state.cut = std::move(*both);
    return true;
}

bool Axes::propose(int dim, const Cut& cut, const std::optional<Range>& range) {
    if (is_whole(cut)) return false;
    State& state = states_[find(dim)];
    const bool first = state.cut.empty();
    if (!update(state, cut, range)) return false;
    if (first) state.level = level_;
    state.changed = ++time_;
    return true;
}

void Axes::set_sources(int level) {
    for (const Source& s : sources_) {
        if (s.level != level) continue;
        State& state = states_[find(s.dim)];
        bool took = propose(s.dim, s.cut, std::nullopt);
        if (level == user_cut && state.cut.empty()) {
            state.cut = s.cut;
            state.level = user_cut;
        }
        if (!took && factors(s.dim) != s.cut)
            notes_.push_back(s.label + ": axis already cut as " + text_of(factors(s.dim)));
        state.fixed = true;
    }
}

bool Axes::visit(const Link& link) {
    Pushed there = push(link.map, cuts_of(link.base));
    Pulled back = pull(link.map, cuts_of(link.view));
    bool changed = false;
    for (size_t k = 0; k < link.view.size(); ++k)
        changed |= propose(link.view[k], there.cuts[k], std::nullopt);
    for (size_t i = 0; i < link.base.size(); ++i)
        changed |= propose(link.base[i], back.cuts[i], back.ranges[i]);
    return changed;
}

int Axes::propagate() {
    states_.assign(dims_.size(), {});
    notes_.clear();
    time_ = 0;
    // A link whose axes did not change since its last visit has nothing new to say.
    std::vector<uint64_t> visited(links_.size(), 0);
    auto stale = [&](size_t i) {
        for (int d : links_[i].base)
            if (states_[find(d)].changed > visited[i]) return true;
        for (int d : links_[i].view)
            if (states_[find(d)].changed > visited[i]) return true;
        return false;
    };
    std::set<int> levels;
    for (const Source& s : sources_) levels.insert(s.level);
    int rounds = 0;
    for (int level : levels) {
        level_ = level;
        set_sources(level);
        // Every change adds positions or ranges to an axis, so this ends.
        for (bool changed = true; changed; ++rounds) {
            changed = false;
            for (size_t i = 0; i < links_.size(); ++i) {
                if (!stale(i)) continue;
                visited[i] = time_;
                changed |= visit(links_[i]);
            }
        }
    }
    return rounds;
}

Cut Axes::factors(int dim) const {
    size_t axis = static_cast<size_t>(find(dim));
    if (axis < states_.size() && !states_[axis].cut.empty()) return states_[axis].cut;
    return whole(dims_[dim].extent);
}

int Axes::level(int dim) const {
    const auto axis = static_cast<size_t>(find(dim));
    return axis < states_.size() ? states_[axis].level : automatic_cut;
}

bool Axes::lines_up(size_t link) const {
    const Link& l = links_[link];
    const std::vector<Cut> base = cuts_of(l.base), view = cuts_of(l.view);
    const auto whole_ones = [](const std::vector<Cut>& cuts) {
        return std::all_of(cuts.begin(), cuts.end(), [](const Cut& c) { return is_whole(c); });
    };
    if (whole_ones(base)) return true;          // blocks of one tile, or a copy that no cut causes
    const Pushed pushed = push(l.map, base);
    return pushed.exact && pushed.cuts == view;
}

std::vector<Cut> Axes::cuts_of(std::span<const int> dims) const {
    std::vector<Cut> out;
    for (int d : dims) out.push_back(factors(d));
    return out;
}

Grid Axes::grid(std::span<const int> dims) const {
    Dims sizes;
    for (int d : dims) sizes.push_back(dims_[d].extent);
    return grid_of(sizes, cuts_of(dims));
}

std::vector<std::string> Axes::retiles() const {
    std::vector<std::string> out;
    for (const Link& link : links_) {
        Grid base = grid(link.base), view = grid(link.view);
        if (aligned_blocks(base, link.map.layout, view)) continue;
        Pieces found = tile_pieces(base, link.map.layout, view);
        size_t tiles = static_cast<size_t>(view.tiles());
        if (!found.irregular && found.list.size() <= tiles) continue;  // folded: no copy either
        std::string line = link.where + ": " + describe(link.base) + " -> " + describe(link.view);
        if (found.irregular)
            line += ": irregular";
        else
            line += text_of(": ", found.list.size(), " blocks for ", tiles, " tiles");
        out.push_back(std::move(line));
    }
    return out;
}

std::string Axes::describe(std::span<const int> dims) const {
    std::string out = "[";
    for (int d : dims) {
        if (out.size() > 1) out += ", ";
        for (auto s = sources_.rbegin(); s != sources_.rend(); ++s)
            if (find(s->dim) == find(d)) {
                out += s->label + " = ";
                break;
            }
        out += dims_[d].extent == 0 ? "0" : text_of(factors(d));
    }
    return out + "]";
}

}  // namespace nntile::tile
