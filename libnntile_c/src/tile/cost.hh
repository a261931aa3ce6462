// SPDX-License-Identifier: BSD-3-Clause
// What work takes on one worker of the model of the machine. Cuts, schedules and simulations ask
// here and nowhere else. The answers depend on shapes and on the constants, never on what a run
// took: so the same graph gets the same cuts, and the same bits, on every run and with any number
// of workers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/dtype.hh"

namespace nntile::tile {

struct Task;

// The constants; docs/develop/cost.md says how they are measured. A cost file has one "name =
// value" a line.
struct Machine {
    double task_seconds = 4e-6;     // price of any task: made ready, bound, started, ended
    double spread_seconds = 3e-6;   // waking workers for tasks that become ready together
    double product_flops = 1.5e11;  // flop/s of a hot float32 product
    double product_flops_f64 = 6e10;
    double product_flops_16 = 1e11;  // bfloat16 and float16
    double product_bytes = 1.6e10;   // byte/s of a product's cold operands
    double functions = 5e10;         // flop/s of element-wise programs and rows
    double memory_bytes = 4e10;      // byte/s of a task whose data is not in a cache
    double cache_bytes = 8e10;       // byte/s of one whose data is
    double cache_size = 8e6;         // bytes of cache of one worker
    double workers = 4;              // cuts are weighed for machines of up to so many workers
    double host_bytes = 8e9;         // byte/s of a function of the host with weight 1
};

// The defaults: for as many cores as this process has; or, if the context has GPUs (set_gpus), for
// these. With one GPU no cut gains time, so only tasks that do not fit into its memory are cut.
Machine this_machine();
void set_gpus(int gpus, int architecture);  // of compute capability 9.0: 90; 0: there are none
bool has_gpus();

// Names that are left out are those of this_machine(). Throws invalid_argument with `where`, the
// line and the constant for a name that is unknown or comes twice, a value that is not > 0 and
// finite, or a line of another form.
Machine parse_machine(std::string_view text, std::string_view where = "cost file");
std::string print(const Machine& machine);

class Cost {
public:
    explicit Cost(const Machine& machine, uint64_t version = 0)
        : machine(machine), version(version) {}

    // C[m, n] += A[m, k] B[k, n], `count` of them.
    double product(double m, double n, double k, double count, DType dtype) const;
    // A program on the result of a product, in the same task: its flops, and the bytes of its other
    // operands. What it saves is the price of a task, and a pass over the result, which is in a
    // cache.
    double epilogue(double flops, double bytes) const { return pass(flops, bytes); }
    // Work that does `flops` at the rate of a product.
    double flops(double flops, double bytes, DType dtype) const;
    // Likewise, of operands that are written in another layout first: a task that reads an operand
    // whole pays for all of it, however little of the result it makes.
    double reorders(double flops_, double bytes, DType dtype) const {
        return flops(flops_, bytes, dtype) + pass(0, 2 * bytes);
    }
    // `flops` as rows state them; bytes that the task reads and writes.
    double pass(double flops, double bytes) const;
    // So many elements of a table, which are read, and written somewhere.
    double visits(double elements, DType dtype) const {
        return pass(elements, 2 * elements * static_cast<double>(size_of(dtype)));
    }
    double host(double bytes, double weight) const { return bytes * weight / machine.host_bytes; }
    double copy(double bytes) const { return pass(0, 2 * bytes); }
    double task(const Task& task) const;  // with its price

    const Machine machine;
    const uint64_t version;  // counts calls of set_cost(), for the keys of plans

private:
    double table(const Task& task) const;
    double epilogue(const Task& task) const;
};
using CostRef = std::shared_ptr<const Cost>;

// The module that everything asks. Its first use reads the file that NNTILE_COST names, if any;
// not_found or invalid_argument, at each use, as long as that cannot be read.
CostRef cost();
uint64_t cost_version();  // that of cost(), without a lock: each call of a program asks for it
void set_cost(const Machine& machine);
void reset_cost();  // the defaults

// The most bytes that the operands and results of one task should have: eight ninths of a
// context's budget, which sets it. Automatic cuts keep below it where they can. Beside the
// constants, it is all that cuts and tasks depend on; INT64_MAX as long as nobody has set it.
int64_t most_task_bytes();
void set_most_task_bytes(int64_t bytes);  // > 0

// What a function of the host does to a byte beside a plain pass over memory; by its name, 1 if
// nothing is known.
double host_weight(std::string_view name);

}  // namespace nntile::tile
