// SPDX-License-Identifier: BSD-3-Clause
#include "abi/attrs.hh"

#include <algorithm>

#include "base/error.hh"

namespace nntile::abi {
namespace {

using schema::Attr;
using schema::AttrKind;
using schema::AttrRow;

static_assert(static_cast<int>(AttrKind::integer) == NNTILE_ATTR_INT);
static_assert(static_cast<int>(AttrKind::real) == NNTILE_ATTR_REAL);
static_assert(static_cast<int>(AttrKind::integers) == NNTILE_ATTR_INTS);
static_assert(static_cast<int>(AttrKind::text) == NNTILE_ATTR_TEXT);
static_assert(static_cast<int>(AttrKind::seed) == NNTILE_ATTR_SEED);

const char* name_of_kind(int32_t kind) {
    constexpr const char* names[] = {"DEFAULT", "INT", "REAL", "INTS", "TEXT", "SEED"};
    return kind >= 0 && kind <= NNTILE_ATTR_SEED ? names[kind] : "an unknown kind";
}

Attr attr_of(const schema::OpRow& row, const AttrRow& attr, const nntile_attr& given) {
    const auto wanted = static_cast<int32_t>(attr.kind);
    check(given.kind == wanted, Status::invalid_argument, row.name, ": attribute ", attr.name,
          " is ", name_of_kind(wanted), ", got ", name_of_kind(given.kind));
    Attr value;
    switch (attr.kind) {
        case AttrKind::integer:
        case AttrKind::seed: value.i = given.i; break;
        case AttrKind::real: value.f = given.f; break;
        case AttrKind::integers:
            check(given.count >= 0 && (given.ints || given.count == 0), Status::invalid_argument,
                  row.name, ": attribute ", attr.name,
                  " needs count >= 0 and ints that are not NULL");
            value.ints.append(given.ints, given.ints + given.count);
            break;
        case AttrKind::text:
            check(given.text, Status::invalid_argument, row.name, ": attribute ", attr.name,
                  " is NULL");
            value.i = schema::choice_index(row, attr, given.text);
            break;
    }
    return value;
}

}  // namespace

std::vector<Attr> attrs_of(const schema::OpRow& row, const nntile_attr* attrs, size_t count) {
    check(count <= row.attrs.size(), Status::invalid_argument, row.name, ": takes ",
          row.attrs.size(), " attributes, got ", count);
    check(attrs || count == 0, Status::invalid_argument, row.name, ": attrs is NULL");
    const auto is_default = [](const nntile_attr& a) { return a.kind == NNTILE_ATTR_DEFAULT; };
    // Recording is hot: defaults are copied only if a call asks for them.
    const bool complete =
        count == row.attrs.size() && std::none_of(attrs, attrs + count, is_default);
    std::vector<Attr> values = complete ? std::vector<Attr>(count) : schema::default_attrs(row);
    for (size_t k = 0; k < count; ++k)
        if (!is_default(attrs[k])) values[k] = attr_of(row, row.attrs[k], attrs[k]);
    return values;
}

}  // namespace nntile::abi
