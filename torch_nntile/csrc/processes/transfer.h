// SPDX-License-Identifier: BSD-3-Clause
// A collective as a task: it begins when its operands are there, on no worker, and ends when the
// bytes have travelled.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nntile/nntile.h"

namespace torch_nntile {

using Tensors = std::vector<at::Tensor>;

// What carries the bytes of a group: backends for the CPU, one for collectives and one for sends
// and receives. A transfer that fails or cannot happen closes both, so that the other processes end
// as well: a process that they wait for may itself wait for another. That is why there are two: of
// the first only one call is under way, and what waits for a peer can be told to stop.
class Transport {
public:
    using Carrier = c10::intrusive_ptr<c10d::Backend>;
    // Ends the carrier with the last of them, but never in a thread of a carrier.
    using Host = std::shared_ptr<c10d::Backend>;
    using Work = c10::intrusive_ptr<c10d::Work>;
    Transport(Carrier collectives, Carrier peers);
    // Both throw once it is closed.
    Host collectives() const;
    Host peers() const;
    void wait(const Work& with_peer);
    // From now on nothing can begin; the connections end soon after. The first reason counts.
    void close(std::string reason);

private:
    void check_open() const;

    mutable std::mutex mutex_;
    Host collectives_, peers_;
    std::vector<Work> waiting_;
    std::string reason_;
};

// A block of main memory that a tensor has for a transfer.
struct Block {
    std::vector<int64_t> sizes;
    at::ScalarType dtype;
    at::Tensor at(void* data) const;
};

// What a transfer is made of. Operands are in the order: updated, tokens, inputs | updated, tokens,
// outputs.
struct Transfer {
    // Blocks until the bytes have travelled; or begins, and gives what is under way: one work with
    // a future. `updated` is both read and written.
    using Work = Transport::Work;
    using Run = std::function<Work(c10d::Backend& host, Tensors& updated, Tensors& inputs,
                                   Tensors& outputs)>;
    // Of work that somebody may still ask: what it ended with.
    using Ended = std::function<void(std::exception_ptr)>;

    std::shared_ptr<Transport> transport;
    bool with_peers = false;
    bool only_begins = false;  // run() does: it can be called by a thread that must not wait
    std::string name, who;     // "all_reduce", "on rank 1 of 2 of group '0'"
    Run run;
    Ended ended;
    std::vector<Block> updated, inputs, outputs;
    size_t tokens = 0;
    std::atomic<bool> begun{false};
    // Outlives it, as it may end before its recording returns. Others wait only for what was.
    std::shared_ptr<std::atomic<bool>> recorded = std::make_shared<std::atomic<bool>>(false);

    ~Transfer();
    // As nntile_function::start
    static void start(void* transfer, void* const* data, nntile_task* task);
    static void destroy(void* transfer) { delete static_cast<Transfer*>(transfer); }

private:
    bool in_place(void* const* data) const;
    Work travel(void* const* data);
    void end(nntile_task* task, std::exception_ptr error);  // it may be gone then
    void lose(const std::string& why);
};

}  // namespace torch_nntile
