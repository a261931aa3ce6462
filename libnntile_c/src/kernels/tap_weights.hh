// SPDX-License-Identifier: BSD-3-Clause
// Which inputs an output of interpolation or of padding has along one dim, and their weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "kernels/kernel.hh"

namespace nntile::kernels {

enum Mode : int64_t { nearest, nearest_exact, linear, cubic, reflect, replicate };

struct Shape {
    Mode mode;
    bool align_corners, antialias;
    int64_t left;  // of padding
    double scale;  // what the user gave as scale_factor, or 0
    int64_t n, m;  // from n elements to m
};

// For each output the inputs that it sums, with their weights.
template <class T>
struct Taps {
    std::vector<int64_t> ends, inputs;
    std::vector<T> weights;

    void add(int64_t input, T weight) {
        inputs.push_back(input);
        weights.push_back(weight);
    }
    void end() { ends.push_back(static_cast<int64_t>(inputs.size())); }

    Taps transposed(int64_t n) const {
        Taps t;
        std::vector<int64_t> next(static_cast<size_t>(n));
        for (int64_t i : inputs) ++next[static_cast<size_t>(i)];
        int64_t total = 0;
        for (int64_t& count : next) {
            const int64_t begin = total;
            total += count;
            count = begin;
            t.ends.push_back(total);
        }
        t.inputs.resize(inputs.size());
        t.weights.resize(inputs.size());
        size_t k = 0;
        for (size_t o = 0; o < ends.size(); ++o)
            for (; k < static_cast<size_t>(ends[o]); ++k) {
                const auto at = static_cast<size_t>(next[static_cast<size_t>(inputs[k])]++);
                t.inputs[at] = static_cast<int64_t>(o);
                t.weights[at] = weights[k];
            }
        return t;
    }
};

// Inputs for a step of one output. T is the dtype that the CPU computes places in.
template <class T>
T step_of(const Shape& s) {
    if (s.align_corners) return s.m > 1 ? static_cast<T>(s.n - 1) / static_cast<T>(s.m - 1) : T(0);
    return s.scale > 0 ? static_cast<T>(1 / s.scale) : static_cast<T>(s.n) / static_cast<T>(s.m);
}

template <class T>
T cubic_weight(T x, T a) {  // Keys' kernel
    x = std::abs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : T(0);
}

template <class T>
void add_antialiased(Taps<T>& taps, const Shape& s, int64_t o, T step) {
    const T width = s.mode == cubic ? 4 : 2, stretch = std::max(step, T(1)),
            support = width / 2 * stretch;
    const T center = step * (static_cast<T>(o) + T(0.5));
    const auto first = std::max<int64_t>(static_cast<int64_t>(center - support + T(0.5)), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(center + support + T(0.5)), s.n);
    const size_t begin = taps.weights.size();
    T total = 0;
    for (int64_t i = first; i < end; ++i) {
        const T x = (static_cast<T>(i) - center + T(0.5)) / stretch;
        const T w = s.mode == cubic ? cubic_weight(x, T(-0.5)) : std::max(1 - std::abs(x), T(0));
        taps.add(i, w);
        total += w;
    }
    for (size_t k = begin; total != 0 && k < taps.weights.size(); ++k) taps.weights[k] /= total;
}

template <class T>
Taps<T> taps_of(const Shape& s) {
    Taps<T> taps;
    const T step = step_of<T>(s);
    const float nearest_step = step_of<float>(s);
    const auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, s.n - 1); };
    for (int64_t o = 0; o < s.m; ++o, taps.end()) {
        if (s.mode == nearest || s.mode == nearest_exact) {
            const float place =
                (static_cast<float>(o) + (s.mode == nearest ? 0.0F : 0.5F)) * nearest_step;
            taps.add(inside(static_cast<int64_t>(std::floor(place))), 1);
        } else if (s.mode == replicate) {
            taps.add(inside(o - s.left), 1);
        } else if (s.mode == reflect) {
            const int64_t i = std::abs(o - s.left);
            taps.add(inside(s.n - 1 - std::abs(s.n - 1 - i)), 1);
        } else if (s.mode == linear && s.n == s.m) {
            taps.add(o, 1);
        } else if (s.antialias) {
            add_antialiased(taps, s, o, step);
        } else {
            T place = s.align_corners ? step * static_cast<T>(o)
                                      : step * (static_cast<T>(o) + T(0.5)) - T(0.5);
            if (s.mode == linear) place = std::max(place, T(0));
            const int64_t i = std::min(static_cast<int64_t>(std::floor(place)), s.n - 1);
            const T x = std::clamp(place - static_cast<T>(i), T(0), T(1));
            if (s.mode == linear) {
                taps.add(i, 1 - x);
                taps.add(inside(i + 1), x);
            } else {
                for (int64_t k = -1; k < 3; ++k)
                    taps.add(inside(i + k), cubic_weight(x - static_cast<T>(k), T(-0.75)));
            }
        }
    }
    return taps;
}

}  // namespace nntile::kernels
