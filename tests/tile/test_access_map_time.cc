// SPDX-License-Identifier: BSD-3-Clause
// Nanoseconds of an access map of layouts that programs have. With an argument, as the benchmarks
// call it, the median of many rounds; without, a look that the maps are affine.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "check.hh"
#include "tile/access_map.hh"

using namespace nntile;

namespace {

struct View {
    const char* name;
    Dims shape;
    Layout layout;
};

const View views[] = {
    {"the whole of (64, 512)", {64, 512}, {{64, 512}, {512, 1}, 0}},
    {"its transpose", {64, 512}, {{512, 64}, {1, 512}, 0}},
    {"a slice of columns", {64, 512}, {{64, 128}, {512, 1}, 128}},
    {"heads of (8, 64, 512)", {8, 64, 512}, {{8, 8, 64, 64}, {32768, 64, 512, 1}, 0}},
};

double nanoseconds(const View& view, int rounds) {
    constexpr int calls = 1000;
    std::vector<double> found;
    for (int r = 0; r < rounds; ++r) {
        size_t digits = 0;
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i)
            digits += tile::access_map(view.shape, view.layout).digits.size();
        const std::chrono::duration<double, std::nano> time =
            std::chrono::steady_clock::now() - start;
        CHECK(digits == calls * tile::access_map(view.shape, view.layout).digits.size());
        found.push_back(time.count() / calls);
    }
    std::nth_element(found.begin(), found.begin() + rounds / 2, found.end());
    return found[rounds / 2];
}

}  // namespace

int main(int argc, char**) {
    for (const View& view : views) {
        CHECK(tile::access_map(view.shape, view.layout).carry == 0);
        const double time = nanoseconds(view, argc > 1 ? 1001 : 1);
        if (argc > 1) std::printf("%s: %.1f\n", view.name, time);
    }
    return test::failures ? test::result() : 0;
}
