// SPDX-License-Identifier: BSD-3-Clause
// The one place that knows whether this build has CUDA, and what one source needs to serve both
// sides.
#pragma once

namespace nntile {

// A function of both: nvcc compiles it for the host and for the device.
#ifdef __CUDACC__
#define NNTILE_FN __host__ __device__
#else
#define NNTILE_FN
#endif

// The CUDA column of a kernel's row: the function that NNTILE_CUDA_KERNEL(name) begins, which needs
// no other declaration.
#ifdef NNTILE_WITH_CUDA
inline constexpr bool with_cuda = true;
#define NNTILE_ON_CUDA(name)         \
    [] {                             \
        CudaFunction name##_on_cuda; \
        return &name##_on_cuda;      \
    }()
#else
inline constexpr bool with_cuda = false;
#define NNTILE_ON_CUDA(name) nullptr
#endif

}  // namespace nntile
