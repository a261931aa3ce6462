// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hh"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/error.hh"

namespace nntile {

namespace {

// false: not a value that it can have
using Take = bool (*)(Settings& to, const std::string& value);

template <auto Member>
bool flag(Settings& to, const std::string& value) {
    to.*Member = value == "1";
    return value == "0" || value == "1";
}

bool number_of(const std::string& value, int& to) {
    char* end = nullptr;
    const long n = std::strtol(value.c_str(), &end, 10);
    to = static_cast<int>(n);
    return *end == 0 && n >= -1 && n < 1 << 20;
}

template <auto Member>
bool count(Settings& to, const std::string& value) {
    return number_of(value, to.*Member);
}

bool any(Settings&, const std::string&) { return true; }

constexpr struct Variable {
    std::string_view name;
    const char* allowed;
    Take take;
} variables[] = {
    {"STARPU_NCPU", "a count of workers", count<&Settings::ncpu>},
    {"STARPU_NCUDA", "a count of workers", count<&Settings::ncuda>},
    {"LOCAL_WORLD_SIZE", "a count of processes",
     [](Settings& to, const std::string& value) {
         return number_of(value, to.local_processes) && to.local_processes > 0;
     }},
    {"LOCAL_RANK", "the number of a process", count<&Settings::local_rank>},
    {"NNTILE_RUNTIME_MODE", "'eager' or 'graph'",
     [](Settings& to, const std::string& value) {
         to.graph_mode = value == "graph";
         return to.graph_mode || value == "eager";
     }},
    {"NNTILE_CPU_FALLBACK", "0 or 1", flag<&Settings::cpu_fallback>},
    {"NNTILE_BLOCKING", "0 or 1", flag<&Settings::blocking>},
    {"NNTILE_AUTOMATIC_CUTS", "0 or 1", flag<&Settings::automatic_cuts>},
    {"NNTILE_FUSE", "0 or 1", flag<&Settings::fuse>},
    {"NNTILE_WINDOWS", "0 or 1", flag<&Settings::windows>},
    {"NNTILE_SENTINELS", "0 or 1", flag<&Settings::sentinels>},
    {"NNTILE_PRINT", "'passes'",
     [](Settings& to, const std::string& value) {
         to.print_passes = value == "passes";
         return to.print_passes;
     }},
    {"NNTILE_COST", "a file",
     [](Settings& to, const std::string& value) {
         to.cost = value;
         return true;
     }},
    {"NNTILE_DATA_DIR", "a folder", any},  // torch_nntile.train_mnist
};
// Of this repository
constexpr std::string_view tools[] = {"NNTILE_BENCH_", "NNTILE_BUILD_", "NNTILE_ROOT"};

Settings from_environment() {
    Settings found;
    for (const Variable& v : variables) {
        const char* text = std::getenv(std::string(v.name).c_str());
        if (!text || !*text) continue;
        check(v.take(found, text), Status::invalid_argument, "the environment variable ", v.name,
              " must be ", v.allowed, ", got '", text, "'");
    }
    // StarPU ends the process where one of these is no number.
    for (char** e = environ; e && *e; ++e) {
        const std::string_view line = *e;
        const size_t equals = line.find('=');
        int n = 0;
        if (!line.starts_with("STARPU_N") || equals == line.npos || equals + 1 == line.size())
            continue;
        check(number_of(std::string(line.substr(equals + 1)), n), Status::invalid_argument,
              "the environment variable ", line.substr(0, equals), " must be a number, got '",
              line.substr(equals + 1), "'");
    }
    return found;
}

std::atomic<const Settings*> current{nullptr};

}  // namespace

const Settings& read_settings() {
    const Settings* const before = current.load(std::memory_order_acquire);
    Settings found = from_environment();
    if (before && *before == found) return *before;
    // stays: another thread may look at the one before
    const auto* const now = new Settings(std::move(found));
    current.store(now, std::memory_order_release);
    return *now;
}

const Settings& settings() {
    if (const Settings* s = current.load(std::memory_order_acquire)) [[likely]]
        return *s;
    return read_settings();
}

std::string unknown_settings() {
    std::string unknown;
    for (char** e = environ; e && *e; ++e) {
        const std::string_view line = *e, name = line.substr(0, line.find('='));
        if (!name.starts_with("NNTILE_")) continue;
        const bool known =
            std::any_of(std::begin(variables), std::end(variables),
                        [&](const Variable& v) { return v.name == name; }) ||
            std::any_of(std::begin(tools), std::end(tools),
                        [&](std::string_view tool) { return name.starts_with(tool); });
        if (!known) unknown += text_of(unknown.empty() ? "" : ", ", name);
    }
    return unknown;
}

}  // namespace nntile
