// SPDX-License-Identifier: BSD-3-Clause
// A row: how a call of one aten overload becomes a node of one op. All names are resolved when the
// row is registered; a call follows indices. Nothing here knows an op.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "contract/operand.h"
#include "shapes/meta.h"

namespace torch_nntile {

inline constexpr int no_argument = -1;

// An input of the op: an argument, a constant, or nothing (optional ones).
struct InputSource {
    int argument = no_argument;
    bool variable = false;  // of type T: takes part in promotion and is cast
    bool variadic = false;  // stands for all tensors of a list
    bool constant = false;
    bool low = false, high = false;    // bounds of a row that saturates
    nntile_dtype fixed = NNTILE_NONE;  // the row's dtype if it has one
    Number number{};
};

// An attribute of the op.
struct AttrSource {
    enum class From : uint8_t { initial, argument, constant, sizes, seed, offset };
    From from = From::initial;
    nntile_attr_kind kind = NNTILE_ATTR_DEFAULT;
    int argument = no_argument;
    std::string text;                // constant
    std::vector<int64_t> ints;       // constant
    Number number{};                 // constant
    std::vector<std::string> words;  // of a text attribute
    bool is_number_argument() const { return from == From::argument && kind == NNTILE_ATTR_REAL; }
};

// An output of the op: a written argument, or a new tensor that is a return.
struct OutputSource {
    int argument = no_argument;
    int result = -1;
    bool variable = false;
};

struct RowTable {
    uint32_t op = 0;
    c10::OperatorName aten{"", ""};
    std::string name;  // "aten::add.Tensor"
    bool foreach = false;
    bool map = false;              // element-wise with broadcasting
    bool any_order = false;        // its attributes of integers are dims of the operand
    bool saturates = false;        // bounds that T does not hold become the nearest integers
    bool uniform = false;          // products and convolutions, which promote nothing
    bool wide = false;             // the CPU has no kernel of short floats
    bool whole_write = false;      // fill_, zero_: also on a layout that overlaps itself
    bool overlap_allowed = false;  // masked_fill_: so too, but not by a row
    bool has_dtype_argument = false;
    bool has_tensor_argument = false;  // besides written ones: else numbers decide shapes
    int generator = no_argument;
    uint32_t takes = 0;  // bit per nntile_dtype of variable T
    bool has_variable = false;
    std::vector<InputSource> inputs;
    std::vector<AttrSource> attrs;
    std::vector<OutputSource> outputs;
    std::vector<int> returns;        // of the schema: arguments, or no_argument for a new one
    std::vector<bool> walked;        // foreach: arguments that are lists
    std::vector<bool> out_argument;  // out=: may be resized
};

// Resolves a row; throws c10::Error that names row and argument.
RowTable parse_row(const char* aten_name, const char* overload, const char* op,
                   const char* arguments, int flags);

class Row final : public c10::OperatorKernel {
public:
    explicit Row(RowTable table);
    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);

private:
    struct Value {
        const at::Tensor* tensor = nullptr;  // on the device
        Number number{};                     // if type is set
    };
    // Arguments of one node: those of the call, or element k of the lists of a foreach call.
    struct View {
        const Row& row;
        Arguments arguments;
        int64_t element = -1;
        const c10::IValue& operator[](int k) const;
    };
    struct Inputs {
        c10::SmallVector<Value, 6> values;                    // the variadic input is the last
        c10::ScalarType common = c10::ScalarType::Undefined;  // promoted type of T
        bool uniform = false;                                 // all tensors of type T have it
        bool doubtful = false;  // a number of T that the CPU may refuse: of bool, or an integer < 0
        bool foreign = false;   // a dtype that libnntile_c lacks
    };
    using Results = c10::SmallVector<at::Tensor, 4>;  // one for each output of the op

    bool call_one(const c10::OperatorHandle& op, torch::jit::Stack* stack, Arguments arguments);
    bool call_foreach(const c10::OperatorHandle& op, torch::jit::Stack* stack, Arguments arguments);

    const InputSource& source_of(size_t value) const {
        return t_.inputs[std::min(value, t_.inputs.size() - 1)];
    }
    void read_inputs(const View& view, Inputs& in) const;
    void promote(const View& view, Inputs& in) const;
    void saturate(Inputs& in) const;
    Value read_value(const c10::IValue& v, int argument) const;

    bool infer_fast(const View& view, const Inputs& in, Results& out);
    void infer_cached(const c10::OperatorHandle& op, const View& view, const Inputs& in,
                      Results& out, MetaCache::Guess& guess);
    // Results and the node. False: the op does not take it, nothing was recorded.
    bool infer_and_record(const c10::OperatorHandle& op, const View& view, const Inputs& in,
                          Results& out, MetaCache::Guess& guess);
    void check_devices(Arguments arguments) const;
    // False: a result overlaps itself in a way that only a loop over its elements can follow.
    bool check_writes(const Inputs& in, Results& out) const;
    c10::ScalarType compute_type(const Inputs& in, const Results& out) const;
    // Whether the CPU has nothing to say of a number that an integer dtype does not hold.
    bool numbers_fit(const View& view, const Inputs& in, const Results& out) const;
    bool takes(c10::ScalarType type) const { return t_.takes >> dtype_of(type) & 1; }

    bool takes_node(const View& view, const Inputs& in, const Results& out) const;
    // Of a call that takes_node(). False: the op does not take it after all, nothing was recorded.
    bool record_node(const View& view, const Inputs& in, const Results& out) const;

    RowTable t_;
    MetaCache cache_;
    // Element-wise: dtype of output k for a promoted type under a default dtype, learned from the
    // Meta kernel; Undefined: not yet.
    static constexpr size_t type_count = static_cast<size_t>(c10::ScalarType::NumOptions) + 1;
    std::array<std::atomic<c10::ScalarType>, 2 * default_dtypes * type_count> learned_;
    std::atomic<c10::ScalarType>& learned(size_t output, c10::ScalarType promoted) {
        return learned_[(output * default_dtypes + default_dtype()) * type_count +
                        static_cast<size_t>(promoted)];
    }
};

void register_row(const char* aten_name, const char* overload, const char* op,
                  const char* arguments, int flags);

}  // namespace torch_nntile
