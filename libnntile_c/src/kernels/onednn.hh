// SPDX-License-Identifier: BSD-3-Clause
// What kernels that call oneDNN share. Only for files that are built with it.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include <omp.h>
#include <signal.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "base/dtype.hh"

namespace nntile::kernels {

// What the library makes for one thread it runs on one. The thread may be the program's: its own
// number comes back. And no signal comes to it: products keep what they pack in memory of the heap
// and let the stack pointer point there, so that a handler's frame would lie in memory before it,
// which is somebody else's.
class OneDnnThread {
public:
    OneDnnThread() : before_(omp_get_max_threads()) {
        set(1);
        sigset_t all;
        sigfillset(&all);
        for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&all, own);
        pthread_sigmask(SIG_BLOCK, &all, &signals_);
    }
    ~OneDnnThread() {
        pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
        set(before_);
    }
    OneDnnThread(const OneDnnThread&) = delete;

private:
    void set(int count) const {
        if (before_ != 1) omp_set_num_threads(count);
    }
    const int before_;
    sigset_t signals_;
};

inline dnnl::engine& dnn_engine() {
    // Threads may end after static objects
    static auto* engine = [] {
        // Their 1,024 would be 100 MiB of code in a program whose shapes change at each step.
        dnnl::set_primitive_cache_capacity(256);
        return new dnnl::engine(dnnl::engine::kind::cpu, 0);
    }();
    return *engine;
}
inline dnnl::stream& dnn_stream() {
    thread_local dnnl::stream stream(dnn_engine());
    return stream;
}

// Whether the CPU multiplies such numbers, and sums them in float32.
inline bool has_instructions(DType dtype) {
    using dnnl::cpu_isa;
    static const cpu_isa isa = dnnl::get_effective_cpu_isa();
    const auto among = [](std::initializer_list<cpu_isa> all) {
        return std::find(all.begin(), all.end(), isa) != all.end();
    };
    if (dtype == DType::bf16)
        return among({cpu_isa::avx512_core_bf16, cpu_isa::avx512_core_fp16,
                      cpu_isa::avx512_core_amx, cpu_isa::avx512_core_amx_fp16});
    return dtype == DType::f16 && among({cpu_isa::avx512_core_fp16, cpu_isa::avx512_core_amx_fp16});
}

inline dnnl::memory::data_type type_of(DType dtype) {
    return dtype == DType::bf16  ? dnnl::memory::data_type::bf16
           : dtype == DType::f16 ? dnnl::memory::data_type::f16
                                 : dnnl::memory::data_type::f32;
}

// Windows of one's own (as_strided, unfold) may share elements, which the library refuses.
inline bool lie_apart(const dnnl::memory::dims& sizes, const dnnl::memory::dims& strides) {
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (size_t d = 0; d < sizes.size(); ++d)
        if (sizes[d] > 1 && strides[d] != 0) dims.push_back({strides[d], sizes[d]});
    std::sort(dims.begin(), dims.end());
    for (size_t d = 1; d < dims.size(); ++d)
        if (dims[d].first < dims[d - 1].first * dims[d - 1].second) return false;
    return true;
}

// Whether the library's name of an implementation means plain loops.
inline bool is_slow(std::string_view implementation) {
    for (const char* word : {"ref", "simple", "none"})
        if (implementation.find(word) != implementation.npos) return true;
    return false;
}

}  // namespace nntile::kernels
