// SPDX-License-Identifier: BSD-3-Clause
// What of cuDNN the library calls, by plain loops on the emulated streams. As the real one does, it
// offers algorithms that a caller must not take: one that adds in any order, one that it cannot do,
// and one whose workspace is larger than the device. The one that is left writes all of its
// workspace.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "emulation.hh"
#include "tf32.hh"

struct cudnnContext {
    cudaStream_t stream = nullptr;
};
// Of an image or a weight: n, channels, then the spatial dims.
struct cudnnTensorStruct {
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    std::vector<int> sizes, strides;
    size_t element() const { return type == CUDNN_DATA_FLOAT ? 4 : 2; }
    size_t bytes() const {
        size_t reach = 1;
        for (size_t d = 0; d < sizes.size(); ++d)
            reach += static_cast<size_t>(sizes[d] - 1) * static_cast<size_t>(strides[d]);
        return reach * element();
    }
};
struct cudnnFilterStruct : cudnnTensorStruct {};
struct cudnnConvolutionStruct {
    std::vector<int> padding, strides, dilation;
    int groups = 1;
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

using Tensor = cudnnTensorStruct;
using Window = cudnnConvolutionStruct;

double load(const void* p, int64_t i, const Tensor& of, bool tf32) {
    switch (of.type) {
        case CUDNN_DATA_FLOAT: {
            const float value = static_cast<const float*>(p)[i];
            return static_cast<double>(tf32 ? emulation::tf32_of(value) : value);
        }
        case CUDNN_DATA_HALF:
            return static_cast<double>(__half2float(static_cast<const __half*>(p)[i]));
        default:
            return static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]));
    }
}
void store(void* p, int64_t i, const Tensor& of, double v) {
    const auto f = static_cast<float>(v);
    switch (of.type) {
        case CUDNN_DATA_FLOAT: static_cast<float*>(p)[i] = f; break;
        case CUDNN_DATA_HALF: static_cast<__half*>(p)[i] = __float2half(f); break;
        default: static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(f);
    }
}

extern "C" long long emulation_convolutions;

enum class Result { y, x, w };
struct Call {
    Result result;
    Tensor x, y, w;
    Window window;
    const void *at_x, *at_y, *at_w;
    void* space;
    size_t space_bytes;
    double alpha, beta;
};

constexpr size_t workspace = size_t{17} << 20;  // a little more than the scratch that a worker has

// All triples of places that meet: f(x, y, w), in elements.
template <class F>
void visit(const Call& c, F f) {
    const size_t rank = c.x.sizes.size() - 2;
    const int per_group = c.w.sizes[0] / c.window.groups, channels = c.w.sizes[1];
    std::vector<int> count(c.y.sizes.begin() + 2, c.y.sizes.end());
    count.insert(count.end(), c.w.sizes.begin() + 2, c.w.sizes.end());
    int64_t all = 1;
    for (int n : count) all *= n;
    for (int64_t number = 0; number < all; ++number) {
        int64_t rest = number, x0 = 0, y0 = 0, w0 = 0;
        bool inside = true;
        std::vector<int64_t> at(count.size());
        for (size_t d = count.size(); d-- > 0; rest /= count[d]) at[d] = rest % count[d];
        for (size_t d = 0; d < rank; ++d) {
            const int64_t place = at[d] * c.window.strides[d] - c.window.padding[d] +
                                  at[rank + d] * c.window.dilation[d];
            inside = inside && place >= 0 && place < c.x.sizes[2 + d];
            x0 += place * c.x.strides[2 + d];
            y0 += at[d] * c.y.strides[2 + d];
            w0 += at[rank + d] * c.w.strides[2 + d];
        }
        if (!inside) continue;
        for (int n = 0; n < c.x.sizes[0]; ++n)
            for (int k = 0; k < c.w.sizes[0]; ++k)
                for (int i = 0; i < channels; ++i)
                    f(x0 + int64_t{n} * c.x.strides[0] +
                          int64_t{k / per_group * channels + i} * c.x.strides[1],
                      y0 + int64_t{n} * c.y.strides[0] + int64_t{k} * c.y.strides[1],
                      w0 + int64_t{k} * c.w.strides[0] + int64_t{i} * c.w.strides[1]);
    }
}

void run(void* argument) {
    const std::unique_ptr<const Call> owned(static_cast<const Call*>(argument));
    const Call& c = *owned;
    const auto seen = [](const void* p, const Tensor& t, const char* who) {
        return emulation::emulation_view(p, t.bytes(), who);
    };
    void* const x = seen(c.at_x, c.x, "cudnn convolution: x");
    void* const y = seen(c.at_y, c.y, "cudnn convolution: y");
    void* const w = seen(c.at_w, c.w, "cudnn convolution: w");
    std::memset(emulation::emulation_view(c.space, c.space_bytes, "cudnn workspace"), 0xff,
                c.space_bytes);
    const bool tf32 = c.window.math != CUDNN_FMA_MATH;
    const Tensor& of = c.result == Result::y ? c.y : c.result == Result::x ? c.x : c.w;
    void* const to = c.result == Result::y ? y : c.result == Result::x ? x : w;
    std::vector<double> sums(of.bytes() / of.element());
    visit(c, [&](int64_t i, int64_t j, int64_t k) {
        switch (c.result) {
            case Result::y:
                sums[static_cast<size_t>(j)] += load(x, i, c.x, tf32) * load(w, k, c.w, tf32);
                break;
            case Result::x:
                sums[static_cast<size_t>(i)] += load(y, j, c.y, tf32) * load(w, k, c.w, tf32);
                break;
            default: sums[static_cast<size_t>(k)] += load(x, i, c.x, tf32) * load(y, j, c.y, tf32);
        }
    });
    // Each element of the result once: between them may be what is not its.
    int64_t count = 1;
    for (int n : of.sizes) count *= n;
    for (int64_t number = 0; number < count; ++number) {
        int64_t rest = number, at = 0;
        for (size_t d = of.sizes.size(); d-- > 0; rest /= of.sizes[d])
            at += rest % of.sizes[d] * of.strides[d];
        const double old = c.beta == 0 ? 0 : c.beta * load(to, at, of, false);  // else unread
        store(to, at, of, old + c.alpha * sums[static_cast<size_t>(at)]);
    }
}

bool fits(const Tensor& x, const Tensor& w, const Window& c, const Tensor& y) {
    const size_t dims = x.sizes.size();
    if (dims < 4 || w.sizes.size() != dims || y.sizes.size() != dims ||
        c.padding.size() != dims - 2 || x.type != w.type || x.type != y.type)
        return false;
    bool ok = x.sizes[0] == y.sizes[0] && x.sizes[1] == w.sizes[1] * c.groups &&
              y.sizes[1] == w.sizes[0] && w.sizes[0] % c.groups == 0;
    for (size_t d = 2; d < dims; ++d)
        ok = ok && y.sizes[d] ==
                       (x.sizes[d] + 2 * c.padding[d - 2] - (w.sizes[d] - 1) * c.dilation[d - 2] -
                        1) / c.strides[d - 2] +
                           1;
    return ok;
}

// Of one kind of convolution.
template <class Algorithm>
struct Algorithms {
    Algorithm in_any_order, unsupported, huge, own;
};

template <class Performance, class Algorithm>
cudnnStatus_t offer(bool good, const Algorithms<Algorithm>& all, const Window& window, int most,
                    int* found, Performance* list) {
    if (!good || most < 4) return CUDNN_STATUS_BAD_PARAM;
    const auto add = [&](Algorithm algorithm, cudnnStatus_t status, size_t memory,
                         cudnnDeterminism_t determinism) {
        list[(*found)++] = {algorithm, status, -1, memory, determinism, window.math, {}};
    };
    *found = 0;
    add(all.in_any_order, CUDNN_STATUS_SUCCESS, 0, CUDNN_NON_DETERMINISTIC);
    add(all.unsupported, CUDNN_STATUS_NOT_SUPPORTED, 0, CUDNN_DETERMINISTIC);
    add(all.huge, CUDNN_STATUS_SUCCESS, size_t{1} << 50, CUDNN_DETERMINISTIC);
    add(all.own, CUDNN_STATUS_SUCCESS, workspace, CUDNN_DETERMINISTIC);
    return CUDNN_STATUS_SUCCESS;
}

template <class Algorithm>
cudnnStatus_t need(Algorithm algorithm, const Algorithms<Algorithm>& all, size_t* bytes) {
    *bytes = algorithm == all.own ? workspace : algorithm == all.huge ? size_t{1} << 50 : 0;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t start(cudnnHandle_t handle, bool good, Call call) {
    if (!good || call.space_bytes < workspace) return CUDNN_STATUS_BAD_PARAM;
    ++emulation_convolutions;
    emulation::emulation_enqueue(handle->stream, run, new Call(std::move(call)));
    return CUDNN_STATUS_SUCCESS;
}

double number(const void* p) { return static_cast<double>(*static_cast<const float*>(p)); }

template <class T>
cudnnStatus_t make(T** made) {
    *made = new T;
    return CUDNN_STATUS_SUCCESS;
}
template <class T>
cudnnStatus_t end(T* made) {
    delete made;
    return CUDNN_STATUS_SUCCESS;
}

constexpr Algorithms forward{CUDNN_CONVOLUTION_FWD_ALGO_FFT, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
                             CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
                             CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM};
constexpr Algorithms data{CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
                          CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
                          CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1};
constexpr Algorithms filter{
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD,
    CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1};

}  // namespace

extern "C" {

long long emulation_convolutions = 0;  // that were started

size_t cudnnGetVersion() { return 91300; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return make(handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return end(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* t) { return make(t); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) { return end(t); }
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type, int dims,
                                         const int* sizes, const int* strides) {
    t->type = type;
    t->sizes.assign(sizes, sizes + dims);
    t->strides.assign(strides, strides + dims);
    const bool positive = std::all_of(strides, strides + dims, [](int s) { return s > 0; }) &&
                          std::all_of(sizes, sizes + dims, [](int s) { return s > 0; });
    return positive && dims >= 4 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* w) { return make(w); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t w) { return end(w); }
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t w, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int dims, const int* sizes) {
    w->type = type;
    w->sizes.assign(sizes, sizes + dims);
    w->strides.assign(static_cast<size_t>(dims), 1);
    const bool beside = format == CUDNN_TENSOR_NHWC;  // channels lie beside each other
    int step = beside ? sizes[1] : 1;
    for (int d = dims; d-- > 0;) {
        if (beside && d == 1) continue;
        w->strides[static_cast<size_t>(d)] = step;
        step *= sizes[d];
    }
    return dims >= 4 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* c) { return make(c); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) { return end(c); }
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int dims,
                                              const int* padding, const int* strides,
                                              const int* dilation, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
    c->padding.assign(padding, padding + dims);
    c->strides.assign(strides, strides + dims);
    c->dilation.assign(dilation, dilation + dims);
    return mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT ? CUDNN_STATUS_SUCCESS
                                                                          : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
    c->groups = groups;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
    c->math = math;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t c,
                                                     cudnnTensorDescriptor_t y, int most,
                                                     int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* list) {
    return offer(fits(*x, *w, *c, *y), forward, *c, most, found, list);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t y,
                                                          cudnnConvolutionDescriptor_t c,
                                                          cudnnTensorDescriptor_t x, int most,
                                                          int* found,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* list) {
    return offer(fits(*x, *w, *c, *y), data, *c, most, found, list);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t w, int most, int* found,
    cudnnConvolutionBwdFilterAlgoPerf_t* list) {
    return offer(fits(*x, *w, *c, *y), filter, *c, most, found, list);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
    return need(algorithm, forward, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
    return need(algorithm, data, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t,
    cudnnFilterDescriptor_t, cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
    return need(algorithm, filter, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x, const void* at_x,
                                      cudnnFilterDescriptor_t w, const void* at_w,
                                      cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* space,
                                      size_t bytes, const void* beta, cudnnTensorDescriptor_t y,
                                      void* at_y) {
    return start(
        handle, fits(*x, *w, *c, *y) && algorithm == forward.own,
        {Result::y, *x, *y, *w, *c, at_x, at_y, at_w, space, bytes, number(alpha), number(beta)});
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w, const void* at_w,
                                           cudnnTensorDescriptor_t y, const void* at_y,
                                           cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* space,
                                           size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t x, void* at_x) {
    return start(
        handle, fits(*x, *w, *c, *y) && algorithm == data.own,
        {Result::x, *x, *y, *w, *c, at_x, at_y, at_w, space, bytes, number(alpha), number(beta)});
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x, const void* at_x,
                                             cudnnTensorDescriptor_t y, const void* at_y,
                                             cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* space,
                                             size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t w, void* at_w) {
    return start(
        handle, fits(*x, *w, *c, *y) && algorithm == filter.own,
        {Result::w, *x, *y, *w, *c, at_x, at_y, at_w, space, bytes, number(alpha), number(beta)});
}
}
