// SPDX-License-Identifier: BSD-3-Clause
// The C face: unpack, guard, forward.
#include "contract/stub.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "contract/address_space.h"
#include "contract/device.h"
#include "contract/errors.h"
#include "device/rng.h"
#include "device/steps.h"
#include "host/fallback.h"
#include "observe/places.h"
#include "observe/recording.h"
#include "rows/compositions.h"
#include "rows/kernels.h"
#include "rows/rows.h"
#include "shapes/habits.h"
#include "shapes/structured.h"

using namespace torch_nntile;

nntile_record* nntile_stub_record(void) {
    nntile_record* found = nullptr;
    (void)guarded(nullptr, [&] { found = record(); });
    return found;
}

nntile_buffer* nntile_stub_buffer(uint64_t storage_address, int64_t* byte_offset) {
    const auto* address = reinterpret_cast<const char*>(storage_address);
    const Home* home = address_space().find(address);
    if (!home) return nullptr;
    *byte_offset = address - home->address;
    return home->buffer;
}

nntile_status nntile_stub_register_row(const char* aten_name, const char* overload, const char* op,
                                       const char* arguments, int flags, nntile_error** error) {
    return guarded(error, [&] { register_row(aten_name, overload, op, arguments, flags); });
}

nntile_status nntile_stub_register_kernel(const char* name, uint64_t keyed, nntile_error** error) {
    return guarded(error, [&] { register_kernel(name, keyed); });
}

nntile_status nntile_stub_register_composition(const char* aten_name, const char* overload,
                                               int on_host, nntile_error** error) {
    return guarded(error, [&] { register_composition(aten_name, overload, on_host != 0); });
}

nntile_status nntile_stub_register_others(nntile_error** error) {
    return guarded(error, [] { register_structured_on_host(); });
}

int nntile_stub_habit(const char* name, const char* overload) {
    const Habit& habit = habit_of(name, overload);
    return habit.layout + 16 * habit.is;
}

nntile_status nntile_stub_step_begin(nntile_error** error) {
    return guarded(error, [] { begin_step(); });
}

nntile_status nntile_stub_step_end(nntile_error** error) {
    return guarded(error, [] { end_step(); });
}

void nntile_stub_watch_steps(void) {
    (void)guarded(nullptr, [] { watch_steps(); });
}

void nntile_stub_fallback_mode(int mode) { set_fallback_mode(mode); }

template <class Make>
static size_t copy_text(char* out, size_t size, Make&& make) {
    std::string text;
    (void)guarded(nullptr, [&] { text = make(); });
    if (size) {
        const size_t n = std::min(size - 1, text.size());
        std::memcpy(out, text.data(), n);
        out[n] = 0;
    }
    return text.size() + 1;
}

size_t nntile_stub_fallback_report(char* out, size_t size) {
    return copy_text(out, size, [] { return fallback_report(); });
}

void nntile_stub_fallback_reset(void) { reset_fallback_report(); }

int64_t nntile_stub_call_state(void) { return call_state(); }

int64_t nntile_stub_meta_calls(void) { return infer_calls(); }

nntile_status nntile_stub_synchronize(nntile_error** error) {
    return guarded(error, [] { synchronize(); });
}

void nntile_stub_rng_get(uint64_t* seed, uint64_t* offset) {
    const Draw state = default_state();
    *seed = state.seed;
    *offset = state.offset;
}

void nntile_stub_rng_set(uint64_t seed, uint64_t offset) { set_default_state({seed, offset}); }

uint64_t nntile_stub_rng_reseed(void) {
    set_default_state({c10::detail::getNonDeterministicRandom(), 0});
    return default_state().seed;
}

int64_t nntile_stub_rng_outside(void) { return draws_outside(); }

void nntile_stub_interruption(void* python_type, const char* text) {
    (void)guarded(nullptr, [&] { set_interruption(python_type, text); });
}

int nntile_stub_places(const char* folders, int fast) {
    bool agree = false;
    (void)guarded(nullptr, [&] { agree = start_places(folders, fast); });
    return agree;
}

size_t nntile_stub_place_line(uint64_t place, char* out, size_t size) {
    return copy_text(out, size, [place] { return line_of(place); });
}

size_t nntile_stub_place_module(uint64_t place, char* out, size_t size) {
    return copy_text(out, size, [place] { return module_of(place); });
}

uint32_t nntile_stub_module_number(const char* name) {
    uint32_t number = 0;
    (void)guarded(nullptr, [&] { number = module_number(name); });
    return number;
}

void nntile_stub_module(uint32_t module) { enter_module(module); }

void nntile_stub_blocking(int on) { blocking = on != 0; }

int nntile_stub_profile_begin(void) { return begin_profile(); }

void nntile_stub_profile_end(void) { end_profile(); }

size_t nntile_stub_profile_events(const nntile_stub_event** events) {
    size_t count = 0;
    (void)guarded(nullptr, [&] { count = profile_events(events); });
    return count;
}

// A worker of autograd frees the graph of the last backward() after the caller has gone on. That
// graph holds Python objects, so the worker asks for the GIL; in an interpreter that ends this is
// the end of the process. One more backward, from a thread that never saw Python, is only begun
// when the old graph is gone.
void nntile_stub_drain(void) {
    if (nntile_context_forked()) return;
    std::thread([] {
        (void)guarded(nullptr, [] {
            at::Tensor x = at::empty({1}, at::TensorOptions(device()));
            x.set_requires_grad(true);
            x.view({1, 1}).backward(at::empty({1, 1}, at::TensorOptions(device())));
        });
    }).join();
}
