// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>
#include <cstring>

#include "base/error.hh"
#include "nntile/error.h"

struct nntile_error {
    nntile_status status;
    char* message;  // behind this struct, in the same allocation
};

static_assert(static_cast<int>(nntile::Status::linalg_error) == NNTILE_LINALG_ERROR);

nntile_status nntile_error_status(const nntile_error* error) {
    return error ? error->status : NNTILE_OK;
}

const char* nntile_error_message(const nntile_error* error) { return error ? error->message : ""; }

// Plain C: it must work where memory is short and no exception may be thrown.
nntile_error* nntile_error_create(nntile_status status, const char* message) {
    if (!message) message = "";
    const size_t bytes = std::strlen(message) + 1;
    auto* error = static_cast<nntile_error*>(std::malloc(sizeof(nntile_error) + bytes));
    if (!error) return nullptr;
    error->status = status;
    error->message = reinterpret_cast<char*>(error + 1);
    std::memcpy(error->message, message, bytes);
    return error;
}

void nntile_error_destroy(nntile_error* error) { std::free(error); }
