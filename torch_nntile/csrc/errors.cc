// SPDX-License-Identifier: BSD-3-Clause
#include "errors.h"

#include <c10/util/Exception.h>

#include <string>

namespace torch_nntile {

void raise(nntile_status status, nntile_error* error) {
    const std::string text = error ? nntile_error_message(error) : "nntile: a call failed";
    nntile_error_destroy(error);
    switch (status) {
        case NNTILE_INDEX_ERROR:
            C10_THROW_ERROR(IndexError, text);
        case NNTILE_TYPE_ERROR:
            C10_THROW_ERROR(TypeError, text);
        case NNTILE_OUT_OF_MEMORY:
            C10_THROW_ERROR(OutOfMemoryError, text);
        case NNTILE_UNSUPPORTED:
            C10_THROW_ERROR(NotImplementedError, text);
        default:
            C10_THROW_ERROR(Error, text);
    }
}

nntile_status status_of_current_exception(nntile_error** error) noexcept {
    const auto report = [error](nntile_status status, const char* text) {
        if (error) *error = nntile_error_create(status, text);
        return status;
    };
    try {
        throw;
    } catch (const c10::IndexError& e) {
        return report(NNTILE_INDEX_ERROR, e.what_without_backtrace());
    } catch (const c10::TypeError& e) {
        return report(NNTILE_TYPE_ERROR, e.what_without_backtrace());
    } catch (const c10::OutOfMemoryError& e) {
        return report(NNTILE_OUT_OF_MEMORY, e.what_without_backtrace());
    } catch (const c10::NotImplementedError& e) {
        return report(NNTILE_UNSUPPORTED, e.what_without_backtrace());
    } catch (const c10::Error& e) {
        return report(NNTILE_INVALID_ARGUMENT, e.what_without_backtrace());
    } catch (const std::bad_alloc&) {
        return report(NNTILE_OUT_OF_MEMORY, "out of host memory");
    } catch (const std::exception& e) {
        return report(NNTILE_INTERNAL, e.what());
    } catch (...) {
        return report(NNTILE_INTERNAL, "unknown exception");
    }
}

}  // namespace torch_nntile
