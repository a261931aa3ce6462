// SPDX-License-Identifier: BSD-3-Clause
#include "contract/errors.h"

#include <c10/util/Exception.h>

#include <string>

// As in torch/csrc/Exceptions.h, which needs Python: the bindings make an exception of
// python_type().
struct _object;
namespace torch {
struct PyTorchError : std::exception {
    explicit PyTorchError(std::string text) : msg(std::move(text)) {}
    virtual _object* python_type() = 0;
    const char* what() const noexcept override { return msg.c_str(); }
    std::string msg;
};
}  // namespace torch

namespace torch_nntile {
namespace {

// What the handler of a signal has raised in the one thread that is interrupted.
thread_local _object* raised_type = nullptr;
thread_local std::string raised_text;

struct Interrupted final : torch::PyTorchError {
    using PyTorchError::PyTorchError;
    _object* python_type() override { return raised_type; }
};

}  // namespace

void set_interruption(void* type, const char* text) {
    raised_type = static_cast<_object*>(type);
    raised_text = text;
}

void raise(nntile_status status, nntile_error* error) {
    const std::string text = error ? nntile_error_message(error) : "nntile: a call failed";
    nntile_error_destroy(error);
    switch (status) {
        case NNTILE_INTERRUPTED:
            if (raised_type) throw Interrupted(raised_text);
            break;
        case NNTILE_INDEX_ERROR: C10_THROW_ERROR(IndexError, text);
        case NNTILE_TYPE_ERROR: C10_THROW_ERROR(TypeError, text);
        case NNTILE_OUT_OF_MEMORY: C10_THROW_ERROR(OutOfMemoryError, text);
        case NNTILE_UNSUPPORTED: C10_THROW_ERROR(NotImplementedError, text);
        case NNTILE_VALUE_ERROR: C10_THROW_ERROR(ValueError, text);
        case NNTILE_LINALG_ERROR: C10_THROW_ERROR(LinAlgError, text);
        default: break;
    }
    C10_THROW_ERROR(Error, text);
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
    } catch (const c10::ValueError& e) {
        return report(NNTILE_VALUE_ERROR, e.what_without_backtrace());
    } catch (const c10::LinAlgError& e) {
        return report(NNTILE_LINALG_ERROR, e.what_without_backtrace());
    } catch (const c10::Error& e) {
        // Not INVALID_ARGUMENT, which is a ValueError in Python: PyTorch's is a RuntimeError.
        return report(NNTILE_RUNTIME, e.what_without_backtrace());
    } catch (const Interrupted& e) {
        return report(NNTILE_INTERRUPTED, e.what());
    } catch (const std::bad_alloc&) {
        return report(NNTILE_OUT_OF_MEMORY, "out of host memory");
    } catch (const std::exception& e) {
        return report(NNTILE_INTERNAL, e.what());
    } catch (...) {
        return report(NNTILE_INTERNAL, "unknown exception");
    }
}

}  // namespace torch_nntile
