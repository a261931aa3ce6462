// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/trace.h"

#include "runtime/trace.hh"

using namespace nntile;

namespace {

std::atomic<nntile_trace_function> given{nullptr};

void forward(const runtime::TracedTask& t) {
    const nntile_trace_task task{t.op,    t.worker, t.mark, t.begin_ns, t.end_ns, t.kernel,
                                 t.place, t.run,    t.node, t.task,     t.bytes,  t.flops};
    if (nntile_trace_function function = given.load(std::memory_order_acquire)) function(&task);
}

}  // namespace

void nntile_trace_set(nntile_trace_function function) {
    given.store(function, std::memory_order_release);
    runtime::trace_function.store(function ? &forward : nullptr, std::memory_order_release);
}

void nntile_trace_mark(int64_t mark) { current_mark = mark; }

void nntile_trace_places(nntile_trace_place_text text) {
    place_text.store(text, std::memory_order_release);
}

void nntile_trace_place(uint64_t place) { current_place = place & ~(uint64_t{1} << 63); }
