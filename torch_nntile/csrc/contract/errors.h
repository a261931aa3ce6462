// SPDX-License-Identifier: BSD-3-Clause
// Errors across the two borders: a status of libnntile_c becomes the exception class that PyTorch
// would raise, and an exception becomes a status of our own C face.
#pragma once

#include <exception>
#include <utility>

#include "nntile/nntile.h"

namespace torch_nntile {

// An interrupted wait of this thread raises this class of Python's.
void set_interruption(void* type, const char* text);

// Throws the exception of the status, with the error's message; ends the error.
[[noreturn]] void raise(nntile_status status, nntile_error* error);

// Calls a function of libnntile_c, whose last parameter is the error.
template <class... Formal, class... Actual>
void call(nntile_status (*function)(Formal...), const Actual&... actual) {
    nntile_error* error = nullptr;
    const nntile_status status = function(actual..., &error);
    if (status != NNTILE_OK) [[unlikely]]
        raise(status, error);
}

// Status of the exception that is being handled; *error (may be NULL) gets its message.
nntile_status status_of_current_exception(nntile_error** error) noexcept;

template <class Body>
nntile_status guarded(nntile_error** error, Body&& body) noexcept {
    if (error) *error = nullptr;
    try {
        std::forward<Body>(body)();
        return NNTILE_OK;
    } catch (...) {
        return status_of_current_exception(error);
    }
}

}  // namespace torch_nntile
