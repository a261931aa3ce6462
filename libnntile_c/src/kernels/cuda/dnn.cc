// SPDX-License-Identifier: BSD-3-Clause
// cuDNN by its functions for single ops (cudnnConvolutionForward and its like): its heuristics
// choose an algorithm for each call that has not been there before.
#include "kernels/cuda/dnn.hh"

#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <climits>
#include <unordered_map>

#include "base/hash.hh"
#include "base/text.hh"
#include "kernels/cuda/place.hh"

namespace nntile::kernels {

CudaFunction copy_on_cuda;

namespace cuda {

namespace {

#define NNTILE_DNN(X)                            \
    X(GetVersion)                                \
    X(Create)                                    \
    X(Destroy)                                   \
    X(SetStream)                                 \
    X(CreateTensorDescriptor)                    \
    X(DestroyTensorDescriptor)                   \
    X(SetTensorNdDescriptor)                     \
    X(CreateFilterDescriptor)                    \
    X(DestroyFilterDescriptor)                   \
    X(SetFilterNdDescriptor)                     \
    X(CreateConvolutionDescriptor)               \
    X(DestroyConvolutionDescriptor)              \
    X(SetConvolutionNdDescriptor)                \
    X(SetConvolutionGroupCount)                  \
    X(SetConvolutionMathType)                    \
    X(GetConvolutionForwardAlgorithm_v7)         \
    X(GetConvolutionBackwardDataAlgorithm_v7)    \
    X(GetConvolutionBackwardFilterAlgorithm_v7)  \
    X(GetConvolutionForwardWorkspaceSize)        \
    X(GetConvolutionBackwardDataWorkspaceSize)   \
    X(GetConvolutionBackwardFilterWorkspaceSize) \
    X(ConvolutionForward)                        \
    X(ConvolutionBackwardData)                   \
    X(ConvolutionBackwardFilter)

struct Library {
#define X(name) decltype(&::cudnn##name) name = nullptr;
    NNTILE_DNN(X)
#undef X
    std::string missing;  // "": it is there

    Library() {
        void* const library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            missing = dlerror();
            return;
        }
        const auto find = [&](auto& to, const char* name) {
            to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, name));
            if (!to) missing = text_of(name, " is not in the library");
        };
#define X(name) find(name, "cudnn" #name);
        NNTILE_DNN(X)
#undef X
    }
};
#undef NNTILE_DNN
const Library& library() {
    static const auto* const made = new Library;
    return *made;
}

bool went(cudnnStatus_t status) { return status == CUDNN_STATUS_SUCCESS; }

cudnnDataType_t type_of(DType dtype) {
    return dtype == DType::f16    ? CUDNN_DATA_HALF
           : dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16
                                  : CUDNN_DATA_FLOAT;
}

// Extents of an image or a weight: two, then the spatial ones, of which cuDNN wants at least two.
struct Extents {
    static constexpr int most = 5;
    int count = 0;
    int sizes[most] = {}, strides[most] = {};
    bool ok = true;

    void add(int64_t size, int64_t stride) {
        ok = ok && count < most && size >= 1 && size <= INT_MAX &&
             (size == 1 || (stride >= 1 && stride <= INT_MAX / size));
        if (!ok) return;
        sizes[count] = static_cast<int>(size);
        strides[count++] = static_cast<int>(size == 1 ? 0 : stride);
    }
    // A dim of one element may say what it likes; what packed dims would have says most.
    void finish() {
        for (int d = count, inner = 1; d-- > 0;) {
            if (sizes[d] == 1) strides[d] = inner;
            inner = std::max(inner, strides[d] * sizes[d]);
        }
    }
    // Whether it lies without holes, the dim `last` innermost.
    bool packed(int last) const {
        int64_t step = 1;
        const auto next = [&](int d) {
            if (sizes[d] > 1 && strides[d] != step) return false;
            step *= sizes[d];
            return true;
        };
        bool all = next(last);
        for (int d = count; d-- > 0;)
            if (d != last) all = all && next(d);
        return all;
    }
};

// A convolution of x with w that gives y, of which one is the result.
struct Problem {
    Convolve kind;
    Extents x, y, w;
    int groups = 1, spatial = 2;
    int strides[3] = {1, 1, 1}, padding[3] = {}, dilation[3] = {1, 1, 1};
    DType dtype = DType::none;
    bool channels_last = false;  // the weight's
    bool tf32 = false;
    const Block *of_x = nullptr, *of_y = nullptr, *of_w = nullptr;
};

// Below so many channels in a group our own kernels take less time.
constexpr int64_t few_channels = 8;

bool describe(const Args& args, const CudaPlace& place, Convolve kind, Problem& p) {
    const size_t rank = (args.sizes.size() - 4) / 3;
    const Param* const params = args.params.data() + (kind == Convolve::weight);
    p.kind = kind;
    p.of_x = &args.blocks[kind == Convolve::forward ? 0 : kind == Convolve::weight ? 1 : 2];
    p.of_y = &args.blocks[kind == Convolve::forward ? 3 : 0];
    p.of_w = &args.blocks[kind == Convolve::weight ? 2 : 1];
    p.dtype = p.of_x->dtype;
    if (p.of_y->dtype != p.dtype || p.of_w->dtype != p.dtype || args.numbers != 0) return false;
    p.tf32 = p.dtype == DType::f32 && (place.math & tf32_convolutions);
    p.groups = static_cast<int>(params[0].i);
    const int64_t co = args.sizes[1], c = args.sizes[2];
    const size_t w_dim = p.groups > 1 ? 3 : 2;
    if (p.groups > 1 && std::min(co, c) / p.groups < few_channels) return false;
    p.x.add(args.sizes[0], p.of_x->strides[0]);
    p.x.add(c, p.of_x->strides[2]);
    p.y.add(args.sizes[0], p.of_y->strides[0]);
    p.y.add(co, p.of_y->strides[1]);
    p.w.add(co, p.of_w->strides[1]);
    p.w.add(c / p.groups, p.of_w->strides[w_dim]);
    const size_t missing = rank == 1 ? 1 : 0;
    for (size_t d = 0; d < missing; ++d)
        for (Extents* dims : {&p.x, &p.y, &p.w}) dims->add(1, 0);
    p.spatial = static_cast<int>(rank + missing);
    for (size_t d = 0; d < rank; ++d) {
        const auto add = [&](Extents& dims, const Block& b, size_t at) {
            dims.add(args.sizes[at], b.strides[at]);
        };
        add(p.y, *p.of_y, 4 + d);
        add(p.x, *p.of_x, 4 + rank + d);
        add(p.w, *p.of_w, 4 + 2 * rank + d);
        p.strides[missing + d] = static_cast<int>(params[1 + d].i);
        p.padding[missing + d] = static_cast<int>(params[1 + rank + d].i);
        p.dilation[missing + d] = static_cast<int>(params[1 + 2 * rank + d].i);
    }
    for (Extents* dims : {&p.x, &p.y, &p.w}) {
        if (!dims->ok) return false;
        dims->finish();
    }
    const bool channels_first = p.w.packed(p.w.count - 1), beside = c > 1 && p.x.strides[1] == 1;
    p.channels_last = p.w.packed(1) && (beside || !channels_first);
    return channels_first || p.channels_last;
}

Hash hash_of(const Problem& p) {
    Hash hash;
    hash.add(static_cast<uint64_t>(p.kind)).add(static_cast<uint64_t>(p.dtype));
    for (const Extents* dims : {&p.x, &p.y, &p.w})
        hash.add_all(std::span(dims->sizes, static_cast<size_t>(dims->count)))
            .add_all(std::span(dims->strides, static_cast<size_t>(dims->count)));
    for (const int* list : {p.strides, p.padding, p.dilation}) hash.add_all(std::span(list, 3));
    return hash.add(static_cast<uint64_t>(p.groups)).add(p.tf32);
}

// y = its channels' bias.
int spread_bias(const Args& args, const Block& y, const CudaPlace* place) {
    const size_t rank = (args.sizes.size() - 4) / 3, dims = 2 + rank;
    int64_t sizes[Extents::most], from[Extents::most] = {}, to[Extents::most];
    for (size_t d = 0; d < dims; ++d) {
        const size_t at = d < 2 ? d : d + 2;
        sizes[d] = args.sizes[at];
        to[d] = y.strides[at];
    }
    from[1] = args.blocks[2].strides[1];
    const Block blocks[] = {{args.blocks[2].data, args.blocks[2].dtype, from},
                            {y.data, y.dtype, to}};
    Args copy = args;
    copy.sizes = std::span<const int64_t>(sizes, dims);
    copy.blocks = blocks;
    copy.params = {};
    return copy_on_cuda(copy, place);
}

}  // namespace

class Dnn {
public:
    explicit Dnn(cudaStream_t stream) {
        ok_ = library().missing.empty() && went(library().Create(&handle_)) &&
              went(library().SetStream(handle_, stream));
        size_t free = 0, total = 0;
        if (cudaMemGetInfo(&free, &total) == cudaSuccess) most_ = std::min(most_, total / share);
    }
    ~Dnn() {
        for (auto& [hash, plan] : plans_) end(plan);
        if (handle_) (void)library().Destroy(handle_);
        cudaFree(workspace_);
    }
    Dnn(const Dnn&) = delete;
    Dnn& operator=(const Dnn&) = delete;

    std::optional<int> convolve(const Args& args, const CudaPlace& place, const Problem& p) {
        if (!ok_) return std::nullopt;
        if (plans_.size() >= most_plans) {
            for (auto& [hash, plan] : plans_) end(plan);
            plans_.clear();
        }
        const auto [at, fresh] = plans_.try_emplace(hash_of(p));
        Plan& plan = at->second;
        if (fresh) plan.taken = make(plan, p, place);
        if (!plan.taken) return std::nullopt;
        const bool biased = p.kind == Convolve::forward && args.blocks[2].data;
        if (biased) {
            if (spread_bias(args, *p.of_y, nullptr) != 0) return std::nullopt;
            if (const int status = spread_bias(args, *p.of_y, &place)) return status;
        }
        const bool onto = biased || (p.kind == Convolve::weight && args.params[0].i != 0);
        if (went(run(plan, p, place, onto))) return 0;
        plan.taken = false;
        return std::nullopt;
    }

private:
    // Tiles leave a tenth of a device free; of that a workspace may take a part.
    static constexpr size_t share = 16;
    static constexpr size_t most_plans = 4096;

    struct Plan {
        cudnnTensorDescriptor_t x = nullptr, y = nullptr;
        cudnnFilterDescriptor_t w = nullptr;
        cudnnConvolutionDescriptor_t window = nullptr;
        int algorithm = 0;
        size_t workspace = 0;
        bool taken = false;
    };

    static void end(Plan& plan) {
        const Library& l = library();
        if (plan.x) (void)l.DestroyTensorDescriptor(plan.x);
        if (plan.y) (void)l.DestroyTensorDescriptor(plan.y);
        if (plan.w) (void)l.DestroyFilterDescriptor(plan.w);
        if (plan.window) (void)l.DestroyConvolutionDescriptor(plan.window);
        plan = {};
    }

    bool make(Plan& plan, const Problem& p, const CudaPlace& place) {
        const Library& l = library();
        const cudnnDataType_t type = type_of(p.dtype);
        const bool described =
            went(l.CreateTensorDescriptor(&plan.x)) && went(l.CreateTensorDescriptor(&plan.y)) &&
            went(l.CreateFilterDescriptor(&plan.w)) &&
            went(l.CreateConvolutionDescriptor(&plan.window)) &&
            went(l.SetTensorNdDescriptor(plan.x, type, p.x.count, p.x.sizes, p.x.strides)) &&
            went(l.SetTensorNdDescriptor(plan.y, type, p.y.count, p.y.sizes, p.y.strides)) &&
            went(l.SetFilterNdDescriptor(plan.w, type,
                                         p.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                         p.w.count, p.w.sizes)) &&
            went(l.SetConvolutionNdDescriptor(plan.window, p.spatial, p.padding, p.strides,
                                              p.dilation, CUDNN_CROSS_CORRELATION,
                                              CUDNN_DATA_FLOAT)) &&
            went(l.SetConvolutionGroupCount(plan.window, p.groups));
        if (!described) return false;
        switch (p.kind) {
            case Convolve::forward:
                return choose<cudnnConvolutionFwdAlgoPerf_t>(
                    plan, p, place,
                    [&](int most, int* found, auto* list) {
                        return l.GetConvolutionForwardAlgorithm_v7(
                            handle_, plan.x, plan.w, plan.window, plan.y, most, found, list);
                    },
                    [&](auto algorithm, size_t* bytes) {
                        return l.GetConvolutionForwardWorkspaceSize(
                            handle_, plan.x, plan.w, plan.window, plan.y, algorithm, bytes);
                    });
            case Convolve::input:
                return choose<cudnnConvolutionBwdDataAlgoPerf_t>(
                    plan, p, place,
                    [&](int most, int* found, auto* list) {
                        return l.GetConvolutionBackwardDataAlgorithm_v7(
                            handle_, plan.w, plan.y, plan.window, plan.x, most, found, list);
                    },
                    [&](auto algorithm, size_t* bytes) {
                        return l.GetConvolutionBackwardDataWorkspaceSize(
                            handle_, plan.w, plan.y, plan.window, plan.x, algorithm, bytes);
                    });
            default:
                return choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
                    plan, p, place,
                    [&](int most, int* found, auto* list) {
                        return l.GetConvolutionBackwardFilterAlgorithm_v7(
                            handle_, plan.x, plan.y, plan.window, plan.w, most, found, list);
                    },
                    [&](auto algorithm, size_t* bytes) {
                        return l.GetConvolutionBackwardFilterWorkspaceSize(
                            handle_, plan.x, plan.y, plan.window, plan.w, algorithm, bytes);
                    });
        }
    }

    // Of the algorithms that cuDNN has, the one it likes best that we can use.
    template <class Performance, class Ask, class AskWorkspace>
    bool choose(Plan& plan, const Problem& p, const CudaPlace& place, Ask ask,
                AskWorkspace ask_workspace) {
        const Library& l = library();
        const cudnnMathType_t math = p.dtype != DType::f32 ? CUDNN_TENSOR_OP_MATH
                                     : p.tf32              ? CUDNN_DEFAULT_MATH
                                                           : CUDNN_FMA_MATH;
        if (!went(l.SetConvolutionMathType(plan.window, math))) return false;
        std::array<Performance, 8> list;
        int found = 0;
        if (!went(ask(static_cast<int>(list.size()), &found, list.data()))) return false;
        for (const Performance& each : std::span(list).first(static_cast<size_t>(found))) {
            if (!went(each.status) || each.determinism != CUDNN_DETERMINISTIC) continue;
            // The one it was asked for says what numbers may become; else what this one is made
            // for.
            const cudnnMathType_t own = math == CUDNN_FMA_MATH ? math : each.mathType;
            size_t bytes = 0;
            if (!went(l.SetConvolutionMathType(plan.window, own)) ||
                !went(ask_workspace(each.algo, &bytes)) || !has_room(bytes, place))
                continue;
            plan.algorithm = each.algo;
            plan.workspace = bytes;
            return true;
        }
        return false;
    }

    bool has_room(size_t bytes, const CudaPlace& place) {
        if (bytes <= CudaPlace::scratch_bytes || bytes <= bytes_) return true;
        if (bytes > most_) return false;
        constexpr size_t unit = size_t{8} << 20;
        bytes = std::min((bytes + unit - 1) / unit * unit, most_);
        std::byte* more = nullptr;
        if (cudaMalloc(reinterpret_cast<void**>(&more), bytes) != cudaSuccess) {
            (void)cudaGetLastError();
            return false;
        }
        cudaStreamSynchronize(place.stream);  // what runs may use the old one
        cudaFree(workspace_);
        workspace_ = more;
        bytes_ = bytes;
        return true;
    }

    cudnnStatus_t run(const Plan& plan, const Problem& p, const CudaPlace& place, bool onto) {
        const Library& l = library();
        const float one = 1, old = onto ? 1 : 0;
        const bool small = plan.workspace <= CudaPlace::scratch_bytes;
        void* const space = small ? place.scratch : workspace_;
        void *const x = p.of_x->data, *const y = p.of_y->data, *const w = p.of_w->data;
        switch (p.kind) {
            case Convolve::forward:
                return l.ConvolutionForward(handle_, &one, plan.x, x, plan.w, w, plan.window,
                                            static_cast<cudnnConvolutionFwdAlgo_t>(plan.algorithm),
                                            space, plan.workspace, &old, plan.y, y);
            case Convolve::input:
                return l.ConvolutionBackwardData(
                    handle_, &one, plan.w, w, plan.y, y, plan.window,
                    static_cast<cudnnConvolutionBwdDataAlgo_t>(plan.algorithm), space,
                    plan.workspace, &old, plan.x, x);
            default:
                return l.ConvolutionBackwardFilter(
                    handle_, &one, plan.x, x, plan.y, y, plan.window,
                    static_cast<cudnnConvolutionBwdFilterAlgo_t>(plan.algorithm), space,
                    plan.workspace, &old, plan.w, w);
        }
    }

    cudnnHandle_t handle_ = nullptr;
    bool ok_ = false;
    std::unordered_map<Hash, Plan> plans_;
    std::byte* workspace_ = nullptr;
    size_t bytes_ = 0, most_ = size_t{256} << 20;
};

void end_dnn(Dnn* dnn) { delete dnn; }

std::optional<int> convolve_by_dnn(const Args& args, const CudaPlace& place, Convolve kind) {
    Problem p;
    if (!place.dnn || !(place.math & use_dnn) || !describe(args, place, kind, p))
        return std::nullopt;
    if (!*place.dnn) *place.dnn = new Dnn(place.stream);
    return (*place.dnn)->convolve(args, place, p);
}

std::string dnn_text() {
    if (!library().missing.empty()) return "no cuDNN: " + library().missing;
    const size_t version = library().GetVersion();
    return text_of("cuDNN ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace cuda

}  // namespace nntile::kernels
