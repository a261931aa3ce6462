// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/base.h"

#include "base/dtype.hh"

static_assert(static_cast<int>(nntile::DType::boolean) == NNTILE_BOOL);

// The build gives the text, of the file VERSION.
static constexpr int number_of(const char* text) {
    int number = 0, part = 0;
    for (; *text; ++text) {
        if (*text == '.') {
            number = (number + part) * 1000;
            part = 0;
        } else {
            part = part * 10 + (*text - '0');
        }
    }
    return number + part;
}
static_assert(number_of(NNTILE_VERSION_TEXT) == NNTILE_VERSION,
              "base.h and VERSION differ: tools/release.py VERSION --write");

static bool known(nntile_dtype dtype) { return dtype > NNTILE_NONE && dtype < nntile::dtype_count; }

int nntile_version(void) { return NNTILE_VERSION; }

const char* nntile_version_text(void) { return NNTILE_VERSION_TEXT; }

const char* nntile_dtype_name(nntile_dtype dtype) {
    return known(dtype) ? nntile::name_of(static_cast<nntile::DType>(dtype)) : "?";
}

size_t nntile_dtype_size(nntile_dtype dtype) {
    return known(dtype) ? nntile::size_of(static_cast<nntile::DType>(dtype)) : 0;
}
