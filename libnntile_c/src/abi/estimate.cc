// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/estimate.h"

#include <algorithm>

#include "abi/guard.hh"
#include "runtime/simulate.hh"

using namespace nntile;
using namespace nntile::abi;

struct nntile_estimate {
    std::unique_ptr<runtime::Noted> noted;
};

nntile_status nntile_estimate_begin(nntile_error** error) {
    return guard(error, [] { runtime::begin_estimate(); });
}

nntile_status nntile_estimate_end(nntile_estimate** out, nntile_error** error) {
    return guard(error, [&] {
        std::unique_ptr<runtime::Noted> noted = runtime::end_estimate();
        if (out) *out = new nntile_estimate{std::move(noted)};
    });
}

nntile_status nntile_estimate_play(const nntile_estimate* estimate, int32_t workers,
                                   nntile_estimate_report* report, nntile_error** error) {
    return guard(error, [&] {
        need(estimate, "nntile_estimate_play", "estimate");
        need(report, "nntile_estimate_play", "report");
        const size_t size = report->struct_size;
        check(size >= sizeof(size_t), Status::invalid_argument,
              "nntile_estimate_play: struct_size is ", size,
              "; set it to sizeof(nntile_estimate_report)");
        const runtime::Played played = runtime::play(*estimate->noted, workers);
        const nntile_estimate_report now{
            size,           estimate->noted->launches, estimate->noted->tasks,
            played.seconds, played.work_seconds,       played.critical_seconds};
        std::memcpy(report, &now, std::min(size, sizeof now));
    });
}

void nntile_estimate_destroy(nntile_estimate* estimate) { delete estimate; }
