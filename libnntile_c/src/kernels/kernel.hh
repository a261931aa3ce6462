// SPDX-License-Identifier: BSD-3-Clause
// What a kernel is: a pure function on strided blocks that share one iteration space.
// No allocation of results, no threads; errors are statuses, but for memory and libraries, which
// throw: the codelet catches. Includes base only.
//
// Every operand of a task is a block of one tile, described by strides over the *same* iteration
// space `sizes` (stride 0: the operand does not have that dim). A gemm of batch dims b.., m, n, k
// thus sees a with strides (b.., m, 0, k), b with (b.., 0, n, k), y with (b.., m, n, 0). The order
// of the dims is fixed by the op row (schema/op_row.hh); the last dims are those the kernel names
// in its doc.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.hh"
#include "base/small_vector.hh"

namespace nntile::kernels {

union Param {
    int64_t i;
    double f;
};

struct Block {
    std::byte* data = nullptr;  // first element of the block; nullptr: optional operand absent
    DType dtype = DType::none;
    const int64_t* strides = nullptr;  // one per iteration dim, in elements
};

// ---- map: a list of element-wise primitives run on blocks of about 4 KiB.
// Registers 0..n_in-1 are the input blocks; the last n_out registers are stored to the output
// blocks.
struct Instruction {
    uint16_t primitive = 0;  // index into map_rows()
    // Type of the arithmetic: f32 (also of f16, bf16), f64 or i64 (also of other integers and
    // bool).
    DType compute = DType::f32;
    uint16_t first_param = 0;         // into Args::params
    SmallVector<uint8_t, 6> in, out;  // registers
    // Dtype of the result where a later instruction reads it: it is narrowed (u8 wraps, bf16
    // rounds), so that a fused chain gives the bits of the separate ops. none: the result goes to
    // its block only.
    DType result = DType::none;
};
// An operand of another compute type than its instruction is converted. Limits: max_map_*.
struct Program {
    std::vector<Instruction> code;
    uint8_t n_in = 0, n_out = 0, n_registers = 0;
};

inline constexpr size_t error_text_bytes = 256;
inline constexpr int max_map_blocks = 16;  // inputs and outputs of a program
inline constexpr int max_map_instructions = 32;
inline constexpr int max_map_registers = 64;

struct Args {
    std::span<const int64_t> sizes;  // iteration space of this task, coalesced
    std::span<const Block> blocks;   // inputs, then outputs, in the order of the kernel's doc
    std::span<const Param> params;
    const Program* program = nullptr;  // map; gemm, of its result
    // Position of the task in the whole op: linear row-major index (over the op's unrefined output)
    // of an element = index_offset + sum(j * index_strides). RNG and arange use it, so that values
    // do not depend on cuts. Attention: the place of a query among all.
    int64_t index_offset = 0;
    const int64_t* index_strides = nullptr;
    char* error = nullptr;  // error_text_bytes; written if the result is not 0
    uint64_t numbers = 0;  // bits of blocks that are a Param in main memory, wherever the rest lies
};

// 0: done. Otherwise an nntile_status (base/error.hh) and a text in args.error.
using Function = int (*)(const Args& args);
// The same on a device: 0: its work is on the stream of the place. Without a place it only says
// whether it takes such a task (0; not_on_device): dtypes, strides and program, whatever the data.
struct CudaPlace;
using CudaFunction = int(const Args& args, const CudaPlace* place);
inline constexpr int not_on_device = -1;

// How the time of a task depends on its sizes; see tile/cost.hh.
enum class Work : uint8_t {
    pass,      // over its points and bytes
    product,   // dims count.., m, n, k
    flops,     // those of its row, at the rate of a product
    reorders,  // likewise, and it brings its operands into layouts of its own first
    table,     // dims indices.., row, table: visits the rows that are asked for
    // Those of its row are elements of rows of a table, which it visits by index; it sees no others
    visits,
};
struct KernelRow {
    const char* name;  // "gemm"
    const char* doc;   // operands, dims and params, in order
    Function cpu;
    CudaFunction* cuda;  // nullptr: no CUDA implementation, or a build without CUDA
    Work work = Work::pass;
    int place = 0;  // > 0: the index is the place along this dim, counted from the last one
    // Work::reorders of float32: whether a task of such sizes reads its operands as they lie
    bool (*as_they_lie)(std::span<const int64_t> sizes) = nullptr;
};

std::span<const KernelRow> kernel_rows();
const KernelRow* find_kernel(std::string_view name);  // nullptr: none

// ---- the rows of map.def, one per element-wise primitive
enum class Types : uint8_t {
    any,       // T: every dtype -> T
    floating,  // T: f16 bf16 f32 f64 -> T
    real,      // T: every dtype but bool -> T
    integral,  // T: integers and bool -> T
    compare,   // T: every dtype -> bool
};
struct MapParam {
    const char* name;
    char kind;            // 'f': float, run-time scalar; 'i': integer, run-time scalar
    double initial;       // default
    const char* choices;  // nullptr, or "none|tanh": the attribute is a word, the param its index
};
// What the map engine refuses before it calls a loop, which cannot fail.
enum class MapCheck : uint8_t {
    none,
    divisor,      // an integer 0
    probability,  // outside of [0, 1], or nan
};
struct MapRow {
    const char* name;
    const char* doc;  // formula
    Types types;
    // Names; a leading '*' marks an operand whose dtype is bool instead of T, '#' one that is i64.
    std::vector<const char*> inputs, outputs;
    std::vector<MapParam> params;
    bool uses_index;  // gets the element's linear index
    int flops;        // per element, for the cost model
    bool by_blocks;   // an expression, not a loop of its own: inputs may be uniform
    MapCheck check = MapCheck::none;
    uint8_t checked = 0;  // which input
};
std::span<const MapRow> map_rows();
bool uses_index(const Program& program);
int find_map(std::string_view name);  // -1: none

// The type in which the copy kernel converts: f32, f64 or i64.
DType conversion_type(DType from, DType to);

// Whether gemm reads this matrix in place: strides of its two dims, sizes of them. Otherwise it
// packs panels, which costs about a tenth more for large matrices; a copy made once is better if
// many tasks read it.
bool gemm_layout_ok(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride);

void single_thread_blas();  // once, before workers start
const char* isa();          // "avx512", "avx2" or "baseline": what run-time dispatch chose

}  // namespace nntile::kernels
