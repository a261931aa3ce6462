// SPDX-License-Identifier: BSD-3-Clause
// Who leaves main memory, and the bound of what has to move: beside the least that any choice would
// move, found by trying all.
#include "runtime/residency.hh"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <random>
#include <vector>

#include "check.hh"
#include "runtime/optimum.hh"

using namespace nntile::runtime;

namespace {

Resident* first_of(Residency& residency, When now) {
    Resident* first = nullptr;
    residency.each(now, [&](Resident* r) {
        first = r;
        return false;
    });
    return first;
}

struct Access {
    int tile;
    bool writes;
};
using Accesses = std::vector<Access>;

// Tiles of one size, `room` of them in memory, one access after the other. Moved: reads and writes.
int follow(const Accesses& trace, int tiles, int room) {
    struct Tile : Resident {
        bool in = false, there = false;
    };
    std::vector<Tile> all(static_cast<size_t>(tiles));
    Residency residency;
    int moved = 0, inside = 0;
    for (size_t t = 0; t < trace.size(); ++t) {
        Tile& tile = all[static_cast<size_t>(trace[t].tile)];
        tile.bytes = 1;
        residency.leave(tile);
        if (!tile.in) {
            if (inside == room) {
                auto* gone = static_cast<Tile*>(first_of(residency, static_cast<When>(t)));
                if (gone->next.at != never && !gone->clean) ++moved, gone->there = true;
                residency.leave(*gone);
                gone->in = false;
                --inside;
            }
            moved += tile.there;
            tile.in = true;
            ++inside;
        }
        if (trace[t].writes) tile.there = false;
        Next next;
        for (size_t u = trace.size(); u-- > t + 1;)
            if (trace[u].tile == trace[t].tile) next.at = static_cast<When>(u);
        residency.enter(tile, next, static_cast<When>(t), tile.there);
    }
    return moved;
}

// All choices, by what is in memory and what of it the disk has too.
int least(const Accesses& trace, int tiles, int room) {
    struct State {
        int in, clean, there;
        auto operator<=>(const State&) const = default;
    };
    std::map<State, int> now{{State{}, 0}};
    for (size_t t = 0; t < trace.size(); ++t) {
        const int bit = 1 << trace[t].tile;
        std::map<State, int> then;
        const auto arrive = [&](State s, int cost) {
            if (trace[t].writes) s.there &= ~bit;
            const auto [at, fresh] = then.try_emplace(s, cost);
            at->second = std::min(at->second, cost);
        };
        for (const auto& [s, cost] : now) {
            if (s.in & bit) {
                arrive(s, cost);
                continue;
            }
            const State with{s.in | bit, 0, s.there};
            const int read = (s.there & bit) ? 1 : 0;
            if (std::popcount(static_cast<unsigned>(s.in)) < room) {
                arrive(with, cost + read);
                continue;
            }
            for (int k = 0; k < tiles; ++k) {
                if (!(s.in & (1 << k))) continue;
                bool used = false;
                for (size_t u = t; u < trace.size(); ++u) used |= trace[u].tile == k;
                const bool write = used && !(s.there & (1 << k));
                arrive({with.in & ~(1 << k), 0, write ? s.there | (1 << k) : s.there},
                       cost + read + write);
            }
        }
        now = std::move(then);
    }
    int best = INT32_MAX;
    for (const auto& [s, cost] : now) best = std::min(best, cost);
    return best;
}

Trace trace_of(const Accesses& accesses, int tiles) {
    Trace trace;
    trace.bytes.assign(static_cast<size_t>(tiles), 1);
    std::vector<bool> seen(static_cast<size_t>(tiles), false);
    for (const Access& a : accesses) {
        const auto tile = static_cast<uint32_t>(a.tile);
        trace.first.push_back(trace.uses.size());
        trace.uses.push_back({tile, !seen[tile], a.writes});
        seen[tile] = true;
    }
    return trace;
}

int least_of(const Accesses& accesses, int tiles, int room) {
    const Trace trace = trace_of(accesses, tiles);
    const Moved moved = least_moved(trace, 0, trace.tasks(), room);
    return static_cast<int>(moved.read + moved.written);
}

// Two of three tiles have room. A step reads 0, writes 1, reads 2.
void bound() {
    Trace trace;
    trace.bytes = {10, 10, 10};
    for (int step = 0; step < 3; ++step)
        for (uint32_t tile : {0u, 1u, 2u}) {
            trace.first.push_back(trace.uses.size());
            trace.uses.push_back({tile, false, tile == 1});
        }
    Moved moved = least_moved(trace, 3, 6, 20);
    CHECK(moved.read == 10 && moved.written == 0);  // 1 can stay
    moved = least_moved(trace, 3, 6, 10);
    CHECK(moved.read == 30 && moved.written == 10);
    moved = least_moved(trace, 3, 6, 30);
    CHECK(moved.read == 0 && moved.written == 0);
    trace.uses[7].fresh = true;  // nobody uses what task 4 has made
    moved = least_moved(trace, 3, 6, 10);
    CHECK(moved.read == 30 && moved.written == 0);
    trace.drops = {{6, 1}};  // but it is held while task 5 runs
    moved = least_moved(trace, 3, 6, 10);
    CHECK(moved.read == 30 && moved.written == 10);
    trace.drops.clear();
    for (Trace::Use& use : trace.uses) use.fresh = true;
    moved = least_moved(trace, 3, 6, 10);  // what was there is of no use
    CHECK(moved.read == 0 && moved.written == 0);
}

void beside_all_choices() {
    std::mt19937 random(7);
    int ours = 0, best = 0, worst = 0, bound = 0;
    for (int k = 0; k < 400; ++k) {
        const int tiles = 4 + static_cast<int>(random() % 4),
                  room = 2 + static_cast<int>(random() % 2);
        Accesses trace;
        const bool clean = k % 2;
        for (int t = 0; t < tiles; ++t) trace.push_back({t, true});
        for (int t = 0; t < 14; ++t)
            trace.push_back({static_cast<int>(random()) & 0x7fffffff, !clean && random() % 3 == 0});
        for (Access& a : trace) a.tile %= tiles;
        const int one = follow(trace, tiles, room), two = least(trace, tiles, room);
        const int three = least_of(trace, tiles, room);
        CHECK(one >= two);
        CHECK(three <= two);
        bound += three;
        ours += one;
        best += two;
        worst = std::max(worst, one - two);
    }
    std::printf("  %d moves, %d at best, at most %d more in one program\n", ours, best, worst);
    std::printf("  %d moves are the bound\n", bound);
    CHECK(ours <= best * 1.1);
    CHECK(bound >= best * 0.85);
}

std::vector<Resident*> order_of(Residency& residency, When now) {
    std::vector<Resident*> order;
    residency.each(now, [&](Resident* r) {
        order.push_back(r);
        return true;
    });
    return order;
}

void order() {
    Residency residency;
    Resident soon, late, late_clean, dropped, dropped_clean, never_dirty, never_clean;
    residency.enter(soon, {13, true}, 0, false);
    residency.enter(late, {22, true}, 0, false);       // 12 tasks for two transfers
    residency.enter(late_clean, {17, true}, 0, true);  // 7 for one
    residency.enter(dropped, {18, false}, 0, false);   // 8 for one
    residency.enter(dropped_clean, {11, false}, 0, true);
    residency.enter(never_dirty, {}, 0, false);
    residency.enter(never_clean, {}, 0, true);
    const std::vector<Resident*> wanted{&dropped_clean, &never_clean, &never_dirty, &dropped,
                                        &late_clean,    &late,        &soon};
    CHECK(order_of(residency, 10) == wanted);
    residency.enter(soon, {}, 10, true);  // again: it moves
    residency.leave(late);
    residency.leave(late);
    CHECK(residency.size() == 6);
    CHECK(order_of(residency, 10).back() == &late_clean);
}

// What does not come when it is expected leaves before what comes, in the end.
void overdue() {
    Residency residency;
    Resident late, regular;
    residency.enter(late, {10, true}, 0, true);
    for (When now = 0; now < 100; now += 10) {
        residency.enter(regular, {now + 25, true}, now, true);
        CHECK(order_of(residency, now).front() == (now <= 40 ? &regular : &late));
    }
}

// A step of three plans of ten tasks; the third task of the first one uses the weight (1), and so
// does the last. What the first makes, a new tile in each step, is used by the second and dropped.
void habit() {
    Habit habit;
    When now = 0;
    const auto launch = [&](uint64_t plan, std::vector<Habit::Use> uses) {
        habit.launch(plan, now, uses);
        now += 10;
    };
    uint64_t fresh = 100;
    for (int step = 0; step < 3; ++step) {
        const When begin = now;
        const auto known = [&](Next next) { return step < 1 ? Next{} : next; };
        launch(7, {{1, {2, true}}, {++fresh, {9, false}}});
        CHECK(habit.expected(0) == known({begin + 20, false}));
        CHECK(habit.expected(1) == known({begin + 15, true}));
        launch(8, {{fresh, {5, true}}});
        CHECK(habit.expected(0) == known({begin + 20, false}));
        habit.dropped(fresh, now);
        habit.dropped(fresh, now);
        launch(9, {{1, {0, false}}});
        CHECK(habit.expected(0) == known({begin + 32, true}));
    }
    launch(5, {{1, {0, true}}});  // another program
    CHECK(habit.expected(0) == Next{});
    CHECK(habit.expected(3) == Next{});
}

}  // namespace

int main() {
    order();
    overdue();
    habit();
    bound();
    beside_all_choices();
    return nntile::test::result();
}
