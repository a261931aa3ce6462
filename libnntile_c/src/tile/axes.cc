// SPDX-License-Identifier: BSD-3-Clause
#include "tile/axes.hh"

#include <algorithm>
#include <array>

#include "base/error.hh"

namespace nntile::tile {

int Axes::dim(int64_t extent) {
    int id = static_cast<int>(dims_.size());
    dims_.push_back({extent, id});
    ready_ = false;
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
    ready_ = false;
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

Axes::Way& Axes::way_of(const Dims& shape, const Layout& layout) {
    const Hash key = Hash()
                         .add_all(shape)
                         .add_all(layout.sizes)
                         .add_all(layout.strides)
                         .add(static_cast<uint64_t>(layout.offset));
    std::unique_ptr<Way>& way = ways_[key];
    if (!way) way = std::make_unique<Way>(access_map(shape, layout));
    return *way;
}

void Axes::link(std::span<const int> base, std::span<const int> view, const Layout& layout,
                std::string_view where) {
    Dims shape;
    for (int d : base) shape.push_back(dims_[d].extent);
    Way& way = way_of(shape, layout);
    const Path& path = way.path;
    const Merged& flat = path.flat;
    bool edge = false;
    for (size_t j = 0; j < flat.map.digits.size(); ++j) {
        const Digit& d = flat.map.digits[j];
        const RefinedDim& s = path.form.digits[j];
        if (s.placed() && flat.group_size(s.base) == 1 && d.size == flat.map.shape[s.base] &&
            d.size == layout.sizes[d.dim])
            same(base[flat.first[s.base]], view[d.dim]);
        else if (d.n_steps > 0) edge = true;
    }
    if (!edge) return;
    links_.push_back(
        {{base.begin(), base.end()}, {view.begin(), view.end()}, &way, std::string(where)});
    ready_ = false;
}

AxisDims Axes::view(std::span<const int> base, const Layout& layout, std::string_view where) {
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
    sources_.push_back(
        {level, dim, cut.empty() ? whole(dims_[dim].extent) : normal(cut), std::string(label)});
}

// The rule of conflicts: what `state` becomes; false if nothing changes.
bool Axes::update(State& state, const Cut& cut, const std::optional<Range>& range) {
    if (state.cut.empty()) {
        state.cut = cut;
        if (range) state.ranges = {*range};
        return true;
    }
    if (range && !state.ranges.empty() && state.cut.size() == 1 && cut.size() == 1) {
        Factor both = state.cut[0];
        for (int64_t p : cut[0].positions) {
            bool taken = false;
            for (const Range& r : state.ranges) taken |= r.begin < p && p < r.end;
            if (!taken) both.positions.push_back(p);
        }
        bool fresh =
            std::find(state.ranges.begin(), state.ranges.end(), *range) == state.ranges.end();
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

Axes::State& Axes::changing(int axis) {
    State& state = states_[axis];
    if (logging_) log_.emplace_back(axis, state);
    return state;
}

void Axes::touched(int axis) {
    for (int l : links_at_[axis]) {
        pending_.insert(l);
        lines_up_[l] = -1;
    }
}

bool Axes::propose(int dim, const Cut& cut, const std::optional<Range>& range) {
    if (is_whole(cut)) return false;
    const int axis = find(dim);
    const State& now = states_[axis];
    if (!now.cut.empty() && (now.fixed || now.cut == cut)) return false;
    State next = now;
    if (next.cut.empty()) next.level = level_;
    if (!update(next, cut, range)) return false;
    changing(axis) = std::move(next);
    touched(axis);
    return true;
}

void Axes::set_source(const Source& s) {
    const bool took = propose(s.dim, s.cut, std::nullopt);
    State& state = changing(find(s.dim));
    if (s.level == user_cut && state.cut.empty()) {
        state.cut = s.cut;
        state.level = user_cut;
    }
    if (!took && factors(s.dim) != s.cut)
        notes_.push_back(s.label + ": axis already cut as " + text_of(factors(s.dim)));
    state.fixed = true;
}

// What `make` gives for the cuts of some dims; one that is known is not made again.
template <class Made>
const Made& Axes::known(std::deque<std::pair<std::vector<Cut>, Made>>& all,
                        std::span<const int> dims, const Path& path,
                        Made (*make)(const Path&, std::span<const Cut>)) const {
    for (const auto& [cuts, made] : all)
        if (are_cut(dims, cuts)) return made;
    std::vector<Cut> cuts = cuts_of(dims);
    Made made = make(path, cuts);
    return all.emplace_back(std::move(cuts), std::move(made)).second;
}

const Pushed& Axes::pushed(const Link& link) const {
    return known(link.way->pushed, link.base, link.way->path, push);
}

const Pulled& Axes::pulled(const Link& link) const {
    return known(link.way->pulled, link.view, link.way->path, pull);
}

bool Axes::are_cut(std::span<const int> dims, std::span<const Cut> cuts) const {
    return std::equal(dims.begin(), dims.end(), cuts.begin(), cuts.end(),
                      [&](int dim, const Cut& cut) {
                          const Cut& now = cut_of(dim);
                          return now.empty() ? cut == whole(dims_[dim].extent) : now == cut;
                      });
}

bool Axes::all_whole(std::span<const int> dims) const {
    return std::all_of(dims.begin(), dims.end(), [&](int d) { return is_whole(cut_of(d)); });
}

void Axes::visit(const Link& link) {
    // Whole dims have nothing to say
    const bool down = !all_whole(link.base), up = !all_whole(link.view);
    const Pushed* there = down ? &pushed(link) : nullptr;
    const Pulled* back = up ? &pulled(link) : nullptr;  // of the view as it was
    for (size_t k = 0; there && k < there->cuts.size(); ++k)
        propose(link.view[k], there->cuts[k], std::nullopt);
    for (size_t i = 0; back && i < back->cuts.size(); ++i)
        propose(link.base[i], back->cuts[i], back->ranges[i]);
}

void Axes::restart() {
    states_.assign(dims_.size(), {});
    links_at_.assign(dims_.size(), {});
    lines_up_.assign(links_.size(), -1);
    for (size_t l = 0; l < links_.size(); ++l)
        for (const AxisDims* side : {&links_[l].base, &links_[l].view})
            for (int dim : *side) {
                auto& at = links_at_[find(dim)];
                if (at.empty() || at.back() != static_cast<int>(l))
                    at.push_back(static_cast<int>(l));
            }
    notes_.clear();
    pending_.clear();
    log_.clear();
    logging_ = false;
    done_ = 0;
    ready_ = true;
}

int Axes::propagate() {
    std::set<int> levels;
    auto sources = [&] { return std::span(sources_).subspan(done_); };
    if (!ready_) restart();
    for (const Source& s : sources())
        if (done_ > 0 && s.level < level_) restart();
    for (const Source& s : sources()) levels.insert(s.level);
    int rounds = 0;
    for (int level : levels) {
        level_ = level;
        for (const Source& s : sources())
            if (s.level == level) set_source(s);
        // Every change adds positions or ranges to an axis, so this ends.
        for (; !pending_.empty(); ++rounds)
            for (auto next = pending_.begin(); next != pending_.end();) {
                const int link = *next;
                pending_.erase(next);
                visit(links_[link]);
                next = pending_.upper_bound(link);
            }
    }
    done_ = sources_.size();
    return rounds;
}

Axes::Mark Axes::mark() {
    check(ready_ && done_ == sources_.size(), Status::internal,
          "a mark of axes that are not propagated");
    logging_ = true;
    return {sources_.size(), notes_.size(), log_.size()};
}

void Axes::undo(const Mark& mark) {
    for (; log_.size() > mark.log; log_.pop_back()) {
        auto& [axis, state] = log_.back();
        states_[axis] = std::move(state);
        for (int l : links_at_[axis]) lines_up_[l] = -1;
    }
    sources_.resize(mark.sources);
    notes_.resize(mark.notes);
    done_ = mark.sources;
}

const Cut& Axes::cut_of(int dim) const {
    static const Cut none{};
    const auto axis = static_cast<size_t>(find(dim));
    return axis < states_.size() ? states_[axis].cut : none;
}

Cut Axes::factors(int dim) const {
    const Cut& cut = cut_of(dim);
    return cut.empty() ? whole(dims_[dim].extent) : cut;
}

int64_t Axes::segments(int dim) const {
    int64_t n = 1;
    for (const Factor& f : cut_of(dim)) n *= static_cast<int64_t>(f.positions.size()) + 1;
    return n;
}

int Axes::level(int dim) const {
    const auto axis = static_cast<size_t>(find(dim));
    return axis < states_.size() ? states_[axis].level : automatic_cut;
}

bool Axes::lines_up(size_t link) const {
    const auto look = [&] {
        const Link& l = links_[link];
        if (all_whole(l.base)) return true;  // blocks of one tile, or a copy that no cut causes
        const Pushed& there = pushed(l);
        return there.exact && are_cut(l.view, there.cuts);
    };
    int8_t& known = lines_up_[link];
    if (known < 0) known = look() ? 1 : 0;
    return known != 0;
}

std::vector<Cut> Axes::cuts_of(std::span<const int> dims) const {
    std::vector<Cut> out;
    out.reserve(dims.size());
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
        if (aligned_blocks(base, link.way->path.map.layout, view)) continue;
        Pieces found = tile_pieces(base, link.way->path.map.layout, view);
        size_t tiles = static_cast<size_t>(view.tiles());
        if (!found.irregular && found.list.size() <= tiles) continue;  // folded: no copy either
        std::string line = link.where + ": " + describe(link.base) + " -> " + describe(link.view);
        if (found.irregular) line += ": irregular";
        else line += text_of(": ", found.list.size(), " blocks for ", tiles, " tiles");
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
