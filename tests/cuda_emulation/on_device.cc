// SPDX-License-Identifier: BSD-3-Clause
// Kernel tests on an emulated device: operands are copied there, the CUDA column of the row runs,
// and what it has written is copied back. What the column does not take runs on the CPU.
#include "on_device.hh"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "../kernels/tensor.hh"
#include "base/cuda/loader.hh"
#include "kernels/cuda/place.hh"

namespace nntile::test {

namespace {

void must(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::printf("%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

kernels::CudaPlace& place() {
    static bool watched;
    static kernels::cuda::Dnn* dnn;
    static kernels::CudaPlace made = [] {
        if (const std::string missing = cuda::open_libraries(); !missing.empty()) {
            std::printf("%s\n", missing.c_str());
            std::exit(1);
        }
        kernels::CudaPlace p{};
        must(cudaStreamCreateWithFlags(&p.stream, cudaStreamNonBlocking), "a stream");
        if (cublasCreate_v2(&p.blas) != CUBLAS_STATUS_SUCCESS) std::exit(1);
        cublasSetStream_v2(p.blas, p.stream);
        must(cudaMalloc(reinterpret_cast<void**>(&p.refused), sizeof *p.refused), "a word");
        must(cudaMalloc(reinterpret_cast<void**>(&p.scratch), kernels::CudaPlace::scratch_bytes),
             "scratch");
        p.watched = &watched;
        p.dnn = &dnn;
        p.math = kernels::use_dnn;
        return p;
    }();
    watched = false;
    return made;
}

// Bytes of main memory that blocks lie in, and their copy.
struct Range {
    uintptr_t begin, end;
    std::byte* copy = nullptr;
};
Range range_of(const kernels::Block& b, std::span<const int64_t> sizes) {
    int64_t low = 0, high = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
        const int64_t reach = std::max<int64_t>(sizes[d] - 1, 0) * b.strides[d];
        (reach < 0 ? low : high) += reach;
    }
    const auto at = reinterpret_cast<intptr_t>(b.data);
    const int64_t bytes = size_of(b.dtype);
    return {static_cast<uintptr_t>(at + low * bytes),
            static_cast<uintptr_t>(at + (high + 1) * bytes)};
}

// Operands may share memory: so do their copies.
std::vector<Range> joined(std::vector<Range> ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::vector<Range> all;
    for (const Range& r : ranges) {
        if (!all.empty() && r.begin < all.back().end)
            all.back().end = std::max(all.back().end, r.end);
        else all.push_back(r);
    }
    return all;
}

int64_t taken = 0, calls = 0;
std::map<std::string, int64_t>& taken_by_name() {
    static std::map<std::string, int64_t> all;
    return all;
}

int run_on_device(const kernels::KernelRow& row, const kernels::Args& args) {
    ++calls;
    if (!row.cuda || row.cuda(args, nullptr) != 0) return row.cpu(args);
    ++taken;
    ++taken_by_name()[row.name];
    const kernels::CudaPlace& here = place();
    std::vector<Range> ranges;
    for (const kernels::Block& b : args.blocks)
        if (b.data) ranges.push_back(range_of(b, args.sizes));
    ranges = joined(std::move(ranges));
    for (Range& r : ranges) {
        const size_t bytes = r.end - r.begin, lead = r.begin % 64;
        must(cudaMalloc(reinterpret_cast<void**>(&r.copy), bytes + lead), "memory");
        r.copy += lead;
        must(cudaMemcpyAsync(r.copy, reinterpret_cast<void*>(r.begin), bytes,
                             cudaMemcpyHostToDevice, here.stream),
             "a copy");
    }
    std::vector<kernels::Block> blocks(args.blocks.begin(), args.blocks.end());
    for (kernels::Block& b : blocks)
        for (const Range& r : ranges) {
            const auto at = reinterpret_cast<uintptr_t>(b.data);
            if (b.data && at >= r.begin && at < r.end) {
                b.data = r.copy + (at - r.begin);
                break;
            }
        }
    kernels::Args there = args;
    there.blocks = blocks;
    int status = row.cuda(there, &here);
    must(cudaStreamSynchronize(here.stream), row.name);
    kernels::Refused refused;
    if (*here.watched)
        must(cudaMemcpy(&refused, here.refused, sizeof refused, cudaMemcpyDeviceToHost), "a word");
    if (status == 0) status = refuse(args, refused);
    for (const Range& r : ranges) {
        must(cudaMemcpy(reinterpret_cast<void*>(r.begin), r.copy, r.end - r.begin,
                        cudaMemcpyDeviceToHost),
             "a copy back");
        must(cudaFree(r.copy - r.begin % 64), "free");
    }
    return status;
}

struct Taken {
    Taken() { execute = run_on_device; }
    ~Taken() {
        std::printf("%lld of %lld calls on the device\n", static_cast<long long>(taken),
                    static_cast<long long>(calls));
    }
} on_device_from_now;

}  // namespace

int64_t calls_on_device(const std::string& name) { return taken_by_name()[name]; }

}  // namespace nntile::test
