// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <string_view>

namespace nntile {

// The environment variable is set to just this.
inline bool environment_is(const char* variable, std::string_view value) {
    const char* word = std::getenv(variable);
    return word && word == value;
}

}  // namespace nntile
