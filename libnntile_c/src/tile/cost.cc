// SPDX-License-Identifier: BSD-3-Clause
#include "tile/cost.hh"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "base/environment.hh"
#include "base/error.hh"
#include "base/settings.hh"
#include "base/text.hh"
#include "tile/tile_graph.hh"

namespace nntile::tile {

namespace {

struct Constant {
    std::string_view name;
    double Machine::* value;
    std::string_view unit;
};
constexpr Constant constants[] = {
    {"task_seconds", &Machine::task_seconds, "s a task"},
    {"spread_seconds", &Machine::spread_seconds, "s where several tasks become ready together"},
    {"product_flops", &Machine::product_flops, "flop/s, float32"},
    {"product_flops_f64", &Machine::product_flops_f64, "flop/s, float64"},
    {"product_flops_16", &Machine::product_flops_16, "flop/s, bfloat16 and float16"},
    {"product_bytes", &Machine::product_bytes, "byte/s of a product's cold operands"},
    {"functions", &Machine::functions, "flop/s of element-wise programs and rows"},
    {"memory_bytes", &Machine::memory_bytes, "byte/s from and to memory"},
    {"cache_bytes", &Machine::cache_bytes, "byte/s from and to a cache"},
    {"cache_size", &Machine::cache_size, "bytes of cache of a worker"},
    {"workers", &Machine::workers, "workers; cuts are weighed for machines of up to so many"},
    {"host_bytes", &Machine::host_bytes, "byte/s of a function of the host of weight 1"},
};

std::mutex current_mutex;
CostRef current;  // null: to be made of its source
enum class Source { file, defaults, caller } source;
std::atomic<int> gpus{0}, architecture{0};
std::atomic<uint64_t> versions{0};
std::atomic<int64_t> task_bytes{INT64_MAX};

// Of GPUs from this compute capability on, by our kernels: docs/develop/cost.md
struct GpuConstants {
    int architecture;
    double product_flops, product_flops_f64, product_flops_16, product_bytes, functions;
    double memory_bytes, cache_size;
};
constexpr GpuConstants gpu_constants[] = {
    {80, 1.5e13, 3.5e12, 1.3e14, 1.6e12, 7e11, 5.5e11, 4e7},  // not measured
    {90, 5e13, 1.2e13, 4e14, 3.7e12, 2.4e12, 1.3e12, 5e7},
};

Machine machine_of_file(const char* path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    check(file.good() && !text.fail(), Status::not_found, "NNTILE_COST: cannot read '", path, "'");
    return parse_machine(text.str(), text_of("NNTILE_COST, '", path, "'"));
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r";
    const size_t first = text.find_first_not_of(blanks);
    return first == text.npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

const Constant* find_constant(std::string_view name) {
    const auto* found = std::find_if(std::begin(constants), std::end(constants),
                                     [&](const Constant& c) { return c.name == name; });
    return found == std::end(constants) ? nullptr : found;
}

// -1: no number, or none that is > 0 and finite.
double positive(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && value > 0 && std::isfinite(value) ? value : -1;
}

}  // namespace

Machine this_machine() {
    Machine machine;
    machine.workers = available_cores();
    const int devices = gpus.load(std::memory_order_acquire);
    if (devices > 0) {
        const GpuConstants* gpu = gpu_constants;
        for (const GpuConstants& g : gpu_constants)
            if (g.architecture <= architecture.load(std::memory_order_relaxed)) gpu = &g;
        machine.task_seconds = 1.3e-5;
        machine.product_flops = gpu->product_flops;
        machine.product_flops_f64 = gpu->product_flops_f64;
        machine.product_flops_16 = gpu->product_flops_16;
        machine.product_bytes = gpu->product_bytes;
        machine.functions = gpu->functions;
        machine.memory_bytes = machine.cache_bytes = gpu->memory_bytes;
        machine.cache_size = gpu->cache_size;
        machine.workers = devices;
    }
    return machine;
}

void set_gpus(int count, int oldest) {
    std::lock_guard lock(current_mutex);
    const bool other = architecture.exchange(oldest) != oldest;
    if (gpus.exchange(count, std::memory_order_acq_rel) == count && !other) return;
    if (source == Source::caller) return;
    current.reset();
    ++versions;
}

bool has_gpus() { return gpus.load(std::memory_order_acquire) > 0; }

Machine parse_machine(std::string_view text, std::string_view where) {
    Machine machine = this_machine();
    std::vector<std::string_view> given;
    for (int number = 1; !text.empty(); ++number) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        line = trimmed(line.substr(0, line.find('#')));
        if (line.empty()) continue;
        const size_t equals = std::min(line.find('='), line.size());
        const std::string_view name = trimmed(line.substr(0, equals));
        const Constant* known = find_constant(name);
        check(known, Status::invalid_argument, where, ", line ", number, ": no constant is called ",
              quoted(name));
        check(equals < line.size(), Status::invalid_argument, where, ", line ", number, ": '", name,
              " = value' is expected, got ", quoted(line));
        check(std::find(given.begin(), given.end(), name) == given.end(), Status::invalid_argument,
              where, ", line ", number, ": ", name, " is given twice");
        const std::string_view value = trimmed(line.substr(equals + 1));
        machine.*known->value = positive(value);
        check(machine.*known->value > 0, Status::invalid_argument, where, ", line ", number, ": ",
              name, " must be a finite number > 0, got ", quoted(value));
        given.push_back(name);
    }
    return machine;
}

std::string print(const Machine& machine) {
    std::string out;
    for (const Constant& c : constants)
        out += text_of(c.name, " = ", text_of_real(machine.*c.value), "  # ", c.unit, "\n");
    return out;
}

double Cost::flops(double flops, double bytes, DType dtype) const {
    const double rate = dtype == DType::f64     ? machine.product_flops_f64
                        : is_short_float(dtype) ? machine.product_flops_16
                                                : machine.product_flops;
    return flops / rate + bytes / machine.product_bytes;
}

double Cost::product(double m, double n, double k, double count, DType dtype) const {
    const auto size = static_cast<double>(size_of(dtype));
    return count * flops(2 * m * n * k, size * (m * k + k * n + 2 * m * n), dtype);
}

double Cost::pass(double flops, double bytes) const {
    const double rate = bytes <= machine.cache_size ? machine.cache_bytes : machine.memory_bytes;
    return std::max(flops / machine.functions, bytes / rate);
}

// A lookup, or its gradient, visits the rows that it is asked for. Sizes: indices.., row, table.
double Cost::table(const Task& task) const {
    const Operand& out = task.operands.back();
    double points = 1;
    for (size_t i = 0; i + 1 < task.sizes.size(); ++i) points *= static_cast<double>(task.sizes[i]);
    double moved = 2 * points;
    // The gradient is a table, and all of it is written
    if (!out.strides.empty() && out.strides.back() != 0)
        moved += static_cast<double>(task.sizes[task.sizes.size() - 2] * task.sizes.back());
    return pass(points, moved * static_cast<double>(size_of(out.dtype)));
}

double Cost::epilogue(const Task& task) const {
    const kernels::Program& program = *task.program;
    const size_t result = task.operands.size() - program.n_out - 1,
                 first = result + 1 - program.n_in;
    const auto block = [&](const Operand& o, double element) {
        for (size_t i = 0; i < task.sizes.size(); ++i)
            if (o.strides[i] != 0) element *= static_cast<double>(task.sizes[i]);
        return element;
    };
    double flops = 0, bytes = 0;
    for (const kernels::Instruction& i : program.code)
        flops += kernels::map_rows()[i.primitive].flops;
    for (size_t k = first; k < task.operands.size(); ++k)
        if (k != result && task.operands[k].tile != none)
            bytes += block(task.operands[k], static_cast<double>(size_of(task.operands[k].dtype)));
    return epilogue(block(task.operands[result], flops), bytes);
}

double Cost::task(const Task& task) const {
    const auto reads_as_they_lie = [&] {
        return task.kernel->as_they_lie && task.operands.back().dtype == DType::f32 &&
               task.kernel->as_they_lie(task.sizes);
    };
    double seconds = 0;
    if (!task.kernel) {
        seconds = task.flops / machine.host_bytes;  // bytes times weight; see make_host_call()
    } else if (task.kernel->work == kernels::Work::product) {
        const size_t n = task.sizes.size();
        double m = static_cast<double>(task.sizes[n - 3]), count = 1;
        const Operand& b = task.operands[1];
        // The kernel makes one product where b is the same for all
        for (size_t i = 0; i + 3 < n; ++i)
            (b.strides[i] == 0 ? m : count) *= static_cast<double>(task.sizes[i]);
        seconds = product(m, static_cast<double>(task.sizes[n - 2]),
                          static_cast<double>(task.sizes[n - 1]), count, task.operands[0].dtype) +
                  (task.program ? epilogue(task) : 0);
    } else if (task.kernel->work == kernels::Work::table) {
        seconds = table(task);
    } else if (task.kernel->work == kernels::Work::flops || reads_as_they_lie()) {
        seconds = flops(task.flops, task.bytes, task.operands.back().dtype);
    } else if (task.kernel->work == kernels::Work::reorders) {
        seconds = reorders(task.flops, task.bytes, task.operands.back().dtype);
    } else if (task.kernel->work == kernels::Work::visits) {
        seconds = visits(task.flops, task.operands[0].dtype);
    } else {
        seconds = pass(task.flops, task.bytes);
    }
    return machine.task_seconds + seconds;
}

CostRef cost() {
    std::lock_guard lock(current_mutex);
    if (!current) {
        // anew: after an error it may be another file
        const std::string path = source == Source::file ? read_settings().cost : "";
        current = std::make_shared<const Cost>(
            path.empty() ? this_machine() : machine_of_file(path.c_str()), versions.load());
    }
    return current;
}

uint64_t cost_version() { return versions.load(std::memory_order_acquire); }

void set_cost(const Machine& machine) {
    std::lock_guard lock(current_mutex);
    source = Source::caller;
    current = std::make_shared<const Cost>(machine, ++versions);
}

void reset_cost() {
    std::lock_guard lock(current_mutex);
    source = Source::defaults;
    current.reset();
    ++versions;
}

int64_t most_task_bytes() { return task_bytes.load(std::memory_order_acquire); }

void set_most_task_bytes(int64_t bytes) {
    check(bytes > 0, Status::invalid_argument, "a task of at most ", bytes, " bytes");
    task_bytes.store(bytes, std::memory_order_release);
}

double host_weight(std::string_view name) {
    static const std::unordered_map<std::string_view, double> weights = {
#define HOST_WEIGHT(name, weight) {name, weight},
#include "tile/host_weight.def"
#undef HOST_WEIGHT
    };
    const auto at = weights.find(name.substr(0, name.find('.')));
    return at == weights.end() ? 1 : at->second;
}

}  // namespace nntile::tile
