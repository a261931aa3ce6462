// SPDX-License-Identifier: BSD-3-Clause
// What is a copy, or a few of them, on a device.
#include "kernels/cuda.hh"
#include "kernels/cuda/place.hh"

namespace nntile::kernels {

CudaFunction copy_on_cuda;

NNTILE_CUDA_KERNEL(copies) {
    const size_t count = args.blocks.size() - 1, last = args.sizes.size() - 1;
    Dims sizes(args.sizes);
    Args part = args;
    part.sizes = sizes;
    for (size_t k = 0; k < count; ++k) {
        Block pair[] = {args.blocks[k], args.blocks[count]};
        sizes[last] = args.params[2 * k].i;
        if (place) pair[1].data += args.params[2 * k + 1].i * size_of(pair[1].dtype);
        part.blocks = pair;
        part.numbers = args.numbers >> k & 1;
        if (const int status = copy_on_cuda(part, place)) return status;
    }
    return 0;
}

// A copy that begins at the end of the turned dims.
NNTILE_CUDA_KERNEL(flip) {
    Block pair[] = {args.blocks[0], args.blocks[1]};
    Dims strides(std::span(pair[0].strides, args.sizes.size()));
    for (size_t d = args.sizes.size() - static_cast<size_t>(args.params[0].i);
         d < args.sizes.size(); ++d) {
        if (args.sizes[d] == 0) return 0;
        if (place) pair[0].data += (args.sizes[d] - 1) * strides[d] * size_of(pair[0].dtype);
        strides[d] = -strides[d];
    }
    pair[0].strides = strides.data();
    Args turned = args;
    turned.blocks = pair;
    return args.numbers ? not_on_device : copy_on_cuda(turned, place);
}

}  // namespace nntile::kernels
