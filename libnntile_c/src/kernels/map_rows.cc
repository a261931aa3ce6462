// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "kernels/kernel.hh"

namespace nntile::kernels {
namespace {

// Takes the marks of checked inputs off their names.
std::vector<MapRow> with_checks(std::vector<MapRow> rows) {
    for (MapRow& row : rows)
        for (size_t k = 0; k < row.inputs.size(); ++k) {
            const char mark = *row.inputs[k];
            if (mark != '/' && mark != '%') continue;
            row.check = mark == '/' ? MapCheck::divisor : MapCheck::probability;
            row.checked = static_cast<uint8_t>(k);
            ++row.inputs[k];
        }
    return rows;
}

std::vector<MapRow> make_rows() {
#define IN(...) {__VA_ARGS__}
#define OUT(...) {__VA_ARGS__}
#define P(...) {__VA_ARGS__}
#define F(name, initial) {name, 'f', initial, nullptr}
#define I(name, initial) {name, 'i', initial, nullptr}
#define CHOICE(name, words) {name, 'i', 0, words}
#define MAP(name, types, flops, doc, in, out, params, ...) \
    {#name, doc, Types::types, in, out, params, false, flops, true},
#define MAP_LOOP(name, types, flops, doc, in, out, params, uses_index, ...) \
    {#name, doc, Types::types, in, out, params, uses_index, flops, false},
    return {
#include "kernels/map.def"
    };
}

const std::vector<MapRow>& rows() {
    static const std::vector<MapRow> all = with_checks(make_rows());
    return all;
}

}  // namespace

std::span<const MapRow> map_rows() { return rows(); }

int find_map(std::string_view name) {
    static const auto numbers = [] {
        std::unordered_map<std::string_view, int> by_name;
        for (const MapRow& row : rows())
            by_name.emplace(row.name, static_cast<int>(by_name.size()));
        return by_name;
    }();
    const auto it = numbers.find(name);
    return it == numbers.end() ? -1 : it->second;
}

bool uses_index(const Program& program) {
    return std::any_of(program.code.begin(), program.code.end(),
                       [](const Instruction& i) { return map_rows()[i.primitive].uses_index; });
}

// Exact on the way: integers as i64; f64 and integers as f64; else f32, which integers reach in one
// rounding.
DType conversion_type(DType from, DType to) {
    if (!is_floating(from) && !is_floating(to)) return DType::i64;
    const bool wide = from == DType::f64 || to == DType::f64;
    return wide && !(from == DType::f32 || to == DType::f32) ? DType::f64 : DType::f32;
}

}  // namespace nntile::kernels
