// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/optimum.hh"

#include <algorithm>
#include <map>

namespace nntile::runtime {

namespace {

constexpr size_t no_task = SIZE_MAX;

// A tile that task `from` leaves behind, and that task `to` needs again, or that is dropped before.
struct Pause {
    size_t from, to;  // from: no_task for what was there before the trace
    int64_t bytes;
    bool used;
    bool dirty;  // who leaves first in this pause has to be written
    size_t length() const { return from == no_task ? to + 1 : to - from; }
};

std::vector<Pause> pauses_of(const Trace& trace) {
    struct Last {
        size_t task = no_task;
        size_t longest = no_task;  // of this version's pauses
        bool dirty = false;
    };
    std::vector<Last> last(trace.bytes.size());
    std::vector<Pause> pauses;
    const auto pause = [&](uint32_t tile, size_t end, bool used) {
        Last& l = last[tile];
        pauses.push_back({l.task, end, trace.bytes[tile], used, false});
        Pause* const longest = l.longest == no_task ? nullptr : &pauses[l.longest];
        if (!l.dirty || (longest && pauses.back().length() <= longest->length())) return;
        if (longest) longest->dirty = false;
        pauses.back().dirty = true;
        l.longest = pauses.size() - 1;
    };
    auto drop = trace.drops.begin();
    for (size_t t = 0; t < trace.tasks(); ++t) {
        for (; drop != trace.drops.end() && drop->before <= t; ++drop) pause(drop->tile, t, false);
        const size_t end = t + 1 < trace.tasks() ? trace.first[t + 1] : trace.uses.size();
        for (size_t u = trace.first[t]; u < end; ++u) {
            const Trace::Use& use = trace.uses[u];
            Last& l = last[use.tile];
            if (!use.fresh) pause(use.tile, t, true);
            l.task = t;
            if (use.writes) l.dirty = true, l.longest = no_task;
        }
    }
    return pauses;
}

// Bytes of these pauses, sorted by their begin, that `room` cannot take: of what is there, that
// with the latest end goes first.
int64_t left_out(const std::vector<Pause>& pauses, const std::vector<int64_t>& need, int64_t room) {
    std::map<size_t, int64_t> kept;  // by end
    int64_t bytes = 0, gone = 0;
    auto next = pauses.begin();
    for (size_t t = 0; t < need.size(); ++t) {
        for (; next != pauses.end() && (next->from == no_task || next->from < t); ++next) {
            kept[next->to] += next->bytes;
            bytes += next->bytes;
        }
        while (!kept.empty() && kept.begin()->first <= t) {
            bytes -= kept.begin()->second;
            kept.erase(kept.begin());
        }
        for (int64_t over = bytes - (room - need[t]); over > 0 && !kept.empty();) {
            const auto latest = std::prev(kept.end());
            const int64_t part = std::min(over, latest->second);
            gone += part;
            bytes -= part;
            over -= part;
            if ((latest->second -= part) == 0) kept.erase(latest);
        }
    }
    return gone;
}

}  // namespace

Moved least_moved(const Trace& trace, size_t begin, size_t end, int64_t room) {
    std::vector<int64_t> need(trace.tasks(), 0);
    for (size_t t = 0; t < trace.tasks(); ++t) {
        const size_t stop = t + 1 < trace.tasks() ? trace.first[t + 1] : trace.uses.size();
        for (size_t u = trace.first[t]; u < stop; ++u) need[t] += trace.bytes[trace.uses[u].tile];
    }
    std::vector<Pause> reads, writes;
    for (const Pause& p : pauses_of(trace)) {
        if (p.used && p.to >= begin && p.to < end) reads.push_back(p);
        if (p.dirty && p.from >= begin && p.from < end) writes.push_back(p);
    }
    const auto earlier = [](const Pause& a, const Pause& b) { return a.from + 1 < b.from + 1; };
    std::stable_sort(reads.begin(), reads.end(), earlier);  // no_task + 1 is 0
    std::stable_sort(writes.begin(), writes.end(), earlier);
    return {left_out(reads, need, room), left_out(writes, need, room)};
}

}  // namespace nntile::runtime
