// SPDX-License-Identifier: BSD-3-Clause
// CUDA's libraries are loaded when somebody asks for them: so one library serves machines with and
// without CUDA, and who wants no GPU waits for nothing.
#pragma once

#include <string>

namespace nntile::cuda {

// "": they are loaded; else what is missing. Those that the process has already, as PyTorch's, are
// taken; else those that lie beside them in an environment of Python, or where the system looks.
std::string open_libraries();
bool libraries_open();

}  // namespace nntile::cuda
