// SPDX-License-Identifier: BSD-3-Clause
// CHECK counts failures and goes on; main() ends with `return nntile::test::result();`.
#pragma once

#include <cstdio>
#include <string>

#include "base/error.hh"

namespace nntile::test {

inline int failures = 0;

inline void report(const char* file, int line, const std::string& text) {
    if (++failures <= 20) std::printf("%s:%d: %s\n", file, line, text.c_str());
}

// The message of the Error that `call` throws, with its status; "" if it throws none.
template <class Call>
std::string error_of(Call&& call, Status* status = nullptr) {
    try {
        call();
    } catch (const Error& e) {
        if (status) *status = e.status;
        return e.what();
    }
    return {};
}

template <class Call>
void check_error(const char* file, int line, Status wanted, const std::string& part, Call&& call) {
    Status status = Status::ok;
    const std::string message = error_of(call, &status);
    if (status != wanted || message.find(part) == std::string::npos)
        report(file, line,
               text_of("expected error ", static_cast<int>(wanted), " with '", part, "', got ",
                       static_cast<int>(status), " '", message, "'"));
}

inline int result() {
    std::printf(failures ? "%d failures\n" : "ok\n", failures);
    return failures != 0;
}

}  // namespace nntile::test

#define CHECK(...)                                                                  \
    do {                                                                            \
        if (!(__VA_ARGS__)) nntile::test::report(__FILE__, __LINE__, #__VA_ARGS__); \
    } while (false)

#define CHECK_ERROR(status, part, ...)                                          \
    nntile::test::check_error(__FILE__, __LINE__, nntile::Status::status, part, \
                              [&] { __VA_ARGS__; })
