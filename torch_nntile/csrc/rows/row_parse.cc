// SPDX-License-Identifier: BSD-3-Clause
// Registration: the words of a row against the schema and the op, once.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "contract/errors.h"
#include "contract/stub.h"
#include "rows/rows.h"
#include "shapes/habits.h"

namespace torch_nntile {
namespace {

using c10::FunctionSchema;

std::vector<std::string> split(std::string_view text, char mark) {
    std::vector<std::string> parts;
    for (size_t at = 0; !text.empty() && at <= text.size();) {
        const size_t end = std::min(text.find(mark, at), text.size());
        parts.emplace_back(text.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

// "w?" and "tensors*" are called w and tensors.
std::string plain(const char* name) {
    std::string s = name;
    if (!s.empty() && (s.back() == '?' || s.back() == '*')) s.pop_back();
    return s;
}

// Options of new tensors act through the result; generator through seed and offset.
bool needs_no_word(const std::string& name) {
    static const char* const names[] = {"dtype",         "layout",    "device",      "pin_memory",
                                        "memory_format", "generator", "non_blocking"};
    return std::any_of(std::begin(names), std::end(names),
                       [&](const char* n) { return name == n; });
}

// What an argument is where it is given.
c10::TypePtr given(const c10::TypePtr& type) {
    const auto optional = type->cast<c10::OptionalType>();
    return optional ? optional->getElementType() : type;
}
c10::TypeKind kind_of(const c10::Argument& a) { return given(a.type())->kind(); }
bool is_tensor_list(const c10::Argument& a) {
    const auto list = given(a.type())->cast<c10::ListType>();
    return list && given(list->getElementType())->kind() == c10::TypeKind::TensorType;
}
bool is_list(const c10::Argument& a) { return kind_of(a) == c10::TypeKind::ListType; }

class Parser {
public:
    Parser(const FunctionSchema& schema, bool random, RowTable& row)
        : schema_(schema), random_(random), row_(row), used_(schema.arguments().size()) {}

    void parse(const char* arguments) {
        read_op();
        for (const std::string& word : split(arguments, ' '))
            if (!word.empty()) read_word(word);
        check_all_used();
        bind_outputs();
        bind_free_attrs();
        for (size_t i = 0; i < row_.inputs.size(); ++i) {
            const InputSource& in = row_.inputs[i];
            require(in.argument != no_argument || in.constant || optional(i) || in.variadic,
                    "input ", input_name(i), " of op ", nntile_op_name(row_.op), " is not given");
        }
    }

private:
    template <class... Parts>
    void require(bool ok, const Parts&... parts) const {
        TORCH_CHECK(ok, "row ", row_.name, ": ", parts...);
    }

    std::string input_name(size_t i) const {
        return plain(nntile_op_input_name(row_.op, static_cast<uint32_t>(i)));
    }
    std::string output_name(size_t i) const {
        return nntile_op_output_name(row_.op, static_cast<uint32_t>(i));
    }
    std::string attr_name(size_t i) const {
        return nntile_op_attr_name(row_.op, static_cast<uint32_t>(i));
    }
    bool optional(size_t i) const {
        return std::string_view(nntile_op_input_name(row_.op, static_cast<uint32_t>(i)))
            .ends_with('?');
    }

    void read_op() {
        const uint32_t op = row_.op;
        for (uint32_t i = 0; i < nntile_op_input_count(op); ++i) {
            InputSource in;
            in.variable = !std::strcmp(nntile_op_input_type(op, i), "T");
            in.variadic = std::string_view(nntile_op_input_name(op, i)).ends_with('*');
            in.fixed = dtype_named(nntile_op_input_type(op, i));
            row_.has_variable |= in.variable;
            row_.inputs.push_back(in);
        }
        for (uint32_t i = 0; i < nntile_op_output_count(op); ++i) {
            OutputSource out;
            out.variable = !std::strcmp(nntile_op_output_type(op, i), "T");
            row_.has_variable |= out.variable;
            row_.outputs.push_back(out);
        }
        for (uint32_t i = 0; i < nntile_op_attr_count(op); ++i) {
            AttrSource attr;
            attr.kind = nntile_op_attr_kind(op, i);
            attr.words = split(nntile_op_attr_choices(op, i), '|');
            row_.attrs.push_back(attr);
        }
        for (int d = NNTILE_F32; d <= NNTILE_BOOL; ++d)
            if (nntile_op_takes(op, static_cast<nntile_dtype>(d))) row_.takes |= 1u << d;
    }

    int find_argument(const std::string& name) {
        for (size_t k = 0; k < used_.size(); ++k)
            if (schema_.arguments()[k].name() == name) {
                used_[k] = true;
                return static_cast<int>(k);
            }
        require(false, "the schema has no argument ", name, ": ", schema_);
        return no_argument;
    }

    void read_word(const std::string& word) {
        if (const size_t equal = word.find('='); equal != std::string::npos)
            return bind_constant(word.substr(0, equal), word.substr(equal + 1));
        const size_t colon = word.find(':');
        const std::string from = word.substr(0, colon);
        const std::string to = colon == std::string::npos ? from : word.substr(colon + 1);
        const int argument = find_argument(from);
        if (to == "-") return;
        bool bound = false;
        for (size_t i = 0; i < row_.inputs.size(); ++i)
            if (input_name(i) == to) bind_input(row_.inputs[i], argument, to), bound = true;
        for (size_t i = 0; !bound && i < row_.attrs.size(); ++i)
            if (attr_name(i) == to) bind_attr(row_.attrs[i], argument, to), bound = true;
        for (size_t i = 0; !bound && i < row_.outputs.size(); ++i)
            if (output_name(i) == to) {
                require(writes(schema_.arguments()[argument]), "argument ", from, " for output ",
                        to, " is not written");
                row_.outputs[i].argument = argument;
                bound = true;
            }
        require(bound, "op ", nntile_op_name(row_.op), " has no input, attribute or output ", to,
                " (argument ", from, ")");
    }

    void bind_input(InputSource& in, int argument, const std::string& name) {
        const c10::Argument& a = schema_.arguments()[argument];
        const c10::TypeKind kind = kind_of(a);
        const bool list = is_tensor_list(a) && (in.variadic || row_.foreach);
        const bool numbers = row_.foreach && is_list(a) && !is_tensor_list(a);
        require(list || numbers || kind == c10::TypeKind::TensorType ||
                    kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType ||
                    kind == c10::TypeKind::IntType || kind == c10::TypeKind::BoolType,
                "argument ", a.name(), " of type ", a.type()->str(), " cannot be input ", name);
        require(in.argument == no_argument && !in.constant, "input ", name, " is given twice");
        in.argument = argument;
        in.low = row_.saturates && name == "lo";
        in.high = row_.saturates && name == "hi";
    }

    void bind_attr(AttrSource& attr, int argument, const std::string& name) {
        const c10::Argument& a = schema_.arguments()[argument];
        require(!is_tensor_list(a) || row_.foreach, "argument ", a.name(), " of type ",
                a.type()->str(), " cannot be attribute ", name);
        require(attr.from == AttrSource::From::initial, "attribute ", name, " is given twice");
        attr.from = AttrSource::From::argument;
        attr.argument = argument;
    }

    void bind_constant(const std::string& name, const std::string& text) {
        Number number;
        char* end = nullptr;
        number.f = std::strtod(text.c_str(), &end);
        const bool numeric = !text.empty() && !*end;
        const bool real = text.find_first_of(".en") != std::string::npos;
        number.i = static_cast<int64_t>(real ? 0 : std::strtoll(text.c_str(), nullptr, 10));
        number.type = real ? c10::ScalarType::Double : c10::ScalarType::Long;
        for (size_t i = 0; i < row_.inputs.size(); ++i)
            if (input_name(i) == name) {
                require(numeric, "constant ", name, "=", text, " is not a number");
                row_.inputs[i].constant = true;
                row_.inputs[i].number = number;
                return;
            }
        for (size_t i = 0; i < row_.attrs.size(); ++i)
            if (attr_name(i) == name)
                return constant_attr(row_.attrs[i], name, text, number, numeric);
        require(false, "op ", nntile_op_name(row_.op), " has no input or attribute ", name);
    }

    void constant_attr(AttrSource& attr, const std::string& name, const std::string& text,
                       Number number, bool numeric) {
        attr.from = AttrSource::From::constant;
        attr.text = text;
        attr.number = number;
        if (attr.kind == NNTILE_ATTR_TEXT) {
            require(attr.words.empty() ||
                        std::find(attr.words.begin(), attr.words.end(), text) != attr.words.end(),
                    "attribute ", name, " cannot be ", text);
        } else if (attr.kind == NNTILE_ATTR_INTS) {
            for (const std::string& part : split(text, ','))
                attr.ints.push_back(std::atoll(part.c_str()));
        } else {
            require(numeric, "constant ", name, "=", text, " is not a number");
        }
    }

    void check_all_used() {
        for (size_t k = 0; k < used_.size(); ++k) {
            const c10::Argument& a = schema_.arguments()[k];
            if (a.name() == "generator") row_.generator = static_cast<int>(k);
            if (a.name() == "dtype") row_.has_dtype_argument = true;
            require(used_[k] || writes(a) || needs_no_word(a.name()), "argument ", a.name(),
                    " is neither mapped nor ignored (write ", a.name(), ":-)");
            row_.walked.push_back(row_.foreach && is_list(a));
            row_.out_argument.push_back(a.is_out());
            const bool tensor = kind_of(a) == c10::TypeKind::TensorType || is_tensor_list(a);
            row_.has_tensor_argument |= tensor && !a.is_out();
        }
    }

    // In the order of the schema: returns (new, or written arguments), then written arguments that
    // are not returned. An op output called as the input of a written argument is that argument.
    void bind_outputs() {
        std::vector<OutputSource> candidates;
        const auto is_candidate = [&](int argument) {
            return std::any_of(candidates.begin(), candidates.end(),
                               [&](const OutputSource& c) { return c.argument == argument; });
        };
        for (size_t r = 0; r < schema_.returns().size(); ++r) {
            const c10::Argument& ret = schema_.returns()[r];
            const int argument = argument_of(schema_, ret);
            require(row_.foreach || !is_list(ret), "a list of results needs FOREACH: ", schema_);
            require(!ret.alias_info() || (argument != no_argument && ret.alias_info()->isWrite()),
                    "a view op cannot be a row: ", schema_);
            row_.returns.push_back(argument);
            candidates.push_back(
                {argument, argument == no_argument ? static_cast<int>(r) : -1, false});
        }
        for (size_t k = 0; k < used_.size(); ++k)
            if (writes(schema_.arguments()[k]) && !is_candidate(static_cast<int>(k)))
                candidates.push_back({static_cast<int>(k), -1, false});

        const auto drop = [&](int argument) {
            std::erase_if(candidates,
                          [&](const OutputSource& c) { return c.argument == argument; });
        };
        std::vector<bool> bound(row_.outputs.size());
        for (size_t o = 0; o < row_.outputs.size(); ++o) {
            OutputSource& out = row_.outputs[o];
            for (size_t i = 0; out.argument == no_argument && i < row_.inputs.size(); ++i)
                if (input_name(i) == output_name(o) && row_.inputs[i].argument != no_argument &&
                    writes(schema_.arguments()[row_.inputs[i].argument]))
                    out.argument = row_.inputs[i].argument;
            bound[o] = out.argument != no_argument;
            if (bound[o]) drop(out.argument);
        }
        size_t next = 0;
        for (size_t o = 0; o < row_.outputs.size(); ++o) {
            if (bound[o]) continue;
            require(next < candidates.size(), "output ", output_name(o), " of op ",
                    nntile_op_name(row_.op), " has no return or written argument");
            row_.outputs[o].argument = candidates[next].argument;
            row_.outputs[o].result = candidates[next++].result;
        }
        for (; next < candidates.size(); ++next)
            require(candidates[next].result < 0, "op ", nntile_op_name(row_.op),
                    " gives nothing for return ", candidates[next].result, " of ", schema_);
        row_.map = !std::strcmp(nntile_op_rule(row_.op), "map");
        const Habit& habit = habit_of(schema_);
        row_.whole_write = habit.is & NNTILE_STUB_FILLS;
        row_.overlap_allowed = habit.is & NNTILE_STUB_MAY_OVERLAP;
    }

    void bind_free_attrs() {
        for (size_t i = 0; i < row_.attrs.size(); ++i) {
            AttrSource& attr = row_.attrs[i];
            if (attr.from != AttrSource::From::initial) continue;
            if (attr_name(i) == "sizes" && attr.kind == NNTILE_ATTR_INTS)
                attr.from = AttrSource::From::sizes;
            if (attr.kind != NNTILE_ATTR_SEED || !random_) continue;
            if (attr_name(i) == "seed") attr.from = AttrSource::From::seed;
            if (attr_name(i) == "offset") attr.from = AttrSource::From::offset;
        }
    }

    const FunctionSchema& schema_;
    const bool random_;
    RowTable& row_;
    std::vector<bool> used_;
};

}  // namespace

RowTable parse_row(const char* aten_name, const char* overload, const char* op,
                   const char* arguments, int flags) {
    RowTable row;
    row.name = *overload ? std::string(aten_name) + "." + overload : aten_name;
    row.aten = {aten_name, overload};
    row.foreach = flags & NNTILE_STUB_FOREACH;
    row.uniform = flags & NNTILE_STUB_UNIFORM;
    row.wide = flags & NNTILE_STUB_WIDE;
    row.any_order = flags & NNTILE_STUB_ANY_ORDER;
    row.saturates = flags & NNTILE_STUB_SATURATES;
    const auto handle = c10::Dispatcher::singleton().findSchema(row.aten);
    TORCH_CHECK(handle, "row ", row.name, ": PyTorch has no such overload");
    nntile_error* error = nullptr;
    const nntile_status status = nntile_op_find(op, &row.op, &error);
    if (status != NNTILE_OK) {
        const std::string text = error ? nntile_error_message(error) : "";
        nntile_error_destroy(error);
        TORCH_CHECK(false, "row ", row.name, ": ", text);
    }
    Parser(handle->schema(), flags & NNTILE_STUB_RANDOM, row).parse(arguments);
    return row;
}

}  // namespace torch_nntile
