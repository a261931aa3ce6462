// SPDX-License-Identifier: BSD-3-Clause
// Toy kernels on int64 tiles, a builder of tile graphs, and a sequential interpreter to compare
// with.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>

#include "base/error.hh"
#include "runtime/runtime.hh"

// Where the kernels are not linked in.
namespace nntile::kernels {
__attribute__((weak)) void single_thread_blas() {}
__attribute__((weak)) const char* isa() { return "none"; }
}  // namespace nntile::kernels

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::_Exit(1);                                                       \
        }                                                                        \
    } while (0)

// Runs `call`, which must throw an Error of this status whose text contains `part`.
#define CHECK_THROWS(call, expected, part)                                                    \
    do {                                                                                      \
        std::string text_;                                                                    \
        Status status_ = Status::ok;                                                          \
        try {                                                                                 \
            call;                                                                             \
        } catch (const Error& error) {                                                        \
            status_ = error.status;                                                           \
            text_ = error.what();                                                             \
        }                                                                                     \
        if (status_ != (expected) || text_.find(part) == std::string::npos) {                 \
            std::fprintf(stderr, "%s:%d: %s\n  status %d, text \"%s\"\n", __FILE__, __LINE__, \
                         #call, static_cast<int>(status_), text_.c_str());                    \
            std::_Exit(1);                                                                    \
        }                                                                                     \
    } while (0)

namespace toy {

using namespace nntile;
using runtime::Storage;
using tile::Access;
using tile::none;
using tile::TileRole;
using StorageRef = std::shared_ptr<Storage>;

// The last block gets 3 * (itself, if params[1].i) + sum over the others of (position + 2) * block
// + params[0]. params[2].i: microseconds to work.
inline int mix(const kernels::Args& args) {
    const auto& out = args.blocks.back();
    for (int64_t i = 0; i < args.sizes[0]; ++i) {
        auto at = [&](const kernels::Block& b) -> int64_t& {
            return reinterpret_cast<int64_t*>(b.data)[i * b.strides[0]];
        };
        uint64_t sum = static_cast<uint64_t>(args.params[0].i);
        if (args.params[1].i) sum += 3 * static_cast<uint64_t>(at(out));
        for (size_t k = 0; k + 1 < args.blocks.size(); ++k)
            sum += (k + 2) * static_cast<uint64_t>(at(args.blocks[k]));
        at(out) = static_cast<int64_t>(sum);
    }
    if (args.params[2].i) {
        auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(args.params[2].i);
        while (std::chrono::steady_clock::now() < until) continue;
    }
    return 0;
}
inline int refuse(const kernels::Args& args) {
    std::snprintf(args.error, kernels::error_text_bytes, "target %d is out of range [0, 10)", 12);
    return static_cast<int>(Status::index_error);
}
inline int explode(const kernels::Args&) { throw std::runtime_error("no kernel should do this"); }

inline const kernels::KernelRow mix_row{"mix", "", mix, nullptr};
inline const kernels::KernelRow refuse_row{"refuse", "", refuse, nullptr};
inline const kernels::KernelRow explode_row{"explode", "", explode, nullptr};

// Builds a graph whose values have one tile of n elements each.
struct Builder {
    explicit Builder(int64_t n) : n(n) {}
    tile::TileGraph graph;
    std::vector<uint32_t> inputs, outputs;  // value ids
    int64_t n;

    uint32_t add_tile(TileRole role, uint32_t reuses = none) {
        auto id = static_cast<uint32_t>(graph.tiles.size());
        graph.tiles.push_back({role == TileRole::temporary ? none : id, 0, n * 8, role, reuses});
        if (role == TileRole::input) inputs.push_back(id);
        if (role == TileRole::output) outputs.push_back(id);
        return id;
    }
    uint32_t input() { return add_tile(TileRole::input); }
    uint32_t output(uint32_t reuses = none) { return add_tile(TileRole::output, reuses); }
    uint32_t temporary(uint32_t reuses = none) { return add_tile(TileRole::temporary, reuses); }

    tile::Task& task(const std::vector<uint32_t>& reads, uint32_t out, int64_t add = 0,
                     bool update = false, int64_t microseconds = 0,
                     const kernels::KernelRow& row = mix_row) {
        tile::Task t;
        t.kernel = &row;
        t.sizes = {n};
        for (uint32_t r : reads) t.operands.push_back({r, Access::read, DType::i64, 0, {1}});
        t.operands.push_back(
            {out, update ? Access::read_write : Access::write, DType::i64, 0, {1}});
        for (int64_t p : {add, int64_t{update}, microseconds})
            t.params.push_back({.fixed = {.i = p}});
        t.node = static_cast<uint32_t>(graph.tasks.size());
        graph.op_names.push_back(row.name);
        graph.places.push_back(0);
        graph.tasks.push_back(std::move(t));
        return graph.tasks.back();
    }
    std::shared_ptr<runtime::Plan> plan() const {
        return runtime::make_plan(graph, inputs, outputs);
    }
};

inline StorageRef empty(int64_t n) {
    auto s = std::make_shared<Storage>();
    s->dtype = DType::i64;
    s->sizes = {n};
    s->cuts = {{}};
    s->names = {""};
    return s;
}
inline StorageRef filled(int64_t n, int64_t value) {
    StorageRef s = empty(n);
    std::vector<int64_t> host(static_cast<size_t>(n), value);
    runtime::allocate(*s);
    runtime::write(*s, host.data());
    return s;
}
inline std::vector<int64_t> values(const Storage& s) {
    std::vector<int64_t> host(static_cast<size_t>(s.sizes[0]), -1);
    runtime::read(s, host.data());
    return host;
}
inline std::vector<StorageRef> launch(runtime::Plan& plan, const std::vector<StorageRef>& inputs,
                                      size_t outputs, int64_t n,
                                      std::vector<kernels::Param> scalars = {}) {
    std::vector<StorageRef> out;
    for (size_t i = 0; i < outputs; ++i) out.push_back(empty(n));
    plan.launch({inputs, out, scalars, {}});
    return out;
}

// What the graph means: its tasks one after the other. `memory` by first tile of a chain.
inline void interpret(const tile::TileGraph& graph, std::vector<std::vector<int64_t>>& memory) {
    const std::vector<uint32_t> root = graph.memories();
    for (const tile::Task& t : graph.tasks) {
        std::vector<kernels::Block> blocks;
        for (const tile::Operand& o : t.operands) {
            auto& bytes = memory[root[o.tile]];
            bytes.resize(static_cast<size_t>(graph.tiles[o.tile].bytes / 8));
            blocks.push_back(
                {reinterpret_cast<std::byte*>(bytes.data() + o.offset), o.dtype, o.strides.data()});
        }
        kernels::Param params[3] = {t.params[0].fixed, t.params[1].fixed, {.i = 0}};
        kernels::Args args;
        args.sizes = t.sizes;
        args.blocks = blocks;
        args.params = params;
        CHECK(t.kernel->cpu(args) == 0);
    }
}

inline void begin(int ncpu = 2, int64_t memory = 0, std::string swap = "") {
    runtime::shutdown();
    runtime::Config config;
    config.ncpu = ncpu;
    config.memory_bytes = memory;
    config.swap = std::move(swap);
    runtime::start(config);
}

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
}

struct Test {
    const char* name;
    std::function<void()> run;
};
// Runs the tests whose name has `filter` in it (nullptr: all) in order.
inline void run_all(const std::vector<Test>& tests, const char* filter) {
    for (const Test& test : tests) {
        if (filter && !std::strstr(test.name, filter)) continue;
        const auto start = Clock::now();
        std::printf("%s\n", test.name);
        std::fflush(stdout);
        test.run();
        std::printf("  ok, %.2f s\n", seconds_since(start));
    }
    runtime::shutdown();
}

}  // namespace toy
