// SPDX-License-Identifier: BSD-3-Clause
// All that the engine needs of workers, to which it gives ready tasks; what it needs of memories is
// replicas.hh. StarPU is behind both.
#pragma once

#include <string>

#include "runtime/memory.hh"
#include "runtime/replicas.hh"
#include "runtime/run.hh"

namespace nntile::runtime::backend {

struct Wanted {
    int cpu = 1, cuda = 0;
    double spin_seconds = 0;
    bool verbose = false;
};
// Throws, and nothing has started, where so many workers cannot be had.
void start(const Wanted& wanted);
void stop();  // no tile is left
int cpu_workers();
inline int devices() { return replicas::devices(); }  // of which each is a CUDA worker
int device_architecture();  // the lowest compute capability of them (90: 9.0)
enum class Kind { any, cpu, cuda };
void restrict_to(Kind kind);       // what a task may run on, from now on
void set_gpu_math(uint32_t math);  // kernels::GpuMath of what is launched from now on
uint32_t gpu_math();
// Gives a ready task to a worker that can run it; completed() is called when it has ended. A task
// that a GPU can run does so, unless that is not allowed. One for which a GPU has no room runs on a
// core, unless that is not allowed; so does one that a GPU was to run when it was lost.
void submit(RunTask& task);
bool runs_on_device(const RunTask& task);
int64_t most_device_task_bytes();  // one with more never does; INT64_MAX without devices
// Whether this is the thread of a CUDA worker, which makes all copies from and to its device, so
// that nobody may keep it waiting.
bool on_device_worker();
std::string device_name();  // "GPU 0", on such a thread
int64_t device_tasks();     // so many have run on devices
// CPU workers count from 0; those of devices come after them.
int worker_number();

struct Memory {
    int64_t bytes = 0, used = 0;
};
Memory memory_of(int device);
memory::Pinning pinning();  // none without devices
// Main memory has all that a task uses until give_back(): see replicas.hh
void bring_home(const RunTask& task);
void give_back(const RunTask& task);

std::string describe();  // "key: value" lines

}  // namespace nntile::runtime::backend
