// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/backend.hh"

#include <starpu.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.hh"
#include "kernels/cuda.hh"
#include "kernels/gpu_math.hh"
#include "runtime/compiled_plan.hh"
#include "runtime/device_residency.hh"
#include "runtime/devices.hh"
#include "runtime/environment.hh"
#include "runtime/policy.hh"

namespace nntile::runtime::backend {

namespace {

struct State {
    int cpu = 0;
    int64_t most_task_bytes = INT64_MAX;  // of a task on a device
    std::atomic<uint32_t> where{0};       // STARPU_CPU ..., 0: any
    std::atomic<uint32_t> math{kernels::use_dnn};
    std::atomic<int64_t> device_tasks{0};
};
State state;

unsigned memory_node(int device) {
    return starpu_worker_get_memory_node(
        static_cast<unsigned>(starpu_worker_get_by_type(STARPU_CUDA_WORKER, device)));
}

// Tasks in flight, and what is read ahead for the next ones, have to lie there side by side.
int64_t third_of_memory() {
    int64_t least = INT64_MAX;
    for (int device = 0; device < devices(); ++device)
        if (const int64_t bytes = memory_of(device).bytes; bytes > 0)
            least = std::min(least, bytes);
    return least == INT64_MAX ? least : least / 3;
}

int64_t bytes_of(const RunTask& task) {
    int64_t bytes = 0;
    for (const Entry& e : task.run->plan->entries_of(task.index))
        bytes += task.run->memory[e.memory]->block_bytes();
    return bytes;
}

// Whether the CUDA column of the row takes these dtypes, strides, and this program.
bool takes(const TaskKind& kind) {
    if (!kind.kernel || !kind.kernel->cuda) return false;
    static kernels::Param something{};
    SmallVector<kernels::Block, 16> blocks;
    SmallVector<kernels::Param, 16> params;
    kernels::Args args;
    for (const TaskKind::Operand& o : kind.operands) {
        if (o.number) args.numbers |= uint64_t{1} << blocks.size();
        auto* present = reinterpret_cast<std::byte*>(&something);
        blocks.push_back({o.absent ? nullptr : present, o.dtype, o.strides.data()});
    }
    for (const tile::ParamRef& p : kind.params)
        params.push_back(p.is_fixed() ? p.fixed : kernels::Param{});
    args.sizes = kind.sizes;
    args.blocks = {blocks.data(), blocks.size()};
    args.params = {params.data(), params.size()};
    args.program = kind.program.get();
    args.index_strides = kind.index_strides.data();
    return kind.kernel->cuda(args, nullptr) == 0;
}

// Asked once for each kind of task.
bool device_takes(const TaskKind& kind) {
    std::atomic_ref<int8_t> known(kind.on_device);
    int8_t answer = known.load(std::memory_order_relaxed);
    if (answer == TaskKind::unasked) {
        answer = takes(kind) ? TaskKind::taken : TaskKind::not_taken;
        known.store(answer, std::memory_order_relaxed);
    }
    return answer == TaskKind::taken;
}

void hand(RunTask& task, bool to_device);

void ended(void* task) { completed(*static_cast<RunTask*>(task)); }

// It has not begun: another worker takes it.
void no_room(RunTask& task) {
    const unsigned node = starpu_worker_get_local_memory_node();
    if (replicas::lost(node)) return hand(task, replicas::working() > 0);
    if (state.where.load(std::memory_order_relaxed) != STARPU_CUDA) return hand(task, false);
    std::string text = text_of(device_name(), " has no room for the ", bytes_of(task),
                               " bytes of this task, and restrict_workers() keeps it from cores");
    if constexpr (with_cuda) text += text_of("; ", devices::free_text());
    fail_on_device(task, Status::out_of_memory, text.c_str(), false);
    completed(task);
}

// ---- what stays on a device, once one was full

// The use after this task's of a memory of its run: exact in the run, after it as in the last equal
// step.
Next next_use(const RunTask& task, uint32_t memory) {
    const Run& run = *task.run;
    const Sequence& sequence = run.plan->sequence();
    const auto begin = sequence.uses.begin() + sequence.first[memory],
               end = sequence.uses.begin() + sequence.first[memory + 1];
    const auto use = std::upper_bound(
        begin, end, sequence.position[task.index],
        [](uint32_t position, const Sequence::Use& other) { return position < other.position; });
    if (use != end) return {run.begin + use->position, !use->fresh};
    return memory < run.plan->external ? run.expected[memory] : Next{never, false};
}

void taken_by_device(void* arg) {
    const RunTask& task = *static_cast<RunTask*>(arg);
    const Run& run = *task.run;
    if (!on_device_worker() || !device_residency::followed() || !run.followed) return;
    const unsigned node = starpu_worker_get_local_memory_node();
    device_residency::take(node, run.begin + run.plan->sequence().position[task.index]);
    for (const Entry& e : run.plan->entries_of(task.index))
        device_residency::begin(run.memory[e.memory]->ram, node);
}

void let_go(const RunTask& task) {
    const Run& run = *task.run;
    if (!device_residency::followed() || !run.followed) return;
    for (const Entry& e : run.plan->entries_of(task.index)) {
        const Next next = next_use(task, e.memory);
        // Others stay whole, whatever comes: if the task that writes them is skipped, they survive.
        const bool useless = e.memory >= run.plan->external && !next.used;
        device_residency::end(*run.memory[e.memory], starpu_worker_get_local_memory_node(), next,
                              useless);
    }
}

void ended_on_device(void* arg) {
    RunTask& task = *static_cast<RunTask*>(arg);
    if (!on_device_worker()) return completed(task);  // see policy.cc
    let_go(task);
    if (!task.begun) return no_room(task);
    finish_on_device(task);
    replicas::end(starpu_worker_get_local_memory_node());
    state.device_tasks.fetch_add(1, std::memory_order_relaxed);
    completed(task);
}

void hand(RunTask& task, bool to_device) {
    const Run& run = *task.run;
    starpu_codelet* const codelet = run.plan->tasks[task.index].kind->codelet;
    const std::span<const Entry> entries = run.plan->entries_of(task.index);
    starpu_task* t = starpu_task_create();
    t->cl = codelet;
    t->cl_arg = &task;
    t->callback_func = to_device ? ended_on_device : ended;
    t->callback_arg = &task;
    t->sequential_consistency = 0;
    t->sched_data = &task;
    if (to_device) {
        t->prologue_callback_pop_func = taken_by_device;
        t->prologue_callback_pop_arg = &task;
    }
    if (devices() > 0) t->where = to_device ? STARPU_CUDA : STARPU_CPU;
    const size_t n = entries.size();
    t->nbuffers = static_cast<int>(n);
    starpu_data_handle_t* handles = t->handles;
    starpu_data_access_mode* modes = t->modes;
    if (n > STARPU_NMAXBUFS) {  // StarPU frees them with the task
        handles = t->dyn_handles =
            static_cast<starpu_data_handle_t*>(std::malloc(n * sizeof *handles));
        modes = t->dyn_modes =
            static_cast<starpu_data_access_mode*>(std::malloc(n * sizeof *modes));
    }
    for (size_t i = 0; i < n; ++i) {
        handles[i] = run.memory[entries[i].memory]->ram.handle;
        modes[i] = static_cast<starpu_data_access_mode>(entries[i].mode);
    }
    if (int result = starpu_task_submit(t); result != 0) [[unlikely]] {
        t->destroy = 0;
        starpu_task_destroy(t);
        refused(task, result);
    }
}

}  // namespace

void start(const Wanted& wanted) {
    std::vector<int64_t> room;
    if constexpr (with_cuda) {
        if (wanted.cuda > 0) room = devices::open(wanted.cuda);
    }
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.precedence_over_environment_variables = 1;
    conf.catch_signals = 0;
    conf.sched_policy = depth_first_policy(wanted.spin_seconds);
    conf.ncpus = wanted.cpu;
    conf.ncuda = wanted.cuda;
    conf.nopencl = conf.nhip = 0;
    conf.reserve_ncpus = 0;
    {
        StartEnvironment environment(wanted.verbose);
        environment.limit_devices(room);
        const int result = starpu_init(&conf);
        check(result == 0, Status::runtime, "context: StarPU does not start (", result, ")");
    }
    state.cpu = static_cast<int>(starpu_cpu_worker_get_count());
    const auto found = static_cast<int>(starpu_cuda_worker_get_count());
    state.where = 0;
    state.device_tasks = 0;
    if (found < wanted.cuda) {  // it says so to nobody
        keep_awake();
        starpu_shutdown();
        fail(Status::runtime, "context: ", wanted.cuda, " CUDA workers are asked for, StarPU has ",
             found, "; it says why where STARPU_SILENT is 0");
    }
    replicas::set_devices(found);
    if constexpr (with_cuda) {
        if (found > 0) devices::start();
    }
    state.most_task_bytes = third_of_memory();
}

void stop() {
    if constexpr (with_cuda) {
        if (devices() > 0) devices::stop();
    }
    keep_awake();
    starpu_shutdown();
    if constexpr (with_cuda) {
        if (devices() > 0) devices::stopped();
    }
    replicas::set_devices(0);
    state.most_task_bytes = INT64_MAX;
}

int64_t most_device_task_bytes() { return state.most_task_bytes; }
int cpu_workers() { return state.cpu; }
int64_t device_tasks() { return state.device_tasks.load(std::memory_order_relaxed); }
bool on_device_worker() {
    if (devices() == 0) return false;
    const int worker = starpu_worker_get_id();
    return worker >= 0 && starpu_worker_get_type(worker) == STARPU_CUDA_WORKER;
}
std::string device_name() {
    return text_of("GPU ", starpu_worker_get_devid(starpu_worker_get_id()));
}
int worker_number() {
    const int worker = starpu_worker_get_id();
    if (devices() == 0 || worker < 0) return worker;
    const int of_kind = starpu_worker_get_devid(worker);
    return on_device_worker() ? state.cpu + of_kind : of_kind;
}

void restrict_to(Kind kind) {
    state.where = kind == Kind::cpu ? STARPU_CPU : kind == Kind::cuda ? STARPU_CUDA : 0;
}

void set_gpu_math(uint32_t math) { state.math.store(math, std::memory_order_relaxed); }
uint32_t gpu_math() { return state.math.load(std::memory_order_relaxed); }

bool runs_on_device(const RunTask& task) {
    return replicas::working() > 0 && state.where.load(std::memory_order_relaxed) != STARPU_CPU &&
           device_takes(*task.run->plan->tasks[task.index].kind) &&
           bytes_of(task) <= state.most_task_bytes;
}

void submit(RunTask& task) { hand(task, runs_on_device(task)); }

Memory memory_of(int device) {
    const unsigned node = memory_node(device);
    return {starpu_memory_get_total(node), static_cast<int64_t>(starpu_memory_get_used(node))};
}

int device_architecture() {
    if constexpr (with_cuda) {
        if (devices() > 0) return devices::architecture();
    }
    return 0;
}

memory::Pinning pinning() {
    if constexpr (with_cuda) {
        if (devices() > 0) return devices::pinning();
    }
    return {};
}

void bring_home(const RunTask& task) {
    for (const Entry& e : task.run->plan->entries_of(task.index))
        replicas::bring_home(task.run->memory[e.memory]->ram,
                             static_cast<starpu_data_access_mode>(e.mode));
}
void give_back(const RunTask& task) {
    for (const Entry& e : task.run->plan->entries_of(task.index))
        replicas::give_back(task.run->memory[e.memory]->ram);
}

std::string describe() {
    std::string text = text_of("cpu workers: ", state.cpu, "\ncuda workers: ", devices(), "\n");
    for (int device = 0; device < devices(); ++device) {
        const Memory memory = memory_of(device);
        text += text_of("gpu ", device, ": ", memory.used, " of ", memory.bytes, " bytes\n");
    }
    return text;
}

}  // namespace nntile::runtime::backend
