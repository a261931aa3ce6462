// SPDX-License-Identifier: BSD-3-Clause
#include "processes/transfer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>

#include <c10/util/ScopeExit.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "contract/errors.h"
#include "contract/one_thread.h"

namespace torch_nntile {
namespace {

// Threads that may sleep until another process answers. What one waits for may depend on another,
// so whatever is put in begins at once: there are as many threads as have ever waited together.
class Sleepers {
public:
    void run(std::function<void()> job) {
        std::lock_guard lock(mutex_);
        jobs_.push_back(std::move(job));
        if (jobs_.size() > idle_) std::thread([this] { loop(); }).detach();
        else wake_.notify_one();
    }

private:
    void loop() {
        use_one_thread();
        std::unique_lock lock(mutex_);
        for (;;) {
            ++idle_;
            wake_.wait(lock, [this] { return !jobs_.empty(); });
            --idle_;
            std::function<void()> job = std::move(jobs_.front());
            jobs_.pop_front();
            lock.unlock();
            job();
            job = nullptr;  // a carrier that ends with it may wait for a thread that comes here
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> jobs_;
    size_t idle_ = 0;
};

Sleepers& sleepers() {
    static auto* all = new Sleepers;  // threads may outlive static objects
    return *all;
}

// A carrier waits for its threads when it ends, so none of them may be the one that ends it. One
// transfer may begin inside of the end of another.
thread_local int in_carrier = 0;
struct InCarrier {
    InCarrier() { ++in_carrier; }
    ~InCarrier() { --in_carrier; }
};

Transport::Host host_of(c10::intrusive_ptr<c10d::Backend> carrier) {
    c10d::Backend* const host = carrier.get();
    return {host, [carrier = std::move(carrier)](c10d::Backend*) mutable {
                if (in_carrier > 0) sleepers().run([last = std::move(carrier)] {});
                carrier.reset();
            }};
}

}  // namespace

Transport::Transport(Carrier collectives, Carrier peers)
    : collectives_(host_of(std::move(collectives))), peers_(host_of(std::move(peers))) {}

void Transport::check_open() const {
    TORCH_CHECK(collectives_, "nntile: this process group is closed since ", reason_,
                "; destroy it and make another one");
}

Transport::Host Transport::collectives() const {
    std::lock_guard lock(mutex_);
    check_open();
    return collectives_;
}

Transport::Host Transport::peers() const {
    std::lock_guard lock(mutex_);
    check_open();
    return peers_;
}

void Transport::wait(const Work& with_peer) {
    {
        std::lock_guard lock(mutex_);
        check_open();
        waiting_.push_back(with_peer);
    }
    const auto stop = c10::make_scope_exit([&] {
        std::lock_guard lock(mutex_);
        std::erase(waiting_, with_peer);
    });
    if (with_peer->wait()) return;
    std::lock_guard lock(mutex_);
    check_open();
}

void Transport::close(std::string reason) {
    std::lock_guard lock(mutex_);
    if (!collectives_) return;
    reason_ = std::move(reason);
    // Elsewhere: a thread of a carrier cannot end it, and to end it takes as long as what is under
    // way.
    sleepers().run([collectives = std::exchange(collectives_, nullptr),
                    peers = std::exchange(peers_, nullptr), waiting = waiting_] {
        for (const Work& work : waiting) work->abort();
    });
}

at::Tensor Block::at(void* data) const {
    return at::from_blob(data, sizes, at::TensorOptions(at::kCPU).dtype(dtype));
}

bool Transfer::in_place(void* const* data) const {
    return std::equal(data, data + updated.size(), data + updated.size() + tokens + inputs.size());
}

Transfer::Work Transfer::travel(void* const* data) {
    const at::NoGradGuard no_grad;
    // The carrier would tell a profiler of its call's end, which may be after that of the profile.
    const at::DisableRecordFunctionGuard unseen;
    void* const* out = data + updated.size() + tokens + inputs.size();
    Tensors changed, read, written;
    for (size_t k = 0; k < updated.size(); ++k) {
        changed.push_back(updated[k].at(out[k]));
        if (data[k] != out[k]) std::memcpy(out[k], data[k], changed.back().nbytes());
    }
    for (size_t k = 0; k < inputs.size(); ++k)
        read.push_back(inputs[k].at(data[updated.size() + tokens + k]));
    for (size_t k = 0; k < outputs.size(); ++k)
        written.push_back(outputs[k].at(out[updated.size() + tokens + k]));
    return run(with_peers ? *transport->peers() : *transport->collectives(), changed, read,
               written);
}

// The others would wait for it until their time is out.
void Transfer::lose(const std::string& why) {
    begun = true;
    const std::string text = name + ": " + who + ": " + why;
    transport->close(text);
    if (ended) ended(std::make_exception_ptr(std::runtime_error(text)));
}

Transfer::~Transfer() {
    if (*recorded && !begun) lose("it was dropped before it began");
}

void Transfer::end(nntile_task* task, std::exception_ptr error) {
    nntile_error* found = nullptr;
    const nntile_status status = guarded(&found, [&] {
        if (error) std::rethrow_exception(error);
    });
    std::string text;
    if (status != NNTILE_OK) {
        text = who + ": " + nntile_error_message(found);
        const std::string named = name + ": " + text;
        transport->close(named);  // before others hear of it: what they record next is refused
        error = std::make_exception_ptr(std::runtime_error(named));
    }
    nntile_error_destroy(found);
    if (ended) ended(error);
    nntile_task_end(task, status, text.c_str());
}

void Transfer::start(void* user, void* const* data, nntile_task* task) {
    auto* self = static_cast<Transfer*>(user);
    if (!data) return self->lose("what it reads was never computed, as an earlier op failed");
    self->begun = true;
    if (self->only_begins && self->in_place(data)) {  // no thread has to wake for it
        Work work;
        try {
            work = self->travel(data);
        } catch (...) {
            return self->end(task, std::current_exception());
        }
        return work->getFuture()->addCallback([self, task](c10::ivalue::Future& future) {
            const InCarrier here;
            self->end(task, future.hasError() ? future.exception_ptr() : nullptr);
        });
    }
    const size_t count =
        2 * (self->updated.size() + self->tokens) + self->inputs.size() + self->outputs.size();
    std::vector<void*> blocks(data, data + count);
    sleepers().run([self, task, blocks = std::move(blocks)] {
        std::exception_ptr error;
        try {
            if (const Work work = self->travel(blocks.data())) work->wait();
        } catch (...) {
            error = std::current_exception();
        }
        self->end(task, error);
    });
}

}  // namespace torch_nntile
