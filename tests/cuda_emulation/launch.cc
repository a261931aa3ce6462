// SPDX-License-Identifier: BSD-3-Clause
// Launches. What nvcc's host code registers are names: the kernel of the same name that g++ has
// compiled runs.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "devices.hh"
#include "process.hh"
#include "settings.hh"

namespace emulation {

namespace {

std::mutex names_mutex;
std::unordered_map<std::string, const Kernel*>& kernels() {
    static auto* const all = new std::unordered_map<std::string, const Kernel*>;
    return *all;
}
std::unordered_map<const void*, std::string>& registered() {  // by the host's function
    static auto* const all = new std::unordered_map<const void*, std::string>;
    return *all;
}

const Kernel* kernel_of(const void* function) {
    std::lock_guard lock(names_mutex);
    const auto name = registered().find(function);
    if (name == registered().end()) return nullptr;
    const auto kernel = kernels().find(name->second);
    if (kernel != kernels().end()) return kernel->second;
    std::fprintf(stderr, "emulation: no kernel for the CPU is named %s\n", name->second.c_str());
    return nullptr;
}

// What a kernel may share on a device, where that is more than any may.
std::map<std::pair<const Device*, const Kernel*>, size_t>& allowed() {
    static auto* const all = new std::map<std::pair<const Device*, const Kernel*>, size_t>;
    return *all;
}
bool may_share(const Kernel* kernel, size_t bytes) {
    if (bytes <= (48 << 10)) return true;
    std::lock_guard lock(names_mutex);
    const auto found = allowed().find({&current_device(), kernel});
    return found != allowed().end() && bytes <= found->second;
}

bool is_configuration(dim3 grid, dim3 block) {
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    return threads > 0 && threads <= max_threads && block.z <= 64 && grid.x > 0 && grid.y > 0 &&
           grid.z > 0 && grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
}

}  // namespace

extern "C" {

void emulation_add_kernel(const Kernel* kernel) {
    std::lock_guard lock(names_mutex);
    kernels()[kernel->name] = kernel;
}

cudaError_t emulation_allow_shared(const Kernel* kernel, size_t bytes) {
    if (!kernel) return failed(cudaErrorInvalidDeviceFunction);
    if (bytes > max_shared) return failed(cudaErrorInvalidValue);
    std::lock_guard lock(names_mutex);
    allowed()[{&current_device(), kernel}] = bytes;
    return cudaSuccess;
}

cudaError_t emulation_launch(const Kernel* kernel, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
    if (const cudaError_t wish = wished("cudaLaunchKernel")) return failed(wish);
    if (const cudaError_t broken = sticky_error()) return failed(broken);
    if (!is_configuration(grid, block)) return failed(cudaErrorInvalidConfiguration);
    if (!may_share(kernel, shared)) return failed(cudaErrorInvalidValue);
    if (!kernel || kernel->arguments_bytes > storage_bytes)
        return failed(cudaErrorInvalidDeviceFunction);
    const QueueRef queue = queue_of(stream);
    if (queue->device != &current_device()) return failed(cudaErrorInvalidResourceHandle);
    std::vector<std::byte> storage(kernel->arguments_bytes);
    kernel->pack(arguments, storage.data());
    count(launches);
    enqueue(queue, [=, storage = std::move(storage)] {
        Device& d = *queue->device;
        if (d.broken) return;
        know_kernels(d);
        static std::mutex only;  // without processes all kernels run in this one
        std::unique_lock one(only, std::defer_lock);
        if (!settings().isolate) one.lock();
        std::lock_guard lock(d.process_mutex);
        Control& c = *d.control;
        c.request = Control::launch;
        c.kernel = kernel;
        c.grid = grid;
        c.block = block;
        c.shared = shared;
        c.seed = draw(queue->seed);
        std::memcpy(c.storage, storage.data(), storage.size());
        if (settings().isolate) ask(c, d.process);
        else run_kernel(c);
        if (c.status) break_device(d, static_cast<cudaError_t>(c.status), c.text);
    });
    return cudaSuccess;
}
}

}  // namespace emulation

using namespace emulation;

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
    return emulation_launch(kernel_of(function), grid, block, arguments, shared, stream);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    return emulation_allow_shared(kernel_of(function), static_cast<size_t>(value));
}

// ---- kernels that are compiled while a program runs: nvrtc.cc gives the path of a library as code

cudaError_t cudaLibraryLoadData(cudaLibrary_t* out, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
    if (const cudaError_t wish = wished("cudaLibraryLoadData")) return failed(wish);
    const char* path = static_cast<const char*>(code);
    void* library = *path == '/' ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!library) return failed(cudaErrorInvalidKernelImage);
    ++libraries;
    *out = static_cast<cudaLibrary_t>(library);
    return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t, const char* name) {
    std::lock_guard lock(names_mutex);
    const auto kernel = kernels().find(name);
    if (kernel == kernels().end()) return failed(cudaErrorSymbolNotFound);
    registered()[kernel->second] = name;
    *out = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(kernel->second));
    return cudaSuccess;
}

// ---- what nvcc's host code calls

void** __cudaRegisterFatBinary(void*) {
    static void* handle;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
    std::lock_guard lock(names_mutex);
    registered()[host] = name;
}

cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* function) {
    *out = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t function, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}

// Of <<<>>>, which nothing here uses, though the code for it is there.
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void*) { return cudaErrorNotSupported; }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) {
    return cudaErrorNotSupported;
}
}
