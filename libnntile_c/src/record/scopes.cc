// SPDX-License-Identifier: BSD-3-Clause
#include "record/scopes.hh"

namespace nntile::record {

Policy policy_of(Scope scope, const Limits& limits) {
    // A step of an optimizer has ten calls for each parameter, a composition some dozens.
    constexpr size_t most_waiting = 64, most_in_composition = 1'000, most_in_step = 20'000;
    switch (scope) {
        case Scope::content:
            // Large results are not held back: they are worth a worker, and if they do not fit, it
            // is this call that fails.
            return {limits.alone ? 1 : most_waiting, limits.bytes, true, true};
        case Scope::composition:
            return {limits.alone ? 1 : most_in_composition, INT64_MAX, true, false};
        case Scope::step: return {most_in_step, INT64_MAX, true, false};
        case Scope::graph:
        case Scope::capture: break;
    }
    return {SIZE_MAX, INT64_MAX, false, false};  // only who reads or runs ends it
}

bool should_end(const Waiting& graph, Event event, const Policy& scope) {
    if (graph.calls == 0) return false;
    // Some us of a core, be it for products or for element-wise calls: what it costs to submit a
    // graph.
    constexpr int64_t most_light_traffic = 16 << 10;
    switch (event) {
        case Event::heavy_call: return scope.heavy && graph.traffic > most_light_traffic;
        case Event::effect: return scope.heavy;
        case Event::recorded: return graph.calls >= scope.calls || graph.bytes > scope.bytes;
        case Event::idle: return scope.idle;
    }
    return false;
}

bool Pause::is_one(const Look& look) {
    if (look.last_call != call_) {
        call_ = look.last_call;
        cpu_ = look.cpu;
    }
    return look.now - look.last_call >= patience && (look.sleeps || look.cpu - cpu_ >= patience);
}

bool Scopes::end(Scope scope) {
    std::atomic<int>& count = open_[static_cast<size_t>(scope)];
    int open = count;
    while (open > 0)
        if (count.compare_exchange_weak(open, open - 1)) return true;
    return false;
}

Scope Scopes::now() const {
    for (size_t k = scope_count; k-- > 1;)
        if (open_[k] > 0) return static_cast<Scope>(k);
    return Scope::content;
}

}  // namespace nntile::record
