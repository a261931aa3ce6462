// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/op.h"

#include "abi/guard.hh"
#include "schema/op_row.hh"
#include "schema/suggest.hh"

using namespace nntile;
using namespace nntile::abi;

namespace {

const schema::OpRow* row_of(uint32_t op) {
    const auto rows = schema::op_rows();
    return op < rows.size() ? &rows[op] : nullptr;
}

template <class Item>
const Item* item(const std::vector<Item> schema::OpRow::* list, uint32_t op, uint32_t i) {
    const schema::OpRow* row = row_of(op);
    return row && i < (row->*list).size() ? &(row->*list)[i] : nullptr;
}

const schema::ArgRow* input(uint32_t op, uint32_t i) { return item(&schema::OpRow::inputs, op, i); }
const schema::ArgRow* output(uint32_t op, uint32_t i) {
    return item(&schema::OpRow::outputs, op, i);
}
const schema::AttrRow* attr(uint32_t op, uint32_t i) { return item(&schema::OpRow::attrs, op, i); }

template <class Count>
uint32_t count(uint32_t op, Count list) {
    const schema::OpRow* row = row_of(op);
    return row ? static_cast<uint32_t>((row->*list).size()) : 0;
}

template <class Item>
const char* text(const Item* item, const std::string Item::* field) {
    return item ? (item->*field).c_str() : "";
}

}  // namespace

uint32_t nntile_op_count(void) { return static_cast<uint32_t>(schema::op_rows().size()); }

nntile_status nntile_op_find(const char* name, uint32_t* op, nntile_error** error) {
    return guard(error, [&] {
        need(name, "nntile_op_find", "name");
        need(op, "nntile_op_find", "op");
        const schema::OpRow* row = schema::find_op(name);
        if (!row)
            fail(Status::not_found, "no op '", name, "'; the nearest is '",
                 schema::nearest_op(name), "'");
        *op = schema::number_of(*row);
    });
}

const char* nntile_op_name(uint32_t op) { return text(row_of(op), &schema::OpRow::name); }
const char* nntile_op_doc(uint32_t op) { return text(row_of(op), &schema::OpRow::doc); }

const char* nntile_op_rule(uint32_t op) {
    const schema::OpRow* row = row_of(op);
    return row ? schema::name_of(row->rule) : "";
}

uint32_t nntile_op_input_count(uint32_t op) { return count(op, &schema::OpRow::inputs); }
const char* nntile_op_input_name(uint32_t op, uint32_t i) {
    return text(input(op, i), &schema::ArgRow::name);
}
const char* nntile_op_input_type(uint32_t op, uint32_t i) {
    return text(input(op, i), &schema::ArgRow::type);
}

uint32_t nntile_op_output_count(uint32_t op) { return count(op, &schema::OpRow::outputs); }
const char* nntile_op_output_name(uint32_t op, uint32_t i) {
    return text(output(op, i), &schema::ArgRow::name);
}
const char* nntile_op_output_type(uint32_t op, uint32_t i) {
    return text(output(op, i), &schema::ArgRow::type);
}

uint32_t nntile_op_attr_count(uint32_t op) { return count(op, &schema::OpRow::attrs); }
const char* nntile_op_attr_name(uint32_t op, uint32_t i) {
    return text(attr(op, i), &schema::AttrRow::name);
}
nntile_attr_kind nntile_op_attr_kind(uint32_t op, uint32_t i) {
    const schema::AttrRow* row = attr(op, i);
    return row ? static_cast<nntile_attr_kind>(row->kind) : NNTILE_ATTR_DEFAULT;
}
const char* nntile_op_attr_default(uint32_t op, uint32_t i) {
    return text(attr(op, i), &schema::AttrRow::initial);
}
const char* nntile_op_attr_choices(uint32_t op, uint32_t i) {
    return text(attr(op, i), &schema::AttrRow::choices);
}

int nntile_op_takes(uint32_t op, nntile_dtype dtype) {
    const schema::OpRow* row = row_of(op);
    if (!row || dtype <= NNTILE_NONE || dtype >= dtype_count) return 0;
    return schema::takes(row->types, static_cast<DType>(dtype)) ? 1 : 0;
}
