// SPDX-License-Identifier: BSD-3-Clause
// Small calls that a program makes again and again. Once their operands have data such a call is a
// graph of its own, and the call itself says which plan that has: no graph is built, and the thread
// that calls runs the plan. The results are those of the graph.
#pragma once

#include <unordered_map>

#include "record/executor.hh"
#include "record/operand.hh"

namespace nntile::record {

using Numbers = SmallVector<kernels::Param, 8>;

// A call as the recorder gets it.
struct CallView {
    const graph::OpRow& row;
    std::span<const Operand> operands;  // inputs, then outputs
    size_t n_inputs;
    std::span<const graph::Attr> attrs;
    DType compute;

    // A row that is composed of others computes with numbers, so its graph depends on them.
    bool keeps_numbers() const { return row.rule != schema::Rule::compose; }
    // Equal for calls that differ only in data, and in numbers on which no graph depends.
    Hash signature() const;
    // Likewise, and how the data of its operands is stored.
    Hash signature_with_data(const Hash& signature) const;
    // These numbers, in the order in which the recorder adds them to a graph; none of a row that
    // makes others of them.
    Numbers numbers() const;
};

struct KnownCall {
    std::shared_ptr<SmallPlan> plan;  // none: it does not run here
    // By input and output of the graph: which operand
    SmallVector<uint8_t, 6> inputs, outputs;
    Numbers scalars;  // of the graph, where the row makes them
};

class KnownCalls {
public:
    static constexpr int64_t most_bytes = 64 << 10;  // of operands: more is no small call

    const KnownCall* find(const Hash& signature_with_data) const {
        const auto at = calls_.find(signature_with_data);
        return at == calls_.end() ? nullptr : &at->second;
    }
    void learn(const Hash& signature_with_data, KnownCall call);
    // Counts it. NNTILE_SMALL_CALLS says how often that is: a program that makes a few calls is
    // recorded as one graph, and sizes that never come again cost nothing.
    bool comes_often(const Hash& signature);
    void forget() {
        calls_.clear();
        times_.clear();
    }

private:
    static constexpr size_t most = 4096;  // some 300 bytes each
    std::unordered_map<Hash, KnownCall> calls_;
    std::unordered_map<Hash, int> times_;  // of those that did not run as known ones
};

}  // namespace nntile::record
