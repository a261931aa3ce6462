// SPDX-License-Identifier: BSD-3-Clause
// The simulated run: which temporaries are alive together, so how many slots a plan needs.

#include <algorithm>

#include "check.hh"
#include "runtime/schedule.hh"

using namespace nntile;
using runtime::Schedule;
using runtime::Workload;
namespace {

// Rows in blocks go through layers, each of which makes a temporary of the one before it.
class Layers {
public:
    uint32_t memory() {
        work.accesses.emplace_back();
        work.temporary.push_back(true);
        work.size_class.push_back(0);
        return static_cast<uint32_t>(work.accesses.size() - 1);
    }
    uint32_t task(std::vector<uint32_t> reads, uint32_t writes) {
        const auto t = static_cast<uint32_t>(work.tasks++);
        for (uint32_t m : reads) {
            if (work.accesses[m].last_writer != tile::none)
                edges.emplace_back(work.accesses[m].last_writer, t);
            work.accesses[m].tails.push_back(t);
            ++work.accesses[m].count;
        }
        work.accesses[writes].first_writer = work.accesses[writes].last_writer = t;
        ++work.accesses[writes].count;
        reads.push_back(writes);
        work.touches.push_back(std::move(reads));
        work.seconds.push_back(1);
        return t;
    }
    Schedule run(int workers) {
        work.edges = edges;
        std::ranges::sort(work.edges, {},
                          [](const auto& e) { return std::pair(e.second, e.first); });
        return make_schedule(work, workers);
    }
    Workload work;
    std::vector<std::pair<uint32_t, uint32_t>> edges;
};

bool is_an_order(const Workload& work, const std::vector<uint32_t>& order) {
    std::vector<size_t> at(work.tasks, work.tasks);
    for (size_t k = 0; k < order.size(); ++k) at[order[k]] = k;
    return order.size() == work.tasks && std::ranges::find(at, work.tasks) == at.end() &&
           std::ranges::all_of(work.edges, [&](auto e) { return at[e.first] < at[e.second]; });
}

size_t slots(int blocks, int layers, bool own, int workers) {
    Layers l;
    std::vector<uint32_t> last;
    for (int b = 0; b < blocks; ++b) l.task({}, last.emplace_back(l.memory()));
    for (int k = 1; k < layers - 1; ++k)
        for (uint32_t& m : last) {
            const uint32_t next = l.memory();
            l.task({m}, next);
            m = next;
        }
    // As the gradient of a loss, or a dropout's mask: made of nothing, after all roots of the
    // first layer.
    std::vector<uint32_t> made;
    for (int k = 0; k < (own ? blocks : 1); ++k) l.task({}, made.emplace_back(l.memory()));
    for (size_t b = 0; b < last.size(); ++b) l.task({last[b], made[own ? b : 0]}, l.memory());
    const Schedule schedule = l.run(workers);
    CHECK(is_an_order(l.work, schedule.order));
    return schedule.slot_class.size();
}

// What a task still waits for has no predecessors itself: it comes next, not after the first layer
// of all blocks.
void depth_first() {
    for (bool own : {false, true})
        for (int workers : {1, 2, 4}) {
            const size_t few = slots(8, 6, own, workers);
            CHECK(slots(64, 6, own, workers) == few);
            CHECK(few <= static_cast<size_t>(4 * workers + 1));
        }
}

}  // namespace

int main() {
    depth_first();
    return test::result();
}
