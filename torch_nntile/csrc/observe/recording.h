// SPDX-License-Identifier: BSD-3-Clause
// Around each call that records something: its place, its row in a profile, and a wait where the
// user wants one after each call.
#pragma once

#include <atomic>
#include <cstdint>

#include "contract/address_space.h"
#include "contract/stub.h"
#include "nntile/nntile.h"
#include "nntile/trace.h"

namespace torch_nntile {

// Who is told of each task that has run; nullptr: nobody. They do not disturb each other.
enum class Listener { torch_profiler, profile };
void listen(Listener who, nntile_trace_function function);

// What a task that this thread records is marked with: for torch.profiler the op that is on (its
// correlation id), for a profile of ours the call.
struct Mark {
    uint32_t op = 0, call = 0;
    static Mark of(const nntile_trace_task& task);
};
void mark_op(uint32_t op);  // of this thread, from now on

inline std::atomic<bool> profiling{false};
inline std::atomic<bool> blocking{false};

class Recording {
public:
    explicit Recording(const char* name) : Recording(name, recorded) {}
    ~Recording() {
        if (begin_) [[unlikely]]
            end();
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    // The call has recorded all of its op: waits for it in blocking mode, and throws its error.
    void done() {
        if (blocking.load(std::memory_order_relaxed)) [[unlikely]]
            wait_for_it();
    }

protected:
    static constexpr int32_t recorded = -1, waited = -2;
    Recording(const char* name, int32_t row);

private:
    void end();
    static void wait_for_it();
    const char* name_;
    int32_t row_;
    uint64_t place_ = 0;
    int64_t begin_ = 0;
    uint32_t call_ = 0, outer_ = 0;  // by number, while a profile is on
};

class Waiting : public Recording {
public:
    Waiting() : Recording("wait", waited) {}
};

void add_storage(const Home& home, bool made);
inline void note_storage(const Home& home, bool made) {
    if (profiling.load(std::memory_order_relaxed)) [[unlikely]]
        add_storage(home, made);
}

bool begin_profile();  // false: one is on already
void end_profile();
size_t profile_events(const nntile_stub_event** events);

}  // namespace torch_nntile
