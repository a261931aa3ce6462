// SPDX-License-Identifier: BSD-3-Clause
#include "streams.hh"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "devices.hh"
#include "settings.hh"

namespace emulation {

namespace {

std::atomic<uint64_t> queues_made{0};

}  // namespace

Queue::Queue(Device* d, bool b)
    : device(d), blocking(b), seed(settings().seed * 1000 + ++queues_made) {}

uint64_t Queue::add(std::function<void()> operation) {
    std::lock_guard lock(mutex_);
    operations_.push_back(std::move(operation));
    changed_.notify_all();
    return ++submitted_;
}

bool Queue::reached(uint64_t number) {
    std::lock_guard lock(mutex_);
    return completed_ >= number;
}

bool Queue::reached_soon(uint64_t number) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::microseconds(50),
                             [&] { return completed_ >= number; });
}

uint64_t Queue::last() {
    std::lock_guard lock(mutex_);
    return submitted_;
}

void Queue::wait(uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return completed_ >= number; });
}

void Queue::end() {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
}

void Queue::serve() {
    const auto most = static_cast<uint64_t>(settings().delay_us);
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ended_ || !operations_.empty(); });
        if (operations_.empty()) return;
        auto operation = std::move(operations_.front());
        operations_.pop_front();
        lock.unlock();
        // The default stream is in time: so a copy there is before what nobody has waited for.
        if (most > 1 && this != device->standard.get())
            usleep(static_cast<useconds_t>(most / 2 + draw(seed) % (most / 2)));
        operation();
        lock.lock();
        ++completed_;
        changed_.notify_all();
    }
}

QueueRef make_queue(Device* device, bool blocking) {
    auto queue = std::make_shared<Queue>(device, blocking);
    std::thread([queue] { queue->serve(); }).detach();
    return queue;
}

uint64_t enqueue(const QueueRef& queue, std::function<void()> operation) {
    std::vector<std::pair<QueueRef, uint64_t>> before;
    const auto note = [&](const QueueRef& other) {
        if (const uint64_t last = other->last(); !other->reached(last))
            before.emplace_back(other, last);
    };
    Device& d = *queue->device;
    if (queue == d.standard) {
        for (const QueueRef& other : queues_of(d))
            if (other->blocking && other != queue) note(other);
    } else if (queue->blocking) {
        note(d.standard);
    }
    if (!before.empty())
        queue->add([before = std::move(before)] {
            for (const auto& [other, number] : before) other->wait(number);
        });
    return queue->add(std::move(operation));
}

}  // namespace emulation

using namespace emulation;

struct CUstream_st {
    QueueRef queue;
};
struct CUevent_st {
    std::mutex mutex;
    QueueRef queue;  // none: not recorded
    uint64_t number = 0;
    std::shared_ptr<double> milliseconds = std::make_shared<double>(0);
};

namespace emulation {

QueueRef queue_of(cudaStream_t stream) {
    const bool standard = !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    return standard ? current_device().standard : stream->queue;
}

}  // namespace emulation

// ---- the runtime's functions

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
    EMULATION_ENTER;
    Device& d = current_device();
    *out = new CUstream_st{make_queue(&d, !(flags & cudaStreamNonBlocking))};
    std::lock_guard lock(d.queues_mutex);
    std::erase_if(d.queues, [](const auto& weak) { return weak.expired(); });
    d.queues.push_back((*out)->queue);
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithFlags(out, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    stream->queue->end();
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    EMULATION_ENTER;
    const QueueRef queue = queue_of(stream);
    return queue->reached(queue->last()) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    EMULATION_ENTER;
    const QueueRef queue = queue_of(stream);
    queue->wait(queue->last());
    return failed(sticky_error());
}

cudaError_t cudaDeviceSynchronize() {
    EMULATION_ENTER;
    for (const QueueRef& queue : queues_of(current_device())) queue->wait(queue->last());
    return failed(sticky_error());
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned) {
    EMULATION_ENTER;
    *out = new CUevent_st;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    EMULATION_ENTER;
    const QueueRef queue = queue_of(stream);
    auto now = std::make_shared<double>(0);
    const uint64_t number = enqueue(queue, [now] {
        const auto since = std::chrono::steady_clock::now().time_since_epoch();
        *now = std::chrono::duration<double, std::milli>(since).count();
    });
    std::lock_guard lock(event->mutex);
    event->queue = queue;
    event->number = number;
    event->milliseconds = now;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    EMULATION_ENTER;
    std::unique_lock lock(event->mutex);
    const QueueRef queue = event->queue;
    const uint64_t number = event->number;
    lock.unlock();
    // A worker of StarPU asks all the time, and would take a core from what it waits for.
    return !queue || queue->reached_soon(number) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    EMULATION_ENTER;
    std::unique_lock lock(event->mutex);
    const QueueRef queue = event->queue;
    const uint64_t number = event->number;
    lock.unlock();
    if (queue) queue->wait(number);
    return failed(sticky_error());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
    if (const cudaError_t error = cudaEventSynchronize(from)) return error;
    if (const cudaError_t error = cudaEventSynchronize(to)) return error;
    *milliseconds = static_cast<float>(*to->milliseconds - *from->milliseconds);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    EMULATION_ENTER;
    std::lock_guard lock(event->mutex);
    if (event->queue)
        enqueue(queue_of(stream),
                [queue = event->queue, number = event->number] { queue->wait(number); });
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
    EMULATION_ENTER;
    enqueue(queue_of(stream), [=] { function(argument); });
    return cudaSuccess;
}
}

namespace emulation {
extern "C" void emulation_enqueue(cudaStream_t stream, void (*function)(void*), void* argument) {
    enqueue(queue_of(stream), [=] { function(argument); });
}
}  // namespace emulation
