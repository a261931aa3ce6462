// SPDX-License-Identifier: BSD-3-Clause
// What of cuBLAS the library and StarPU call, by plain loops on the emulated streams.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "emulation.hh"
#include "tf32.hh"

struct cublasContext {
    cudaStream_t stream = nullptr;
};

namespace {

// Column-major, as cuBLAS is.
struct Matrix {
    const void* data;
    cudaDataType type;
    bool transposed;
    int64_t ld, stride;
    int64_t at(int64_t row, int64_t column) const {
        return transposed ? column + row * ld : row + column * ld;
    }
    int64_t extent(int64_t rows, int64_t columns, int64_t count) const {
        return (count - 1) * stride + at(rows - 1, columns - 1) + 1;
    }
};
struct Product {
    int64_t m, n, k, count;
    double alpha, beta;
    bool tf32;
    Matrix a, b, c;
};

size_t size_of(cudaDataType type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

double load(const void* p, int64_t i, cudaDataType type) {
    switch (type) {
        case CUDA_R_64F: return static_cast<const double*>(p)[i];
        case CUDA_R_32F: return static_cast<double>(static_cast<const float*>(p)[i]);
        case CUDA_R_16F: return static_cast<double>(__half2float(static_cast<const __half*>(p)[i]));
        default:
            return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]));
    }
}

double factor(const void* p, int64_t i, cudaDataType type, bool tf32) {
    const double value = load(p, i, type);
    return tf32 ? static_cast<double>(emulation::tf32_of(static_cast<float>(value))) : value;
}

void store(void* p, int64_t i, cudaDataType type, double v) {
    const auto f = static_cast<float>(v);
    switch (type) {
        case CUDA_R_64F: static_cast<double*>(p)[i] = v; break;
        case CUDA_R_32F: static_cast<float*>(p)[i] = f; break;
        case CUDA_R_16F: static_cast<__half*>(p)[i] = __float2half(f); break;
        default: static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(f);
    }
}

void* seen(const Matrix& x, int64_t rows, int64_t columns, int64_t count, const char* who) {
    if (rows == 0 || columns == 0) return nullptr;
    const auto bytes = static_cast<size_t>(x.extent(rows, columns, count)) * size_of(x.type);
    return emulation::emulation_view(x.data, bytes, who);
}

// Rows of op(x) of one product as doubles, those of a column together.
std::vector<double> packed(const Matrix& x, const void* data, int64_t product, int64_t first,
                           int64_t rows, int64_t columns, bool tf32) {
    std::vector<double> all;
    all.reserve(static_cast<size_t>(rows * columns));
    for (int64_t column = 0; column < columns; ++column)
        for (int64_t row = first; row < first + rows; ++row)
            all.push_back(factor(data, product * x.stride + x.at(row, column), x.type, tf32));
    return all;
}

// So many columns and rows of C at a time: a number of A that is loaded has several uses, and what
// is added up stays in the first cache.
constexpr int64_t wide = 4, high = 64;

// Sums of `rows` times `wide`, over k one after the other.
void add_up(const double* a, const double* b, int64_t rows, int64_t k, double (&sums)[wide][high]) {
    for (int64_t l = 0; l < k; ++l) {
        const double b0 = b[l], b1 = b[k + l], b2 = b[2 * k + l], b3 = b[3 * k + l];
        for (int64_t r = 0; r < rows; ++r) {
            const double x = a[l * rows + r];
            sums[0][r] += b0 * x;
            sums[1][r] += b1 * x;
            sums[2][r] += b2 * x;
            sums[3][r] += b3 * x;
        }
    }
}

void run(void* argument) {
    const std::unique_ptr<const Product> owned(static_cast<const Product*>(argument));
    const Product& p = *owned;
    const void* at_a = seen(p.a, p.m, p.k, p.count, "cublas gemm: A");
    const void* at_b = seen(p.b, p.k, p.n, p.count, "cublas gemm: B");
    void* c = seen(p.c, p.m, p.n, p.count, "cublas gemm: C");
    double sums[wide][high];
    for (int64_t i = 0; i < p.count; ++i) {
        std::vector<double> b = packed(p.b, at_b, i, 0, p.k, p.n, p.tf32);
        b.resize(static_cast<size_t>((p.n + wide - 1) / wide * wide * p.k));
        for (int64_t r0 = 0; r0 < p.m; r0 += high) {
            const int64_t rows = std::min(high, p.m - r0);
            const std::vector<double> a = packed(p.a, at_a, i, r0, rows, p.k, p.tf32);
            for (int64_t j = 0; j < p.n; ++j) {
                if (j % wide == 0) {
                    for (auto& column : sums) std::fill_n(column, rows, 0.0);
                    add_up(a.data(), b.data() + j * p.k, rows, p.k, sums);
                }
                for (int64_t r = 0; r < rows; ++r) {
                    const int64_t at = i * p.c.stride + p.c.at(r0 + r, j);
                    const double old = p.beta == 0 ? 0 : p.beta * load(c, at, p.c.type);  // unread
                    store(c, at, p.c.type, old + p.alpha * sums[j % wide][r]);
                }
            }
        }
    }
}

double number(const void* p, cublasComputeType_t type) {
    return type == CUBLAS_COMPUTE_64F ? *static_cast<const double*>(p)
                                      : static_cast<double>(*static_cast<const float*>(p));
}

bool fits(const Matrix& x, int64_t rows, int64_t columns) {
    return x.ld >= 1 && x.ld >= (x.transposed ? columns : rows);
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    *handle = new cublasContext;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_INVALID_VALUE ? "an unsupported value or parameter was passed"
                                                 : "an error";
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta,
                                          cublasOperation_t tb, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long stride_a, const void* b,
                                          cudaDataType b_type, int ldb, long long stride_b,
                                          const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
    const Product p{m,
                    n,
                    k,
                    count,
                    number(alpha, compute),
                    number(beta, compute),
                    compute == CUBLAS_COMPUTE_32F_FAST_TF32,
                    {a, a_type, ta != CUBLAS_OP_N, lda, stride_a},
                    {b, b_type, tb != CUBLAS_OP_N, ldb, stride_b},
                    {c, c_type, false, ldc, stride_c}};
    if (m < 0 || n < 0 || k < 0 || count < 0 || !fits(p.a, m, k) || !fits(p.b, k, n) ||
        !fits(p.c, m, n) || (p.tf32 && a_type != CUDA_R_32F))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (m > 0 && n > 0 && count > 0)
        emulation::emulation_enqueue(handle->stream, run, new Product(p));
    return CUBLAS_STATUS_SUCCESS;
}

// The first interface, of which StarPU's library has functions.
cublasStatus_t cublasInit() { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasShutdown() { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetKernelStream(cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
}
