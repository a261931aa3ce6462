// SPDX-License-Identifier: BSD-3-Clause
// Small calls whose operands have data, and which come often, run in the thread that makes them.
#include <algorithm>

#include "base/settings.hh"
#include "record/recorder.hh"

namespace nntile::record {

bool Recorder::knows_calls(std::span<const Operand> operands) {
    if (settings().small_calls < 0 || scopes_.now() > Scope::composition || !executor_->runs_here())
        return false;
    return std::ranges::all_of(operands, [this](const Operand& o) {
        return o.kind != Operand::Kind::tensor || (o.buffer && o.buffer->owner.get() == this);
    });
}

// Data that is read is there as one tile, and nothing that the program has not waited for uses what
// is written. What workers have done by now must not count: it differs from run to run, and with it
// which graph a call is in, and last bits.
// once_it_ran: the open graph.
bool Recorder::has_data(const CallView& call, bool once_it_ran) const {
    for (size_t k = 0; k < call.operands.size(); ++k) {
        const Operand& o = call.operands[k];
        if (o.kind != Operand::Kind::tensor) continue;
        const bool written = k >= call.n_inputs;
        const Buffer& buffer = *o.buffer;
        if (buffer.holder >= 0) {
            const Holder& holder = holders_[buffer.holder];
            const bool waits = holder.current != holder.leaf;
            if ((written || waits) && !once_it_ran) return false;
            if (waits) continue;
        }
        if ((written ? buffer.used : buffer.written) > settled_) return false;
        const graph::Stored* stored = buffer.stored.get();
        if (!stored && written) continue;
        if (!stored || stored->undefined || stored->missing) return false;
        for (const graph::Cut& cut : stored->cuts)
            for (const graph::Factor& f : cut)
                if (!f.positions.empty()) return false;
        // Bytes, which the recorder first sees as what they stand for.
        if (stored->dtype == DType::u8 && o.dtype != DType::u8) return false;
        for (const std::string& name : stored->names)
            if (!name.empty()) return false;
    }
    return true;
}

bool Recorder::is_little() const {
    return waiting_.settled && waiting_.traffic <= KnownCalls::most_bytes && calls_.empty();
}

// A call that comes often, after one that does not: a sum of gradients that begins with two of
// them. That one runs first, or each later call would wait behind it.
bool Recorder::waits_for_little(const CallView& call) const {
    return scopes_.now() < Scope::composition && is_little() && has_data(call, true);
}

bool Recorder::run_known(const KnownCall& known, const CallView& call, const Numbers& numbers,
                         Place place) {
    if (!known.plan || !unrun_.empty()) return false;
    SmallVector<const graph::StoredRef*, 8> inputs;
    for (uint8_t k : known.inputs) inputs.push_back(&call.operands[k].buffer->stored);
    SmallVector<graph::StoredRef, 2> outputs(known.outputs.size());
    const std::span<const kernels::Param> scalars =
        call.keeps_numbers() ? std::span(numbers.data(), numbers.size())
                             : std::span(known.scalars.data(), known.scalars.size());
    known.plan->run({inputs.data(), inputs.size()}, scalars, place,
                    {outputs.data(), outputs.size()});
    for (size_t k = 0; k < outputs.size(); ++k) {
        Buffer& buffer = *call.operands[known.outputs[k]].buffer;
        buffer.stored = std::move(outputs[k]);
        buffer.written = buffer.used = 0;
    }
    ++ops_recorded;
    return true;
}

// The open graph is this call, and nothing else.
KnownCall Recorder::learned(const CallView& call, const Numbers& numbers) {
    KnownCall known;
    mark_outputs(graph_);
    const auto same = [](kernels::Param a, kernels::Param b) { return a.i == b.i; };
    if (!call.keeps_numbers()) known.scalars.append(graph_.scalars.begin(), graph_.scalars.end());
    else if (!std::equal(numbers.begin(), numbers.end(), graph_.scalars.begin(),
                         graph_.scalars.end(), same))
        return known;
    size_t inputs = 0;
    known.inputs.resize(graph_.inputs.size());
    for (const Holder& h : holders_) {
        const auto at = std::find_if(call.operands.begin(), call.operands.end(),
                                     [&](const Operand& o) { return o.buffer == h.buffer; });
        const auto k = static_cast<size_t>(at - call.operands.begin());
        if (!h.buffer || k >= std::min<size_t>(call.operands.size(), UINT8_MAX)) return known;
        if (h.input != graph::no_value) {
            known.inputs[h.input] = static_cast<uint8_t>(k);
            ++inputs;
        }
        if (h.current != h.leaf) known.outputs.push_back(static_cast<uint8_t>(k));
    }
    if (inputs == graph_.inputs.size()) known.plan = executor_->small(graph_, cuts_);
    return known;
}

// False: it does not run here, and is recorded.
bool Recorder::learn(const Hash& signature, const CallView& call, const Numbers& numbers,
                     Place place) {
    const KnownCall known = learned(call, numbers);
    known_calls_.learn(signature, known);
    if (!known.plan || !unrun_.empty()) return false;
    drop_graph();
    return run_known(known, call, numbers, place);
}

}  // namespace nntile::record
