// SPDX-License-Identifier: BSD-3-Clause
// launch<kernel<T>>(grid, block, shared bytes, stream, arguments...) starts a kernel,
// allow_shared<kernel<T>>(bytes) allows it to share more than 48 KB, and shared_memory<T>() is what
// it shares: no <<<>>> and no variables that are __shared__, so that a
// compiler for another machine can have functions of these names instead.
#pragma once

#ifdef __CUDACC__

#include <cuda_runtime.h>

template <class... P, class... A>
cudaError_t launch_typed(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                         cudaStream_t stream, A... arguments) {
    return [&](P... values) {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&values))...};
        return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers,
                                shared, stream);
    }(static_cast<P>(arguments)...);
}
template <auto kernel, class... A>
cudaError_t launch(dim3 grid, dim3 block, size_t shared, cudaStream_t stream, A... arguments) {
    return launch_typed(kernel, grid, block, shared, stream, arguments...);
}
// Before a launch that shares more than every kernel may.
template <auto kernel>
cudaError_t allow_shared(size_t bytes) {
    if (bytes <= (48 << 10)) return cudaSuccess;
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(bytes));
}
template <class T>
__device__ T* shared_memory() {
    extern __shared__ __align__(16) unsigned char bytes[];
    return reinterpret_cast<T*>(bytes);
}

#endif
