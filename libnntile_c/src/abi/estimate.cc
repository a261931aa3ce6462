// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/estimate.h"

#include <algorithm>

#include "abi/guard.hh"
#include "runtime/rehearse.hh"
#include "runtime/runtime.hh"

using namespace nntile;
using namespace nntile::abi;

struct nntile_estimate {
    std::unique_ptr<runtime::Noted> noted;
    std::vector<runtime::Holder> holders;
};

namespace {

template <class Struct>
size_t size_given(const Struct* given, const char* function, const char* name) {
    need(given, function, name);
    check(given->struct_size >= sizeof(size_t), Status::invalid_argument, function,
          ": struct_size is ", given->struct_size, "; set it to sizeof(nntile_estimate_", name,
          ")");
    return given->struct_size;
}

}  // namespace

nntile_status nntile_estimate_begin(nntile_error** error) {
    return guard(error, [] { runtime::begin_estimate(); });
}

nntile_status nntile_estimate_end(nntile_estimate** out, nntile_error** error) {
    return guard(error, [&] {
        std::unique_ptr<runtime::Noted> noted = runtime::end_estimate();
        if (out) *out = new nntile_estimate{std::move(noted), {}};
    });
}

nntile_status nntile_estimate_play(const nntile_estimate* estimate, int32_t workers,
                                   nntile_estimate_report* report, nntile_error** error) {
    return guard(error, [&] {
        need(estimate, "nntile_estimate_play", "estimate");
        const size_t size = size_given(report, "nntile_estimate_play", "report");
        const runtime::Played played = runtime::play(*estimate->noted, workers);
        const nntile_estimate_report now{
            size,           estimate->noted->launches, estimate->noted->tasks,
            played.seconds, played.work_seconds,       played.critical_seconds};
        std::memcpy(report, &now, std::min(size, sizeof now));
    });
}

nntile_status nntile_estimate_end_step(nntile_error** error) {
    return guard(error, [] { runtime::end_step(); });
}

nntile_status nntile_estimate_imagine(int32_t on, int64_t memory_bytes, nntile_error** error) {
    return guard(error, [&] { runtime::imagine(on != 0, memory_bytes); });
}

nntile_status nntile_estimate_rehearse(nntile_estimate* estimate,
                                       const nntile_estimate_machine* machine,
                                       nntile_estimate_memory* report, nntile_error** error) {
    return guard(error, [&] {
        constexpr const char* function = "nntile_estimate_rehearse";
        need(estimate, function, "estimate");
        nntile_estimate_machine given{};
        std::memcpy(&given, machine,
                    std::min(size_given(machine, function, "machine"), sizeof given));
        const size_t size = size_given(report, function, "memory");
        runtime::Rehearsed played = runtime::rehearse(
            *estimate->noted, {given.workers, given.memory_bytes, given.swap_bytes_per_second});
        estimate->holders = std::move(played.holders);
        const nntile_estimate_memory now{
            .struct_size = size,
            .seconds = played.seconds,
            .peak_bytes = played.peak_bytes,
            .reserved_peak_bytes = played.reserved_peak_bytes,
            .swap_peak_bytes = played.swap_peak_bytes,
            .read_bytes = played.moved.read,
            .written_bytes = played.moved.written,
            .least_read_bytes = played.least.read,
            .least_written_bytes = played.least.written,
            .holders = static_cast<int64_t>(estimate->holders.size()),
        };
        std::memcpy(report, &now, std::min(size, sizeof now));
    });
}

nntile_status nntile_estimate_holder_get(const nntile_estimate* estimate, int64_t index,
                                         nntile_estimate_holder* holder, nntile_error** error) {
    return guard(error, [&] {
        constexpr const char* function = "nntile_estimate_holder_get";
        need(estimate, function, "estimate");
        const size_t size = size_given(holder, function, "holder");
        const auto count = static_cast<int64_t>(estimate->holders.size());
        check(index >= 0 && index < count, Status::index_error, function, ": index ", index,
              " is out of range [0, ", count, ")");
        const runtime::Holder& h = estimate->holders[static_cast<size_t>(index)];
        const nntile_estimate_holder now{size, h.op.c_str(), h.place, h.bytes, h.tiles};
        std::memcpy(holder, &now, std::min(size, sizeof now));
    });
}

void nntile_estimate_destroy(nntile_estimate* estimate) { delete estimate; }
