// SPDX-License-Identifier: BSD-3-Clause
#include "devices.hh"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "process.hh"
#include "settings.hh"

namespace emulation {

namespace {

Device* devices[max_devices];
std::once_flag made[max_devices];
thread_local int current_number = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<long long> counters[counter_count];

// The kernels for the CPU lie beside this library, unless the environment says where.
void load_kernels() {
    Dl_info here{};
    dladdr(reinterpret_cast<void*>(&load_kernels), &here);
    std::string path = here.dli_fname ? here.dli_fname : "";
    path = path.substr(0, path.rfind('/') + 1) + "libkernels_on_cpu.so";
    if (settings().kernels) path = settings().kernels;
    // Bound at once: a device's process cannot look for symbols.
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return;
    if (settings().kernels) std::fprintf(stderr, "emulation: %s\n", dlerror());
}

std::byte* map_or_end(void* at, size_t bytes, int access, int flags, int file) {
    void* memory = mmap(at, bytes, access, flags | MAP_NORESERVE, file, 0);
    if (memory != MAP_FAILED && (!at || memory == at)) return static_cast<std::byte*>(memory);
    std::perror("emulation: no memory for a device");
    std::abort();
}

// Its addresses are many times its memory, so that freed ones are taken again late.
size_t arena_bytes() { return static_cast<size_t>(8 * settings().memory_bytes); }

void make_device(int number) {
    static std::once_flag first;
    std::call_once(first, [] {
        load_kernels();
        make_stacks();
        if (settings().isolate) watch_host();
    });
    auto* d = new Device;
    d->number = number;
    d->address = first_address + static_cast<uintptr_t>(number) * address_step;
    const int file = memfd_create("emulated device", MFD_CLOEXEC);
    if (ftruncate(file, static_cast<off_t>(arena_bytes())) != 0) std::abort();
    map_or_end(reinterpret_cast<void*>(d->address), arena_bytes(),
               settings().isolate ? PROT_NONE : PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED_NOREPLACE, file);
    d->alias = map_or_end(nullptr, arena_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file);
    madvise(d->alias, arena_bytes(), MADV_DONTFORK);  // the device has no second way to its memory
    close(file);
    d->control = new (map_or_end(nullptr, sizeof(Control), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1)) Control;
    d->holes[d->address] = arena_bytes();
    d->standard = make_queue(d, true);
    if (settings().isolate) d->process = make_process(d->control);
    devices[number] = d;
}

// ---- errors on demand: "function:nth:error,..", and "!" after the error: the device is lost

struct Wish {
    int after;
    cudaError_t error;
    bool lost = false;
};
std::mutex wishes_mutex;
std::unordered_map<std::string, Wish>& wishes() {
    static auto* const all = [] {
        auto* map = new std::unordered_map<std::string, Wish>;
        for (const char* text = settings().fail; text && *text;) {
            char name[64];
            int nth = 0, error = 0, length = 0;
            if (std::sscanf(text, "%63[^:]:%d:%d%n", name, &nth, &error, &length) != 3) {
                std::fprintf(stderr, "emulation: EMULATION_FAIL is function:nth:error,.., not %s\n",
                             text);
                std::abort();
            }
            const bool lost = text[length] == '!';
            (*map)[name] = {nth - 1, static_cast<cudaError_t>(error), lost};
            text += length + lost;
            text += *text == ',';
        }
        return map;
    }();
    return *all;
}

struct AtExit {
    ~AtExit() {
        for (const Device* d : devices)
            if (d && d->process) kill(d->process, SIGKILL);
        if (!settings().report) return;
        const Counts c = emulation_counts();
        std::fprintf(
            stderr,
            "emulation: %lld kernels; copies: %lld to a device (%lld bytes), %lld from one "
            "(%lld), %lld between (%lld); with pageable memory: %lld; device memory: %lld "
            "bytes now, %lld at most\n",
            c.launches, c.copies_to, c.bytes_to, c.copies_from, c.bytes_from, c.copies_between,
            c.bytes_between, c.pageable, c.live_bytes, c.peak_bytes);
    }
} at_exit;

}  // namespace

const Settings& settings() {
    static const Settings s;
    return s;
}

Device& current_device() {
    std::call_once(made[current_number], make_device, current_number);
    return *devices[current_number];
}

Device* device_of(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (address < first_address) return nullptr;
    const uintptr_t number = (address - first_address) / address_step;
    return number < max_devices ? devices[number] : nullptr;
}

std::vector<QueueRef> queues_of(Device& d) {
    std::vector<QueueRef> all{d.standard};
    std::lock_guard lock(d.queues_mutex);
    for (const auto& weak : d.queues)
        if (QueueRef queue = weak.lock()) all.push_back(std::move(queue));
    return all;
}

std::byte* view_of(const void* pointer, size_t bytes) {
    Device* d = device_of(pointer);
    if (!d) return nullptr;
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    std::lock_guard lock(d->memory_mutex);
    auto at = d->blocks.upper_bound(address);
    if (at == d->blocks.begin()) return nullptr;
    --at;
    return address + bytes <= at->first + at->second.bytes ? d->alias_of(address) : nullptr;
}

// With the process's mutex
static void ask_to_protect(Device& d, uintptr_t address, size_t bytes, int protection) {
    d.control->request = Control::protect;
    d.control->address = address;
    d.control->bytes = bytes;
    d.control->protection = protection;
    ask(*d.control, d.process);
    if (d.control->status)
        break_device(d, static_cast<cudaError_t>(d.control->status), d.control->text);
}
void protect(Device& d, uintptr_t address, size_t bytes, int protection) {
    if (!settings().isolate || d.broken) return;
    std::lock_guard lock(d.process_mutex);
    ask_to_protect(d, address, bytes, protection);
}

std::atomic<int> libraries{0};

// A process cannot load a library without the host's memory: so another one takes its place.
void know_kernels(Device& d) {
    if (!settings().isolate || d.broken || d.libraries == libraries) return;
    std::lock_guard memory(d.memory_mutex);
    std::lock_guard lock(d.process_mutex);
    d.libraries = libraries.load();
    kill(d.process, SIGKILL);
    waitpid(d.process, nullptr, 0);
    d.control->asked = d.control->answered = 0;
    d.process = make_process(d.control);
    for (const auto& [address, block] : d.blocks)
        ask_to_protect(d, block.first_page, block.pages, PROT_READ | PROT_WRITE);
}

void break_device(Device& d, cudaError_t error, const char* why) {
    int none = 0;
    if (d.broken.compare_exchange_strong(none, error))
        std::fprintf(stderr, "emulation: %s (%s)\n", why, cudaGetErrorString(error));
}

void count(Counter counter, long long more) { counters[counter] += more; }

cudaError_t failed(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
    return error;
}

cudaError_t wished(const char* function) {
    std::lock_guard lock(wishes_mutex);
    const auto at = wishes().find(function);
    if (at == wishes().end() || at->second.after-- > 0) return cudaSuccess;
    const Wish wish = at->second;
    wishes().erase(at);
    if (wish.lost) break_device(current_device(), wish.error, function);
    return wish.error;
}

cudaError_t sticky_error() {
    const Device* d = devices[current_number];
    return d ? static_cast<cudaError_t>(d->broken.load()) : cudaSuccess;
}

extern "C" {
void* emulation_view(const void* pointer, size_t bytes, const char* who) {
    if (void* seen = view_of(pointer, bytes)) return seen;
    std::fprintf(stderr, "emulation: %s: %zu bytes at %p are not memory of a device\n", who, bytes,
                 pointer);
    std::abort();
}
void emulation_fail(const char* function, int after, cudaError_t error) {
    std::lock_guard lock(wishes_mutex);
    wishes()[function] = {after, error};
}
void emulation_take(int device, long long bytes) {
    std::call_once(made[device], make_device, device);
    Device& d = *devices[device];
    std::lock_guard lock(d.memory_mutex);
    d.used += bytes;
}
void emulation_lose(int device, int error) {
    std::call_once(made[device], make_device, device);
    break_device(*devices[device], static_cast<cudaError_t>(error), "a device is lost");
}
Counts emulation_counts() {
    Counts counts;
    static_assert(sizeof counts == counter_count * sizeof(long long));
    long long values[counter_count];
    for (int i = 0; i < counter_count; ++i) values[i] = counters[i];
    std::memcpy(&counts, values, sizeof counts);
    return counts;
}
}

}  // namespace emulation

using namespace emulation;

// ---- the runtime's functions

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    if (const cudaError_t wish = wished(__func__)) return failed(wish);
    *count = settings().devices;
    return *count > 0 ? cudaSuccess : failed(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int number) {
    if (const cudaError_t wish = wished(__func__)) return failed(wish);
    if (number < 0 || number >= settings().devices) return failed(cudaErrorInvalidDevice);
    current_number = number;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int* number) {
    *number = current_number;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

// It would take all that the process has on the device: nobody here may call it.
cudaError_t cudaDeviceReset() {
    std::fprintf(stderr, "emulation: cudaDeviceReset() takes the device from the whole process\n");
    std::abort();
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int number) {
    EMULATION_ENTER;
    if (number < 0 || number >= settings().devices) return failed(cudaErrorInvalidDevice);
    std::memset(p, 0, sizeof *p);
    std::snprintf(p->name, sizeof p->name, "emulated device %d", number);
    p->totalGlobalMem = static_cast<size_t>(settings().memory_bytes);
    p->sharedMemPerBlock = 48 << 10;
    p->warpSize = 32;
    p->maxThreadsPerBlock = max_threads;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = settings().architecture / 10;
    p->minor = settings().architecture % 10;
    p->multiProcessorCount = 4;
    p->concurrentKernels = 1;
    p->asyncEngineCount = 2;
    p->unifiedAddressing = 1;
    p->canMapHostMemory = 1;
    p->pciBusID = number + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
    if (number < 0 || number >= settings().devices) return failed(cudaErrorInvalidDevice);
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount: *value = 4; break;
        case cudaDevAttrComputeCapabilityMajor: *value = settings().architecture / 10; break;
        case cudaDevAttrComputeCapabilityMinor: *value = settings().architecture % 10; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = max_shared; break;
        case cudaDevAttrMaxThreadsPerBlock: *value = max_threads; break;
        default: *value = 0;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int one, int other) {
    EMULATION_ENTER;
    *can = one != other;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
    EMULATION_ENTER;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInvalidConfiguration: return "invalid configuration argument";
        case cudaErrorInsufficientDriver:
            return "CUDA driver version is insufficient for CUDA runtime version";
        case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
        case cudaErrorLaunchFailure: return "unspecified launch failure";
        case cudaErrorNotReady: return "device not ready";
        case cudaErrorNoDevice: return "no CUDA-capable device is detected";
        case cudaErrorInvalidDeviceFunction: return "invalid device function";
        case cudaErrorInvalidResourceHandle: return "invalid resource handle";
        default: return "another error";
    }
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
}
