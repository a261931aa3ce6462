// SPDX-License-Identifier: BSD-3-Clause
// The rows of map.def as loops that the compiler vectorises.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/map_formulas_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

// Elements go through the vector code in blocks, and the last ones in a block that is filled up:
// the compiler joins multiplications and additions otherwise in code for single elements, so that
// the bits would depend on where a tile begins.
constexpr int64_t block = map_block;

// Other dtypes are converted block by block, so that the core does so while it waits for memory or
// a division; and what lies apart is read and written so, so that it waits for all operands at
// once.
template <class Row, class T, bool choice, bool converts, size_t... I, size_t... O, size_t... K>
[[gnu::noinline]] void run_rows(const Loop& loop, int64_t blocks, std::index_sequence<I...>,
                                std::index_sequence<O...>, std::index_sequence<K...>) {
    // All of it is read before something is written, which could change it for all the compiler
    // knows.
    [[maybe_unused]] const Stored x[] = {loop.stored[I]..., {}},
                                  y[] = {loop.stored[sizeof...(I) + O]...};
    constexpr int64_t plain = block * int64_t{sizeof(T)};  // bytes of a block
    const int64_t step[] = {(loop.uniform[I] ? 0 : converts ? block * x[I].bytes : plain)..., 0};
    const int64_t row[] = {(loop.uniform[I] ? 0 : x[I].row)..., 0};
    [[maybe_unused]] const T f[] = {static_cast<T>(loop.params[K].f)..., T{}};
    [[maybe_unused]] const int64_t i[] = {loop.params[K].i..., 0};
    const std::byte* from[] = {static_cast<const std::byte*>(loop.in[I])..., nullptr};
    std::byte* to[] = {static_cast<std::byte*>(loop.out[O])...};
    alignas(64) T wide[converts ? sizeof...(I) + sizeof...(O) : 1][block];
    for (int64_t r = 0; r < loop.rows; ++r) {
        for (int64_t b = 0; b < blocks; ++b) {
            const auto read = [&](size_t k) {
                const std::byte* at = from[k] + b * step[k];
                if (!converts || !x[k].convert) return reinterpret_cast<const T*>(at);
                x[k].convert(at, wide[k], x[k].stride, block);
                return static_cast<const T*>(wide[k]);
            };
            const auto target = [&](size_t k) {
                return to[k] + b * (converts ? block * y[k].bytes : plain);
            };
            const auto written = [&](size_t k) {
                if (!converts || !y[k].convert) return reinterpret_cast<T*>(target(k));
                return static_cast<T*>(wide[sizeof...(I) + k]);
            };
            const T* const in[] = {read(I)..., nullptr};
            T* const out[] = {written(O)...};
            // Outputs may be inputs, element by element: all are read before one is written.
#pragma GCC ivdep
            for (int64_t j = 0; j < block; ++j) {
                const auto value =
                    Row::apply(in[I][j]..., param<Row::kinds.kind[K], choice>(f[K], i[K])...);
                ((out[O][j] = value_of(value, O)), ...);
            }
            if constexpr (converts)
                ((y[O].convert ? y[O].convert(out[O], target(O), y[O].stride, block) : void()),
                 ...);
        }
        ((from[I] += row[I]), ...);
        ((to[O] += y[O].row), ...);
    }
}

template <class Row, class T, bool choice, size_t... I, size_t... O, size_t... K>
void run_blocks(const Loop& loop, int64_t blocks, std::index_sequence<I...> in,
                std::index_sequence<O...> out, std::index_sequence<K...> params) {
    bool converts = false;
    for (size_t k = 0; k < sizeof...(I) + sizeof...(O); ++k)
        converts = converts || loop.stored[k].convert;
    if (converts) run_rows<Row, T, choice, true>(loop, blocks, in, out, params);
    else run_rows<Row, T, choice, false>(loop, blocks, in, out, params);
}

template <class Row, class T, bool choice, size_t... I, size_t... O, size_t... K>
void run(const Loop& loop, std::index_sequence<I...> in, std::index_sequence<O...> out,
         std::index_sequence<K...> params) {
    const int64_t blocks = loop.n / block, done = blocks * block, rest = loop.n - done;
    run_blocks<Row, T, choice>(loop, blocks, in, out, params);
    if (rest == 0) return;
    alignas(64) T from[sizeof...(I) + 1][block], to[sizeof...(O)][block];
    const void* const last[] = {loop.in[I]..., nullptr};
    const void* x[] = {(loop.uniform[I] ? loop.in[I] : from[I])..., nullptr};
    void* y[] = {to[O]...};
    const Stored plain[sizeof...(I) + sizeof...(O)] = {};
    const auto take = [&](size_t k) {
        const Stored& stored = loop.stored[k];
        if (loop.uniform[k]) return;
        const auto* start = static_cast<const std::byte*>(last[k]) + done * stored.bytes;
        if (stored.convert) stored.convert(start, from[k], stored.stride, rest);
        else std::memcpy(from[k], start, rest * sizeof(T));
        std::fill(from[k] + rest, from[k] + block, from[k][rest - 1]);
    };
    const auto give = [&](size_t k) {
        const Stored& stored = loop.stored[sizeof...(I) + k];
        std::byte* start = static_cast<std::byte*>(loop.out[k]) + done * stored.bytes;
        if (stored.convert) stored.convert(to[k], start, stored.stride, rest);
        else std::memcpy(start, to[k], rest * sizeof(T));
    };
    (take(I), ...);
    Loop once = loop;
    once.in = x;
    once.out = y;
    once.stored = plain;
    run_blocks<Row, T, choice>(once, 1, in, out, params);
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
