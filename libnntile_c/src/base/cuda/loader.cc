// SPDX-License-Identifier: BSD-3-Clause
// Every function of CUDA that StarPU, nvcc's objects or our own code call is here a jump through a
// slot, so that the library is linked with none of CUDA's. Until they are open a slot leads to a
// function that says there is no device. What nvcc's objects register when they are loaded is kept
// until then. cuda_symbols.inc has the functions: RUNTIME(name) and BLAS(name), by
// tools/cuda_symbols.py.
#include "base/cuda/loader.hh"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

extern "C" {
#define RUNTIME(name) __attribute__((visibility("hidden"), used)) void* nntile_slot_##name;
#define BLAS(name) RUNTIME(name)
#include "cuda_symbols.inc"
#undef RUNTIME
#undef BLAS
}

#if defined(__x86_64__)
#define NNTILE_JUMP(name) "jmp *nntile_slot_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define NNTILE_JUMP(name) \
    "adrp x16, nntile_slot_" #name "\nldr x16, [x16, #:lo12:nntile_slot_" #name "]\nbr x16\n"
#endif
#define RUNTIME(name)                                                                   \
    asm(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ",@function\n" #name \
        ":\n" NNTILE_JUMP(name) ".size " #name ",.-" #name "\n");
#define BLAS(name) RUNTIME(name)
#include "cuda_symbols.inc"
#undef RUNTIME
#undef BLAS

namespace nntile::cuda {

namespace {

struct Slot {
    void** to;
    const char* name;
    bool blas;
};
const Slot slots[] = {
#define RUNTIME(name) {&nntile_slot_##name, #name, false},
#define BLAS(name) {&nntile_slot_##name, #name, true},
#include "cuda_symbols.inc"
#undef RUNTIME
#undef BLAS
};

// ---- before the libraries are open

// cudaErrorNoDevice; to cuBLAS it is an error, too.
extern "C" int nntile_no_device(...) { return 100; }
const char* no_text(int) { return "CUDA's libraries are not loaded"; }

// What nvcc's objects register: code for devices, and its functions.
struct Code {
    struct Function {
        const char* host;
        char* device;
        const char* name;
        int limit;
        void *thread, *block, *block_dim, *grid_dim;
        int* size;
    };
    void* binary = nullptr;
    void** handle = nullptr;  // the runtime's, when it is open
    std::vector<Function> functions;
};
std::vector<Code*>& codes() {
    static auto* const all = new std::vector<Code*>;
    return *all;
}
void** keep_binary(void* binary) {
    auto* code = new Code;
    code->binary = binary;
    codes().push_back(code);
    return reinterpret_cast<void**>(code);
}
void keep_function(void** code, const char* host, char* device, const char* name, int limit,
                   void* thread, void* block, void* block_dim, void* grid_dim, int* size) {
    reinterpret_cast<Code*>(code)->functions.push_back(
        {host, device, name, limit, thread, block, block_dim, grid_dim, size});
}
void keep_end(void**) {}

using Unregister = void (*)(void**);
Unregister unregister;
void drop_binary(void** code) {
    if (void** handle = reinterpret_cast<Code*>(code)->handle) unregister(handle);
}

struct Own {
    const char* name;
    void* function;
};
const Own own[] = {
    {"cudaGetErrorString", reinterpret_cast<void*>(no_text)},
    {"cublasGetStatusString", reinterpret_cast<void*>(no_text)},
    {"__cudaRegisterFatBinary", reinterpret_cast<void*>(keep_binary)},
    {"__cudaRegisterFunction", reinterpret_cast<void*>(keep_function)},
    {"__cudaRegisterFatBinaryEnd", reinterpret_cast<void*>(keep_end)},
    {"__cudaUnregisterFatBinary", reinterpret_cast<void*>(drop_binary)},
};
bool registers(const char* name) {
    return std::strncmp(name, "__cuda", 6) == 0 && std::strstr(name, "egister");
}

// Before the constructors of nvcc's objects.
__attribute__((constructor(101))) void fill_slots() {
    for (const Slot& slot : slots) {
        *slot.to = reinterpret_cast<void*>(nntile_no_device);
        for (const Own& o : own)
            if (std::strcmp(o.name, slot.name) == 0) *slot.to = o.function;
    }
}

// ---- the libraries

std::atomic<bool> is_open{false};

void register_code(void* runtime) {
    const auto of = [&](const char* name) { return dlsym(runtime, name); };
    const auto add = reinterpret_cast<void** (*)(void*)>(of("__cudaRegisterFatBinary"));
    const auto add_function =
        reinterpret_cast<decltype(&keep_function)>(of("__cudaRegisterFunction"));
    const auto end = reinterpret_cast<void (*)(void**)>(of("__cudaRegisterFatBinaryEnd"));
    unregister = reinterpret_cast<Unregister>(of("__cudaUnregisterFatBinary"));
    for (Code* code : codes()) {
        code->handle = add(code->binary);
        for (const Code::Function& f : code->functions)
            add_function(code->handle, f.host, f.device, f.name, f.limit, f.thread, f.block,
                         f.block_dim, f.grid_dim, f.size);
        end(code->handle);
    }
}

}  // namespace

bool libraries_open() { return is_open.load(std::memory_order_acquire); }

std::string open_libraries() {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    if (libraries_open()) return "";
    void* const runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!runtime) return dlerror();
    void* const blas = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!blas) return dlerror();
    std::vector<void*> found;
    for (const Slot& slot : slots) {
        found.push_back(dlsym(slot.blas ? blas : runtime, slot.name));
        if (!found.back()) return std::string(slot.name) + " is not in the library";
    }
    register_code(runtime);
    for (size_t k = 0; k < found.size(); ++k)
        if (!registers(slots[k].name)) *slots[k].to = found[k];
    is_open.store(true, std::memory_order_release);
    return "";
}

}  // namespace nntile::cuda
