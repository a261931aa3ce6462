// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/schedule.hh"

#include <numeric>
#include <queue>
#include <unordered_map>

#include "runtime/memory.hh"

namespace nntile::runtime {

namespace {

using tile::none;

// A std::deque takes 0.6 KB before it has an element.
class Queue {
public:
    bool empty() const { return first_ == list_.size(); }
    uint32_t front() const { return list_[first_]; }
    uint32_t back() const { return list_.back(); }
    void push_back(uint32_t x) { list_.push_back(x); }
    void pop_front() { ++first_; }
    void pop_back() { list_.pop_back(); }

private:
    std::vector<uint32_t> list_;
    size_t first_ = 0;
};

// Runs the tasks on virtual workers as the policy would: own stack last in first out, then the
// queue, then the oldest task of another worker. Of the tasks that wait for nothing, those that are
// the last thing another one waits for come next: as the gradient of a loss, without which each
// block of rows would end its forward pass before any begins its backward pass.
class Simulation {
public:
    Simulation(const Workload& work, int workers) : work_(work), stacks_(workers) {
        successors_.resize(work.tasks);
        pending_.assign(work.tasks, 0);
        first_edge_.assign(work.tasks + 1, 0);
        for (auto [from, to] : work.edges) {
            successors_[from].push_back(to);
            ++pending_[to];
            ++first_edge_[to + 1];
        }
        std::partial_sum(first_edge_.begin(), first_edge_.end(), first_edge_.begin());
        taken_.assign(work.tasks, false);
        pending_roots_.assign(work.tasks, 0);
        for (auto [from, to] : work.edges) pending_roots_[to] += is_root(from);
        for (const Accesses& a : work.accesses) touches_left_.push_back(a.count);
        out_.slot.assign(work.accesses.size(), none);
    }

    Schedule run() {
        for (uint32_t t = 0; t < work_.tasks; ++t)
            if (pending_[t] == 0) queue_.push_back(t);
        for (int w = static_cast<int>(stacks_.size()); w-- > 0;) resting_.push_back(w);
        start_all();
        while (!running_.empty()) {
            const Running r = running_.top();
            running_.pop();
            now_ = r.end;
            finish(r);
            resting_.push_back(r.worker);
            start_all();
        }
        out_.seconds = now_;
        return std::move(out_);
    }

private:
    struct Running {
        double end;
        uint32_t task;
        int worker;
        bool operator<(const Running& other) const {  // top: earliest end
            return end != other.end ? end > other.end : task > other.task;
        }
    };

    void start_all() {
        for (size_t i = resting_.size(); i-- > 0;) {
            while (!queue_.empty() && taken_[queue_.front()]) queue_.pop_front();
            if (stacked_ == 0 && queue_.empty()) return;
            const int worker = resting_[i];
            const uint64_t stolen_before = stolen_;
            const uint32_t task = next(worker);
            if (task == none) continue;
            const double start = now_ + (stolen_ != stolen_before ? work_.steal_seconds : 0);
            resting_.erase(resting_.begin() + static_cast<std::ptrdiff_t>(i));
            out_.order.push_back(task);
            for (uint32_t m : work_.touches[task])
                if (work_.temporary[m] && out_.slot[m] == none) move_in(m);
            running_.push({start + work_.seconds[task], task, worker});
        }
    }

    uint32_t next(int worker) {
        uint32_t task = none;
        auto& own = stacks_[worker];
        if (!own.empty()) {
            task = own.back();
            own.pop_back();
            --stacked_;
        } else if (!queue_.empty()) {
            task = queue_.front();
            queue_.pop_front();
            taken_[task] = true;
        } else if (stacked_ > 0) {
            for (auto& other : stacks_)
                if (!other.empty()) {
                    task = other.front();
                    other.pop_front();
                    --stacked_;
                    ++stolen_;
                    break;
                }
        }
        return task;
    }

    bool is_root(uint32_t task) const { return first_edge_[task] == first_edge_[task + 1]; }

    void finish(const Running& r) {
        for (uint32_t m : work_.touches[r.task])
            if (--touches_left_[m] == 0 && work_.temporary[m]) move_out(m);
        const auto& list = successors_[r.task];
        for (auto s = list.rbegin(); s != list.rend(); ++s) {
            if (is_root(r.task) && pending_roots_[*s] > 0) --pending_roots_[*s];
            if (--pending_[*s] == 0) push(r.worker, *s);
            else if (pending_[*s] == pending_roots_[*s]) push_roots_of(r.worker, *s);
        }
    }

    void push_roots_of(int worker, uint32_t task) {
        for (uint32_t e = first_edge_[task]; e < first_edge_[task + 1]; ++e)
            if (const uint32_t root = work_.edges[e].first; is_root(root) && !taken_[root]) {
                taken_[root] = true;
                push(worker, root);
            }
        pending_roots_[task] = 0;  // it may have thousands: once is enough
    }

    void push(int worker, uint32_t task) {
        stacks_[worker].push_back(task);
        ++stacked_;
    }

    // The slot that has been free for the longest time, so that its last readers are likely to have
    // ended.
    void move_in(uint32_t m) {
        const Accesses& in = work_.accesses[m];
        auto& free = free_[work_.size_class[m]];
        // What is only read (torch.empty) has no writer that could wait for the tenant before it.
        if (free.empty() || in.first_writer == none) {
            out_.slot[m] = static_cast<uint32_t>(out_.slot_class.size());
            out_.slot_class.push_back(work_.size_class[m]);
            out_.slot_accesses.push_back(in);
            out_.bytes += memory::class_bytes(work_.size_class[m]);
            return;
        }
        const uint32_t slot = free.front();
        free.pop_front();
        out_.slot[m] = slot;
        Accesses& before = out_.slot_accesses[slot];
        for (uint32_t head : in.heads) out_.edges.emplace_back(before.last_writer, head);
        if (before.tails.empty() && in.heads.empty())
            out_.edges.emplace_back(before.last_writer, in.first_writer);
        for (uint32_t tail : before.tails) out_.edges.emplace_back(tail, in.first_writer);
        before.last_writer = in.last_writer;
        before.tails = in.tails;
    }

    void move_out(uint32_t m) {
        if (work_.accesses[m].first_writer == none) return;  // only read: nobody may follow
        free_[work_.size_class[m]].push_back(out_.slot[m]);
    }

    const Workload& work_;
    std::vector<std::vector<uint32_t>> successors_;
    std::vector<uint32_t> first_edge_;  // by task: to it, in work_.edges
    std::vector<uint32_t> pending_, pending_roots_, touches_left_;
    std::vector<bool> taken_;                   // by root: from the queue, or before its turn
    std::vector<Queue> stacks_;                 // per worker
    std::unordered_map<uint32_t, Queue> free_;  // slots per size class
    Queue queue_;
    std::vector<int> resting_;
    std::priority_queue<Running> running_;
    size_t stacked_ = 0;
    uint64_t stolen_ = 0;
    double now_ = 0;
    Schedule out_;
};

}  // namespace

Schedule make_schedule(const Workload& work, int workers) {
    return Simulation(work, workers).run();
}

}  // namespace nntile::runtime
