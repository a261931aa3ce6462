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
                auto* gone = static_cast<Tile*>(*residency.begin());
                if (gone->next != never && !gone->clean) ++moved, gone->there = true;
                residency.leave(*gone);
                gone->in = false;
                --inside;
            }
            moved += tile.there;
            tile.in = true;
            ++inside;
        }
        if (trace[t].writes) tile.there = false;
        When next = never;
        for (size_t u = trace.size(); u-- > t + 1;)
            if (trace[u].tile == trace[t].tile) next = when(0, u);
        residency.enter(tile, next, tile.there);
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

void order() {
    Residency residency;
    Resident soon, late, never_dirty, never_clean;
    for (Resident* r : {&soon, &late, &never_dirty, &never_clean}) r->bytes = 10;
    residency.enter(soon, when(1, 3), false);
    residency.enter(late, when(2, 0), false);
    residency.enter(never_dirty, never, false);
    residency.enter(never_clean, never, true);
    const std::vector<Resident*> wanted{&never_clean, &never_dirty, &late, &soon};
    CHECK(std::equal(residency.begin(), residency.end(), wanted.begin(), wanted.end()));
    residency.enter(soon, never, true);  // again: it moves
    residency.leave(late);
    residency.leave(late);
    CHECK(residency.size() == 3);
    CHECK(*residency.begin() == &never_clean);
}

// A step of three plans; the weight (1) is used by the first and the last, and what the first makes
// (a new tile in each step) by the second.
void habit() {
    Habit habit;
    uint64_t fresh = 100;
    for (int step = 0; step < 3; ++step) {
        const int64_t first = habit.launch(7, {1, ++fresh});
        CHECK(habit.expected(0) == (step < 1 ? -1 : first + 2));
        CHECK(habit.expected(1) == (step < 1 ? -1 : first + 1));
        habit.launch(8, {fresh});
        CHECK(habit.expected(0) == -1);
        const int64_t last = habit.launch(9, {1});
        CHECK(habit.expected(0) == (step < 1 ? -1 : last + 1));
    }
    CHECK(habit.launch(5, {1}) == 9 && habit.expected(0) == -1);  // another program
    CHECK(habit.expected(3) == -1);
}

}  // namespace

int main() {
    order();
    habit();
    bound();
    beside_all_choices();
    return nntile::test::result();
}
