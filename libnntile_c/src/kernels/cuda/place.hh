// SPDX-License-Identifier: BSD-3-Clause
// Where the CUDA column of a kernel's row puts its work, and how it says that it cannot.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "kernels/gpu_math.hh"
#include "kernels/refuse.hh"

namespace nntile::kernels {

namespace cuda {
class Dnn;
}

struct CudaPlace {
    cudaStream_t stream;
    cublasHandle_t blas;
    Refused* refused;    // on the device, of this task
    bool* watched;       // the host reads it when the task has ended
    std::byte* scratch;  // on the device, for the task's kernels: a stream runs one after the other
    static constexpr size_t scratch_bytes = size_t{16} << 20;
    cuda::Dnn** dnn = nullptr;  // the worker's, when it has one
    uint32_t math = 0;          // GpuMath

    // For a kernel that looks at its data: where it writes what it refuses (refuse_at).
    cudaError_t watch(Refused*& at) const {
        *watched = true;
        at = refused;
        return cudaMemsetAsync(at, 0, sizeof *at, stream);
    }
};

// Begins the function behind a row's NNTILE_ON_CUDA(name).
#define NNTILE_CUDA_KERNEL(name) int name##_on_cuda(const Args& args, const CudaPlace* place)

// The result of a task: a launch may fail, with what went wrong before it.
int status_of(const Args& args, cudaError_t error);

}  // namespace nntile::kernels
