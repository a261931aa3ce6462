// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/buffer.h"

#include "abi/guard.hh"
#include "abi/record.hh"

using namespace nntile;
using namespace nntile::abi;

nntile_status nntile_buffer_create(nntile_record* record, int64_t nbytes, nntile_buffer** out,
                                   nntile_error** error) {
    return guard(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_buffer_create");
        need(out, "nntile_buffer_create", "out");
        *out = handle_of(recorder.create_buffer(nbytes));
    });
}

void nntile_buffer_destroy(nntile_buffer* buffer) {
    // A child leaks it: the parent's threads hold locks there
    if (!buffer || runtime::forked()) return;
    record::Buffer* b = buffer_of(buffer);
    guard(nullptr, [&] { b->owner->destroy_buffer(b); });
}

void nntile_buffer_totals(nntile_record* record, int64_t* count, int64_t* bytes,
                          int64_t* peak_bytes) {
    if (count) *count = record ? record->recorder->buffers.load() : 0;
    if (bytes) *bytes = record ? record->recorder->buffer_bytes.load() : 0;
    if (peak_bytes) *peak_bytes = record ? record->recorder->buffer_peak.load() : 0;
}

void nntile_buffer_reset_peak(nntile_record* record) {
    if (record) record->recorder->buffer_peak = record->recorder->buffer_bytes.load();
}
