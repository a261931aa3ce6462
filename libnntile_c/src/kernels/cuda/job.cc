// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/cuda/job.hh"

#include <algorithm>

#include "base/error.hh"

namespace nntile::kernels {

int status_of(const Args& args, cudaError_t error) {
    if (error == cudaSuccess) return 0;
    return fail_task(args, static_cast<int>(Status::runtime), "CUDA: %s",
                     cudaGetErrorString(error));
}

namespace cuda {

bool fill_job(int& dims, int64_t& count, int64_t* sizes, std::span<JobBlock> blocks,
              const Args& args, std::initializer_list<int> leads) {
    SmallVector<const int64_t*, 16> strides;
    for (const Block& b : args.blocks) strides.push_back(b.strides);
    Space space;
    if (space.make(args, {strides.data(), strides.size()}, leads) != 0 || space.dims > job_dims)
        return false;
    dims = space.dims;
    count = space.count();
    std::copy_n(space.sizes, dims, sizes);
    for (size_t k = 0; k < args.blocks.size(); ++k) {
        const Block& b = args.blocks[k];
        JobBlock& to = blocks[k];
        to.dtype = b.dtype;
        to.is_number = args.numbers >> k & 1;
        to.is_real = is_floating(b.dtype);
        if (to.is_number && b.data) to.number = *reinterpret_cast<const Param*>(b.data);
        if (!to.is_number) to.data = b.data;
        std::copy_n(space.strides[k], dims, to.strides);
    }
    return true;
}

}  // namespace cuda

}  // namespace nntile::kernels
