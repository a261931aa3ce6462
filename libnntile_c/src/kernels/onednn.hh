// SPDX-License-Identifier: BSD-3-Clause
// What kernels that call oneDNN share. Only for files that are built with it.
#pragma once

#include <string_view>

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace nntile::kernels {

// What the library makes for one thread it runs on one. The thread may be the program's: its own
// number comes back.
class OneDnnThread {
public:
    OneDnnThread() : before_(omp_get_max_threads()) { set(1); }
    ~OneDnnThread() { set(before_); }
    OneDnnThread(const OneDnnThread&) = delete;

private:
    void set(int count) const {
        if (before_ != 1) omp_set_num_threads(count);
    }
    const int before_;
};

inline dnnl::engine& dnn_engine() {
    // Threads may end after static objects
    static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
    return *engine;
}
inline dnnl::stream& dnn_stream() {
    thread_local dnnl::stream stream(dnn_engine());
    return stream;
}

// Whether the library's name of an implementation means plain loops.
inline bool is_slow(std::string_view implementation) {
    for (const char* word : {"ref", "simple", "none"})
        if (implementation.find(word) != implementation.npos) return true;
    return false;
}

}  // namespace nntile::kernels
