// SPDX-License-Identifier: BSD-3-Clause
// The rows of convolutions: those whose windows are single pixels are products for cuBLAS, where
// their operands lie so; others are cuDNN's, where it is there and takes them, or our own.
#include <algorithm>

#include "kernels/cuda.hh"
#include "kernels/cuda/convolution.hh"
#include "kernels/cuda/dnn.hh"
#include "kernels/cuda/place.hh"

namespace nntile::kernels {

CudaFunction gemm_on_cuda;

namespace cuda {

namespace {

// The spatial dims of an operand as one.
struct Pixels {
    int64_t count = 1, step = 0;
    bool one = true;

    Pixels(const Args& args, const Block& b, size_t first, size_t rank) {
        for (size_t d = first + rank; d-- > first;) {
            if (args.sizes[d] == 1) continue;
            if (count == 1) step = b.strides[d];
            else one = one && b.strides[d] == step * count;
            count *= args.sizes[d];
        }
    }
};

// not_on_device: it is no plain product, or does not lie as one.
int convolve_pixels(const Args& args, const CudaPlace* place, Convolve kind) {
    const size_t rank = (args.sizes.size() - 4) / 3, y_at = 4, x_at = 4 + rank, w_at = 4 + 2 * rank;
    const Param* const params = args.params.data() + (kind == Convolve::weight);
    if (params[0].i != 1) return not_on_device;  // groups
    for (size_t d = 0; d < rank; ++d)
        if (args.sizes[w_at + d] != 1 || params[1 + d].i != 1 || params[1 + rank + d].i != 0 ||
            args.sizes[y_at + d] != args.sizes[x_at + d])
            return not_on_device;
    const Block none{}, *bias = &none, *x = &args.blocks[0], *y = x, *w = &args.blocks[1];
    if (kind == Convolve::forward) {
        bias = &args.blocks[2];
        y = &args.blocks[3];
    } else if (kind == Convolve::input) {
        x = &args.blocks[2];
    } else {
        x = &args.blocks[1];
        w = &args.blocks[2];
    }
    const Pixels of_x(args, *x, x_at, rank), of_y(args, *y, y_at, rank);
    if (!of_x.one || !of_y.one) return not_on_device;
    const int64_t images = args.sizes[0], co = args.sizes[1], c = args.sizes[2],
                  pixels = of_x.count;
    // Dims batch, m, n, k; operands a, b, c -> y.
    int64_t sizes[4], strides[4][4] = {};
    const auto set = [&](int operand, int64_t batch, int64_t m, int64_t n, int64_t k) {
        const int64_t own[] = {batch, m, n, k};
        std::copy_n(own, 4, strides[operand]);
    };
    const auto size = [&](int64_t batch, int64_t m, int64_t n, int64_t k) {
        const int64_t own[] = {batch, m, n, k};
        std::copy_n(own, 4, sizes);
    };
    const Block *a = x, *b = w, *to = y;
    const int64_t xn = x->strides[0], xc = x->strides[2], yn = y->strides[0], yc = y->strides[1],
                  w_co = w->strides[1], w_c = w->strides[2];
    bool onto = false;
    if (kind == Convolve::forward) {
        size(images, pixels, co, c);
        set(0, xn, of_x.step, 0, xc);
        set(1, 0, 0, w_co, w_c);
        if (bias->data) set(2, 0, 0, bias->strides[1], 0);
        set(3, yn, of_y.step, yc, 0);
    } else if (kind == Convolve::input) {
        a = y;
        to = x;
        size(images, pixels, c, co);
        set(0, yn, of_y.step, 0, yc);
        set(1, 0, 0, w_c, w_co);
        set(3, xn, of_x.step, xc, 0);
    } else {
        // Pixels of all images have to be one dim.
        const bool one = images == 1 || (xn == of_x.step * pixels && yn == of_y.step * pixels);
        if (!one && pixels > 1) return not_on_device;
        const int64_t step_x = pixels > 1 ? of_x.step : xn, step_y = pixels > 1 ? of_y.step : yn;
        a = y;
        b = x;
        to = w;
        size(1, co, c, images * pixels);
        set(0, 0, yc, 0, step_y);
        set(1, 0, 0, xc, step_x);
        set(3, 0, w_co, w_c, 0);
        onto = args.params[0].i != 0;
    }
    const Block blocks[] = {{a->data, a->dtype, strides[0]},
                            {b->data, b->dtype, strides[1]},
                            {bias->data, bias->dtype, strides[2]},
                            {to->data, to->dtype, strides[3]}};
    const Param own[] = {{.f = 1}, {.f = bias->data ? 1.0 : 0.0}, {.i = onto}};
    Args product = args;
    product.sizes = sizes;
    product.blocks = blocks;
    product.params = own;
    if (gemm_on_cuda(product, nullptr) != 0) return not_on_device;
    if (!place) return 0;
    CudaPlace here = *place;
    here.math = (place->math & tf32_convolutions) ? uint32_t{tf32_products} : 0;
    return gemm_on_cuda(product, &here);
}

int start_convolution(const Args& args, const CudaPlace* place, Convolve kind) {
    if (convolve_pixels(args, nullptr, kind) == 0) return convolve_pixels(args, place, kind);
    if (place)
        if (const std::optional<int> status = convolve_by_dnn(args, *place, kind)) return *status;
    return convolve(args, place, kind);  // takes all that cuDNN does
}

}  // namespace

}  // namespace cuda

NNTILE_CUDA_KERNEL(convolution) {
    return cuda::start_convolution(args, place, cuda::Convolve::forward);
}
NNTILE_CUDA_KERNEL(convolution_backward_input) {
    return cuda::start_convolution(args, place, cuda::Convolve::input);
}
NNTILE_CUDA_KERNEL(convolution_backward_weight) {
    return cuda::start_convolution(args, place, cuda::Convolve::weight);
}

}  // namespace nntile::kernels
