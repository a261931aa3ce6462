// SPDX-License-Identifier: BSD-3-Clause
// Who stays in main memory when it is short: the core of it, without memory, locks or transfers.
//
// What is used again last leaves first (L. A. Belady, "A study of replacement algorithms for a
// virtual-storage computer", IBM Systems Journal 5(2), 1966), where to leave costs the same. It
// does not: what was changed is written, what is used again is read. So the time for which the
// memory is free is divided by the number of transfers. A plan knows its next uses exactly; what no
// plan waits for is expected where the last equal step used or dropped it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace nntile::runtime {

// A point in the order of tasks: how many come before.
using When = int64_t;
inline constexpr When never = INT64_MAX;

// What ends the time in which nobody uses something.
struct Next {
    When at = never;
    bool used = true;  // false: it is dropped, or overwritten, and its content does not matter
    bool operator==(const Next&) const = default;
};

// What is in main memory, and used by nobody now. Embedded in what it stands for.
struct Resident {
    int64_t bytes = 0;
    Next next;
    When since = 0;        // it waits for that
    bool clean = false;    // leaves without a write
    bool late = false;     // than was expected
    uint64_t entered = 0;  // 0: not in the set
};

class Residency {
public:
    void enter(Resident& resident, Next next, When now, bool clean);
    void leave(Resident& resident);  // no-op if it is not there
    bool has(const Resident& resident) const { return resident.entered != 0; }
    size_t size() const;
    void clear();

    // In the order in which they should leave, until it returns false. It must not change the set.
    template <class Visit>
    void each(When now, Visit&& visit) {
        postpone(now);
        auto one = sets_[1].begin(), two = sets_[2].begin();
        for (Resident* r : sets_[0])
            if (!visit(r)) return;
        while (one != sets_[1].end() || two != sets_[2].end()) {
            const bool first =
                two == sets_[2].end() ||
                (one != sets_[1].end() && 2 * ((*one)->next.at - now) >= (*two)->next.at - now);
            if (!visit(first ? *one++ : *two++)) return;
        }
    }

private:
    struct Before {
        bool operator()(const Resident* a, const Resident* b) const {
            if (a->next.at != b->next.at) return a->next.at > b->next.at;
            if (a->clean != b->clean) return a->clean;
            return a->entered < b->entered;  // of those that nobody expects: the oldest
        }
    };
    static size_t transfers_of(const Resident& resident);
    // What has not come when it was expected is so after as long again as it has waited by then.
    // What does not come then either is not expected.
    void postpone(When now);
    // By the number of transfers that it takes to leave and come back; what nobody expects is with
    // what takes none.
    std::array<std::set<Resident*, Before>, 3> sets_;
    uint64_t entries_ = 0;
};

// What the last equal step did, so that what no run waits for has an expected end of its pause.
// Launches are followed by the plans that they run: one that comes where it came before, after the
// same plan, is taken for the same place of the step.
class Habit {
public:
    struct Use {
        uint64_t tile;  // any number that says which
        Next at;        // the first use, from the launch's begin
    };
    // The plan, by any number likewise, uses these; its tasks begin at `begin`.
    void launch(uint64_t plan, When begin, std::span<const Use> uses);
    void dropped(uint64_t tile, When now);
    // What comes next of the tile that use `k` of the last launch is of; at `never`: nobody knows.
    Next expected(size_t k) const;
    void clear() { *this = {}; }

private:
    struct Launch {
        uint64_t plan = 0;
        When begin = 0;
        std::vector<Next> next;  // by use
    };
    struct Last {
        int64_t launch;
        size_t use;
    };
    static constexpr int64_t most_launches = 1 << 15;
    Launch* of(int64_t launch);
    const Launch* of(int64_t launch) const;
    void note(const Last& last, Next next);
    std::vector<Launch> ring_;
    int64_t count_ = 0, same_ = -1;  // the launch of the last step that the last one is taken for
    std::unordered_map<uint64_t, int64_t> last_of_plan_;
    std::unordered_map<uint64_t, Last> last_use_;
};

}  // namespace nntile::runtime
