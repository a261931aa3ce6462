// SPDX-License-Identifier: BSD-3-Clause
// What StarPU calls for a ready task: builds the kernel's arguments, runs it, catches everything.
#include <cstring>
#include <map>
#include <optional>

#include "runtime/compiled_plan.hh"
#include "runtime/engine.hh"
#include "runtime/sentinels.hh"

namespace nntile::runtime {

namespace {

using Pointers = SmallVector<std::byte*, 16>;

int run_kernel(const Run& run, const tile::Task& task, const Pointers& data, char* error) {
    SmallVector<kernels::Block, 16> blocks;
    for (size_t i = 0; i < task.operands.size(); ++i) {
        const tile::Operand& o = task.operands[i];
        // Kernels only read their inputs, so the run's scalars stay constant.
        auto* number =
            o.scalar == tile::none ? nullptr : const_cast<kernels::Param*>(&run.scalars[o.scalar]);
        std::byte* at = number ? reinterpret_cast<std::byte*>(number) : data[i];
        blocks.push_back({at, o.dtype, o.strides.data()});
    }
    SmallVector<kernels::Param, 16> params;
    for (const tile::ParamRef& p : task.params)
        params.push_back(p.scalar ? run.scalars[p.slot] : p.fixed);
    kernels::Args args;
    args.sizes = task.sizes;
    args.blocks = {blocks.data(), blocks.size()};
    args.params = {params.data(), params.size()};
    args.program = task.program.get();
    args.index_offset = task.index_offset;
    args.index_strides = task.index_strides.data();
    args.error = error;
    return task.kernel->cpu(args);
}

int run_task(const Run& run, const PlanTask& p, void** buffers, char* error) {
    Pointers data;
    for (const OperandRef& o : p.operands) {
        if (o.entry == tile::none) data.push_back(nullptr);
        else
            data.push_back(reinterpret_cast<std::byte*>(STARPU_VARIABLE_GET_PTR(buffers[o.entry])) +
                           o.offset);
    }
    if (p.task->host_call < 0) return run_kernel(run, *p.task, data, error);
    SmallVector<void*, 16> pointers;
    for (std::byte* d : data) pointers.push_back(d);
    const bool accumulate = !p.task->params.empty() && p.task->params[0].fixed.i != 0;
    return run.host_calls[static_cast<size_t>(p.task->host_call)].function(
        product(p.task->sizes), accumulate, pointers.data(), error);
}

Status status_of(int result) {
    const bool known = result > 0 && result <= static_cast<int>(Status::type_error);
    return known ? static_cast<Status>(result) : Status::runtime;
}

// "nll_loss: target 12 is out of range [0, 10) [model.py:14]"
std::string message(const Run& run, const PlanTask& p, const char* text) {
    const tile::TileGraph& graph = run.plan->graph;
    const uint32_t node = p.task->node;
    std::string out = node < graph.op_names.size() ? graph.op_names[node] : p.codelet->name;
    // A kernel begins its text with its own name; the op's name says more.
    const size_t name = std::strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    if (name > 0 && text[name] == ':' && text[name + 1] == ' ') text += name + 2;
    out += text_of(": ", *text ? text : "the kernel failed");
    if (node < graph.where.size() && !graph.where[node].empty())
        out += " [" + graph.where[node] + "]";
    return out;
}

// Whether something that the task reads was never computed. Its kernel must not see that: indices
// may be anything.
bool reads_lost_data(const Run& run, const PlanTask& p) {
    for (const Entry& e : p.entries)
        if (e.defined && run.memory[e.memory]->lost.load(std::memory_order_relaxed)) return true;
    return false;
}

// After a task that did not run or failed, what it writes is lost. Only data that it would have
// changed in place stays as it was: parameters survive a failed step.
void mark_lost(const Run& run, const PlanTask& p) {
    for (const Entry& e : p.entries)
        if (e.mode != STARPU_R && run.plan->memories[e.memory].kind != MemoryKind::input)
            run.memory[e.memory]->lost.store(true, std::memory_order_relaxed);
}

void mark_computed(const Run& run, const PlanTask& p) {
    for (const Entry& e : p.entries) {
        std::atomic<bool>& lost = run.memory[e.memory]->lost;
        if (e.mode != STARPU_R && !e.defined && lost.load(std::memory_order_relaxed))
            lost.store(false, std::memory_order_relaxed);
    }
}

void execute(void** buffers, void* arg) {
    const RunTask& task = *static_cast<const RunTask*>(arg);
    const Run& run = *task.run;
    Engine& e = engine();
    if (e.abandon.load(std::memory_order_relaxed)) return;
    const PlanTask& p = run.plan->tasks[task.index];
    if (reads_lost_data(run, p)) return mark_lost(run, p);
    char text[kernels::error_text_bytes] = "";
    int result = static_cast<int>(Status::runtime);
    try {
        std::optional<Sentinels> sentinels;
        if (Sentinels::wanted()) sentinels.emplace(run, p, buffers);
        result = run_task(run, p, buffers, text);
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
    if (result == 0) return mark_computed(run, p);
    mark_lost(run, p);
    e.report(status_of(result), message(run, p, text));
}

}  // namespace

starpu_codelet* codelet_of(const std::string& name) {
    static std::mutex mutex;
    static auto* const codelets = new std::map<std::string, starpu_codelet*>;
    std::lock_guard lock(mutex);
    auto [at, fresh] = codelets->try_emplace(name, nullptr);
    if (fresh) {
        at->second = new starpu_codelet{};
        at->second->cpu_funcs[0] = execute;
        at->second->where = STARPU_CPU;
        at->second->nbuffers = STARPU_VARIABLE_NBUFFERS;
        at->second->name = at->first.c_str();
    }
    return at->second;
}

}  // namespace nntile::runtime
