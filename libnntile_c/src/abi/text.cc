// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>

#include "nntile/record.h"

void nntile_text_free(char* text) { std::free(text); }
