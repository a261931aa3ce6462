// SPDX-License-Identifier: BSD-3-Clause
#include "tile/saved_cuts.hh"

#include "base/text.hh"

namespace nntile::tile {

namespace {

std::string text_of_segments(const std::vector<int64_t>& segments) {
    std::string text;
    for (int64_t s : segments) text += s == whole_segment ? " whole" : " " + std::to_string(s);
    return text;
}

std::vector<int64_t> segments(Scanner& scan) {
    if (scan.accept("whole")) return {whole_segment};
    std::vector<int64_t> list;
    int64_t sum = 0;
    while (!scan.at('\n') && !scan.at('#') && !scan.at_end()) {
        list.push_back(scan.integer());
        if (list.back() <= 0) scan.fail("a segment must be > 0, got ", list.back());
        if (__builtin_add_overflow(sum, list.back(), &sum)) scan.fail("the segments are too long");
    }
    if (list.empty()) scan.fail("expected segments or 'whole'");
    return list;
}

}  // namespace

SavedCuts parse_cuts(std::string_view text) {
    Scanner scan("cuts", text);
    SavedCuts cuts;
    scan.skip_lines();
    scan.expect("cuts");
    if (const int64_t version = scan.integer(); version != 1)
        scan.fail("version ", version, " is not known, 1 is");
    scan.end_line();
    for (scan.skip_lines(); !scan.accept("end"); scan.skip_lines()) {
        if (scan.at_end()) scan.fail("the text stops before 'end'");
        if (scan.accept("axis")) {
            const std::string name = scan.word_or_string();
            cuts.lines[name] = scan.line();
            scan.expect("=");
            if (!cuts.axes.emplace(name, segments(scan)).second)
                scan.fail("axis '", name, "' is there twice");
        } else if (scan.accept("graph")) {
            SavedGraph graph;
            graph.hash.a = scan.hexadecimal();
            graph.hash.b = scan.hexadecimal();
            scan.expect("of");
            graph.nodes = static_cast<size_t>(scan.integer());
            scan.expect("nodes");
            cuts.graphs.push_back(std::move(graph));
        } else {
            if (cuts.graphs.empty() || !scan.accept("%"))
                scan.fail("expected 'axis', 'graph' or a cut of a graph");
            SavedCut cut{scan.number(), 0, {}, scan.line()};
            scan.expect("dim");
            cut.dim = scan.number();
            scan.expect("=");
            cut.segments = segments(scan);
            cuts.graphs.back().cuts.push_back(std::move(cut));
        }
        scan.end_line();
    }
    return cuts;
}

std::string print(const SavedCuts& cuts) {
    std::string out = "cuts 1\n";
    for (const auto& [name, cut] : cuts.axes)
        if (!cut.empty())
            out += text_of("axis ", word_or_quoted(name), " =", text_of_segments(cut), "\n");
    for (const SavedGraph& g : cuts.graphs) {
        out += text_of("graph 0x", std::hex, g.hash.a, " 0x", g.hash.b, std::dec, " of ", g.nodes,
                       " nodes\n");
        for (const SavedCut& c : g.cuts)
            out +=
                text_of("  %", c.value, " dim ", c.dim, " =", text_of_segments(c.segments), "\n");
    }
    return out + "end\n";
}

}  // namespace nntile::tile
