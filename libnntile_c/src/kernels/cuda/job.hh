// SPDX-License-Identifier: BSD-3-Clause
// A task as kernels on a device get it: by value, without an address in main memory.
#pragma once

#include <initializer_list>

#include "kernels/cuda/place.hh"
#include "kernels/isa.hh"
#include "kernels/space.hh"

namespace nntile::kernels::cuda {

inline constexpr int job_dims = 8;

struct JobBlock {
    void* data = nullptr;  // nullptr: absent, or a number
    Param number{};        // a scalar of the run
    int64_t strides[job_dims] = {};
    DType dtype = DType::none;
    bool is_number = false, is_real = false;  // is_real: of a number
};

// The iteration space, simplified, and the blocks over it.
template <int blocks_of>
struct Job {
    int dims = 0;
    int64_t count = 0;
    int64_t sizes[job_dims] = {};
    JobBlock blocks[blocks_of];
};

// False: more dims than a job has.
bool fill_job(int& dims, int64_t& count, int64_t* sizes, std::span<JobBlock> blocks,
              const Args& args, std::initializer_list<int> leads);
template <int n>
bool make_job(Job<n>& job, const Args& args, std::initializer_list<int> leads) {
    return args.blocks.size() <= n &&
           fill_job(job.dims, job.count, job.sizes, job.blocks, args, leads);
}

// Threads for so many pieces of work, each of which goes on with the next when it has done one.
struct Grid {
    dim3 blocks, threads;
};
inline Grid grid_of(int64_t count, unsigned threads = 128) {
    constexpr int64_t most = 65536;
    const int64_t blocks = (count + threads - 1) / threads;
    return {dim3(static_cast<unsigned>(blocks < most ? blocks : most)), dim3(threads)};
}

}  // namespace nntile::kernels::cuda
