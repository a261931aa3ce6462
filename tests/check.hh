// SPDX-License-Identifier: BSD-3-Clause
// CHECK counts failures and goes on; main() ends with `return nntile::test::result();`. One that
// forgets it fails.
#pragma once

#include <cstdio>
#include <cstdlib>
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

inline bool said = false;
struct AtExit {
    ~AtExit() {
        if (said || failures == 0) return;
        std::puts("and main() does not return nntile::test::result()");
        std::fflush(stdout);
        std::_Exit(1);
    }
};
inline AtExit at_exit;

inline int result() {
    said = true;
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
