// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/environment.hh"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/environment.hh"
#include "base/settings.hh"
#include "runtime/memory.hh"

namespace nntile::runtime {

namespace {

int64_t group_limit() {
    for (const char* path :
         {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
        std::ifstream file(path);
        int64_t bytes = 0;
        if (file >> bytes && bytes > 0) return bytes;
    }
    return INT64_MAX;
}

std::string fresh_folder() {
    std::error_code ignored;
    std::string pattern =
        (std::filesystem::temp_directory_path(ignored) / "nntile-XXXXXX").string();
    for (std::string place : {pattern, std::string("/dev/shm/nntile-XXXXXX")})
        if (mkdtemp(place.data())) return place;
    return "";
}

// 0, or the errno with which the system refuses a new file.
int problem_of_files_in(const std::string& folder) {
    std::string name = folder + "/nntile-XXXXXX";
    const int file = mkostemp(name.data(), O_CLOEXEC);
    if (file < 0) return errno;
    unlink(name.c_str());
    close(file);
    return 0;
}

}  // namespace

int cpu_workers() {
    const int n = settings().ncpu;
    return n >= 0 ? n : std::max(1, available_cores() / settings().local_processes);
}

int64_t memory_of_machine() {
    return std::min(int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE), group_limit());
}

int64_t memory_budget() {
    if (settings().memory_bytes > 0) return settings().memory_bytes;
    return std::min(memory_of_machine() / 10 * 9 / settings().local_processes,
                    memory::address_space_left() / 2);
}

Swap swap_of(const Config& config) {
    const Settings& given = settings();
    const std::string folder = config.swap.value_or(given.swap);
    const char* const what = config.swap ? "swap" : "the environment variable NNTILE_SWAP";
    check(!folder.empty() || config.swap_bytes == 0, Status::invalid_argument,
          "swap: a size is given without a folder; name the folder by swap or by NNTILE_SWAP");
    if (folder.empty()) return {};
    if (const int problem = problem_of_files_in(folder))
        fail(Status::invalid_argument, what, " must be a folder where files can be made, got '",
             folder, "': ", std::generic_category().message(problem));
    Swap swap{std::filesystem::canonical(folder).string(),
              config.swap_bytes > 0 ? config.swap_bytes : given.swap_bytes};
    if (swap.bytes == 0) {
        const std::uintmax_t free = std::filesystem::space(folder).available;
        const auto most = static_cast<std::uintmax_t>(8 * memory_of_machine());
        swap.bytes = static_cast<int64_t>(std::min(free, most)) / given.local_processes;
        check(swap.bytes > 0, Status::invalid_argument, what, ": nothing is free in '", folder,
              "'; give the size by swap_size or by NNTILE_SWAP_SIZE, or another folder");
    }
    return swap;
}

StartEnvironment::StartEnvironment(bool verbose) : folder_(fresh_folder()) {
    if (!verbose) set("STARPU_SILENT", "1");
    if (!std::getenv("STARPU_WORKERS_NOBIND")) set("STARPU_WORKERS_NOBIND", "1");
    for (const char* name : {"STARPU_PERF_MODEL_DIR", "STARPU_PERF_MODEL_PATH"})
        if (std::getenv(name)) set(name, nullptr);
    if (folder_.empty()) return;
    set("XDG_CACHE_HOME",
        folder_.c_str());  // StarPU 1.4 looks here first, later ones at STARPU_HOME
    set("STARPU_HOME", folder_.c_str());
}

void StartEnvironment::limit_devices(const std::vector<int64_t>& bytes) {
    // StarPU would write home ahead of time what is changed again: see device_residency.hh.
    for (const char* name : {"STARPU_MINIMUM_CLEAN_BUFFERS", "STARPU_TARGET_CLEAN_BUFFERS"})
        if (!std::getenv(name)) set(name, "0");
    if (std::getenv("STARPU_LIMIT_CUDA_MEM")) return;
    for (size_t device = 0; device < bytes.size(); ++device) {
        const std::string name = text_of("STARPU_LIMIT_CUDA_", device, "_MEM");
        if (!std::getenv(name.c_str()))
            set(name.c_str(), std::to_string(bytes[device] >> 20).c_str());
    }
}

StartEnvironment::~StartEnvironment() {
    for (const auto& [name, old] : before_)
        old.first ? setenv(name.c_str(), old.second.c_str(), 1) : unsetenv(name.c_str());
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void StartEnvironment::set(const char* name, const char* value) {
    const char* old = std::getenv(name);
    before_.emplace_back(name, std::pair(old != nullptr, std::string(old ? old : "")));
    value ? setenv(name, value, 1) : unsetenv(name);
}

}  // namespace nntile::runtime
