// SPDX-License-Identifier: BSD-3-Clause
#include "base/cuda/compiler.hh"

#include <dlfcn.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.hh"
#include "base/settings.hh"

namespace nntile::cuda {

namespace {

// ---- NVRTC. Its functions are looked for by name, as those of the other libraries.
using Program = struct Opaque*;
struct Nvrtc {
    int (*create)(Program*, const char* source, const char* name, int headers,
                  const char* const* texts, const char* const* names) = nullptr;
    int (*compile)(Program, int count, const char* const* options) = nullptr;
    int (*code_size)(Program, size_t*) = nullptr;
    int (*code)(Program, char*) = nullptr;
    int (*log_size)(Program, size_t*) = nullptr;
    int (*log)(Program, char*) = nullptr;
    int (*destroy)(Program*) = nullptr;
    std::string missing;  // "": it is there
    int major = 0, minor = 0;

    Nvrtc() {
        void* const library = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            missing = dlerror();
            return;
        }
        int (*version)(int*, int*) = nullptr;
        const auto find = [&](auto& to, const char* name) {
            to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, name));
            if (!to) missing = text_of(name, " is not in the library");
        };
        find(create, "nvrtcCreateProgram");
        find(compile, "nvrtcCompileProgram");
        find(code_size, "nvrtcGetCUBINSize");
        find(code, "nvrtcGetCUBIN");
        find(log_size, "nvrtcGetProgramLogSize");
        find(log, "nvrtcGetProgramLog");
        find(destroy, "nvrtcDestroyProgram");
        find(version, "nvrtcVersion");
        if (!missing.empty()) return;
        version(&major, &minor);
        // It looks for this one by name, in the system's folders: ours are others.
        (void)dlopen(text_of("libnvrtc-builtins.so.", major, ".", minor).c_str(),
                     RTLD_NOW | RTLD_LOCAL);
    }
};
const Nvrtc& nvrtc() {
    static const auto* const made = new Nvrtc;
    return *made;
}

cudaKernel_t load(const std::string& code, const std::string& name, std::string& reason) {
    cudaLibrary_t library = nullptr;  // it is never unloaded
    cudaKernel_t kernel = nullptr;
    cudaError_t error =
        cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (error == cudaSuccess) error = cudaLibraryGetKernel(&kernel, library, name.c_str());
    if (error == cudaSuccess) return kernel;
    reason = cudaGetErrorString(error);
    return nullptr;
}

// ---- what is compiled

struct Entry {
    int64_t work = 0;
    bool asked = false;             // it was compiled, or will be
    cudaKernel_t kernel = nullptr;  // nullptr: not yet, or it cannot be had
};
struct Job {
    Entry* entry;
    int device, architecture;
    Source source;
};

// Some 0.2 s of a core are worth it for a program that does so many elements. A call that does few
// has the price of an interpreter all the same.
constexpr int64_t enough_work = int64_t{1} << 20, work_of_call = enough_work / 16;

struct Compiler {
    std::mutex mutex;
    std::condition_variable changed;
    std::unordered_map<std::string, Entry> entries;  // an entry keeps its address
    std::deque<Job> jobs;
    std::thread thread;
    bool ends = false;
    int64_t made = 0, failed = 0;
    std::string first_reason;  // of a failure

    void make(const Job& job) {
        std::string reason;
        cudaSetDevice(job.device);  // else the runtime would begin to use the first one
        const std::string code = compiled(job.source, job.architecture, reason);
        const cudaKernel_t kernel = code.empty() ? nullptr : load(code, job.source.name, reason);
        std::lock_guard lock(mutex);
        job.entry->kernel = kernel;
        ++(kernel ? made : failed);
        if (first_reason.empty() && !kernel) first_reason = text_of(job.source.name, ": ", reason);
    }
    void serve() {
        std::unique_lock lock(mutex);
        for (;;) {
            changed.wait(lock, [&] { return ends || !jobs.empty(); });
            if (ends) return;
            const Job job = std::move(jobs.front());
            jobs.pop_front();
            lock.unlock();
            make(job);
            lock.lock();
        }
    }
};
Compiler& compiler() {
    static auto* const one = new Compiler;  // never destroyed: its thread may still look at it
    return *one;
}

// Of the thread's device.
int architecture_of_this(int& device) {
    thread_local int known_device = -1, known = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    if (device != known_device) known = architecture_of(device);
    known_device = known ? device : -1;
    return known;
}

}  // namespace

int architecture_of(int device) {
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
        return 0;
    return 10 * major + minor;
}

std::string compiled(const Source& source, int architecture, std::string& reason) {
    const Nvrtc& n = nvrtc();
    if (!n.missing.empty()) {
        reason = n.missing;
        return "";
    }
    std::vector<const char*> names, texts;
    for (const Header& h : source.headers) {
        names.push_back(h.name);
        texts.push_back(h.text);
    }
    const std::string target = text_of("--gpu-architecture=sm_", architecture);
    // As map.cu is compiled: no product is joined with a sum.
    const char* const options[] = {target.c_str(),       "--std=c++20",
                                   "--fmad=false",       "--device-as-default-execution-space",
                                   "-DNNTILE_WITH_CUDA", "-DNNTILE_FOR_DEVICE",
                                   "-DNNTILE_ISA=cuda",  "--disable-warnings"};
    Program program = nullptr;
    int error = n.create(&program, source.text.c_str(), text_of(source.name, ".cu").c_str(),
                         static_cast<int>(names.size()), texts.data(), names.data());
    std::string code;
    if (error == 0) error = n.compile(program, std::size(options), options);
    size_t bytes = 0;
    if (error == 0 && n.code_size(program, &bytes) == 0) {
        code.resize(bytes);
        if (n.code(program, code.data()) != 0) code.clear();
    } else if (program && n.log_size(program, &bytes) == 0) {
        reason.resize(bytes);
        n.log(program, reason.data());
        reason.resize(std::min(reason.find('\0'), reason.size()));
    }
    if (code.empty() && reason.empty()) reason = text_of("NVRTC's error ", error);
    if (program) n.destroy(&program);
    return code;
}

cudaKernel_t kernel_of(const std::string& key, int64_t work, const std::function<Source()>& write) {
    const GpuCode mode = settings().gpu_code;
    if (mode == GpuCode::none || !nvrtc().missing.empty()) return nullptr;
    int device = 0;
    const int kind = architecture_of_this(device);
    if (kind == 0) return nullptr;
    Compiler& c = compiler();
    std::unique_lock lock(c.mutex);
    Entry& entry = c.entries[static_cast<char>(kind) + key];
    if (entry.asked) return entry.kernel;
    entry.work += work + work_of_call;
    if (mode == GpuCode::behind && entry.work < enough_work) return nullptr;
    entry.asked = true;
    Job job{&entry, device, kind, write()};
    if (mode == GpuCode::first) {
        lock.unlock();
        c.make(job);
        lock.lock();
        check(entry.kernel, Status::internal, "no code for ", c.first_reason);
        return entry.kernel;
    }
    c.jobs.push_back(std::move(job));
    if (!c.thread.joinable()) c.thread = std::thread([&c] { c.serve(); });
    c.changed.notify_one();
    return nullptr;
}

void stop_compiler() {
    Compiler& c = compiler();
    {
        std::lock_guard lock(c.mutex);
        c.ends = true;
        for (Job& job : c.jobs) job.entry->asked = false;
        c.jobs.clear();
    }
    c.changed.notify_one();
    if (c.thread.joinable()) c.thread.join();
    c.thread = {};
    c.ends = false;
}

std::string compiler_text() {
    if (settings().gpu_code == GpuCode::none) return "no code at run time (NNTILE_GPU_CODE=0)";
    const Nvrtc& n = nvrtc();
    if (!n.missing.empty())
        return text_of("no NVRTC (", n.missing, "; it is in nvidia-cuda-nvrtc of PyPI)");
    Compiler& c = compiler();
    std::lock_guard lock(c.mutex);
    std::string text = text_of("NVRTC ", n.major, ".", n.minor);
    if (c.made) text += text_of(", ", c.made, " kernels");
    if (c.failed) text += text_of(", ", c.failed, " failed: ", c.first_reason);
    return text;
}

}  // namespace nntile::cuda
