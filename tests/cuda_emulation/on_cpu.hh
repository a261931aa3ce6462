// SPDX-License-Identifier: BSD-3-Clause
// What nvcc has built in, for a .cu that g++ compiles: g++ -x c++ -include on_cpu.hh file.cu
// Such a file starts its kernels by launch() and gets shared memory by shared_memory(), as
// kernels/cuda/launch.hh has them for nvcc.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "emulation.hh"

#undef __global__
#undef __device__
#undef __host__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define NNTILE_KERNELS_ON_CPU

#define threadIdx (::emulation::emulation_thread->thread)
#define blockIdx (::emulation::emulation_thread->block)
#define blockDim (::emulation::emulation_thread->block_dim)
#define gridDim (::emulation::emulation_thread->grid_dim)
constexpr int warpSize = 32;

inline void __syncthreads() { ::emulation::emulation_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { ::emulation::emulation_warp_barrier(mask); }

namespace emulation {

template <class T>
T exchange(uint32_t mask, T value, uint32_t from) {
    static_assert(sizeof(T) <= 8);
    Thread* const me = emulation_thread;
    std::memcpy(&me->exchange[me->lane], &value, sizeof value);
    emulation_warp_barrier(mask);
    T got;
    std::memcpy(&got, &me->exchange[from & 31], sizeof got);
    emulation_warp_barrier(mask);
    return got;
}

// One of the kernels of this file. It is known as soon as the library is loaded.
template <auto function>
struct Registered;
template <class... P, void (*function)(P...)>
struct Registered<function> {
    using Values = std::tuple<std::remove_const_t<P>...>;
    static_assert((std::is_trivially_copyable_v<P> && ...));
    static void pack(void** arguments, void* storage) {
        [&]<size_t... I>(std::index_sequence<I...>) {
            new (storage) Values(*static_cast<const std::remove_const_t<P>*>(arguments[I])...);
        }(std::index_sequence_for<P...>{});
    }
    static void invoke(void* storage) { std::apply(function, *static_cast<Values*>(storage)); }
    static const Kernel* make() {
        Dl_info info{};
        dladdr(reinterpret_cast<void*>(function), &info);
        static const Kernel made{info.dli_sname ? info.dli_sname : "?", sizeof(Values), pack,
                                 invoke};
        emulation_add_kernel(&made);
        return &made;
    }
    static inline const Kernel* const kernel = make();
};

template <class... P, class... A>
cudaError_t launch_typed(const Kernel* kernel, void (*)(P...), dim3 grid, dim3 block, size_t shared,
                         cudaStream_t stream, A... arguments) {
    return [&](P... values) {
        void* pointers[] = {const_cast<void*>(static_cast<const void*>(&values))...};
        return emulation_launch(kernel, grid, block, pointers, shared, stream);
    }(static_cast<P>(arguments)...);
}

}  // namespace emulation

template <auto kernel, class... A>
cudaError_t launch(dim3 grid, dim3 block, size_t shared, cudaStream_t stream, A... arguments) {
    return emulation::launch_typed(emulation::Registered<kernel>::kernel, kernel, grid, block,
                                   shared, stream, arguments...);
}
template <auto kernel>
cudaError_t allow_shared(size_t bytes) {
    return emulation_allow_shared(emulation::Registered<kernel>::kernel, bytes);
}
template <class T>
T* shared_memory() {
    return reinterpret_cast<T*>(emulation::emulation_thread->shared);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
    return emulation::exchange(mask, value, static_cast<uint32_t>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
    const uint32_t lane = emulation::emulation_thread->lane;
    return emulation::exchange(mask, value, lane ^ static_cast<uint32_t>(bits));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by) {
    const uint32_t lane = emulation::emulation_thread->lane;
    return emulation::exchange(mask, value, lane + by < 32 ? lane + by : lane);
}

// A bit for each lane.
inline unsigned __ballot_sync(unsigned mask, bool predicate) {
    ::emulation::Thread* const me = ::emulation::emulation_thread;
    me->exchange[me->lane] = predicate;
    ::emulation::emulation_warp_barrier(mask);
    unsigned all = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1 && me->exchange[lane]) all |= 1u << lane;
    ::emulation::emulation_warp_barrier(mask);
    return all;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }

// One thread runs until it waits for others, so nobody comes between.
template <class T>
T atomicAdd(T* at, T value) {
    return std::exchange(*at, static_cast<T>(*at + value));
}
template <class T>
T atomicMax(T* at, T value) {
    return std::exchange(*at, value > *at ? value : *at);
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
    return std::exchange(*at, *at == expected ? value : *at);
}
inline void __threadfence() {}
