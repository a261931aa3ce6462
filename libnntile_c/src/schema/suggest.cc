// SPDX-License-Identifier: BSD-3-Clause
#include "schema/suggest.hh"

#include <algorithm>
#include <numeric>
#include <vector>

#include "schema/op_row.hh"

namespace nntile::schema {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);  // distances of a[0..i) to every b[0..j)
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
        }
    }
    return row[b.size()];
}

}  // namespace

std::string_view nearest_op(std::string_view name) {
    name = name.substr(0, 100);  // a whole file by mistake must not take minutes
    std::string_view nearest;
    size_t least = SIZE_MAX;
    for (const OpRow& row : op_rows()) {
        const size_t distance = edit_distance(name, row.name);
        if (distance >= least) continue;
        least = distance;
        nearest = row.name;
    }
    return nearest;
}

}  // namespace nntile::schema
