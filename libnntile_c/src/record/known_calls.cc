// SPDX-License-Identifier: BSD-3-Clause
#include "record/known_calls.hh"

#include <bit>

#include "base/settings.hh"

namespace nntile::record {

using schema::AttrKind;

static bool is_live(AttrKind kind) { return kind == AttrKind::real || kind == AttrKind::seed; }

Hash CallView::signature() const {
    Hash h;
    h.add(schema::number_of(row) << 8 | static_cast<uint64_t>(compute)).add(n_inputs);
    for (size_t k = 0; k < operands.size(); ++k) {
        const Operand& o = operands[k];
        h.add(static_cast<uint64_t>(o.kind) << 32 | static_cast<uint64_t>(o.dtype) << 16 |
              o.sizes.size());
        if (o.kind == Operand::Kind::scalar && !keeps_numbers())
            h.add(std::bit_cast<uint64_t>(o.f)).add(static_cast<uint64_t>(o.i));
        if (o.kind != Operand::Kind::tensor) continue;
        for (size_t d = 0; d < o.sizes.size(); ++d)
            h.add(static_cast<uint64_t>(o.sizes[d])).add(static_cast<uint64_t>(o.strides[d]));
        size_t same = 0;  // the first operand in this buffer
        while (operands[same].buffer != o.buffer) ++same;
        h.add(static_cast<uint64_t>(o.offset)).add(static_cast<uint64_t>(o.buffer->bytes));
        h.add(same);
    }
    for (size_t k = 0; k < attrs.size(); ++k) {
        const bool live = is_live(row.attrs[k].kind);
        if (live && keeps_numbers()) continue;
        h.add(static_cast<uint64_t>(attrs[k].i)).add(std::bit_cast<uint64_t>(attrs[k].f));
        h.add_all(attrs[k].ints);
    }
    return h;
}

Hash CallView::signature_with_data(const Hash& signature) const {
    Hash h = signature;
    for (const Operand& o : operands) {
        const graph::Stored* stored = o.buffer ? o.buffer->stored.get() : nullptr;
        if (stored) h.add(static_cast<uint64_t>(stored->dtype)).add_all(stored->sizes);
        else h.add(~uint64_t{0});
    }
    return h;
}

Numbers CallView::numbers() const {
    Numbers all;
    if (!keeps_numbers()) return all;
    const auto add = [&](bool real, double f, int64_t i) {
        kernels::Param p;
        if (real) p.f = f;
        else p.i = i;
        all.push_back(p);
    };
    for (const Operand& o : operands.first(n_inputs))
        if (o.kind == Operand::Kind::scalar) add(is_floating(o.dtype), o.f, o.i);
    for (size_t k = 0; k < attrs.size(); ++k)
        if (is_live(row.attrs[k].kind))
            add(row.attrs[k].kind == AttrKind::real, attrs[k].f, attrs[k].i);
    return all;
}

void KnownCalls::learn(const Hash& signature_with_data, KnownCall call) {
    if (calls_.size() >= most) calls_.clear();
    calls_[signature_with_data] = std::move(call);
}

bool KnownCalls::comes_often(const Hash& signature) {
    if (times_.size() >= most) times_.clear();
    const int often = settings().small_calls;
    int& times = times_[signature];
    return times >= often || ++times > often;
}

}  // namespace nntile::record
