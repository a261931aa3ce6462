// SPDX-License-Identifier: BSD-3-Clause
// Attributes of a call, from the C ABI's form to the core's.
#pragma once

#include <vector>

#include "nntile/op.h"
#include "schema/op_row.hh"

namespace nntile::abi {

// One value per attribute of the row, checked; missing ones and NNTILE_ATTR_DEFAULT take the row's
// default.
std::vector<schema::Attr> attrs_of(const schema::OpRow& row, const nntile_attr* attrs,
                                   size_t count);

}  // namespace nntile::abi
