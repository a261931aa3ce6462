// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/residency.hh"

#include <algorithm>
#include <iterator>

namespace nntile::runtime {

size_t Residency::transfers_of(const Resident& resident) {
    if (resident.next.at == never) return 0;
    return static_cast<size_t>(resident.next.used) + static_cast<size_t>(!resident.clean);
}

void Residency::enter(Resident& resident, Next next, When now, bool clean) {
    leave(resident);
    resident.next = clean && !next.used ? Next{} : next;  // nothing is lost with it
    resident.since = now;
    resident.clean = clean;
    resident.late = false;
    resident.entered = ++entries_;
    sets_[transfers_of(resident)].insert(&resident);
}

void Residency::leave(Resident& resident) {
    if (resident.entered == 0) return;
    sets_[transfers_of(resident)].erase(&resident);
    resident.entered = 0;
}

size_t Residency::size() const { return sets_[0].size() + sets_[1].size() + sets_[2].size(); }

void Residency::clear() {
    for (auto& set : sets_) {
        for (Resident* resident : set) resident->entered = 0;
        set.clear();
    }
}

void Residency::postpone(When now) {
    for (auto& set : sets_)
        while (!set.empty() && (*set.rbegin())->next.at < now) {
            Resident* late = *set.rbegin();
            set.erase(std::prev(set.end()));
            late->next.at = late->late ? never : now + std::max<When>(now - late->since, 1);
            late->late = true;
            sets_[transfers_of(*late)].insert(late);
        }
}

Habit::Launch* Habit::of(int64_t launch) {
    if (launch < 0 || launch >= count_ || launch < count_ - most_launches) return nullptr;
    return &ring_[static_cast<size_t>(launch % most_launches)];
}

const Habit::Launch* Habit::of(int64_t launch) const {
    return const_cast<Habit*>(this)->of(launch);
}

void Habit::note(const Last& last, Next next) {
    Launch* before = of(last.launch);
    if (before && last.use < before->next.size()) before->next[last.use] = next;
}

void Habit::launch(uint64_t plan, When begin, std::span<const Use> uses) {
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
    entry.begin = begin;
    entry.next.assign(uses.size(), {});
    for (size_t k = 0; k < uses.size(); ++k) {
        const auto [last, fresh] = last_use_.try_emplace(uses[k].tile, Last{now, k});
        if (fresh) continue;
        if (last->second.launch < now) note(last->second, {begin + uses[k].at.at, uses[k].at.used});
        last->second = {now, k};
    }
}

void Habit::dropped(uint64_t tile, When now) {
    const auto last = last_use_.find(tile);
    if (last == last_use_.end()) return;
    note(last->second, {now, false});
    last_use_.erase(last);
}

Next Habit::expected(size_t k) const {
    const Launch *same = of(same_), *last = of(count_ - 1);
    if (!same || k >= same->next.size() || same->next[k].at == never) return {};
    return {last->begin + (same->next[k].at - same->begin), same->next[k].used};
}

}  // namespace nntile::runtime
