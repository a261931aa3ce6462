// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/context.h"

#include <algorithm>

#include "abi/guard.hh"
#include "base/settings.hh"
#include "base/wait.hh"
#include "kernels/gpu_math.hh"
#include "runtime/runtime.hh"

using namespace nntile;
using namespace nntile::abi;

static_assert(uint32_t{kernels::tf32_products} == uint32_t{NNTILE_TF32_PRODUCTS});
static_assert(uint32_t{kernels::tf32_convolutions} == uint32_t{NNTILE_TF32_CONVOLUTIONS});
static_assert(uint32_t{kernels::use_dnn} == uint32_t{NNTILE_CUDNN});

namespace {

// A struct of a caller that knows fewer or more fields than we do: missing ones are zero,
// additional ones must be.
nntile_context_config config_of(const nntile_context_config* given) {
    nntile_context_config config{};
    if (!given) return config;
    check(given->struct_size >= sizeof(size_t), Status::invalid_argument,
          "nntile_context_create: struct_size is ", given->struct_size,
          "; set it to sizeof(nntile_context_config)");
    const auto* bytes = reinterpret_cast<const char*>(given);
    std::memcpy(&config, bytes, std::min(given->struct_size, sizeof config));
    for (size_t k = sizeof config; k < given->struct_size; ++k)
        check(bytes[k] == 0, Status::unsupported,
              "nntile_context_create: a setting is given that this version of the library does not "
              "know");
    return config;
}

}  // namespace

nntile_status nntile_context_create(const nntile_context_config* config, nntile_error** error) {
    return guard(error, [&] {
        const nntile_context_config c = config_of(config);
        check(c.ncpu >= -1 && c.ncuda >= -2 && c.memory_bytes >= 0 && c.swap_bytes >= 0,
              Status::invalid_argument, "nntile_context_create: ncpu ", c.ncpu, ", ncuda ", c.ncuda,
              ", memory_bytes ", c.memory_bytes, ", swap_bytes ", c.swap_bytes,
              ": a setting is negative");
        runtime::Config settings;
        if (c.ncpu != 0) settings.ncpu = c.ncpu;
        if (c.ncuda != 0) settings.ncuda = c.ncuda == -2 ? 0 : c.ncuda;
        settings.memory_bytes = c.memory_bytes;
        if (c.spin_seconds > 0) settings.spin_seconds = c.spin_seconds;
        settings.verbose = c.verbose != 0;
        if (c.swap) settings.swap = c.swap;
        settings.swap_bytes = c.swap_bytes;
        runtime::start(settings);
    });
}

nntile_status nntile_context_shutdown(nntile_error** error) {
    return guard(error, [] { runtime::shutdown(); });
}

int nntile_context_active(void) {
    return guard_value(0, [] { return runtime::active() ? 1 : 0; });
}

int nntile_context_forked(void) {
    return guard_value(0, [] { return runtime::forked() ? 1 : 0; });
}

nntile_status nntile_context_wait(nntile_error** error) {
    return guard(error, [] { runtime::wait(); });
}

void nntile_context_abandon(void) { runtime::abandon(); }

void nntile_wait_interrupted(int (*interrupted)(void)) { set_interrupted(interrupted); }

void nntile_wait_outside(int (*held)(void), void* (*leave)(void), void (*back)(void* state)) {
    const bool whole = held && leave && back;
    guard(nullptr, [&] {
        set_interpreter_lock(whole ? InterpreterLock{held, leave, back} : InterpreterLock{});
    });
}

nntile_status nntile_context_restrict(const char* where, nntile_error** error) {
    return guard(error, [&] {
        need(where, "nntile_context_restrict", "where");
        runtime::restrict_to(where);
    });
}

int nntile_context_gpus(void) { return runtime::active() ? runtime::gpus() : -1; }

nntile_status nntile_context_gpu_math(uint32_t math, nntile_error** error) {
    return guard(error, [&] { runtime::set_gpu_math(math); });
}

nntile_status nntile_context_stats_get(nntile_context_stats* stats, nntile_error** error) {
    return guard(error, [&] {
        need(stats, "nntile_context_stats_get", "stats");
        const size_t size = stats->struct_size;
        check(size >= sizeof(size_t), Status::invalid_argument,
              "nntile_context_stats_get: struct_size is ", size,
              "; set it to sizeof(nntile_context_stats)");
        const runtime::Stats s = runtime::stats();
        const nntile_context_stats now{
            .struct_size = size,
            .tasks = s.tasks,
            .launches = s.launches,
            .in_flight = s.in_flight,
            .tiles = s.tiles,
            .tile_bytes = s.tile_bytes,
            .pool_bytes = s.pool_bytes,
            .peak_bytes = s.peak_bytes,
            .ncpu = s.ncpu,
            .ncuda = s.ncuda,
            .budget_bytes = s.budget_bytes,
            .reserved_peak_bytes = s.reserved_peak_bytes,
            .swap_bytes = s.swap_bytes,
            .swap_used_bytes = s.swap_used_bytes,
            .swap_used_peak_bytes = s.swap_used_peak_bytes,
            .read_bytes = s.read_bytes,
            .written_bytes = s.written_bytes,
            .evictions = s.evictions,
            .dropped = s.dropped,
            .tensor_bytes = s.tensor_bytes,
            .run_bytes = s.run_bytes,
            .idle_bytes = s.idle_bytes,
            .machine_bytes = s.machine_bytes,
            .device_tasks = s.device_tasks,
        };
        std::memcpy(stats, &now, std::min(size, sizeof now));
    });
}

void nntile_context_reset_peaks(void) {
    guard(nullptr, [] { runtime::reset_peaks(); });
}

nntile_status nntile_context_check_settings(nntile_error** error) {
    return guard(error, [] { read_settings(); });
}

nntile_status nntile_context_settings_get(nntile_settings* to, nntile_error** error) {
    return guard(error, [&] {
        need(to, "nntile_context_settings_get", "settings");
        const size_t size = to->struct_size;
        check(size >= sizeof(size_t), Status::invalid_argument,
              "nntile_context_settings_get: struct_size is ", size,
              "; set it to sizeof(nntile_settings)");
        const Settings& s = settings();
        const nntile_settings now{
            .struct_size = size,
            .local_processes = s.local_processes,
            .cpu_fallback = s.cpu_fallback,
            .blocking = s.blocking,
            .cost = s.cost.c_str(),
            .data_dir = s.data_dir.c_str(),
        };
        std::memcpy(to, &now, std::min(size, sizeof now));
    });
}

nntile_status nntile_context_parse_size(const char* what, const char* text, int64_t* bytes,
                                        nntile_error** error) {
    return guard(error, [&] {
        need(what, "nntile_context_parse_size", "what");
        need(text, "nntile_context_parse_size", "text");
        need(bytes, "nntile_context_parse_size", "bytes");
        *bytes = size_of(what, text);
    });
}

nntile_status nntile_context_unknown_settings(char** text, nntile_error** error) {
    return guard(error, [&] {
        need(text, "nntile_context_unknown_settings", "text");
        *text = copy_text(unknown_settings());
    });
}

const char* nntile_context_describe(void) {
    thread_local std::string text;
    return guard_value("", [] { return (text = runtime::describe()).c_str(); });
}
