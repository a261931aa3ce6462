// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/environment.hh"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

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

}  // namespace

int cpu_workers() {
    const int n = settings().ncpu;
    return n >= 0 ? n : std::max(1, available_cores() / settings().local_processes);
}

int64_t memory_budget() {
    const int64_t physical = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    return std::min(std::min(physical, group_limit()) / 10 * 9 / settings().local_processes,
                    memory::address_space_left() / 2);
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
