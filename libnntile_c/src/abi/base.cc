// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/base.h"

#include "base/dtype.hh"

static_assert(static_cast<int>(nntile::DType::boolean) == NNTILE_BOOL);

static_assert(NNTILE_VERSION == 1000, "change nntile_version_text() too");

static bool known(nntile_dtype dtype) { return dtype > NNTILE_NONE && dtype < nntile::dtype_count; }

int nntile_version(void) { return NNTILE_VERSION; }

const char* nntile_version_text(void) { return "0.1.0"; }

const char* nntile_dtype_name(nntile_dtype dtype) {
    return known(dtype) ? nntile::name_of(static_cast<nntile::DType>(dtype)) : "?";
}

size_t nntile_dtype_size(nntile_dtype dtype) {
    return known(dtype) ? nntile::size_of(static_cast<nntile::DType>(dtype)) : 0;
}
