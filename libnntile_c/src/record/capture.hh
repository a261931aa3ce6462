// SPDX-License-Identifier: BSD-3-Clause
// A recorded graph that is kept: its inputs and outputs are slots, to which each replay binds
// buffers.
#pragma once

#include "record/recorder.hh"

namespace nntile::record {

struct Slot {
    std::shared_ptr<BufferRef> ref;     // of the buffer that was recorded
    uint32_t input = graph::no_value;   // index into graph.inputs; no_value: not read
    uint32_t output = graph::no_value;  // index into graph.outputs; no_value: not written
    bool made = false;                  // the buffer was made while it was recorded
};

struct Random {       // a number of the graph that comes from a generator
    uint32_t scalar;  // index into graph.scalars
    bool is_offset;   // else it is the seed
    int64_t value;    // the seed, or the offset from where the capture began
};

struct Capture {
    std::shared_ptr<Recorder> owner;
    graph::Graph graph;  // as recorded; inputs of slots have data only during a replay
    Hash hash;           // of the graph
    Hash digest;         // of all but the numbers: equal ones may stand for each other
    std::vector<HostCall> calls;
    std::vector<Slot> slots;
    std::vector<Random> random;
    std::vector<std::pair<uint32_t, Hash>> host_data;  // inputs that came from the host
};

// The first thing in which `now` is not `before`, with its op and line; of numbers those that are
// not `live`. "": they are the same.
std::string difference(const Capture& before, const Capture& now, std::span<const uint32_t> live);

// What one replay is given.
struct Replay {
    struct Binding {
        uint32_t slot;
        Buffer* buffer;  // in place of the one that was recorded
    };
    struct Number {
        uint32_t scalar;  // index into graph.scalars
        double value;
    };
    std::span<const Binding> bindings;
    std::span<const Number> numbers;
    GeneratorState generator;
};

}  // namespace nntile::record
