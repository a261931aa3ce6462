// SPDX-License-Identifier: BSD-3-Clause
// The one generic checker of calls, and the small rules that many rows share.
#include <algorithm>
#include <cstdlib>

#include "base/error.hh"
#include "schema/op_row.hh"

namespace nntile::schema {

const char* name_of(Rule rule) {
    constexpr const char* names[] = {"map",   "reduce", "contract", "whole", "empty",
                                     "write", "bits",   "compose",  "host"};
    return names[static_cast<int>(rule)];
}

const char* name_of(kernels::Types types) {
    constexpr const char* names[] = {"any dtype", "floating", "number (not bool)",
                                     "integer or bool", "any dtype"};
    return names[static_cast<int>(types)];
}

bool takes(kernels::Types types, DType dtype) {
    switch (types) {
        case kernels::Types::floating: return is_floating(dtype);
        case kernels::Types::real: return dtype != DType::boolean;
        case kernels::Types::integral: return !is_floating(dtype);
        case kernels::Types::any:
        case kernels::Types::compare: return true;
    }
    return true;
}

size_t attr_index(const OpRow& row, std::string_view name) {
    for (size_t i = 0; i < row.attrs.size(); ++i)
        if (row.attrs[i].name == name) return i;
    fail(Status::internal, row.name, ": row has no attribute '", name, "'");
}

const Attr& Call::attr(std::string_view name) const { return attrs[attr_index(row, name)]; }

int64_t choice_index(const OpRow& row, const AttrRow& attr, std::string_view word) {
    std::string_view rest = attr.choices;
    for (int64_t i = 0;; ++i) {
        size_t bar = rest.find('|');
        if (rest.substr(0, bar) == word) return i;
        check(bar != std::string_view::npos, Status::invalid_argument, row.name, ": ", attr.name,
              " must be one of ", attr.choices, "; got '", word, "'");
        rest.remove_prefix(bar + 1);
    }
}

std::string_view choice_word(const AttrRow& attr, int64_t index) {
    std::string_view rest = attr.choices;
    for (; index > 0; --index) rest.remove_prefix(rest.find('|') + 1);
    return rest.substr(0, rest.find('|'));
}

std::vector<Attr> default_attrs(const OpRow& row) {
    if (!row.defaults.empty()) return row.defaults;
    std::vector<Attr> attrs(row.attrs.size());
    for (size_t k = 0; k < attrs.size(); ++k) {
        const AttrRow& a = row.attrs[k];
        if (a.kind == AttrKind::text) {
            attrs[k].i = choice_index(row, a, a.initial);
        } else if (a.kind == AttrKind::real) {
            attrs[k].f = std::strtod(a.initial.c_str(), nullptr);
        } else if (a.kind == AttrKind::integers) {
            for (const char* p = a.initial.c_str(); *p;) {
                char* end;
                attrs[k].ints.push_back(std::strtoll(p, &end, 10));
                p = *end == ',' ? end + 1 : end;
            }
        } else {
            attrs[k].i = std::strtoll(a.initial.c_str(), nullptr, 10);
        }
    }
    return attrs;
}

static bool fits(const std::string& type, DType dtype, const Call& call) {
    if (type == "T")
        return takes(call.row.types, call.row.rule == Rule::map ? call.compute : dtype);
    if (type == "any") return true;
    if (type == "index") return dtype == DType::i64 || dtype == DType::i32;
    return type == name_of(dtype);
}

void verify(const Call& call) {
    const OpRow& row = call.row;
    const bool variadic = !row.inputs.empty() && row.inputs.back().variadic();
    check(variadic ? call.inputs.size() >= row.inputs.size() - 1
                   : call.inputs.size() == row.inputs.size(),
          Status::invalid_argument, row.name, ": takes ", row.inputs.size(), " inputs, got ",
          call.inputs.size());
    for (size_t i = 0; i < call.inputs.size(); ++i) {
        const ArgRow& arg = row.inputs[std::min(i, row.inputs.size() - 1)];
        const Type& type = call.inputs[i];
        if (type.dtype == DType::none) {
            check(arg.optional(), Status::invalid_argument, row.name, ": input ", arg.name,
                  " is missing");
            continue;
        }
        check(fits(arg.type, type.dtype, call), Status::type_error, row.name, ": input ", arg.name,
              " must be ", arg.type == "T" ? name_of(row.types) : arg.type, ", got ",
              name_of(arg.type == "T" && row.rule == Rule::map ? call.compute : type.dtype));
        check(arg.type != "T" || row.rule == Rule::map || type.dtype == call.compute,
              Status::type_error, row.name, ": inputs have different dtypes: ", arg.name, " is ",
              name_of(type.dtype), ", others are ", name_of(call.compute));
    }
    check(call.attrs.size() == row.attrs.size(), Status::internal, row.name,
          ": attributes incomplete");
}

int64_t wrap_dim(const OpRow& row, int64_t dim, int64_t rank) {
    const int64_t n = std::max<int64_t>(rank, 1);
    check(dim >= -n && dim < n, Status::index_error, row.name,
          ": Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ",
          dim, ")");
    return dim < 0 ? dim + n : dim;
}

uint32_t Builder::copy(uint32_t value, DType dtype) {
    return op("copy", std::span(&value, 1), {}, dtype)[0];
}

uint32_t Builder::in_dtype(uint32_t value, DType dtype) {
    const Type type = type_of(value);
    return type.scalar || type.dtype == dtype ? value : copy(value, dtype);
}

Dims broadcast(const OpRow& row, std::span<const Type> inputs) {
    size_t rank = 0;
    for (const Type& t : inputs) rank = std::max(rank, t.sizes.size());
    Dims out(rank, 1);
    for (size_t k = 0; k < inputs.size(); ++k) {
        const Dims& s = inputs[k].sizes;
        for (size_t d = 0; d < s.size(); ++d) {
            int64_t& o = out[rank - s.size() + d];
            if (s[d] == o || s[d] == 1) continue;
            if (o != 1) {
                std::string shapes;
                for (size_t j = 0; j < inputs.size(); ++j)
                    if (inputs[j].dtype != DType::none && !inputs[j].scalar)
                        shapes += (shapes.empty() ? "" : " and ") + row.inputs[j].name + " " +
                                  text_of_dims(inputs[j].sizes);
                fail(Status::invalid_argument, row.name, ": inputs ", shapes, " do not broadcast");
            }
            o = s[d];
        }
    }
    return out;
}

}  // namespace nntile::schema
