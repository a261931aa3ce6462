// SPDX-License-Identifier: BSD-3-Clause
// What the emulation has to do: run kernels right, and find each mistake. A mistake ends a process,
// so each has one of its own: this program, with the mistake's name.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "check.hh"
#include "emulation.hh"
#include "sample.hh"

using namespace emulation;
using namespace emulation::sample;

namespace {

constexpr int64_t n = 1000;

template <class T>
T* on_device(const std::vector<T>& x) {
    void* p = nullptr;
    CHECK(cudaMalloc(&p, x.size() * sizeof(T)) == cudaSuccess);
    CHECK(cudaMemcpy(p, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
    return static_cast<T*>(p);
}
template <class T>
std::vector<T> back(const T* p, size_t count) {
    std::vector<T> x(count);
    CHECK(cudaMemcpy(x.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return x;
}

struct Operands {
    std::vector<float> x = std::vector<float>(n, 1), y = std::vector<float>(n, 2);
    float *on_x = on_device(x), *on_y = on_device(y);
    cudaStream_t stream = nullptr;
    Operands() { CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess); }
};

// ---- what is right

void test_right() {
    Operands o;
    CHECK(start_axpy(3, o.on_x, o.on_y, n, o.stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(o.stream) == cudaSuccess);
    for (float y : back(o.on_y, n)) CHECK(y == 5);

    const int64_t rows = 7;
    std::vector<float> x(static_cast<size_t>(rows * n)), none(static_cast<size_t>(rows));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
    float *on_x = on_device(x), *sums = on_device(none);
    CHECK(start_row_sums(true, on_x, sums, rows, n, o.stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(o.stream) == cudaSuccess);
    const std::vector<float> got = back(sums, none.size());
    for (size_t r = 0; r < none.size(); ++r) {
        float want = 0;
        for (size_t j = 0; j < n; ++j) want += x[r * n + j];
        CHECK(got[r] == want);
    }

    int *greatest = on_device(std::vector<int>(3 * 96)), *threads = on_device(std::vector<int>(1));
    CHECK(start_lanes(greatest, threads, o.stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(o.stream) == cudaSuccess);
    for (int value : back(greatest, 3 * 96)) CHECK(value == 31);
    CHECK(back(threads, 1)[0] == 3 * 96);
    for (void* p : {static_cast<void*>(on_x), static_cast<void*>(sums)})
        CHECK(cudaFree(p) == cudaSuccess);
}

void test_events() {
    Operands o;
    cudaStream_t other;
    cudaEvent_t event;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    CHECK(cudaEventQuery(event) == cudaSuccess);  // nothing was recorded
    CHECK(start_axpy(3, o.on_x, o.on_y, n, o.stream) == cudaSuccess);
    CHECK(cudaEventRecord(event, o.stream) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(other, event, 0) == cudaSuccess);
    CHECK(start_axpy(3, o.on_x, o.on_y, n, other) == cudaSuccess);
    CHECK(cudaStreamSynchronize(other) == cudaSuccess);
    CHECK(cudaEventQuery(event) == cudaSuccess);
    CHECK(back(o.on_y, n)[n - 1] == 8);
}

// How much a kernel may share is said to each device.
void test_shared() {
    const size_t much = size_t{64} << 10;
    cudaStream_t streams[2];
    const auto start = [&](int device, size_t shared) {
        const float* const x = on_device(std::vector<float>(n, 1));
        float* const sum = on_device(std::vector<float>(1));
        const cudaError_t error = start_row_sums(true, x, sum, 1, n, streams[device], shared);
        CHECK(cudaStreamSynchronize(streams[device]) == cudaSuccess);
        return error;
    };
    for (int device : {1, 0}) {
        CHECK(cudaSetDevice(device) == cudaSuccess);
        CHECK(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking) == cudaSuccess);
    }
    CHECK(start(0, much) == cudaErrorInvalidValue);
    CHECK(let_row_sums_share(much) == cudaSuccess);
    CHECK(start(0, much) == cudaSuccess);
    CHECK(cudaSetDevice(1) == cudaSuccess);
    CHECK(start(1, much) == cudaErrorInvalidValue);
    CHECK(let_row_sums_share(much - 1024) == cudaSuccess);
    CHECK(cudaSetDevice(0) == cudaSuccess);
    CHECK(start(0, much) == cudaSuccess);
}

// ---- failures on demand

void test_failures() {
    Operands o;
    void* p = nullptr;
    emulation_fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
    CHECK(cudaMalloc(&p, 64) == cudaSuccess);
    CHECK(cudaMalloc(&p, 64) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
    CHECK(cudaMalloc(&p, 64) == cudaSuccess);
    emulation_fail("cudaLaunchKernel", 0, cudaErrorLaunchFailure);
    CHECK(start_axpy(3, o.on_x, o.on_y, n, o.stream) == cudaErrorLaunchFailure);
    CHECK(start_axpy(3, o.on_x, o.on_y, n, o.stream) == cudaSuccess);
    emulation_fail("cudaGetDeviceCount", 0, cudaErrorInsufficientDriver);
    int count = 0;
    CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
    emulation_fail("cudaDeviceEnablePeerAccess", 0, cudaErrorNotSupported);
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorNotSupported);
    CHECK(cudaMalloc(&p, size_t{1} << 40) == cudaErrorMemoryAllocation);  // more than it has
    size_t left = 0, less = 0, all = 0;
    CHECK(cudaMemGetInfo(&left, &all) == cudaSuccess);
    emulation_take(0, static_cast<long long>(left) - 4096);
    CHECK(cudaMalloc(&p, 8192) == cudaErrorMemoryAllocation);
    CHECK(cudaMemGetInfo(&less, &all) == cudaSuccess && less == 4096);
    emulation_take(0, 4096 - static_cast<long long>(left));
    CHECK(cudaMalloc(&p, 8192) == cudaSuccess);
    CHECK(cudaMemcpy(o.on_x, o.x.data(), (n + 1) * sizeof(float), cudaMemcpyHostToDevice) ==
          cudaErrorInvalidValue);  // more than the block
    CHECK(cudaStreamSynchronize(o.stream) == cudaSuccess);
}

// ---- mistakes

void kernel_reads_host() {
    Operands o;
    (void)start_axpy(3, o.x.data(), o.on_y, n, o.stream);
    std::exit(cudaStreamSynchronize(o.stream) == cudaErrorIllegalAddress ? 42 : 0);
}
void behind() {
    Operands o;
    (void)start_axpy(3, o.on_x, o.on_y, 2 * n, o.stream);
    std::exit(cudaStreamSynchronize(o.stream) == cudaErrorIllegalAddress ? 42 : 0);
}
void freed() {
    Operands o;
    (void)cudaFree(o.on_x);
    (void)start_axpy(3, o.on_x, o.on_y, n, o.stream);
    std::exit(cudaStreamSynchronize(o.stream) == cudaErrorIllegalAddress ? 42 : 0);
}
void host_reads() {
    Operands o;
    std::exit(static_cast<int>(o.on_x[3]));
}
void no_wait() {
    Operands o;
    (void)start_axpy(3, o.on_x, o.on_y, n, o.stream);
    std::exit(back(o.on_y, n)[n - 1] == 5 ? 0 : 42);
}
void no_barrier() {
    Operands o;
    const std::vector<float> ones(10 * n, 1), none(10);
    float *x = on_device(ones), *sums = on_device(none);
    (void)start_row_sums(false, x, sums, 10, n, o.stream);
    (void)cudaStreamSynchronize(o.stream);
    std::exit(back(sums, 10) == std::vector<float>(10, n) ? 0 : 42);
}

struct Mistake {
    const char* name;
    void (*make)();
    int ends;          // exit code, or a signal
    const char* says;  // on stderr
};
const Mistake mistakes[] = {
    {"host-reads", host_reads, -SIGSEGV, "the host (thread \"emulation-self_\") touches memory"},
    {"kernel-reads-host", kernel_reads_host, 42, "which is not memory of the device"},
    {"behind", behind, 42, "outside of what is allocated on this device"},
    {"freed", freed, 42, "outside of what is allocated on this device"},
    {"no-wait", no_wait, 42, ""},
    {"no-barrier", no_barrier, 42, ""},
};

// How it ended, and what it said.
int run(const char* self, const char* mistake, int seed, std::string& said) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        setenv("EMULATION_SEED", std::to_string(seed).c_str(), 1);
        setenv("EMULATION_DELAY_US", "200000", 1);  // more than a busy machine takes
        execl(self, self, mistake, nullptr);
        _exit(1);
    }
    close(ends[1]);
    std::array<char, 4096> buffer;
    for (ssize_t got; (got = read(ends[0], buffer.data(), buffer.size())) > 0;)
        said.append(buffer.data(), static_cast<size_t>(got));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void test_mistakes(const char* self) {
    for (const Mistake& m : mistakes)
        for (int seed = 1; seed <= 3; ++seed) {
            std::string said;
            const int ended = run(self, m.name, seed, said);
            if (ended != m.ends || said.find(m.says) == said.npos)
                nntile::test::report(__FILE__, __LINE__,
                                     nntile::text_of(m.name, ", seed ", seed, ": ended with ",
                                                     ended, ", said: ", said));
        }
}

}  // namespace

int main(int count, char** arguments) {
    setenv("EMULATION_DEVICES", "2", 1);
    for (const Mistake& m : mistakes)
        if (count > 1 && std::strcmp(arguments[1], m.name) == 0) m.make();
    test_right();
    test_events();
    test_shared();
    test_failures();
    test_mistakes(arguments[0]);
    return nntile::test::result();
}
