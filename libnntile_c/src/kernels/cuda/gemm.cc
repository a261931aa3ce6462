// SPDX-License-Identifier: BSD-3-Clause
// Products by cuBLAS, in batches; what it cannot read as it lies runs on cores. In 32 bits inside,
// unless the user allows TF32.
#include <cublas_v2.h>

#include <algorithm>
#include <climits>

#include "base/error.hh"
#include "kernels/cuda.hh"
#include "kernels/cuda/place.hh"
#include "kernels/map_loop.hh"
#include "kernels/space.hh"

namespace nntile::kernels {

CudaFunction map_on_cuda, fill_on_cuda;

namespace {

constexpr size_t own_inputs = 3, own_params = 3;

// How cuBLAS, to which columns are runs, sees a matrix of ours: transposed, or as its own
// transposed.
struct Side {
    cublasOperation_t operation = CUBLAS_OP_N;
    int64_t ld = 0;
    bool ok = false;
};
Side side_of(int64_t rows, int64_t columns, int64_t row, int64_t column) {
    const int64_t wide = std::max<int64_t>(columns, 1), tall = std::max<int64_t>(rows, 1);
    if ((columns <= 1 || column == 1) && (rows <= 1 || row >= wide))
        return {CUBLAS_OP_N, rows <= 1 ? wide : row, true};
    if ((rows <= 1 || row == 1) && (columns <= 1 || column >= tall))
        return {CUBLAS_OP_T, columns <= 1 ? tall : column, true};
    return {};
}
bool fits(const Side& side) { return side.ok && side.ld <= INT_MAX; }
cublasOperation_t other(cublasOperation_t operation) {
    return operation == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cudaDataType type_of(DType dtype) {
    switch (dtype) {
        case DType::f64: return CUDA_R_64F;
        case DType::f16: return CUDA_R_16F;
        case DType::bf16: return CUDA_R_16BF;
        default: return CUDA_R_32F;
    }
}
bool takes(DType a, DType b, DType y) {
    return a == b && is_floating(a) && (y == a || (is_short_float(a) && y == DType::f32));
}

struct Products {
    const Block &a, &b, &c, &y;
    int m, n, k;  // their dims
    Side left, right, result;
    Space batches;  // strides of a, b, y
};

int multiply(const Args& args, const Products& p, const CudaPlace& place, bool onto) {
    const auto m = static_cast<int>(args.sizes[p.m]), n = static_cast<int>(args.sizes[p.n]),
               k = static_cast<int>(args.sizes[p.k]);
    const double wide_numbers[] = {args.params[0].f, onto ? 1.0 : 0.0};
    const float numbers[] = {static_cast<float>(wide_numbers[0]), onto ? 1.0f : 0.0f};
    const bool wide = p.y.dtype == DType::f64;
    const auto number = [&](int i) {
        return wide ? static_cast<const void*>(&wide_numbers[i]) : &numbers[i];
    };
    const bool tf32 = p.a.dtype == DType::f32 && (place.math & tf32_products);
    const cublasComputeType_t compute = wide   ? CUBLAS_COMPUTE_64F
                                        : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                               : CUBLAS_COMPUTE_32F;
    const cudaDataType type = type_of(p.a.dtype), to = type_of(p.y.dtype);
    const int last = p.batches.dims - 1;
    const auto step = [&](int operand) { return p.batches.strides[operand][last]; };
    const auto ld = [](const Side& side) { return static_cast<int>(side.ld); };
    const auto count = static_cast<int>(p.batches.sizes[last]);
    Walk walk(p.batches, last);
    do {
        const void* a = p.a.data + walk.offset[0] * size_of(p.a.dtype);
        const void* b = p.b.data + walk.offset[1] * size_of(p.b.dtype);
        void* y = p.y.data + walk.offset[2] * size_of(p.y.dtype);
        // y = a b in our rows is, in columns, y' = b' a'; where y lies across, it is y = a b.
        const cublasStatus_t status =
            p.result.operation == CUBLAS_OP_N
                ? cublasGemmStridedBatchedEx(place.blas, p.right.operation, p.left.operation, n, m,
                                             k, number(0), b, type, ld(p.right), step(1), a, type,
                                             ld(p.left), step(0), number(1), y, to, ld(p.result),
                                             step(2), count, compute, CUBLAS_GEMM_DEFAULT)
                : cublasGemmStridedBatchedEx(
                      place.blas, other(p.left.operation), other(p.right.operation), m, n, k,
                      number(0), a, type, ld(p.left), step(0), b, type, ld(p.right), step(1),
                      number(1), y, to, ld(p.result), step(2), count, compute, CUBLAS_GEMM_DEFAULT);
        if (status != CUBLAS_STATUS_SUCCESS)
            return fail_task(args, static_cast<int>(Status::runtime), "cuBLAS: %s",
                             cublasGetStatusString(status));
    } while (walk.next());
    return 0;
}

// y = beta * c, or 0 where nothing is multiplied.
int begin(const Args& args, const Products& p, const CudaPlace* place) {
    Args first = args;
    first.sizes = args.sizes.first(args.sizes.size() - 1);
    first.program = nullptr;
    if (!p.c.data) {
        const Param zero{.f = 0};
        first.params = {&zero, 1};
        first.blocks = {&p.y, 1};
        return fill_on_cuda(first, place);
    }
    Instruction scale;
    scale.primitive = static_cast<uint16_t>(number_of_scale);
    scale.compute = dtype_of(compute_of(p.y.dtype));
    scale.in = {0};
    scale.out = {1};
    const Program program{{scale}, 1, 1, 2};
    const Block blocks[] = {p.c, p.y};
    first.params = args.params.subspan(1, 1);
    first.blocks = blocks;
    first.program = &program;
    return map_on_cuda(first, place);
}

}  // namespace

NNTILE_CUDA_KERNEL(gemm) {
    const int m = static_cast<int>(args.sizes.size()) - 3, n = m + 1, k = m + 2;
    const Block& y = args.blocks[own_inputs + (args.program ? args.program->n_in - 1 : 0)];
    const bool onto = args.params[2].i != 0;
    // Of beta only whether it is 0 is asked; a run's scalar says so when it runs.
    const Block none{}, &c = onto || (place && args.params[1].f == 0) ? none : args.blocks[2];
    const int64_t M = args.sizes[m], N = args.sizes[n], K = args.sizes[k];
    const Block &a = args.blocks[0], &b = args.blocks[1];
    Products p{a, b, c, y, m, n, k, {}, {}, {}, {}};
    p.left = side_of(M, K, a.strides[m], a.strides[k]);
    p.right = side_of(K, N, b.strides[k], b.strides[n]);
    p.result = side_of(M, N, y.strides[m], y.strides[n]);
    if (!takes(a.dtype, b.dtype, y.dtype) || !fits(p.left) || !fits(p.right) || !fits(p.result) ||
        std::max({M, N, K}) > INT_MAX || (args.numbers & 0b111))
        return not_on_device;
    Args outer = args;
    outer.sizes = args.sizes.first(static_cast<size_t>(m));
    const int64_t* strides[] = {a.strides, b.strides, y.strides};
    if (p.batches.make(outer, strides, {2}) != 0 || p.batches.sizes[p.batches.dims - 1] > INT_MAX)
        return not_on_device;
    Args then = args;
    if (args.program) {
        then.sizes = args.sizes.first(args.sizes.size() - 1);
        then.blocks = args.blocks.subspan(own_inputs);
        then.params = args.params.subspan(own_params);
        then.numbers = args.numbers >> own_inputs;
    }
    const bool prepared = !onto && (c.data || K == 0);
    if (!place) {
        if (prepared && begin(args, p, nullptr) != 0) return not_on_device;
        return args.program ? map_on_cuda(then, nullptr) : 0;
    }
    if (M == 0 || N == 0 || p.batches.empty()) return 0;
    if (prepared)
        if (const int status = begin(args, p, place)) return status;
    if (K > 0)
        if (const int status = multiply(args, p, *place, onto || prepared)) return status;
    return args.program ? map_on_cuda(then, place) : 0;
}

}  // namespace nntile::kernels
