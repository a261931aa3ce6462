// SPDX-License-Identifier: BSD-3-Clause
// The rows of map.def as loops that the compiler vectorises.
#include <algorithm>
#include <utility>

#include "kernels/map_formulas_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

// Elements go through the vector code in blocks, and the last ones in a block that is filled up:
// the compiler joins multiplications and additions otherwise in code for single elements, so that
// the bits would depend on where a tile begins.
constexpr int64_t block = map_block;

template <class T, size_t inputs, size_t outputs, size_t params>
struct Lanes {
    const void* in[inputs + 1];
    int64_t step[inputs + 1];  // from block to block: 0 of a uniform input
    void* out[outputs];
    bool in_bf16[inputs + 1], out_bf16[outputs];
    T f[params + 1];
    int64_t i[params + 1];
};

// A block of an operand, from element `at` on. Those of bf16 are widened and narrowed here, so that
// the core does so while it waits for memory or a division.
template <class T>
[[gnu::always_inline]] inline const T* block_of(const void* x, bool bf16, int64_t at, T* room) {
    if constexpr (std::is_same_v<T, float>) {
        if (bf16) {
            const uint16_t* from = static_cast<const uint16_t*>(x) + at;
            for (int64_t j = 0; j < block; ++j) room[j] = f32_of_bf16(from[j]);
            return room;
        }
    }
    return static_cast<const T*>(x) + at;
}
template <class T>
[[gnu::always_inline]] inline void narrow_block(const T* room, void* y, bool bf16, int64_t at) {
    if constexpr (std::is_same_v<T, float>) {
        if (!bf16) return;
        uint16_t* to = static_cast<uint16_t*>(y) + at;
        for (int64_t j = 0; j < block; ++j) to[j] = bf16_of_f32(room[j]);
    }
}

template <class Row, class T, bool choice, class L, size_t... I, size_t... O, size_t... K>
[[gnu::noinline]] void run_blocks(const L& lanes, int64_t blocks, std::index_sequence<I...>,
                                  std::index_sequence<O...>, std::index_sequence<K...>) {
    const L l = lanes;  // nothing that is written can change it
    alignas(64) T wide[sizeof...(I) + sizeof...(O)][block];
    for (int64_t b = 0; b < blocks; ++b) {
        const T* const in[] = {block_of<T>(l.in[I], l.in_bf16[I], b * l.step[I], wide[I])...,
                               nullptr};
        T* const out[] = {
            (l.out_bf16[O] ? wide[sizeof...(I) + O] : static_cast<T*>(l.out[O]) + b * block)...};
        // Outputs may be inputs, element by element: all are read before one is written.
#pragma GCC ivdep
        for (int64_t j = 0; j < block; ++j) {
            const auto y =
                Row::apply(in[I][j]..., param<Row::kinds.kind[K], choice>(l.f[K], l.i[K])...);
            ((out[O][j] = value_of(y, O)), ...);
        }
        (narrow_block<T>(out[O], l.out[O], l.out_bf16[O], b * block), ...);
    }
}

template <class Row, class T, bool choice, size_t... I, size_t... O, size_t... K>
void run(const Loop& loop, std::index_sequence<I...> in, std::index_sequence<O...> out,
         std::index_sequence<K...> params) {
    using L = Lanes<T, sizeof...(I), sizeof...(O), sizeof...(K)>;
    const int64_t blocks = loop.n / block, done = blocks * block, rest = loop.n - done;
    L lanes{{loop.in[I]..., nullptr},
            {(loop.uniform[I] ? 0 : block)..., 0},
            {loop.out[O]...},
            {loop.bf16[I]..., false},
            {loop.bf16[sizeof...(I) + O]...},
            {static_cast<T>(loop.params[K].f)..., T{}},
            {loop.params[K].i..., 0}};
    run_blocks<Row, T, choice>(lanes, blocks, in, out, params);
    if (rest == 0) return;
    // Bytes: of T or of bf16
    constexpr int64_t most = block * static_cast<int64_t>(sizeof(T));
    alignas(64) std::byte from[sizeof...(I) + 1][most], to[sizeof...(O)][most];
    const auto size = [](bool bf16) { return bf16 ? int64_t{2} : static_cast<int64_t>(sizeof(T)); };
    const auto take = [&](size_t k) {
        if (lanes.step[k] == 0) return;
        const int64_t bytes = size(lanes.in_bf16[k]);
        const auto* last = static_cast<const std::byte*>(lanes.in[k]) + done * bytes;
        std::copy_n(last, rest * bytes, from[k]);
        for (int64_t j = rest; j < block; ++j)
            std::copy_n(last + (rest - 1) * bytes, bytes, from[k] + j * bytes);
        lanes.in[k] = from[k];
    };
    (take(I), ...);
    std::byte* const target[] = {static_cast<std::byte*>(lanes.out[O])...};
    ((lanes.out[O] = to[O]), ...);
    run_blocks<Row, T, choice>(lanes, 1, in, out, params);
    const auto give = [&](size_t k) {
        const int64_t bytes = size(lanes.out_bf16[k]);
        std::copy_n(to[k], rest * bytes, target[k] + done * bytes);
    };
    (give(O), ...);
}

template <class Row, class T>
void row_loop(const Loop& loop) {
    constexpr auto in = std::make_index_sequence<Row::inputs>();
    constexpr auto out = std::make_index_sequence<Row::outputs>();
    constexpr auto params = std::make_index_sequence<Row::kinds.count>();
    if constexpr (Row::kinds.kind[0] == 'c') {
        if (loop.params[0].i != 0) return run<Row, T, true>(loop, in, out, params);
    }
    run<Row, T, false>(loop, in, out, params);
}

template <Types types, template <class> class Make>
constexpr void add(MapLoops& table, size_t row) {
    if constexpr (takes(types, compute_f32)) table.loop[row][compute_f32] = Make<float>::loop;
    if constexpr (takes(types, compute_f64)) table.loop[row][compute_f64] = Make<double>::loop;
    if constexpr (takes(types, compute_i64)) table.loop[row][compute_i64] = Make<int64_t>::loop;
}

#define MAP(name, types, ...)                                              \
    template <class T>                                                     \
    struct Make_##name {                                                   \
        static void loop(const Loop& l) { row_loop<Row_##name<T>, T>(l); } \
    };
#define MAP_LOOP(name, types, flops, doc, in, out, params, uses_index, function) \
    template <class T>                                                           \
    struct Make_##name {                                                         \
        static void loop(const Loop& l) { function<T>(l); }                      \
    };
#include "kernels/map.def"
#undef MAP
#undef MAP_LOOP

constexpr MapLoops make() {
    MapLoops table{};
#define MAP(name, types, ...) add<Types::types, Make_##name>(table, number_of_##name);
#define MAP_LOOP(name, types, ...) add<Types::types, Make_##name>(table, number_of_##name);
#include "kernels/map.def"
    return table;
}

}  // namespace

constinit const MapLoops map_loops = make();

}  // namespace nntile::kernels::NNTILE_ISA
