// SPDX-License-Identifier: BSD-3-Clause
// When a graph ends: a table of scopes, and that to ask changes nothing.
#include "record/scopes.hh"

#include <cstdint>

#include "../check.hh"

using namespace nntile::record;

namespace {

constexpr Limits few{1000, false}, alone{1000, true};

bool ends(Scope scope, Event event, size_t calls, int64_t bytes = 0, Limits limits = few,
          int64_t traffic = 1 << 20) {
    const Waiting graph{calls, bytes, traffic};
    const bool first = should_end(graph, event, policy_of(scope, limits));
    CHECK(first == should_end(graph, event, policy_of(scope, limits)));
    return first;
}

// Calls after which a scope ends its graph; 0: never.
size_t limit_of(Scope scope, Limits limits = few) {
    for (size_t calls : {1, 64, 1'000, 20'000, 1 << 30})
        if (ends(scope, Event::recorded, calls, 0, limits)) {
            CHECK(!ends(scope, Event::recorded, calls - 1, 0, limits));
            return calls;
        }
    return 0;
}

void by_calls() {
    CHECK(limit_of(Scope::content) == 64);
    CHECK(limit_of(Scope::composition) == 1'000);
    CHECK(limit_of(Scope::step) == 20'000);
    CHECK(limit_of(Scope::graph) == 0);
    CHECK(limit_of(Scope::capture) == 0);
    CHECK(limit_of(Scope::content, alone) == 1);
    CHECK(limit_of(Scope::composition, alone) == 1);
    CHECK(limit_of(Scope::step, alone) == 20'000);
    CHECK(limit_of(Scope::capture, alone) == 0);
}

// Looks at a thread after a call: what it has done since.
void pauses() {
    using namespace std::chrono_literals;
    const auto later = Pause::patience + 1ms;
    constexpr bool awake = false, asleep = true;
    Pause pause;
    CHECK(!pause.is_one({1s, 1s + 1ms, asleep, 10s}));  // it may call in a moment
    CHECK(pause.is_one({1s, 1s + later, asleep, 10s}));
    CHECK(!pause.is_one({1s, 1s + later, awake, 10s}));  // it waits for a core
    CHECK(!pause.is_one({1s, 9s, awake, 10s + 1ms}));
    CHECK(pause.is_one({1s, 9s, awake, 10s + later}));   // it computes something
    CHECK(!pause.is_one({2s, 9s, awake, 10s + later}));  // it has called again
    CHECK(pause.is_one({2s, 9s, awake, 10s + later + later}));
}

void by_bytes() {
    CHECK(!ends(Scope::content, Event::recorded, 1, 1000));
    CHECK(ends(Scope::content, Event::recorded, 1, 1001));
    for (Scope patient : {Scope::composition, Scope::step, Scope::graph, Scope::capture})
        CHECK(!ends(patient, Event::recorded, 1, INT64_MAX));
}

void by_heavy_calls_and_idleness() {
    for (Scope eager : {Scope::content, Scope::composition, Scope::step}) {
        CHECK(ends(eager, Event::heavy_call, 1));
        CHECK(!ends(eager, Event::heavy_call, 0));                   // nothing waits
        CHECK(!ends(eager, Event::heavy_call, 1, 0, few, 1 << 10));  // not worth a graph
        CHECK(ends(eager, Event::effect, 1, 0, few, 1 << 10));
        CHECK(ends(eager, Event::effect, 1));
    }
    for (Scope scope : {Scope::graph, Scope::capture})
        for (Event event : {Event::heavy_call, Event::effect}) CHECK(!ends(scope, event, 1));
    CHECK(ends(Scope::content, Event::idle, 1));
    CHECK(!ends(Scope::content, Event::idle, 0));
    for (Scope scope : {Scope::composition, Scope::step, Scope::graph, Scope::capture})
        CHECK(!ends(scope, Event::idle, 1));
}

void the_most_patient_counts() {
    Scopes scopes;
    CHECK(scopes.now() == Scope::content && !scopes.end(Scope::step));
    scopes.begin(Scope::step);
    scopes.begin(Scope::composition);
    scopes.begin(Scope::step);
    CHECK(scopes.now() == Scope::step);
    CHECK(scopes.end(Scope::step) && scopes.now() == Scope::step);
    scopes.begin(Scope::capture);
    CHECK(scopes.now() == Scope::capture);
    CHECK(scopes.end(Scope::capture) && scopes.end(Scope::step));
    CHECK(scopes.now() == Scope::composition);
    CHECK(scopes.end(Scope::composition) && !scopes.end(Scope::composition));
    CHECK(scopes.now() == Scope::content);
}

}  // namespace

int main() {
    by_calls();
    by_bytes();
    pauses();
    by_heavy_calls_and_idleness();
    the_most_patient_counts();
    return nntile::test::result();
}
