// SPDX-License-Identifier: BSD-3-Clause
// What StarPU calls for a ready task: builds the kernel's arguments, runs it, catches everything.
#include <cstring>
#include <map>
#include <optional>

#include "kernels/cuda.hh"
#include "kernels/refuse.hh"
#include "runtime/backend.hh"
#include "runtime/compiled_plan.hh"
#include "runtime/devices.hh"
#include "runtime/engine.hh"
#include "runtime/sentinels.hh"
#include "runtime/trace.hh"
#include "schema/op_row.hh"

namespace nntile::runtime {

namespace {

using Pointers = SmallVector<std::byte*, 16>;

int run_kernel(const Run& run, uint32_t index, const Pointers& data, char* error,
               const kernels::CudaPlace* place) {
    const PlanTask& task = run.plan->tasks[index];
    const TaskKind& kind = *task.kind;
    const uint32_t* scalar = run.plan->scalars_of(index).data();
    kernels::Args args;
    SmallVector<kernels::Block, 16> blocks;
    for (size_t i = 0; i < kind.operands.size(); ++i) {
        const TaskKind::Operand& o = kind.operands[i];
        // Kernels only read their inputs, so the run's scalars stay constant.
        auto* number = o.number ? const_cast<kernels::Param*>(&run.scalars[*scalar++]) : nullptr;
        std::byte* at = number ? reinterpret_cast<std::byte*>(number) : data[i];
        blocks.push_back({at, o.dtype, o.strides.data()});
        if (number) args.numbers |= uint64_t{1} << i;
    }
    SmallVector<kernels::Param, 16> params;
    for (const tile::ParamRef& p : kind.params)
        params.push_back(p.is_fixed() ? p.fixed : run.scalars[*scalar++]);
    args.sizes = kind.sizes;
    args.blocks = {blocks.data(), blocks.size()};
    args.params = {params.data(), params.size()};
    args.program = kind.program.get();
    args.index_offset = task.index_offset;
    args.index_strides = kind.index_strides.data();
    args.error = error;
    return place ? kind.kernel->cuda(args, place) : kind.kernel->cpu(args);
}

Pointers pointers_of(const Run& run, uint32_t index, const Blocks& blocks) {
    Pointers data;
    for (const OperandRef& o : run.plan->operands_of(index))
        data.push_back(o.entry == OperandRef::absent ? nullptr : blocks[o.entry] + o.offset);
    return data;
}

// Of a function of the host, with numbers: it only reads its inputs.
SmallVector<void*, 16> host_data(const Run& run, uint32_t index, const Blocks& blocks) {
    const TaskKind& kind = *run.plan->tasks[index].kind;
    const Pointers data = pointers_of(run, index, blocks);
    const uint32_t* scalar = run.plan->scalars_of(index).data();
    SmallVector<void*, 16> pointers;
    for (size_t i = 0; i < kind.operands.size(); ++i)
        pointers.push_back(kind.operands[i].number
                               ? const_cast<kernels::Param*>(&run.scalars[*scalar++])
                               : static_cast<void*>(data[i]));
    return pointers;
}

const HostFunction& function_of(const Run& run, const PlanTask& task) {
    return run.host_functions[static_cast<size_t>(task.host_call)];
}

int run_task(const Run& run, uint32_t index, const Blocks& blocks, char* error,
             const kernels::CudaPlace* place) {
    const PlanTask& task = run.plan->tasks[index];
    if (task.host_call < 0)
        return run_kernel(run, index, pointers_of(run, index, blocks), error, place);
    const TaskKind& kind = *task.kind;
    const SmallVector<void*, 16> pointers = host_data(run, index, blocks);
    HostPart part{kind.sizes, {}, !kind.params.empty() && kind.params[0].fixed.i != 0};
    int64_t start = task.index_offset;
    for (int64_t stride : kind.index_strides) {
        part.starts.push_back(start / stride);
        start %= stride;
    }
    return function_of(run, task).run(part, pointers.data(), error);
}

Status status_of(int result) {
    const auto status = static_cast<Status>(result);
    const bool known = status > Status::ok && status <= Status::linalg_error;
    return known && status != Status::interrupted ? status : Status::runtime;
}

// "nll_loss: target 12 is out of range [0, 10) [model.py:14]"
std::string message(const Run& run, uint32_t index, const char* text) {
    const PlanTask& task = run.plan->tasks[index];
    const schema::OpRow* row = schema::find_op(task.kind->op);
    std::string out = row && !row->part_of.empty() ? row->part_of : task.kind->op;
    // A kernel begins its text with its own name; the op's name says more.
    const size_t name = std::strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    if (name > 0 && text[name] == ':' && text[name + 1] == ' ') text += name + 2;
    out += text_of(": ", *text ? text : "the kernel failed");
    const std::string place = text_of_place(run.place_of(task));
    return place.empty() ? out : out + " [" + place + "]";
}

// Whether something that the task reads was never computed. Its kernel must not see that: indices
// may be anything.
bool reads_lost_data(const Run& run, uint32_t index) {
    for (const Entry& e : run.plan->entries_of(index))
        if (e.defined && run.memory[e.memory]->lost.load(std::memory_order_relaxed)) return true;
    return false;
}

// After a task that did not run or failed, what it writes is lost. Only data that it would have
// changed in place stays as it was: parameters survive a failed step. (Results that merely took the
// memory of an operand that nobody has any more do not. Nor does what a transfer has changed in
// part: `begun`.)
void mark_lost(const Run& run, uint32_t index, bool begun = false) {
    for (const Entry& e : run.plan->entries_of(index))
        if (e.mode != STARPU_R && (begun || !run.plan->memories[e.memory].survives))
            run.memory[e.memory]->lost.store(true, std::memory_order_relaxed);
}

void mark_computed(const Run& run, uint32_t index) {
    for (const Entry& e : run.plan->entries_of(index)) {
        std::atomic<bool>& lost = run.memory[e.memory]->lost;
        if (e.mode != STARPU_R && !e.defined && lost.load(std::memory_order_relaxed))
            lost.store(false, std::memory_order_relaxed);
    }
}

// place_of: of a task on a device, whose work is there when this returns, and done later.
void execute_task(const Run& run, uint32_t index, const Blocks& blocks,
                  const kernels::CudaPlace* (*place_of)(uint32_t math) = nullptr) {
    Engine& e = engine();
    if (e.abandon.load(std::memory_order_relaxed) || reads_lost_data(run, index))
        return mark_lost(run, index);
    char text[kernels::error_text_bytes] = "";
    int result = static_cast<int>(Status::runtime);
    try {
        std::optional<Sentinels> sentinels;
        if (Sentinels::wanted() && !place_of) sentinels.emplace(run, index, blocks);
        result = run_task(run, index, blocks, text, place_of ? place_of(run.gpu_math) : nullptr);
        if (result != 0) text[sizeof text - 1] = 0;
        const char* broken = sentinels ? sentinels->broken() : nullptr;
        if (broken) fail(Status::internal, broken);
    } catch (const Error& error) {
        result = static_cast<int>(error.status);
        std::strncpy(text, error.what(), sizeof text - 1);
    } catch (const std::exception& error) {
        std::strncpy(text, error.what(), sizeof text - 1);
    } catch (...) {
        std::strncpy(text, "unknown exception", sizeof text - 1);
    }
    if (result == 0) return mark_computed(run, index);
    mark_lost(run, index);
    const std::string device = place_of ? text_of(" (", backend::device_name(), ")") : "";
    e.report(status_of(result), message(run, index, (text + device).c_str()));
}

void tell(TraceFunction trace, const RunTask& task, int worker, int64_t begin) {
    const PlanTask& plan = task.run->plan->tasks[task.index];
    const TaskKind& kind = *plan.kind;
    trace({kind.op.c_str(), worker, task.run->mark_of(plan), begin, trace_clock(),
           kind.kernel ? kind.kernel->name : "host", task.run->place_of(plan), task.run->number,
           plan.recorded == tile::none ? -1 : static_cast<int64_t>(plan.recorded), task.index,
           kind.bytes, kind.flops});
}

Blocks blocks_of(const Run& run, uint32_t index) {
    Blocks blocks;
    for (const Entry& e : run.plan->entries_of(index))
        blocks.push_back(static_cast<std::byte*>(run.memory[e.memory]->ram.block));
    return blocks;
}

Blocks blocks_of(const RunTask& task, void** buffers) {
    Blocks blocks;
    for (size_t e = 0; e < task.run->plan->entries_of(task.index).size(); ++e)
        blocks.push_back(reinterpret_cast<std::byte*>(STARPU_VARIABLE_GET_PTR(buffers[e])));
    return blocks;
}

void execute(void** buffers, void* arg) {
    const RunTask& task = *static_cast<const RunTask*>(arg);
    const TraceFunction trace = trace_function.load(std::memory_order_acquire);
    const int64_t begin = trace ? trace_clock() : 0;
    execute_task(*task.run, task.index, blocks_of(task, buffers));
    if (trace) tell(trace, task, backend::worker_number(), begin);
}

// Whether all that it needs is on the worker's device.
bool is_there(const RunTask& task, void** buffers) {
    const std::span<const Entry> entries = task.run->plan->entries_of(task.index);
    for (size_t e = 0; e < entries.size(); ++e)
        if (!replicas::is_there(buffers[e], static_cast<starpu_data_access_mode>(entries[e].mode)))
            return false;
    return devices::prepared();
}

void execute_on_device(void** buffers, void* arg) {
    if constexpr (with_cuda) {
        RunTask& task = *static_cast<RunTask*>(arg);
        task.begun = is_there(task, buffers);
        if (!task.begun) return;
        replicas::begin(starpu_worker_get_local_memory_node());
        task.begin_ns = trace_clock();
        execute_task(*task.run, task.index, blocks_of(task, buffers), devices::begin);
        task.word = devices::end();
    }
}

}  // namespace

void fail_on_device(const RunTask& task, Status status, const char* text, bool begun) {
    mark_lost(*task.run, task.index, begun);
    engine().report(status, message(*task.run, task.index, text));
}

void finish_on_device(RunTask& task) {
    if constexpr (with_cuda) {
        char text[kernels::error_text_bytes] = "";
        kernels::Args args;
        args.error = text;
        const kernels::Refused refused = devices::refused_by(task.word);
        if (replicas::lost(starpu_worker_get_local_memory_node())) {
            const std::string why = replicas::why_lost() + "; what only it had is lost";
            fail_on_device(task, Status::runtime, why.c_str(), true);
        } else if (const int result = refuse(args, refused)) {
            fail_on_device(task, status_of(result), text, false);
        }
        if (const TraceFunction trace = trace_function.load(std::memory_order_acquire))
            tell(trace, task, backend::worker_number(), task.begin_ns);
    }
}

void execute_here(const RunTask& task) {
    const TraceFunction trace = trace_function.load(std::memory_order_acquire);
    const int64_t begin = trace ? trace_clock() : 0;
    execute_task(*task.run, task.index, blocks_of(*task.run, task.index));
    // A row behind those of the workers
    if (trace) tell(trace, task, static_cast<int>(starpu_worker_get_count()), begin);
}

void skip_task(const RunTask& task) {
    mark_lost(*task.run, task.index);
    if (ends_later(task))
        function_of(*task.run, task.run->plan->tasks[task.index]).start(nullptr, nullptr);
}

std::string message_of(const RunTask& task, const char* text) {
    return message(*task.run, task.index, text);
}

bool ends_later(const RunTask& task) {
    const PlanTask& plan = task.run->plan->tasks[task.index];
    return plan.host_call >= 0 && function_of(*task.run, plan).start != nullptr;
}

bool start_task(RunTask& task) {
    const Run& run = *task.run;
    // A copy: the task, and with it the run, may end before the function returns.
    const auto start = function_of(run, run.plan->tasks[task.index]).start;
    const bool skipped =
        engine().abandon.load(std::memory_order_relaxed) || reads_lost_data(run, task.index);
    if (skipped) mark_lost(run, task.index);
    task.begin_ns = trace_clock();
    try {
        if (skipped) start(nullptr, nullptr);
        else start(host_data(run, task.index, blocks_of(run, task.index)).data(), &task);
        return !skipped;
    } catch (const std::exception& error) {  // it has not begun
        if (!skipped) finish_task(task, Status::runtime, error.what());
        return false;
    }
}

void finish_task(RunTask& task, Status status, const char* text) {
    const Run& run = *task.run;
    if (status == Status::ok) {
        mark_computed(run, task.index);
    } else {
        mark_lost(run, task.index, true);
        engine().report(status_of(static_cast<int>(status)), message(run, task.index, text));
    }
    if (const TraceFunction trace = trace_function.load(std::memory_order_acquire))
        tell(trace, task, -1, task.begin_ns);
}

starpu_codelet* codelet_of(const std::string& name) {
    static std::mutex mutex;
    static auto* const codelets = new std::map<std::string, starpu_codelet*>;
    std::lock_guard lock(mutex);
    auto [at, fresh] = codelets->try_emplace(name, nullptr);
    if (fresh) {
        at->second = new starpu_codelet{};
        at->second->cpu_funcs[0] = execute;
        at->second->where = STARPU_CPU;
        if constexpr (with_cuda) {
            at->second->cuda_funcs[0] = execute_on_device;
            at->second->cuda_flags[0] = STARPU_CUDA_ASYNC;
            at->second->where |= STARPU_CUDA;
        }
        at->second->nbuffers = STARPU_VARIABLE_NBUFFERS;
        at->second->name = at->first.c_str();
    }
    return at->second;
}

}  // namespace nntile::runtime
