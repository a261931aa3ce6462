// SPDX-License-Identifier: BSD-3-Clause
// Operands of kernel tests: any dtype and layout over an iteration space, with a sentinel in every
// element that the layout does not reach. Values go in and out as double, by code that shares
// nothing with the kernels.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "../check.hh"
#include "kernels/kernel.hh"

namespace nntile::test {

using Index = std::vector<int64_t>;

inline double decode16(uint16_t h, int mantissa, int bias) {
    const int field = (h & 0x7fff) >> mantissa, top = (0x7fff >> mantissa);
    const double fraction = h & ((1 << mantissa) - 1), sign = h & 0x8000 ? -1 : 1;
    if (field == top) return fraction ? std::nan("") : sign * INFINITY;
    return sign * (field ? std::ldexp(fraction + (1 << mantissa), field - bias - mantissa)
                         : std::ldexp(fraction, 1 - bias - mantissa));
}
inline uint16_t encode16(double x, int mantissa,
                         int bias) {  // the nearest of all values, even on ties
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0,
                   limit = static_cast<uint16_t>((0x7fff >> mantissa) << mantissa);
    if (std::isnan(x)) return limit | 1 << (mantissa - 1);
    const double a = std::fabs(x);
    uint16_t low = 0, high = limit;
    while (high - low > 1) {
        const uint16_t middle = static_cast<uint16_t>((low + high) / 2);
        (decode16(middle, mantissa, bias) <= a ? low : high) = middle;
    }
    const double below = decode16(low, mantissa, bias);
    const double above = high == limit ? std::ldexp(2.0, bias) : decode16(high, mantissa, bias);
    const bool up = a - below > above - a || (a - below == above - a && (low & 1));
    return sign | (up ? high : low);
}

inline double decode(const void* p, DType dtype) {
    auto as = [p]<class T>(T value) {
        std::memcpy(&value, p, sizeof(T));
        return value;
    };
    switch (dtype) {
        case DType::f32: return as(float{});
        case DType::f64: return as(double{});
        case DType::f16: return decode16(as(uint16_t{}), 10, 15);
        case DType::bf16: return decode16(as(uint16_t{}), 7, 127);
        case DType::i64: return static_cast<double>(as(int64_t{}));
        case DType::i32: return as(int32_t{});
        case DType::i16: return as(int16_t{});
        case DType::i8: return as(int8_t{});
        default: return as(uint8_t{});
    }
}
inline void encode(double x, void* p, DType dtype) {
    auto put = [p](auto value) { std::memcpy(p, &value, sizeof(value)); };
    switch (dtype) {
        case DType::f32: return put(static_cast<float>(x));
        case DType::f64: return put(x);
        case DType::f16: return put(encode16(x, 10, 15));
        case DType::bf16: return put(encode16(x, 7, 127));
        case DType::i64: return put(static_cast<int64_t>(x));
        case DType::i32: return put(static_cast<int32_t>(x));
        case DType::i16: return put(static_cast<int16_t>(x));
        case DType::i8: return put(static_cast<int8_t>(x));
        case DType::boolean: return put(static_cast<uint8_t>(x != 0));
        default: return put(static_cast<uint8_t>(static_cast<int64_t>(x)));
    }
}
inline double epsilon(DType dtype) {
    return dtype == DType::f32    ? 6e-8
           : dtype == DType::f64  ? 1.2e-16
           : dtype == DType::f16  ? 5e-4
           : dtype == DType::bf16 ? 4e-3
                                  : 0;
}

inline std::mt19937_64& random_engine() {
    static std::mt19937_64 engine(1);
    return engine;
}
inline int64_t random_int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_engine());
}

// Row-major, column-major, every second element, rows with something between them.
enum class Lie { dense, reversed, gapped, apart };
inline constexpr Lie lies[] = {Lie::dense, Lie::reversed, Lie::gapped, Lie::apart};

class Tensor {
public:
    // Over iteration dims `sizes`; the operand lacks the dims of `absent` (stride 0).
    Tensor(DType dtype, Index sizes, Lie lie = Lie::dense, Index absent = {})
        : dtype(dtype), sizes(std::move(sizes)), strides(this->sizes.size(), 0) {
        Index order;
        for (size_t d = 0; d < this->sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
        if (lie != Lie::reversed) std::reverse(order.begin(), order.end());
        int64_t step = lie == Lie::gapped ? 2 : 1;
        for (int64_t d : order) {
            if (std::find(absent.begin(), absent.end(), d) != absent.end()) continue;
            strides[d] = step;
            step *= std::max<int64_t>(this->sizes[d], 1);
            if (lie == Lie::apart) step += 3;
        }
        memory.assign((step + 2 * guard) * size_of(dtype), std::byte{0xa5});
    }
    // Anew with these strides, which reach so many elements.
    Tensor& lay(Index own, int64_t step) {
        strides = std::move(own);
        memory.assign((step + 2 * guard) * size_of(dtype), std::byte{0xa5});
        return *this;
    }
    Tensor(DType dtype, Index sizes, Index strides)
        : dtype(dtype), sizes(std::move(sizes)), strides(std::move(strides)) {
        int64_t span = 1;
        for (size_t d = 0; d < this->sizes.size(); ++d)
            span += std::max<int64_t>(this->sizes[d] - 1, 0) * this->strides[d];
        memory.assign((span + 2 * guard) * size_of(dtype), std::byte{0xa5});
    }
    double get(const Index& at) const { return decode(memory.data() + address(at), dtype); }
    void set(const Index& at, double value) { encode(value, memory.data() + address(at), dtype); }
    Tensor& fill(const std::function<double()>& value) {
        each([&](const Index& at) { set(at, value()); });
        return *this;
    }
    Tensor& random(double low = -2, double high = 2) {
        if (dtype == DType::boolean) return fill([] { return double(random_int(0, 1)); });
        if (!is_floating(dtype)) {
            const auto first = static_cast<int64_t>(dtype == DType::u8 ? std::max(low, 0.0) : low);
            return fill([=] { return double(random_int(first, static_cast<int64_t>(high))); });
        }
        std::uniform_real_distribution<double> u(low, high);
        return fill([&] { return u(random_engine()); });
    }
    template <class Visit>
    void each(Visit&& visit) const {  // every element of its own once
        Index at(sizes.size(), 0);
        for (size_t d = 0; d < sizes.size(); ++d)
            if (sizes[d] == 0 && strides[d] != 0) return;
        for (;;) {
            visit(at);
            size_t d = sizes.size();
            while (d-- > 0) {
                if (strides[d] != 0 && ++at[d] < sizes[d]) break;
                at[d] = 0;
            }
            if (d == static_cast<size_t>(-1)) return;
        }
    }
    kernels::Block block() {
        return {memory.data() + guard * size_of(dtype), dtype, strides.data()};
    }
    // Whether every element that the layout does not reach still holds what it held in `before`.
    bool guards_whole(const Tensor& before) const {
        std::vector<bool> own(memory.size(), false);
        each(
            [&](const Index& at) { std::fill_n(own.begin() + address(at), size_of(dtype), true); });
        for (size_t i = 0; i < memory.size(); ++i)
            if (!own[i] && memory[i] != before.memory[i]) return false;
        return true;
    }
    bool same_bytes(const Tensor& other) const { return memory == other.memory; }

    DType dtype;
    Index sizes, strides;

private:
    static constexpr int64_t guard = 16;
    int64_t address(const Index& at) const {
        int64_t element = guard;
        for (size_t d = 0; d < at.size(); ++d) element += at[d] * strides[d];
        return element * size_of(dtype);
    }
    std::vector<std::byte> memory;
};

inline kernels::Param real(double f) { return {.f = f}; }
inline kernels::Param integer(int64_t i) { return {.i = i}; }

// Who runs the kernel of a row: its CPU column, unless a program has another one (cuda_emulation).
inline int on_cpu(const kernels::KernelRow& row, const kernels::Args& args) {
    return row.cpu(args);
}
inline int (*execute)(const kernels::KernelRow& row, const kernels::Args& args) = on_cpu;

// Runs a kernel; nullptr: an absent operand. Checks the sentinels of all operands.
inline int run(std::string_view name, const Index& sizes, std::vector<Tensor*> operands,
               std::vector<kernels::Param> params = {}, std::string* message = nullptr,
               const kernels::Program* program = nullptr, int64_t index_offset = 0,
               Index index_strides = {}) {
    std::vector<kernels::Block> blocks;
    std::vector<Tensor> before;
    for (Tensor* t : operands) {
        blocks.push_back(t ? t->block() : kernels::Block{});
        before.push_back(t ? *t : Tensor(DType::f32, {}));
    }
    char text[kernels::error_text_bytes] = "";
    kernels::Args args{sizes, blocks, params, program, index_offset, index_strides.data(), text};
    const int status = execute(*kernels::find_kernel(name), args);
    for (size_t k = 0; k < operands.size(); ++k)
        if (operands[k] && !operands[k]->guards_whole(before[k]))
            report(__FILE__, __LINE__, text_of(name, " wrote around operand ", k));
    if (message) *message = text;
    return status;
}

inline bool close(double got, double want, double relative, double absolute) {
    if (std::isnan(want)) return std::isnan(got);
    if (std::isinf(want) || std::isinf(got)) return got == want;
    return std::fabs(got - want) <= relative * std::fabs(want) + absolute;
}

// Compares every element of `y` with want(index).
template <class Want>
void check_values(const char* file, int line, const std::string& what, const Tensor& y,
                  double relative, double absolute, Want&& want) {
    bool told = false;
    y.each([&](const Index& at) {
        const double w = want(at), got = y.get(at);
        if (told || close(got, w, relative, absolute)) return;
        told = true;
        std::string where;
        for (int64_t i : at) where += " " + std::to_string(i);
        report(file, line, text_of(what, " at", where, ": got ", got, ", want ", w));
    });
}
#define CHECK_VALUES(...) nntile::test::check_values(__FILE__, __LINE__, __VA_ARGS__)

}  // namespace nntile::test
