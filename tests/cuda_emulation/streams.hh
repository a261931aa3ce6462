// SPDX-License-Identifier: BSD-3-Clause
// Streams are threads of the host's process. Each waits a while of its own before an operation, so
// that they run late and out of step.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "emulation.hh"

namespace emulation {

struct Device;

class Queue {
public:
    Queue(Device* device, bool blocking);
    uint64_t add(std::function<void()> operation);  // its number
    bool reached(uint64_t number);
    bool reached_soon(uint64_t number);  // waits for it, 50 microseconds at the longest
    uint64_t last();
    void wait(uint64_t number);
    void end();

    Device* const device;
    const bool blocking;  // it and the default stream wait for each other
    uint64_t seed;

private:
    friend std::shared_ptr<Queue> make_queue(Device* device, bool blocking);
    void serve();
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> operations_;
    uint64_t submitted_ = 0, completed_ = 0;
    bool ended_ = false;
};
using QueueRef = std::shared_ptr<Queue>;

std::shared_ptr<Queue> make_queue(Device* device, bool blocking);
QueueRef queue_of(cudaStream_t stream);  // nullptr: the default stream of the current device
// In the order that streams have: the default one waits for all blocking ones, and they for it.
uint64_t enqueue(const QueueRef& queue, std::function<void()> operation);

}  // namespace emulation
