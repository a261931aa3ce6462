// SPDX-License-Identifier: BSD-3-Clause
// What the cost module answers, with constants that make it easy to say.
#include "../check.hh"
#include "tile/cost.hh"
#include "tile/tile_graph.hh"

using namespace nntile;
using namespace nntile::tile;

namespace {

constexpr double price = 1000;

Machine machine() {
    Machine m;
    m.task_seconds = price;
    m.product_flops = 2;
    m.product_flops_f64 = 1;
    m.product_flops_16 = 4;
    m.product_bytes = m.functions = m.cache_bytes = 1;
    m.memory_bytes = 0.5;
    m.cache_size = 100;
    m.host_bytes = 10;
    return m;
}

kernels::KernelRow kernel(const char* name) { return *kernels::find_kernel(name); }

double of(const Task& task) { return Cost(machine()).task(task) - price; }

void rates() {
    const Cost cost(machine());
    CHECK(cost.product(2, 3, 5, 7, DType::f32) == 7 * (30 + 4 * (10 + 15 + 12)));
    CHECK(cost.product(2, 3, 5, 1, DType::f64) == 60 + 8 * 37);
    CHECK(cost.product(2, 3, 5, 1, DType::bf16) == 15 + 2 * 37);
    CHECK(cost.pass(10, 20) == 20 && cost.pass(30, 20) == 30);
    CHECK(cost.pass(0, 100) == 100 && cost.pass(0, 101) == 202);
    CHECK(cost.copy(5) == 10 && cost.host(20, 3) == 6);
}

void tasks() {
    const kernels::KernelRow gemm = kernel("gemm"), map = kernel("map"),
                             lookup = kernel("embedding"), gradient = kernel("embedding_backward");
    Task task;
    task.flops = 40;
    CHECK(of(task) == 4);  // of the host
    task.kernel = &map;
    task.bytes = 60;
    CHECK(of(task) == 60);

    const Cost cost(machine());
    task.kernel = &gemm;
    task.sizes = {7, 2, 3, 5};
    task.operands.assign(2, Operand{0, Access::read, DType::f32, 0, {30, 5, 3, 1}});
    CHECK(of(task) == cost.product(2, 3, 5, 7, DType::f32));
    task.operands[1].strides[0] = 0;  // one matrix for all batches
    CHECK(of(task) == cost.product(14, 3, 5, 1, DType::f32));

    kernels::Program twice;  // of the product and a row, into a result
    twice.n_in = 2, twice.n_out = 1;
    for (int k = 0; k < 2; ++k)
        twice.code.emplace_back().primitive = static_cast<uint16_t>(kernels::find_map("add"));
    const double product = of(task);
    task.program = std::make_shared<const kernels::Program>(twice);
    for (const Dims& strides : {Dims{0, 0, 0, 0}, {0, 0, 1, 0}, {6, 3, 1, 0}, {6, 3, 1, 0}})
        task.operands.push_back({0, Access::read, DType::f32, 0, strides});
    CHECK(of(task) == product + cost.epilogue(4 * 42, 4 * (3 + 42)));
    CHECK(cost.epilogue(4 * 42, 4 * (3 + 42)) < price + cost.pass(4 * 42, 4 * (3 + 42 + 42)));
    task.program = nullptr;

    task.bytes = task.flops = 1e9;  // of the whole table: not visited
    task.sizes = {2, 3, 1000};
    task.kernel = &lookup;
    task.operands.assign(3, Operand{0, Access::read, DType::f32, 0, {3, 1, 0}});
    CHECK(of(task) == 2 * 6 * 4);
    task.kernel = &gradient;
    task.operands[2].strides = {0, 1, 3};
    CHECK(of(task) == cost.pass(6, (2 * 6 + 3000) * 4));

    // Its flops at the rate of a product, and its bytes
    const kernels::KernelRow attention = kernel("attention");
    task.kernel = &attention;
    task.flops = 1000;
    task.bytes = 60;
    CHECK(of(task) == cost.flops(1000, 60, DType::f32));
    CHECK(cost.flops(1000, 0, DType::f64) > cost.flops(1000, 0, DType::f32));
    CHECK(cost.flops(1000, 60, DType::f32) > cost.flops(1000, 0, DType::f32));

    const kernels::KernelRow convolution = kernel("convolution");
    task.kernel = &convolution;
    task.sizes = {2, 12, 3, 1, 1, 4, 4};  // 12 channels of one pixel of 2 images
    CHECK(of(task) == cost.flops(1000, 60, DType::f32));
    task.sizes[0] = 3;
    CHECK(of(task) == cost.reorders(1000, 60, DType::f32));
    CHECK(cost.reorders(1000, 60, DType::f32) > cost.flops(1000, 60, DType::f32));

    const kernels::KernelRow bags = kernel("embedding_bag");
    task.kernel = &bags;
    task.flops = 54;
    task.bytes = 1e9;  // of a table, of which it sees 54 elements
    CHECK(of(task) == cost.visits(54, DType::f32) && of(task) == cost.pass(54, 2 * 54 * 4));
}

void weights() {
    CHECK(host_weight("aten::convolution") > 1 && host_weight("aten::sort.stable") > 1);
    CHECK(host_weight("aten::convolution_backward") != host_weight("aten::convolution"));
    CHECK(host_weight("aten::nothing") == 1);
}

void versions() {
    const uint64_t before = cost()->version;
    set_cost(machine());
    CHECK(cost()->version == before + 1 && cost()->machine.host_bytes == 10);
    const CostRef kept = cost();
    set_cost({});
    CHECK(cost()->version == before + 2 && kept->machine.host_bytes == 10);
}

}  // namespace

int main() {
    rates();
    tasks();
    weights();
    versions();
    return nntile::test::result();
}
