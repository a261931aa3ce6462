// SPDX-License-Identifier: BSD-3-Clause
// NVIDIA's convolutions. cuDNN is a library of its own, which need not be there: it is looked for
// when a GPU first has a convolution to do.
#pragma once

#include <optional>
#include <string>

#include "kernels/cuda/convolution.hh"

namespace nntile::kernels::cuda {

// What one worker has of it: a handle, and how it does the convolutions that came. Made by
// convolve_by_dnn(), ended by the worker.
class Dnn;
void end_dnn(Dnn* dnn);

// The status of the task; nothing: cuDNN is not to be used, or does not take this one. Always the
// same algorithm for the same call, and only those that give the same bits each time.
std::optional<int> convolve_by_dnn(const Args& args, const CudaPlace& place, Convolve kind);

std::string dnn_text();  // "cuDNN 9.13.0", or why there is none; loads it

}  // namespace nntile::kernels::cuda
