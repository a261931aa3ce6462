// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/residency.hh"

namespace nntile::runtime {

void Residency::enter(Resident& resident, When next, bool clean) {
    leave(resident);
    resident.next = next;
    resident.clean = clean;
    resident.entered = ++entries_;
    set_.insert(&resident);
}

void Residency::leave(Resident& resident) {
    if (resident.entered == 0) return;
    set_.erase(&resident);
    resident.entered = 0;
}

void Residency::clear() {
    for (Resident* resident : set_) resident->entered = 0;
    set_.clear();
}

Habit::Launch* Habit::of(int64_t launch) {
    if (launch < 0 || launch >= count_ || launch < count_ - most_launches) return nullptr;
    return &ring_[static_cast<size_t>(launch % most_launches)];
}

const Habit::Launch* Habit::of(int64_t launch) const {
    return const_cast<Habit*>(this)->of(launch);
}

int64_t Habit::launch(uint64_t plan, const std::vector<uint64_t>& tiles) {
    const int64_t now = count_;
    const Launch* follower = of(same_ + 1);
    if (same_ >= 0 && follower && follower->plan == plan) ++same_;
    else if (const auto known = last_of_plan_.find(plan); known != last_of_plan_.end())
        same_ = known->second;
    else same_ = -1;
    last_of_plan_[plan] = now;
    if (last_of_plan_.size() > static_cast<size_t>(most_launches)) last_of_plan_.clear();
    if (last_use_.size() > static_cast<size_t>(16 * most_launches)) last_use_.clear();
    if (ring_.size() <= static_cast<size_t>(now % most_launches)) ring_.emplace_back();
    ++count_;
    Launch& entry = *of(now);
    entry.plan = plan;
    entry.next.assign(tiles.size(), -1);
    for (size_t k = 0; k < tiles.size(); ++k) {
        const auto [last, fresh] = last_use_.try_emplace(tiles[k], Last{now, k});
        if (!fresh) {
            Launch* before = of(last->second.launch);
            if (before && last->second.argument < before->next.size() && last->second.launch < now)
                before->next[last->second.argument] = now;
            last->second = {now, k};
        }
    }
    return now;
}

int64_t Habit::expected(size_t k) const {
    const Launch* same = of(same_);
    if (!same || k >= same->next.size() || same->next[k] < 0) return -1;
    return count_ - 1 + (same->next[k] - same_);
}

}  // namespace nntile::runtime
