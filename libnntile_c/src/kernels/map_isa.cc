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
    const std::byte* in[inputs + 1];
    std::byte* out[outputs];
    int64_t step[inputs + 1], out_step[outputs];  // bytes from block to block: 0 of a uniform input
    ConvertBlock load[inputs + 1], store[outputs];
    T f[params + 1];
    int64_t i[params + 1];
};

// Other dtypes are converted block by block, so that the core does so while it waits for memory or
// a division.
template <class T>
[[gnu::always_inline]] inline const T* block_of(const std::byte* x, ConvertBlock load, T* room) {
    if (!load) return reinterpret_cast<const T*>(x);
    load(x, room);
    return room;
}

template <class Row, class T, bool choice, class L, size_t... I, size_t... O, size_t... K>
[[gnu::noinline]] void run_blocks(const L& lanes, int64_t blocks, std::index_sequence<I...>,
                                  std::index_sequence<O...>, std::index_sequence<K...>) {
    const L l = lanes;  // nothing that is written can change it
    alignas(64) T wide[sizeof...(I) + sizeof...(O)][block];
    for (int64_t b = 0; b < blocks; ++b) {
        const T* const in[] = {block_of<T>(l.in[I] + b * l.step[I], l.load[I], wide[I])...,
                               nullptr};
        T* const out[] = {(l.store[O] ? wide[sizeof...(I) + O]
                                      : reinterpret_cast<T*>(l.out[O] + b * l.out_step[O]))...};
        // Outputs may be inputs, element by element: all are read before one is written.
#pragma GCC ivdep
        for (int64_t j = 0; j < block; ++j) {
            const auto y =
                Row::apply(in[I][j]..., param<Row::kinds.kind[K], choice>(l.f[K], l.i[K])...);
            ((out[O][j] = value_of(y, O)), ...);
        }
        ((l.store[O] ? l.store[O](out[O], l.out[O] + b * l.out_step[O]) : void()), ...);
    }
}

template <class Row, class T, bool choice, size_t... I, size_t... O, size_t... K>
void run(const Loop& loop, std::index_sequence<I...> in, std::index_sequence<O...> out,
         std::index_sequence<K...> params) {
    using L = Lanes<T, sizeof...(I), sizeof...(O), sizeof...(K)>;
    const int64_t blocks = loop.n / block, done = blocks * block, rest = loop.n - done;
    const Stored *const x = loop.stored, *const y = loop.stored + sizeof...(I);
    L lanes{{static_cast<const std::byte*>(loop.in[I])..., nullptr},
            {static_cast<std::byte*>(loop.out[O])...},
            {(loop.uniform[I] ? 0 : block * x[I].bytes)..., 0},
            {block * y[O].bytes...},
            {x[I].convert..., nullptr},
            {y[O].convert...},
            {static_cast<T>(loop.params[K].f)..., T{}},
            {loop.params[K].i..., 0}};
    run_blocks<Row, T, choice>(lanes, blocks, in, out, params);
    if (rest == 0) return;
    constexpr int64_t most = block * 8;
    alignas(64) std::byte from[sizeof...(I) + 1][most], to[sizeof...(O)][most];
    const auto take = [&](size_t k) {
        if (lanes.step[k] == 0) return;
        const int64_t bytes = x[k].bytes;
        const std::byte* last = lanes.in[k] + done * bytes;
        std::copy_n(last, rest * bytes, from[k]);
        std::byte* const fill = from[k] + (rest - 1) * bytes;  // as often as it takes
        for (int64_t n = bytes, all = (block - rest + 1) * bytes; n < all; n *= 2)
            std::copy_n(fill, std::min(n, all - n), fill + n);
        lanes.in[k] = from[k];
    };
    (take(I), ...);
    std::byte* const target[] = {lanes.out[O]...};
    ((lanes.out[O] = to[O]), ...);
    run_blocks<Row, T, choice>(lanes, 1, in, out, params);
    (std::copy_n(to[O], rest * y[O].bytes, target[O] + done * y[O].bytes), ...);
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
