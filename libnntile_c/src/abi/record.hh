// SPDX-License-Identifier: BSD-3-Clause
// What stands behind nntile_record and nntile_buffer.
#pragma once

#include "abi/guard.hh"
#include "base/error.hh"
#include "executor.hh"
#include "nntile/record.h"

struct nntile_record {
    std::shared_ptr<nntile::record::Recorder> recorder;
    nntile::PlanExecutor* executor;  // the recorder's
};

namespace nntile::abi {

// In a forked child the recorder's mutexes may be held by threads that do not exist there.
inline record::Recorder& recorder_of(nntile_record* record, const char* function) {
    check(record, Status::invalid_argument, function, ": record is NULL");
    runtime::check_not_forked();
    return *record->recorder;
}

// Of calls that begin work: afterwards the caller waits, without a lock, if it is far ahead.
template <class Body>
nntile_status paced(nntile_error** error, Body&& body) noexcept {
    return guard(error, [&] {
        body();
        runtime::pace();
    });
}

using Operands = SmallVector<record::Operand, 6>;
// function: for messages.
Operands operands_of(const nntile_operand* operands, size_t n, const char* function);

inline record::Buffer* buffer_of(nntile_buffer* b) { return reinterpret_cast<record::Buffer*>(b); }
inline nntile_buffer* handle_of(record::Buffer* b) { return reinterpret_cast<nntile_buffer*>(b); }

}  // namespace nntile::abi
