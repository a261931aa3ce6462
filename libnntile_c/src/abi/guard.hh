// SPDX-License-Identifier: BSD-3-Clause
// The border between exceptions and statuses: every function of the C ABI that can fail runs inside
// guard().
#pragma once

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "base/error.hh"
#include "nntile/error.h"

namespace nntile::abi {

template <class Body>
nntile_status guard(nntile_error** error, Body&& body) noexcept {
    const auto report = [error](Status status, const char* text) {
        const auto code = static_cast<nntile_status>(status);
        if (error) *error = nntile_error_create(code, text);
        return code;
    };
    if (error) *error = nullptr;
    try {
        body();
        return NNTILE_OK;
    } catch (const Error& e) {
        return report(e.status, e.what());
    } catch (const std::bad_alloc&) {
        return report(Status::out_of_memory, "no memory for the library's own data");
    } catch (const std::exception& e) {
        return report(Status::internal, e.what());
    } catch (...) {
        return report(Status::internal, "an exception of an unknown type");
    }
}

// For functions without a status: `otherwise` where the body fails.
template <class T, class Body>
T guard_value(T otherwise, Body&& body) noexcept {
    T value = otherwise;
    const nntile_status status = guard(nullptr, [&] { value = body(); });
    return status == NNTILE_OK ? value : otherwise;
}

// function: name of the C function; a pointer that must not be NULL.
inline void need(const void* pointer, const char* function, const char* argument) {
    check(pointer, Status::invalid_argument, function, ": ", argument, " is NULL");
}

// A text that the caller ends with nntile_text_free().
inline char* copy_text(std::string_view text) {
    auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, text.data(), text.size());
    copy[text.size()] = '\0';
    return copy;
}

}  // namespace nntile::abi
