// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/windows.hh"

#include <limits>
#include <type_traits>

#include "kernels/vector_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T>
struct Windows {
    using V = typename Vector<T>::type;
    using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    using I = typename Vector<Int>::type;
    static constexpr int64_t lanes = vector_bytes / sizeof(T);

    static const V& at(const T* x) { return *reinterpret_cast<const V*>(x); }
    static V& at(T* x) { return *reinterpret_cast<V*>(x); }
    template <class Use>  // use(offset, place) for each pixel
    static void each(const Window& w, Use&& use) {
        for (int64_t i = 0; i < w.counts[0]; ++i)
            for (int64_t j = 0; j < w.counts[1]; ++j) {
                int64_t offset = i * w.steps[0] + j * w.steps[1];
                int64_t place = w.place + i * w.place_steps[0] + j * w.place_steps[1];
                for (int64_t k = 0; k < w.counts[2];
                     ++k, offset += w.steps[2], place += w.place_steps[2])
                    use(offset, place);
            }
    }

    static void max(const void* from, const Window& w, int64_t n, void* to, int64_t* places) {
        const T* x = static_cast<const T*>(from);
        T* y = static_cast<T*>(to);
        int64_t j = 0;
        for (; j + lanes <= n; j += lanes) {
            V largest = V{} - std::numeric_limits<T>::infinity();
            I where = I{} + static_cast<Int>(w.place);
            each(w, [&](int64_t offset, int64_t place) {
                const V value = at(x + offset + j);
                const I larger = (value > largest) | (value != value);
                largest = larger ? value : largest;
                where = larger ? I{} + static_cast<Int>(place) : where;
            });
            at(y + j) = largest;
            for (int64_t k = 0; k < lanes; ++k) places[j + k] = where[k];
        }
        for (; j < n; ++j) {
            T largest = -std::numeric_limits<T>::infinity();
            int64_t where = w.place;
            each(w, [&](int64_t offset, int64_t place) {
                const T value = x[offset + j];
                if (value > largest || value != value) {
                    largest = value;
                    where = place;
                }
            });
            y[j] = largest;
            places[j] = where;
        }
    }

    // Vectors along the rows; the last one ends where the row does, and has some elements again.
    static void max_of_rows(const void* from, const Window& w, void* to, int64_t* to_place) {
        static_assert(lanes <= long_row);
        const T* x = static_cast<const T*>(from);
        const int64_t n = w.counts[2];
        V largest = V{} - std::numeric_limits<T>::infinity();
        I where = I{} + static_cast<Int>(w.place), lane;
        for (int64_t k = 0; k < lanes; ++k) lane[k] = static_cast<Int>(k);
        for (int64_t i = 0; i < w.counts[0]; ++i)
            for (int64_t j = 0; j < w.counts[1]; ++j) {
                const T* row = x + i * w.steps[0] + j * w.steps[1];
                const int64_t place = w.place + i * w.place_steps[0] + j * w.place_steps[1];
                for (int64_t done = 0; done < n; done += lanes) {
                    const int64_t k = done + lanes <= n ? done : n - lanes;
                    const V value = at(row + k);
                    const I larger = (value > largest) | (value != value);
                    largest = larger ? value : largest;
                    where = larger ? lane + static_cast<Int>(place + k) : where;
                }
            }
        // nan wins, the last one; else of equals the first.
        T best = largest[0];
        Int best_at = where[0];
        for (int64_t k = 1; k < lanes; ++k) {
            const T value = largest[k];
            const bool is_nan = value != value, was_nan = best != best;
            const bool wins =
                is_nan ? !was_nan || where[k] > best_at
                       : !was_nan && (value > best || (value == best && where[k] < best_at));
            if (!wins) continue;
            best = value;
            best_at = where[k];
        }
        *static_cast<T*>(to) = best;
        *to_place = best_at;
    }

    static void average(const void* from, const Window& w, int64_t n, double by, void* to) {
        const T *x = static_cast<const T*>(from), divisor = static_cast<T>(by);
        T* y = static_cast<T*>(to);
        int64_t j = 0;
        for (; j + lanes <= n; j += lanes) {
            V sum{};
            each(w, [&](int64_t offset, int64_t) { sum += at(x + offset + j); });
            at(y + j) = sum / divisor;
        }
        for (; j < n; ++j) {
            T sum = 0;
            each(w, [&](int64_t offset, int64_t) { sum += x[offset + j]; });
            y[j] = sum / divisor;
        }
    }

    static void spread(const void* from, const Window& w, int64_t n, double by, void* to) {
        const T *dy = static_cast<const T*>(from), divisor = static_cast<T>(by);
        T* dx = static_cast<T*>(to);
        int64_t j = 0;
        for (; j + lanes <= n; j += lanes) {
            const V part = at(dy + j) / divisor;
            each(w, [&](int64_t offset, int64_t) { at(dx + offset + j) += part; });
        }
        for (; j < n; ++j) {
            const T part = dy[j] / divisor;
            each(w, [&](int64_t offset, int64_t) { dx[offset + j] += part; });
        }
    }

    static int64_t add_at(const void* from, const int64_t* places, const int64_t* offsets,
                          int64_t pixels, int64_t n, void* to) {
        const T* dy = static_cast<const T*>(from);
        T* dx = static_cast<T*>(to);
        for (int64_t j = 0; j < n; ++j) {
            if (places[j] < 0 || places[j] >= pixels) return j;
            dx[offsets[places[j]] + j] += dy[j];
        }
        return n;
    }

    static constexpr WindowLoops loops = {max, max_of_rows, average, spread, add_at};
};

}  // namespace

constinit const WindowTables window_tables = {{Windows<float>::loops, Windows<double>::loops}};

}  // namespace nntile::kernels::NNTILE_ISA
