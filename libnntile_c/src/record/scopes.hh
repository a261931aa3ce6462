// SPDX-License-Identifier: BSD-3-Clause
// When the open graph ends and is submitted. Scopes say how patient its calls are; should_end()
// only answers, so that to ask changes nothing. To submit is another matter: who needs results
// submits, and every scope goes on.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nntile::record {

// The later ones are more patient. A graph is that of all threads, so the most patient scope that
// is open counts.
enum class Scope : uint8_t {
    content,      // eager mode
    composition,  // calls that make one result: what they hand to each other should not be stored
    step,         // of an optimizer: happens as a whole or not at all
    graph,        // graph mode
    capture,
};
inline constexpr size_t scope_count = 5;

struct Limits {
    int64_t bytes = 0;   // of results that may wait
    bool alone = false;  // each call is a graph: NNTILE_WINDOWS=0
};

// What ends a graph in a scope.
struct Policy {
    size_t calls;   // so many calls
    int64_t bytes;  // more bytes of results
    bool heavy;     // a call that begins the next graph: a function of the host, and a product if
                    // what waits takes workers longer than it costs to submit it
    bool idle;      // nobody calls, and nothing runs
};
Policy policy_of(Scope scope, const Limits& limits);

struct Waiting {
    size_t calls = 0;
    int64_t bytes = 0;    // of results that somebody holds
    int64_t traffic = 0;  // bytes that its calls read and write
    bool settled = true;  // the program has waited for all that its calls read
};
enum class Event : uint8_t {
    heavy_call,  // is about to be recorded: workers may begin with what waits
    recorded,    // a call was, or a scope has ended
    effect,      // of a call of the host: it begins with what is there, and others may wait for it
    idle,
};
bool should_end(const Waiting& graph, Event event, const Policy& scope);

// Whether nobody calls: whoever called last sleeps, or has computed something else for a while. A
// thread that waits for a core does neither, and calls again as soon as it has one.
class Pause {
public:
    using Time = std::chrono::nanoseconds;
    // Long for a machine, and longer than the pauses of a program that goes on: a window that is
    // split there is another plan. Short for a person who waits for what is computed meanwhile.
    static constexpr Time patience = std::chrono::milliseconds(5);

    struct Look {
        Time last_call, now;
        bool sleeps;  // of the thread that called last
        Time cpu;     // its time on a core
    };
    bool is_one(const Look& look);

private:
    Time call_{}, cpu_{};  // the last call seen, and the caller's time then
};

// Those that are open, in all threads. Whoever begins one ends it, whatever happens between.
class Scopes {
public:
    void begin(Scope scope) { ++open_[static_cast<size_t>(scope)]; }
    bool end(Scope scope);  // false: none was open
    bool has(Scope scope) const { return open_[static_cast<size_t>(scope)] > 0; }
    Scope now() const;  // the most patient one

private:
    std::array<std::atomic<int>, scope_count> open_{};
};

}  // namespace nntile::record
