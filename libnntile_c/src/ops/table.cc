// SPDX-License-Identifier: BSD-3-Clause
// All rows of all files, once.
#include <algorithm>
#include <unordered_map>

#include "ops/common.hh"

namespace nntile::schema {

namespace {
struct Table {
    std::vector<OpRow> rows;
    std::unordered_map<std::string_view, const OpRow*> by_name;

    Table() {
        auto add = [this](std::vector<OpRow> more) {
            for (OpRow& row : more) rows.push_back(std::move(row));
        };
#define NNTILE_OPS(stem) add(ops::stem##_rows());
#include "all_ops.inc"
#undef NNTILE_OPS
        for (OpRow& row : rows) {
            row.defaults = default_attrs(row);
            check(by_name.emplace(row.name, &row).second, Status::internal, "two rows for op ",
                  row.name);
        }
    }
};
const Table& table() {
    static const Table* t = new Table;  // never destroyed: read by atexit handlers
    return *t;
}
}  // namespace

std::span<const OpRow> op_rows() { return table().rows; }

const OpRow* find_op(std::string_view name) {
    auto it = table().by_name.find(name);
    return it == table().by_name.end() ? nullptr : it->second;
}

uint32_t number_of(const OpRow& row) { return static_cast<uint32_t>(&row - table().rows.data()); }

}  // namespace nntile::schema
