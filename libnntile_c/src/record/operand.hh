// SPDX-License-Identifier: BSD-3-Clause
// What a call gives the recorder: buffers with layouts, and numbers.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "graph/graph.hh"

namespace nntile::record {

class Recorder;

struct Buffer;
// Knows a buffer as long as it lives. The recorder's mutex.
struct BufferRef {
    Buffer* buffer = nullptr;  // nullptr: ended
};

// What a torch storage is to us. Its fields belong to the recorder's mutex; once it is destroyed,
// and no holder knows it, to whoever destroys it.
struct Buffer {
    std::shared_ptr<Recorder> owner;
    int64_t bytes = 0;
    graph::StoredRef stored;  // data of finished or submitted graphs; nullptr: never written
    std::atomic<int32_t> holder{-1};  // index in the open graph's holders
    std::shared_ptr<BufferRef> ref;   // set: captures know it
    uint64_t capture = 0;             // the one in which it was made; 0: none
    // The last graph that was submitted and writes it, or uses it; 0: none
    uint64_t written = 0, used = 0;
};

struct Operand {
    enum class Kind { absent, tensor, scalar } kind = Kind::absent;
    DType dtype = DType::none;
    Buffer* buffer = nullptr;
    std::span<const int64_t> sizes, strides;
    int64_t offset = 0;
    double f = 0;
    int64_t i = 0;

    Layout layout() const { return {Dims(sizes), Dims(strides), offset}; }
    bool dense() const { return is_dense(sizes, strides, offset); }
    bool fills_buffer() const { return product(sizes) * size_of(dtype) == buffer->bytes; }
};

// The shape of the dense value that a storage holds: sizes of a tensor that fills it, in storage
// order (size-1 dims last); nullopt: it does not fill it.
std::optional<Dims> storage_sizes(const Operand& operand);

// Throws unless a tensor operand lies in its buffer, and this is one of the recorder's.
void check_operand(std::string_view op, const Operand& operand, const Recorder* owner);

// A map writes an output that is dense in another order of dims (x.t() of a dense x): run it in
// that order, so that no copy is needed. Returns the operands in storage order, or nothing.
bool permute_map(const graph::OpRow& row, std::span<const Operand> operands, size_t n_inputs,
                 std::vector<Operand>& out, std::vector<Dims>& space);
// A row with an attribute `order` makes its outputs with their dims in the order in which they are
// stored; `order` gets these. Returns the operands so, or nothing where all outputs are dense
// already.
bool order_outputs(const graph::OpRow& row, std::span<const Operand> operands, size_t n_inputs,
                   std::vector<graph::Attr>& attrs, std::vector<Operand>& out,
                   std::vector<Dims>& space);

}  // namespace nntile::record
