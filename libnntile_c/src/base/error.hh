// SPDX-License-Identifier: BSD-3-Clause
// The one exception type of the core. It never crosses the C ABI: abi/guard.hh turns it into a
// status and an nntile_error. Messages are one line and name the operation and the argument.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace nntile {

// Numbers equal nntile_status of the C ABI.
enum class Status : int {
    ok = 0,
    invalid_argument = 1,
    invalid_state = 2,
    not_found = 3,
    unsupported = 4,
    out_of_memory = 5,
    runtime = 6,
    internal = 7,
    index_error = 8,
    type_error = 9,
    interrupted = 10,
    value_error = 11,
    linalg_error = 12,
};

class Error : public std::runtime_error {
public:
    Error(Status status, const std::string& text) : std::runtime_error(text), status(status) {}
    Status status;
};

template <class... Parts>
std::string text_of(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return std::move(out).str();
}

template <class... Parts>
[[noreturn]] void fail(Status status, const Parts&... parts) {
    throw Error(status, text_of(parts...));
}

template <class... Parts>
void check(bool ok, Status status, const Parts&... parts) {
    if (!ok) [[unlikely]]
        fail(status, parts...);
}

}  // namespace nntile
