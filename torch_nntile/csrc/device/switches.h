// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace torch_nntile {

// What PyTorch's switches allow a GPU (TF32, cuDNN) holds for what is recorded from now on. Asked
// by calls that may multiply.
void follow_switches();

}  // namespace torch_nntile
