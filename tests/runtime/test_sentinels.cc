// SPDX-License-Identifier: BSD-3-Clause
// NNTILE_SENTINELS=1 finds kernels that write where they must not; right ones pass.
#include "toy.hh"

using namespace toy;

namespace {

int overruns(const kernels::Args& args) {
    reinterpret_cast<int64_t*>(args.blocks.back().data)[args.sizes[0]] = 7;
    return 0;
}
int scribbles(const kernels::Args& args) {
    ++reinterpret_cast<int64_t*>(args.blocks[0].data)[0];
    return 0;
}
const kernels::KernelRow overruns_row{"overruns", "", overruns, nullptr};
const kernels::KernelRow scribbles_row{"scribbles", "", scribbles, nullptr};

StorageRef run(const kernels::KernelRow& row, bool update = false) {
    constexpr int64_t n = 3;  // of a block of 64 bytes
    Builder b(n);
    const uint32_t x = b.input();
    b.task({x}, b.output(update ? x : none), 1, update, 0, row);
    auto plan = b.plan();
    return launch(*plan, {filled(n, 5)}, 1, n)[0];
}

}  // namespace

int main() {
    setenv("NNTILE_SENTINELS", "1", 1);
    begin();
    CHECK(values(*run(mix_row))[0] == 2 * 5 + 1);
    CHECK_THROWS(values(*run(overruns_row)), Status::internal,
                 "overruns: the task wrote behind its tile");
    CHECK_THROWS(values(*run(scribbles_row)), Status::internal,
                 "scribbles: a tile that the task only reads has changed");
    CHECK(values(*run(mix_row))[2] == 2 * 5 + 1);  // the next call works
    std::puts("ok");
    runtime::shutdown();
}
