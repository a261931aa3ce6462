// SPDX-License-Identifier: BSD-3-Clause
// Who reads what in a graph as a pass found it, and which nodes may stand later than they do.
#pragma once

#include "graph/graph.hh"

namespace nntile::graph {

// What a node that reads an operand for the last time could not do any more if somebody read it
// after that.
enum class Spoilt : uint8_t {
    by_taking,   // take its memory, or write into it
    by_writing,  // write into it, without a copy
};

class Readers {
public:
    explicit Readers(const Graph& graph);

    // Nodes that read a value or a view of it, in order.
    const std::vector<uint32_t>& of(uint32_t base) const { return readers_[base]; }
    bool is_output(uint32_t base) const { return is_output_[base]; }
    // A new value takes the place of another one.
    void rename(uint32_t from, uint32_t to);
    // Nobody but these nodes (in order) reads it.
    bool is_only_read_by(uint32_t base, std::span<const uint32_t> nodes) const;
    // The write that puts all of a result, and nobody else reads it, into other data; no_value:
    // none.
    uint32_t write_of(uint32_t v) const;
    // Its data may be overwritten by the node.
    bool dies_at(uint32_t v, uint32_t node) const;
    // These nodes, in order, can all stand where the last one does: nobody outside reads their
    // results before that place, and nobody in between for whom `spoilt` counts reads an operand
    // for the last time. Nothing larger than what is saved is kept for longer, unless the place is
    // near.
    bool may_wait(std::span<const uint32_t> nodes, Spoilt spoilt = Spoilt::by_taking) const;

private:
    // It reads base, or a view of it
    bool spoils(uint32_t node, uint32_t base, Spoilt spoilt) const;
    int64_t bytes_of(uint32_t v) const;

    const Graph& g_;
    std::vector<std::vector<uint32_t>> readers_;  // by base value
    std::vector<bool> is_output_;                 // by base value
};

}  // namespace nntile::graph
