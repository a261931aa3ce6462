// SPDX-License-Identifier: BSD-3-Clause
// Start and end of StarPU; what happens at fork and at exit.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/error.hh"
#include "base/settings.hh"
#include "kernels/cuda.hh"
#include "kernels/gpu_math.hh"
#include "runtime/backend.hh"
#include "runtime/devices.hh"
#include "runtime/engine.hh"
#include "runtime/environment.hh"
#include "runtime/simulate.hh"
#include "runtime/trace.hh"
#include "tile/cost.hh"

namespace nntile::runtime {

namespace {

constexpr auto exit_patience = std::chrono::seconds(5);

struct Context {
    std::mutex mutex;  // start and shutdown
    std::atomic<bool> active{false}, forked{false};
    std::atomic<uint64_t> generation{0};
    bool hooked = false;
    bool verbose = false;
    int ncpu = 0;
    Swap swap;  // under the engine's mutex
};

Context& context() {
    static Context* const c = new Context;
    return *c;
}

void in_forked_child() {
    // The child has our memory but no workers. Without a context nothing is lost and it may start
    // its own.
    if (context().active.load()) context().forked.store(true);
}

// The process ends without a shutdown. Tasks that have not begun are skipped, those that run are
// waited for: afterwards no kernel touches what static destructors take away. Workers sleep until
// the process is gone.
void at_exit() {
    if (!active() || starpu_worker_get_id() >= 0) return;
    Engine& e = engine();
    e.abandon.store(true);
    // Never waits without an end: a task may wait for something that the end of the process has
    // stopped.
    const auto until = std::chrono::steady_clock::now() + exit_patience;
    std::unique_lock lock(e.mutex, std::defer_lock);
    while (!lock.try_lock()) {
        if (std::chrono::steady_clock::now() > until) return;
        std::this_thread::yield();
    }
    e.open = false;
    e.changed.wait_until(lock, until, [&] { return e.active_runs == 0; });
}

// Said once, by the first of them.
bool shares(const Config& config, const Settings& given) {
    static bool said = false;
    const bool divided = (config.ncpu < 0 && given.ncpu < 0) ||
                         (config.memory_bytes == 0 && given.memory_bytes == 0);
    return given.local_processes > 1 && given.local_rank == 0 && divided &&
           !std::exchange(said, true);
}

void start_locked(const Config& config) {
    Context& c = context();
    const Settings& given = read_settings();  // anew
    tile::cost();  // a file of constants that cannot be read is found before anything has started
    const int ncpu = config.ncpu < 0 ? cpu_workers() : config.ncpu;
    const int ncuda = config.ncuda >= 0 ? config.ncuda : std::max(0, given.ncuda);
    // Not `unsupported` where it is a setting: the host would be asked to do the op instead.
    check(
        with_cuda || ncuda == 0, config.ncuda < 0 ? Status::invalid_argument : Status::unsupported,
        "context: ", ncuda,
        " CUDA workers are asked for, but this build of nntile has no CUDA kernels; use ncuda = 0",
        config.ncuda < 0 ? " (the number comes from STARPU_NCUDA)" : "");
    check(ncpu > 0, Status::invalid_argument, "context: no worker at all (ncpu = 0, ncuda = 0)",
          config.ncpu < 0 ? ", which comes from STARPU_NCPU" : "");
    check(config.memory_bytes >= 0, Status::invalid_argument, "context: memory of ",
          config.memory_bytes, " bytes");
    constexpr int64_t stack = 8 << 20;
    const int64_t left = memory::address_space_left();
    check(left / stack > ncpu && left > memory::spared_address_space, Status::out_of_memory,
          "context: the limit on the address space (ulimit -v) leaves ", left,
          " bytes, too few for ", ncpu, " workers");
    check(config.swap_bytes >= 0, Status::invalid_argument, "context: swap of ", config.swap_bytes,
          " bytes");
    Swap swap = swap_of(config);
    std::unique_ptr<Disk> disk;
    if (!swap.folder.empty()) disk = std::make_unique<Disk>(swap.folder, swap.bytes);
    kernels::single_thread_blas();
    const double spin_seconds = config.spin_seconds < 0 ? 100e-6 : config.spin_seconds;
    backend::start({ncpu, ncuda, spin_seconds, config.verbose});
    tile::set_gpus(backend::devices(), backend::device_architecture());
    c.ncpu = backend::cpu_workers();
    c.verbose = config.verbose;
    if (!c.hooked) {
        pthread_atfork(nullptr, nullptr, in_forked_child);
        std::atexit(at_exit);
        c.hooked = true;
    }
    Engine& e = engine();
    std::lock_guard lock(e.mutex);
    e.pool.budget = config.memory_bytes > 0 ? config.memory_bytes : memory_budget();
    e.pool.workers = c.ncpu;
    cut_for(e.pool.budget);
    e.pool.set_page(disk ? memory::fine_page : memory::huge_page);
    // A pinned region stays as a whole: within a budget its pages must go back one by one.
    e.pool.set_pinning(disk ? memory::Pinning{} : backend::pinning());
    e.stager.open(std::move(disk), c.ncpu);
    c.swap = std::move(swap);
    e.pool.reset_peaks();
    e.launches = 0;
    e.submitted = e.done = 0;
    e.abandon = false;
    e.float_state = float_state();
    if (backend::devices() > 0) e.attendant.start(spin_seconds);
    e.open = true;
    ++c.generation;
    c.active = true;
    if (shares(config, given))
        std::fprintf(stderr,
                     "nntile: %d processes share this machine (LOCAL_WORLD_SIZE): %d workers and "
                     "%.1f GiB for each; ncpu and memory of init_context() say otherwise\n",
                     given.local_processes, c.ncpu, static_cast<double>(e.pool.budget) / (1 << 30));
    if (config.verbose)
        std::fprintf(stderr, "nntile: %d CPU workers, %d CUDA workers, %lld bytes for tiles%s\n",
                     c.ncpu, backend::devices(), static_cast<long long>(e.pool.budget),
                     c.swap.folder.empty()
                         ? ""
                         : text_of(", ", c.swap.bytes, " bytes in ", c.swap.folder).c_str());
}

}  // namespace

bool active() { return context().active.load() && !forked(); }
bool idle() { return active() && engine().submitted.load() == engine().done.load(); }
int gpus() { return backend::devices(); }

bool forked() { return context().forked.load(); }
void check_not_forked() {
    check(
        !forked(), Status::invalid_state,
        "the runtime cannot be used in a forked child process; use multiprocessing with the spawn "
        "start method");
}
uint64_t generation() { return context().generation.load(); }

void start(const Config& config) {
    check_not_forked();
    Context& c = context();
    std::lock_guard lock(c.mutex);
    check(!c.active, Status::invalid_state, "a context is already active; call shutdown first");
    start_locked(config);
}

void ensure_started() {
    check_not_forked();
    Context& c = context();
    if (c.active) return;
    std::lock_guard lock(c.mutex);
    if (!c.active) start_locked({});
}

void shutdown() {
    check_not_forked();
    Context& c = context();
    std::lock_guard only(c.mutex);
    if (!c.active) return;
    Engine& e = engine();
    {
        std::unique_lock lock(e.mutex);
        e.open = false;  // launches that wait for memory give up
        e.changed.notify_all();
        e.changed.wait(lock,
                       [&] { return e.active_runs == 0 && e.guests == 0 && !e.stager.moving(); });
        starpu_task_wait_for_all();  // StarPU's own end of tasks that we have seen end
        e.stager.close();
        e.pool.end_all();
    }
    e.forget_error();
    if (backend::devices() > 0) e.attendant.stop();
    backend::stop();
    tile::set_gpus(0, 0);
    c.active = false;
    if (c.verbose) std::fprintf(stderr, "nntile: stopped\n");
}

void pace() {
    if (active()) engine().pace();
}

void wait() {
    check_not_forked();
    if (!active()) return;
    Engine& e = engine();
    {
        std::unique_lock lock(e.mutex);
        if (noting.load(std::memory_order_relaxed)) note_wait_for_all();
        e.drain(lock);
    }
    e.throw_error();
}

void abandon() { engine().abandon = true; }

void restrict_to(std::string_view where) {
    check(where == "any" || where == "cpu" || where == "cuda", Status::invalid_argument,
          "restrict: workers are \"cpu\", \"cuda\" or \"any\", not \"", where, "\"");
    using backend::Kind;
    check(where != "cuda" || with_cuda, Status::unsupported,
          "restrict: this build of nntile has no CUDA kernels");
    check(where != "cuda" || !active() || backend::devices() > 0, Status::invalid_state,
          "restrict: this context has no CUDA workers; give ncuda to init_context()");
    backend::restrict_to(where == "cpu" ? Kind::cpu : where == "cuda" ? Kind::cuda : Kind::any);
}

void set_gpu_math(uint32_t math) {
    constexpr uint32_t known =
        kernels::tf32_products | kernels::tf32_convolutions | kernels::use_dnn;
    check((math & ~known) == 0, Status::invalid_argument, "gpu_math: ", math,
          " has bits that are not of nntile_gpu_math");
    backend::set_gpu_math(math);
}

void trim() {
    if (!active()) return;
    Engine& e = engine();
    std::lock_guard lock(e.mutex);
    e.pool.trim();
}

void reset_peaks() {
    if (!active()) return;
    Engine& e = engine();
    std::lock_guard lock(e.mutex);
    e.pool.reset_peaks();
    if (e.stager.has_disk()) e.stager.counts.used_peak = e.stager.disk()->used_bytes();
}

Stats stats() {
    Stats s;
    s.machine_bytes = memory_of_machine();
    if (!active()) {
        s.budget_bytes = memory_budget();
        return s;
    }
    Engine& e = engine();
    std::lock_guard lock(e.mutex);
    s.tasks = e.done;
    s.launches = e.launches;
    s.in_flight = e.submitted - s.tasks;
    s.tiles = e.pool.tiles;
    s.tile_bytes = e.pool.reserved();
    // What is in use may lie on the disk
    s.pool_bytes = std::max<int64_t>(e.pool.reserved() - e.pool.used_bytes, 0);
    s.peak_bytes = e.pool.peak_bytes;
    s.reserved_peak_bytes = e.pool.reserved_peak();
    s.ncpu = context().ncpu;
    s.ncuda = backend::devices();
    s.device_tasks = backend::device_tasks();
    s.budget_bytes = e.pool.budget;
    s.tensor_bytes = e.pool.owned_bytes;
    s.run_bytes = e.pool.used_bytes - e.pool.owned_bytes;
    s.swap_bytes = context().swap.bytes;
    const Stager::Counts& counts = e.stager.counts;
    if (e.stager.has_disk()) s.swap_used_bytes = e.stager.disk()->used_bytes();
    s.swap_used_peak_bytes = counts.used_peak;
    s.read_bytes = counts.read_bytes;
    s.written_bytes = counts.written_bytes;
    s.evictions = counts.evictions;
    s.dropped = counts.dropped;
    s.idle_bytes = s.pool_bytes;
    return s;
}

namespace {

std::string cuda_version() {
    if constexpr (with_cuda) return devices::versions();
    return "not built";
}

}  // namespace

std::string describe() {
    int major = 0, minor = 0, release = 0;
    starpu_get_version(&major, &minor, &release);
    std::string text = text_of("starpu: ", major, ".", minor, ".", release,
                               "\nisa: ", kernels::isa(), "\ncuda: ", cuda_version(), "\n");
    if (forked()) return text + "context: lost by fork\n";
    if (!active()) return text + "context: none\n";
    const Stats s = stats();
    std::string swap = "none";
    if (s.swap_bytes > 0) {
        std::lock_guard lock(engine().mutex);
        swap = text_of(s.swap_bytes, " bytes in ", context().swap.folder,
                       "\nswap in use: ", s.swap_used_bytes, " bytes");
    }
    return text + text_of("context: active\n", backend::describe(),
                          "memory budget: ", s.budget_bytes,
                          " bytes\nmemory in use: ", s.tensor_bytes + s.run_bytes,
                          " bytes\nswap: ", swap, "\npolicy: depth first, sleeping\n");
}

}  // namespace nntile::runtime
