// SPDX-License-Identifier: BSD-3-Clause
// Element types. Numbers equal nntile_dtype of the C ABI and are never reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nntile {

enum class DType : uint8_t {
    none = 0,
    f32 = 1,
    f64 = 2,
    f16 = 3,
    bf16 = 4,
    i64 = 5,
    i32 = 6,
    i16 = 7,
    i8 = 8,
    u8 = 9,
    boolean = 10,
};
inline constexpr int dtype_count = 11;

struct DTypeInfo {
    const char* name;
    uint8_t bytes;
    bool floating;
};
inline constexpr DTypeInfo dtype_table[dtype_count] = {
    {"none", 0, false}, {"f32", 4, true},  {"f64", 8, true},   {"f16", 2, true},
    {"bf16", 2, true},  {"i64", 8, false}, {"i32", 4, false},  {"i16", 2, false},
    {"i8", 1, false},   {"u8", 1, false},  {"bool", 1, false},
};

constexpr const char* name_of(DType t) { return dtype_table[static_cast<int>(t)].name; }
constexpr int64_t size_of(DType t) { return dtype_table[static_cast<int>(t)].bytes; }
constexpr bool is_short_float(DType t) { return t == DType::f16 || t == DType::bf16; }
constexpr bool is_floating(DType t) { return dtype_table[static_cast<int>(t)].floating; }

constexpr std::optional<DType> dtype_of(std::string_view name) {
    for (int i = 0; i < dtype_count; ++i)
        if (name == dtype_table[i].name) return static_cast<DType>(i);
    return std::nullopt;
}

}  // namespace nntile
