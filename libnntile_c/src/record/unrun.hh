// SPDX-License-Identifier: BSD-3-Clause
// A graph that could not be submitted, nearly always for want of memory. It is kept with what it
// reads, apart from the open graph, and tried again when somebody needs a result of it: so an error
// belongs to the data that it kept from being computed, and to no other.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "record/host_call.hh"
#include "record/operand.hh"

namespace nntile::record {

struct Unrun {
    struct Result {
        std::shared_ptr<BufferRef> ref;  // of the buffer that it is for
        uint32_t value;
        uint32_t input;  // as graph::Output::input
    };
    graph::Graph graph;
    std::vector<HostCall> calls;
    std::vector<Result> results;
    std::exception_ptr reason;  // of the last try
    bool told = false;          // somebody has got the reason
    bool ended = false;         // there is no graph any more
    bool reads(const graph::StoredRef& stored) const;
    void forget_others();
    void end(std::exception_ptr why);  // its results are lost
};

// What the buffer of a result holds instead of data.
struct Missing final : graph::Stored {
    explicit Missing(std::shared_ptr<Unrun> of) : unrun(std::move(of)) { missing = true; }
    std::shared_ptr<Unrun> unrun;
};

inline const Unrun* unrun_of(const Buffer& buffer) {
    if (!buffer.stored || !buffer.stored->missing) return nullptr;
    return static_cast<const Missing&>(*buffer.stored).unrun.get();
}

}  // namespace nntile::record
