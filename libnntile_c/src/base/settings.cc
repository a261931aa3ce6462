// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hh"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <mutex>

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

template <auto Member>
bool text(Settings& to, const std::string& value) {
    to.*Member = value;
    return true;
}

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
    {"NNTILE_SMALL_CALLS", "a count of calls", count<&Settings::small_calls>},
    {"NNTILE_GPU_CODE", "0, 1 or 'first'",
     [](Settings& to, const std::string& value) {
         to.gpu_code = value == "0"   ? GpuCode::none
                       : value == "1" ? GpuCode::behind
                                      : GpuCode::first;
         return value == "0" || value == "1" || value == "first";
     }},
    {"NNTILE_SENTINELS", "0 or 1", flag<&Settings::sentinels>},
    {"NNTILE_PRINT", "'passes'",
     [](Settings& to, const std::string& value) {
         to.print_passes = value == "passes";
         return to.print_passes;
     }},
    {"NNTILE_COST", "a file", text<&Settings::cost>},
    {"NNTILE_MEMORY", "a size",
     [](Settings& to, const std::string& value) {
         to.memory_bytes = size_of("the environment variable NNTILE_MEMORY", value);
         return true;
     }},
    {"NNTILE_SWAP", "a folder", text<&Settings::swap>},
    {"NNTILE_SWAP_SIZE", "a size",
     [](Settings& to, const std::string& value) {
         to.swap_bytes = size_of("the environment variable NNTILE_SWAP_SIZE", value);
         return true;
     }},
    {"NNTILE_DATA_DIR", "a folder", text<&Settings::data_dir>},
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
// All that were read: another thread may look at the one before.
struct Kept {
    std::mutex mutex;
    std::deque<Settings> all;
};
Kept& kept() {
    static auto* kept = new Kept;  // threads may end after static objects
    return *kept;
}

constexpr int64_t least_size = int64_t{1} << 20;  // a budget that nothing fits in has a wrong unit
constexpr int64_t most_size = int64_t{1} << 62;

constexpr struct Unit {
    std::string_view name;
    int64_t bytes;
} units[] = {
    {"", 1},
    {"B", 1},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"KIB", int64_t{1} << 10},
    {"MIB", int64_t{1} << 20},
    {"GIB", int64_t{1} << 30},
    {"TIB", int64_t{1} << 40},
};

// Whatever the locale is.
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// The characters at the start of `text` that are of a kind; they leave it.
std::string_view take(std::string_view& text, bool (*of_kind)(char)) {
    const auto end = std::find_if_not(text.begin(), text.end(), of_kind);
    const std::string_view taken = text.substr(0, static_cast<size_t>(end - text.begin()));
    text.remove_prefix(taken.size());
    return taken;
}

// -1: no size; most_size + 1: more than that.
int64_t bytes_of(std::string_view text) {
    take(text, is_blank);
    const std::string_view whole = take(text, is_digit);
    std::string part = "0.";
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        const std::string_view digits = take(text, is_digit);
        if (digits.empty()) return -1;
        part += digits;
    }
    take(text, is_blank);
    std::string name(take(text, is_letter));
    for (char& c : name)
        if (c >= 'a') c = static_cast<char>(c - 'a' + 'A');
    take(text, is_blank);
    const auto* const unit = std::find_if(std::begin(units), std::end(units),
                                          [&](const Unit& u) { return u.name == name; });
    if (whole.empty() || !text.empty() || unit == std::end(units)) return -1;
    int64_t count = 0;
    const auto read = std::from_chars(whole.data(), whole.data() + whole.size(), count);
    if (read.ec != std::errc{} || count > most_size / unit->bytes) return most_size + 1;
    double rest = 0;  // of one unit
    std::from_chars(part.data(), part.data() + part.size(), rest);
    return count * unit->bytes +
           static_cast<int64_t>(rest * static_cast<double>(unit->bytes) + 0.5);
}

}  // namespace

int64_t size_of(std::string_view what, std::string_view text) {
    const int64_t bytes = bytes_of(text);
    check(bytes > 0, Status::invalid_argument, what,
          " must be a positive size such as \"8GiB\", got '", text, "'");
    check(bytes >= least_size, Status::invalid_argument, what, " must be at least 1MiB, got '",
          text, "'; a number without a unit is bytes");
    check(bytes <= most_size, Status::invalid_argument, what, " must be at most 2^62 bytes, got '",
          text, "'");
    return bytes;
}

const Settings& read_settings() {
    Settings found = from_environment();
    const std::lock_guard lock(kept().mutex);
    const Settings* const before = current.load(std::memory_order_acquire);
    if (before && *before == found) return *before;
    const Settings& now = kept().all.emplace_back(std::move(found));
    current.store(&now, std::memory_order_release);
    return now;
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
