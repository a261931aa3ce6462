// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device_residency.hh"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/tile.hh"

namespace nntile::runtime::device_residency {

namespace {

struct Guest : Resident {
    const Replica* replica = nullptr;
    int busy = 0;  // tasks that the worker has taken
    bool useless = false;
};

struct Node {
    // Held while something leaves, by a worker whose calls of StarPU come back to here.
    std::recursive_mutex mutex;
    std::unordered_map<const Replica*, Guest> guests;
    Residency residency;
    // Of the tasks that were taken last: one of them may be of a later run, ahead of its turn. What
    // is only not used yet would be late, if that were now.
    std::array<When, 4> taken{};
    size_t next_taken = 0;
    When now() const { return *std::min_element(taken.begin(), taken.end()); }
    const Replica* leaves = nullptr;
};
Node nodes[STARPU_MAXNODES];
std::atomic<bool> any_full{false};
bool (*unused)(const Tile&) = nullptr;

bool is_valid_on(const Replica& replica, unsigned node) {
    int valid = 0;
    starpu_data_query_status2(replica.handle, static_cast<int>(node), nullptr, &valid, nullptr,
                              nullptr);
    return valid;
}

void erase(Node& n, const Replica* replica) {
    const auto at = n.guests.find(replica);
    if (at == n.guests.end() || at->second.busy > 0) return;
    n.residency.leave(at->second);
    n.guests.erase(at);
}

}  // namespace

void start(bool (*is_unused)(const Tile&)) { unused = is_unused; }

bool followed() { return any_full.load(std::memory_order_relaxed); }

void take(unsigned node, When at) {
    Node& n = nodes[node];
    std::lock_guard lock(n.mutex);
    if (n.next_taken == 0) n.taken.fill(at);
    n.taken[n.next_taken++ % n.taken.size()] = at;
}

void begin(const Replica& replica, unsigned node) {
    Node& n = nodes[node];
    std::lock_guard lock(n.mutex);
    Guest& guest = n.guests[&replica];
    guest.replica = &replica;
    n.residency.leave(guest);
    ++guest.busy;
}

void end(const Tile& tile, unsigned node, Next next, bool useless) {
    Node& n = nodes[node];
    std::lock_guard lock(n.mutex);
    const auto at = n.guests.find(&tile.ram);
    if (at == n.guests.end() || at->second.busy == 0 || --at->second.busy > 0) return;
    if (!is_valid_on(tile.ram, node)) {
        n.guests.erase(at);
        return;
    }
    Guest& guest = at->second;
    guest.bytes = tile.block_bytes();
    guest.useless = useless;
    n.residency.enter(guest, next, n.now(), useless || is_valid_on(tile.ram, STARPU_MAIN_RAM));
}

bool make_room(unsigned node, int64_t bytes) {
    any_full.store(true, std::memory_order_relaxed);
    Node& n = nodes[node];
    std::lock_guard lock(n.mutex);
    std::vector<const Replica*> chosen;
    int64_t found = 0;
    n.residency.each(n.now(), [&](const Resident* r) {
        chosen.push_back(static_cast<const Guest*>(r)->replica);
        found += r->bytes;
        return found < bytes;
    });
    bool any = false;
    for (const Replica* replica : chosen) {
        n.leaves = replica;
        any |= starpu_data_evict_from_node(replica->handle, node) == 0;
        // One that StarPU keeps is not asked for again until it is used.
        erase(n, replica);
    }
    n.leaves = nullptr;
    return any;
}

bool leaves_without_copy(const Tile& tile, unsigned node) {
    if (!followed()) return false;
    {
        Node& n = nodes[node];
        std::lock_guard lock(n.mutex);
        const auto at = n.leaves == &tile.ram ? n.guests.find(n.leaves) : n.guests.end();
        if (at != n.guests.end() && at->second.useless) return true;
    }
    return unused && unused(tile);
}

void left(const Replica& replica, unsigned node) {
    if (!followed()) return;
    std::lock_guard lock(nodes[node].mutex);
    erase(nodes[node], &replica);
}

void forget(const Replica& replica) {
    if (!followed()) return;
    for (unsigned node = STARPU_MAIN_RAM + 1; node < starpu_memory_nodes_get_count(); ++node)
        left(replica, node);
}

void clear() {
    for (Node& n : nodes) {
        n.residency.clear();
        n.guests.clear();
        n.taken = {};
        n.next_taken = 0;
    }
    any_full = false;
}

}  // namespace nntile::runtime::device_residency
