// SPDX-License-Identifier: BSD-3-Clause
// Who stays in main memory when it is short: the core of it, without memory, locks or transfers.
//
// What is used again last leaves first (L. A. Belady, "A study of replacement algorithms for a
// virtual-storage computer", IBM Systems Journal 5(2), 1966). A plan knows its next uses exactly;
// what no plan waits for is expected where the last equal step used it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

namespace nntile::runtime {

// A point in the order of tasks: the launch, then the place in its sequence.
using When = uint64_t;
inline constexpr When never = UINT64_MAX;
inline When when(int64_t launch, uint64_t position) {
    constexpr uint64_t most = (1u << 24) - 1;
    return (static_cast<uint64_t>(launch) << 24) | (position < most ? position : most);
}

// What is in main memory, and used by nobody now. Embedded in what it stands for.
struct Resident {
    int64_t bytes = 0;
    When next = never;
    bool clean = false;    // leaves without a write
    uint64_t entered = 0;  // 0: not in the set
};

class Residency {
public:
    void enter(Resident& resident, When next, bool clean);
    void leave(Resident& resident);  // no-op if it is not there
    bool has(const Resident& resident) const { return resident.entered != 0; }
    size_t size() const { return set_.size(); }
    void clear();

    // In the order in which they should leave.
    auto begin() const { return set_.begin(); }
    auto end() const { return set_.end(); }

private:
    struct Before {
        bool operator()(const Resident* a, const Resident* b) const {
            if (a->next != b->next) return a->next > b->next;
            if (a->clean != b->clean) return a->clean;
            return a->entered < b->entered;  // of those that nobody expects: the oldest
        }
    };
    std::set<Resident*, Before> set_;
    uint64_t entries_ = 0;
};

// What the last equal step did, so that what no run waits for has an expected use. Launches are
// followed by the plans that they run: one that comes where it came before, after the same plan,
// is taken for the same place of the step.
class Habit {
public:
    // The plan, by any number that says which, uses these; `tile` likewise. Returns the number of
    // the launch.
    int64_t launch(uint64_t plan, const std::vector<uint64_t>& tiles);
    // When the tile that argument `k` of the last launch stands for is used next, as a number of a
    // launch; -1: nobody knows.
    int64_t expected(size_t k) const;
    void clear() { *this = {}; }

private:
    struct Launch {
        uint64_t plan = 0;
        std::vector<int64_t> next;  // by argument: launch of the next use; -1: not yet
    };
    struct Last {
        int64_t launch;
        size_t argument;
    };
    static constexpr int64_t most_launches = 1 << 15;
    Launch* of(int64_t launch);
    const Launch* of(int64_t launch) const;
    std::vector<Launch> ring_;
    int64_t count_ = 0, same_ = -1;  // the launch of the last step that the last one is taken for
    std::unordered_map<uint64_t, int64_t> last_of_plan_;
    std::unordered_map<uint64_t, Last> last_use_;
};

}  // namespace nntile::runtime
