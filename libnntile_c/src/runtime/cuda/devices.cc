// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/devices.hh"

#include <starpu.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include "base/cuda/compiler.hh"
#include "base/cuda/loader.hh"
#include "base/error.hh"
#include "kernels/cuda/dnn.hh"
#include "kernels/cuda/place.hh"
#include "runtime/device_residency.hh"
#include "runtime/engine.hh"
#include "runtime/replicas.hh"

namespace nntile::runtime::devices {

namespace {

// Of one CUDA worker. Only its thread is here, once it has begun.
struct Worker {
    static constexpr int words = 64;  // more than there are tasks in flight
    cublasHandle_t blas = nullptr;
    kernels::Refused* on_device = nullptr;  // words, and where they are copied to
    kernels::Refused* on_host = nullptr;
    std::byte* scratch = nullptr;
    kernels::cuda::Dnn* dnn = nullptr;
    std::vector<int> free;
    int word = no_word;  // of the task that runs
    bool watched = false;
    kernels::CudaPlace place{};
};
Worker workers[STARPU_NMAXWORKERS];

Worker& me() { return workers[starpu_worker_get_id()]; }

constexpr size_t words_bytes = Worker::words * sizeof(kernels::Refused);

// What a worker has it gets when its first task runs. "": it has all; else what is wrong.
std::string prepare(Worker& w, bool& no_room) {
    if (w.blas) return "";
    const auto get = [](auto*& block, size_t bytes) {
        return block ? cudaSuccess : cudaMalloc(reinterpret_cast<void**>(&block), bytes);
    };
    cudaError_t error = get(w.on_device, words_bytes);
    if (error == cudaSuccess) error = get(w.scratch, kernels::CudaPlace::scratch_bytes);
    no_room = error == cudaErrorMemoryAllocation;
    if (error == cudaSuccess && !w.on_host)
        error = cudaHostAlloc(reinterpret_cast<void**>(&w.on_host), words_bytes, 0);
    if (error != cudaSuccess)
        return text_of("CUDA: no memory for a worker: ", cudaGetErrorString(error));
    w.free.clear();
    for (int word = 0; word < Worker::words; ++word) w.free.push_back(word);
    const cublasStatus_t status = cublasCreate(&w.blas);
    no_room = status == CUBLAS_STATUS_ALLOC_FAILED;
    if (status == CUBLAS_STATUS_SUCCESS) return "";
    return text_of("cuBLAS: no handle: ", cublasGetStatusString(status));
}

// The node whose device has failed in this thread's call.
unsigned node_of_error(starpu_data_handle_t handle, unsigned from, unsigned to) {
    if (handle && from == STARPU_MAIN_RAM) return to;
    if (handle && to == STARPU_MAIN_RAM) return from;
    int worker = starpu_worker_get_id();
    int device = 0;
    if (worker < 0 || starpu_worker_get_type(worker) != STARPU_CUDA_WORKER) {
        cudaGetDevice(&device);
        worker = starpu_worker_get_by_devid(STARPU_CUDA_WORKER, device);
    }
    return starpu_worker_get_memory_node(static_cast<unsigned>(worker));
}

// StarPU cannot do without a call that has failed. A device gives the same error to all calls that
// follow, until the process ends.
int failed(cudaError_t error, starpu_data_handle_t handle, unsigned from, unsigned to) {
    const unsigned node = node_of_error(handle, from, to);
    // A task that runs there says so, with its line.
    if (replicas::lose(node, cudaGetErrorString(error)) && !replicas::busy(node))
        engine().report(Status::runtime, replicas::why_lost() + "; what only it had is lost");
    if (handle) replicas::copy_failed(handle, from, to);
    return 1;
}

void end_worker(void*) {
    Worker& w = me();
    if (w.blas) cublasDestroy(w.blas);
    kernels::cuda::end_dnn(w.dnn);
    cudaFree(w.on_device);
    cudaFree(w.scratch);
    cudaFreeHost(w.on_host);
    w = {};
}

// What tiles may take of a device that others use, too: the rest is for scratch, words and cuBLAS's
// workspace. StarPU takes small tiles from pieces of 32 MiB.
constexpr int64_t mebi = 1 << 20;
constexpr int64_t kept = 32 * mebi, least_room = 40 * mebi;

int64_t room_on(int device, int wanted) {
    size_t free = 0, total = 0;
    cudaError_t error = cudaSetDevice(device);
    if (error == cudaSuccess) error = cudaMemGetInfo(&free, &total);
    nntile::check(error == cudaSuccess, Status::runtime, "context: ", wanted,
                  " CUDA workers are asked for, but GPU ", device,
                  " cannot be used: ", cudaGetErrorString(error));
    const int64_t room = static_cast<int64_t>(free) / 10 * 9 - kept;
    nntile::check(room >= least_room, Status::runtime, "context: ", wanted,
                  " CUDA workers are asked for, but of GPU ", device, " only ",
                  static_cast<int64_t>(free) / mebi, " of ", static_cast<int64_t>(total) / mebi,
                  " MiB are free, and a worker needs ", (least_room + kept) * 10 / 9 / mebi + 1,
                  "; nvidia-smi lists the processes that hold the rest");
    return room;
}

std::string version_text(int version) { return text_of(version / 1000, ".", version % 1000 / 10); }

}  // namespace

std::vector<int64_t> open(int wanted) {
    const std::string missing = cuda::open_libraries();
    nntile::check(missing.empty(), Status::runtime, "context: ", wanted,
                  " CUDA workers are asked for, but CUDA's libraries cannot be loaded: ", missing,
                  "; install nvidia-cuda-runtime and nvidia-cublas of PyPI for CUDA 13");
    int driver = 0, found = 0;
    cudaDriverGetVersion(&driver);
    nntile::check(driver > 0, Status::runtime, "context: ", wanted,
                  " CUDA workers are asked for, but this machine has no driver of NVIDIA");
    const cudaError_t error = cudaGetDeviceCount(&found);
    nntile::check(error != cudaErrorInsufficientDriver, Status::runtime, "context: ", wanted,
                  " CUDA workers are asked for, but the driver is of CUDA ", version_text(driver),
                  ", and this build needs one of CUDA 13.0 (580) or newer");
    nntile::check(error == cudaSuccess || error == cudaErrorNoDevice, Status::runtime,
                  "context: ", wanted,
                  " CUDA workers are asked for, but CUDA says: ", cudaGetErrorString(error));
    nntile::check(found >= wanted, Status::invalid_argument, "context: ", wanted,
                  " CUDA workers are asked for, but there are ", found,
                  " GPUs (CUDA_VISIBLE_DEVICES may hide some)");
    // These are other GPUs, in an order that StarPU knows, and their memory is its business.
    if (std::getenv("STARPU_WORKERS_CUDAID")) return {};
    int before = 0;
    cudaGetDevice(&before);
    std::vector<int64_t> room;
    for (int device = 0; device < wanted; ++device) room.push_back(room_on(device, wanted));
    cudaSetDevice(before);
    return room;
}

int architecture() {
    int all[STARPU_NMAXWORKERS], lowest = INT_MAX;
    const unsigned count = starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, all, std::size(all));
    for (unsigned k = 0; k < count; ++k)
        lowest = std::min(lowest, cuda::architecture_of(starpu_worker_get_devid(all[k])));
    return lowest;
}

std::string versions() {
    int runtime = 0, driver = 0;
    if (!cuda::libraries_open()) return "built in, not loaded";
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) return "built in, no driver";
    cudaDriverGetVersion(&driver);
    return text_of("runtime ", version_text(runtime), ", driver ", version_text(driver), ", ",
                   cuda::compiler_text(), ", ", kernels::cuda::dnn_text());
}

void start() {
    starpu_cuda_error_hook = failed;
    device_residency::start([](const Tile& tile) {
        // Who has the mutex now may wait for us.
        const std::unique_lock lock(engine().mutex, std::try_to_lock);
        return lock && !tile.owned && tile.idle();
    });
    starpu_make_room_hook = [](unsigned node, size_t bytes) -> int {
        return replicas::make_room(node, static_cast<int64_t>(bytes));
    };
}

void stop() {
    cuda::stop_compiler();
    int all[STARPU_NMAXWORKERS];
    const unsigned count = starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, all, std::size(all));
    std::vector<unsigned> live;
    for (unsigned k = 0; k < count; ++k) {
        const auto worker = static_cast<unsigned>(all[k]);
        if (replicas::lost(starpu_worker_get_memory_node(worker))) workers[worker] = {};
        else live.push_back(worker);
    }
    if (live.empty()) return;
    starpu_execute_on_specific_workers(end_worker, nullptr, static_cast<unsigned>(live.size()),
                                       live.data(), "end");
}

void stopped() {
    starpu_cuda_error_hook = nullptr;
    starpu_make_room_hook = nullptr;
}

// For all devices. Who asks may be any thread, which keeps the device that it had.
memory::Pinning pinning() {
    const auto pin = [](void* memory, size_t bytes) {
        const int worker = starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0);
        const int device = starpu_worker_get_devid(worker);
        int before = device;
        cudaGetDevice(&before);
        if (before != device) cudaSetDevice(device);
        const cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
        if (error != cudaSuccess) (void)cudaGetLastError();
        if (before != device) cudaSetDevice(before);
        return error == cudaSuccess;
    };
    return {pin, [](void* memory) { (void)cudaHostUnregister(memory); }};
}

std::string free_text() {
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return text_of(static_cast<int64_t>(free) / mebi, " of ", static_cast<int64_t>(total) / mebi,
                   " MiB are free");
}

bool prepared() {
    bool no_room = false;
    (void)prepare(me(), no_room);
    return !no_room;
}

const kernels::CudaPlace* begin(uint32_t math) {
    Worker& w = me();
    w.watched = false;
    bool no_room = false;
    const std::string problem = prepare(w, no_room);
    nntile::check(problem.empty(), Status::runtime, problem);
    nntile::check(!w.free.empty(), Status::internal, "CUDA: no word is left for a task");
    w.word = w.free.back();
    w.free.pop_back();
    const cudaStream_t stream = starpu_cuda_get_local_stream();
    cublasSetStream(w.blas, stream);
    w.place = {stream, w.blas, w.on_device + w.word, &w.watched, w.scratch, &w.dnn, math};
    return &w.place;
}

int end() {
    Worker& w = me();
    const int word = std::exchange(w.word, no_word);
    if (word == no_word) return no_word;  // it was skipped
    if (w.watched) {
        cudaMemcpyAsync(w.on_host + word, w.on_device + word, sizeof *w.on_host,
                        cudaMemcpyDeviceToHost, w.place.stream);
        return word;
    }
    w.free.push_back(word);
    return no_word;
}

kernels::Refused refused_by(int word) {
    if (word == no_word) return {};
    Worker& w = me();
    w.free.push_back(word);
    return w.on_host[word];
}

}  // namespace nntile::runtime::devices
