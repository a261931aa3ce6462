// SPDX-License-Identifier: BSD-3-Clause
#include "tile/cost.hh"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "base/error.hh"
#include "base/text.hh"
#include "tile/tile_graph.hh"

namespace nntile::tile {

namespace {

struct Constant {
    std::string_view name;
    double Machine::*value;
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
    {"host_bytes", &Machine::host_bytes, "byte/s of a function of the host of weight 1"},
};

std::mutex current_mutex;
CostRef current;

Machine machine_of_file(const char* path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    check(file.good() && !text.fail(), Status::not_found, "NNTILE_COST: cannot read '", path, "'");
    return parse_machine(text.str());
}

}  // namespace

Machine parse_machine(std::string_view text) {
    Scanner scan("cost file", text);
    Machine machine;
    for (scan.skip_lines(); !scan.at_end(); scan.skip_lines()) {
        const std::string name = scan.word();
        const auto* known = std::find_if(std::begin(constants), std::end(constants),
                                         [&](const Constant& c) { return c.name == name; });
        if (known == std::end(constants)) scan.fail("no constant is called '", name, "'");
        scan.expect("=");
        const double value = scan.real();
        if (!(value > 0) || value > 1e300) scan.fail(name, " must be > 0 and finite, got ", text_of_real(value));
        machine.*known->value = value;
        scan.end_line();
    }
    return machine;
}

std::string print(const Machine& machine) {
    std::string out;
    for (const Constant& c : constants)
        out += text_of(c.name, " = ", text_of_real(machine.*c.value), "  # ", c.unit, "\n");
    return out;
}

double Cost::product(double m, double n, double k, double count, DType dtype) const {
    const double flops = dtype == DType::f64       ? machine.product_flops_f64
                         : is_short_float(dtype) ? machine.product_flops_16
                                                 : machine.product_flops;
    const auto size = static_cast<double>(size_of(dtype));
    return count * (2 * m * n * k / flops + size * (m * k + k * n + 2 * m * n) / machine.product_bytes);
}

double Cost::pass(double flops, double bytes) const {
    const double rate = bytes <= machine.cache_size ? machine.cache_bytes : machine.memory_bytes;
    return std::max(flops / machine.functions, bytes / rate);
}

double Cost::task(const Task& task) const {
    double seconds = 0;
    if (!task.kernel) {
        seconds = task.flops / machine.host_bytes;      // bytes times weight; see NodeTasks
    } else if (task.kernel->name == std::string_view("gemm")) {
        const size_t n = task.sizes.size();
        double m = static_cast<double>(task.sizes[n - 3]), count = 1;
        const Operand& b = task.operands[1];
        for (size_t i = 0; i + 3 < n; ++i)      // the kernel makes one product where b is the same for all
            (b.strides[i] == 0 ? m : count) *= static_cast<double>(task.sizes[i]);
        seconds = product(m, static_cast<double>(task.sizes[n - 2]), static_cast<double>(task.sizes[n - 1]), count,
                          task.operands[0].dtype);
    } else {
        seconds = pass(task.flops, task.bytes);
    }
    return machine.task_seconds + seconds;
}

CostRef cost() {
    std::lock_guard lock(current_mutex);
    if (!current) {
        const char* path = std::getenv("NNTILE_COST");
        current = std::make_shared<const Cost>(path && *path ? machine_of_file(path) : Machine{});
    }
    return current;
}

void set_cost(const Machine& machine) {
    std::lock_guard lock(current_mutex);
    current = std::make_shared<const Cost>(machine);
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
