// SPDX-License-Identifier: BSD-3-Clause
// What an op is: one row with its operands, attributes, shape rule and the relation of its dims.
// Every stage reads rows; none knows an op by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hh"
#include "base/shape.hh"
#include "kernels/kernel.hh"

namespace nntile::schema {

inline constexpr uint32_t no_value = 0xffffffff;

enum class Rule : uint8_t {
    map,       // element-wise with broadcasting; the kernel is a one-instruction program
    reduce,    // partial results over cut reduced dims are combined in a fixed tree
    contract,  // gemm: partial products accumulate over cut k
    whole,     // parallel over some dims, the others must be whole in a task
    empty,     // a value without data
    write,     // a value with data in a part of it; lowered by copies
    bits,      // the bytes of a value seen as another dtype
    compose,   // a composition of other rows; disappears when it is added to a graph
    host,      // a function of the host on dense operands, whole but for their batch
};
const char* name_of(Rule rule);
constexpr bool only_moves(Rule rule) {
    return rule == Rule::empty || rule == Rule::write || rule == Rule::bits;
}

// Numbers equal nntile_attr_kind of the C ABI.
enum class AttrKind : uint8_t { integer = 1, real = 2, integers = 3, text = 4, seed = 5 };

struct AttrRow {
    std::string name;
    AttrKind kind;
    std::string initial;       // default as text; integers: "" or "1,2"
    std::string choices = {};  // text: "none|mean|sum"
};

// A value of an attribute. real and seed are run-time scalars: in a graph their value stands in the
// graph's scalars at `scalar`, so that equal structures share a plan.
struct Attr {
    int64_t i = 0;  // integer, seed, index of a word
    double f = 0;   // real
    Dims ints;      // integers
    uint32_t scalar = no_value;
};

struct ArgRow {
    std::string name;        // "x"; "w?" may be absent; "tensors*" any number, last
    std::string type = "T";  // or a fixed dtype: "i64", "bool", "index" (i64 or i32), "f32"; "any"
    bool optional() const { return name.back() == '?'; }
    bool variadic() const { return name.back() == '*'; }
};

struct Type {                   // what is known of a value before it has data
    DType dtype = DType::none;  // none: absent
    Dims sizes;
    bool scalar = false;  // a number, not a tensor
};

struct OpRow;
struct Call {
    const OpRow& row;
    std::span<const Type> inputs;
    std::span<const Attr> attrs;
    DType compute;  // of variable T

    const Attr& attr(std::string_view name) const;
    bool has(size_t input) const {
        return input < inputs.size() && inputs[input].dtype != DType::none;
    }
};

enum class LabelKind : uint8_t { parallel, reduce, whole };
struct Label {
    int64_t extent;
    LabelKind kind;
};
// The iteration space: labels in the order that the kernel expects, and for every operand (inputs,
// then outputs) the label of each dim; -1 where a dim of size 1 is broadcast, or where every task
// has all of a dim.
struct Relation {
    SmallVector<Label, 8> labels;
    SmallVector<SmallVector<int8_t, 8>, 4> operands;
    double flops = 0;  // per point, where it depends on the sizes; 0: the row says it
};

// A kernel parameter: a constant, or an attribute (run-time scalars stay scalars).
struct ParamSpec {
    int attr = -1;  // >= 0: index of the attribute
    kernels::Param fixed{};
};

// What a compose row may do with the graph that it is added to.
class Builder {
public:
    virtual ~Builder() = default;
    virtual std::vector<uint32_t> op(std::string_view name, std::span<const uint32_t> inputs,
                                     std::vector<Attr> attrs, DType compute) = 0;
    virtual uint32_t view(uint32_t base, Layout layout) = 0;
    virtual uint32_t scalar(DType dtype, double f, int64_t i) = 0;
    virtual Type type_of(uint32_t value) const = 0;
    virtual uint32_t base_of(uint32_t value) const = 0;  // the dense value that it is a part of
    virtual Layout layout_of(uint32_t value) const = 0;  // in the dense value that it is a part of

    // A tensor anew, in this dtype.
    uint32_t copy(uint32_t value, DType dtype);
    // The same, or the tensor itself where that is its dtype: all casts of a graph are made here.
    uint32_t in_dtype(uint32_t value, DType dtype);
};

struct OpRow {
    std::string name;
    std::string doc;  // formula
    Rule rule = Rule::map;
    kernels::Types types = kernels::Types::any;  // what T may be
    std::vector<ArgRow> inputs = {}, outputs = {};
    std::vector<AttrRow> attrs = {};

    // Output types from the inputs; fails with a message that names op, argument and shapes.
    void (*shape)(const Call& call, std::vector<Type>& outputs) = nullptr;
    void (*relate)(const Call& call, std::span<const Type> outputs, Relation& relation) = nullptr;
    std::string kernel = {};  // "gemm"; map rows have map_row instead
    // So many of the last labels are dims of their own to the kernel (gemm: m, n, k), as are all
    // whole labels; the others may be merged.
    size_t kernel_dims = 0;
    int map_row = -1;
    // Parameters of a task's kernel; `accumulate`: a later partial of a cut reduction.
    void (*params)(const Call& call, bool accumulate, std::vector<ParamSpec>& out) = nullptr;
    // reduce: name of the map row that combines two partials.
    std::string combine = {};
    std::vector<uint32_t> (*compose)(Builder& graph, const Call& call,
                                     std::span<const uint32_t> inputs) = nullptr;
    double flops = 1;  // per point of the iteration space
    // The op that messages name: nobody has called the row by its own name
    std::string part_of = {};
    bool sparse = false;  // visits few points of its whole labels: rows of a table
    // Its kernel runs a program of element-wise ops on its one result, if there is one
    bool epilogue = false;
    // Its kernel has read an element of all operands before it writes it, as those of maps have, so
    // its one result may take the memory of an operand
    bool overwrites = false;
    // Operand that a program of element-wise ops may make in the same node; -1: none
    int prologue = -1;
    std::vector<Attr> defaults = {};  // of attrs; the table reads their texts once
};

// ---- the table (ops/table.cc)
std::span<const OpRow> op_rows();
const OpRow* find_op(std::string_view name);  // nullptr: none
uint32_t number_of(const OpRow& row);

// Checks operands, dtypes and attributes of a call against its row; attrs are completed with
// defaults. Throws with the op, the argument and both dtypes.
void verify(const Call& call);
bool takes(kernels::Types types, DType dtype);
const char* name_of(kernels::Types types);
std::vector<Attr> default_attrs(const OpRow& row);
size_t attr_index(const OpRow& row, std::string_view name);
int64_t choice_index(const OpRow& row, const AttrRow& attr, std::string_view word);
std::string_view choice_word(const AttrRow& attr, int64_t index);

// Dim from the user's side: negative counts from the end. Throws index_error as PyTorch does.
int64_t wrap_dim(const OpRow& row, int64_t dim, int64_t rank);
Dims broadcast(const OpRow& row, std::span<const Type> inputs);

}  // namespace nntile::schema
