// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace torch_nntile {

// A worker is one of many: a kernel of PyTorch that starts a team of threads in each would fight
// for the cores. at::set_num_threads is no help, it is also the default of threads that start
// later; so ask the OpenMP library that PyTorch itself uses. Without OpenMP its pool is shared and
// nothing is needed.
inline void use_one_thread() {
    thread_local const bool done = [] {
        at::get_num_threads();  // the first use in a thread sets the default
        if (void* torch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD)) {
            if (auto set = reinterpret_cast<void (*)(int)>(dlsym(torch, "omp_set_num_threads")))
                set(1);
            dlclose(torch);
        }
        return true;
    }();
    (void)done;
}

}  // namespace torch_nntile
