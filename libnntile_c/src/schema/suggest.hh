// SPDX-License-Identifier: BSD-3-Clause
// "Did you mean": the name that was probably meant.
#pragma once

#include <string_view>

namespace nntile::schema {

// Name of the op with the smallest edit distance; the first of several.
std::string_view nearest_op(std::string_view name);

}  // namespace nntile::schema
