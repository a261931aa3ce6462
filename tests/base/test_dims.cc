// SPDX-License-Identifier: BSD-3-Clause
// Merged dims visit the same elements in the same order; layouts inside of a value.
#include <random>
#include <vector>

#include "../check.hh"
#include "base/merge_dims.hh"
#include "base/shape.hh"

namespace nntile {
namespace {

// Addresses in both arrays, in row-major order.
std::vector<std::pair<int64_t, int64_t>> visited(const Dims& sizes, const Dims& a, const Dims& b) {
    std::vector<std::pair<int64_t, int64_t>> all{{0, 0}};
    for (size_t d = 0; d < sizes.size(); ++d) {
        std::vector<std::pair<int64_t, int64_t>> next;
        for (const auto& [x, y] : all)
            for (int64_t i = 0; i < sizes[d]; ++i) next.emplace_back(x + i * a[d], y + i * b[d]);
        all = std::move(next);
    }
    return all;
}

void merging_keeps_the_loop() {
    std::mt19937 random(1);
    int merged = 0;
    for (int round = 0; round < 2000; ++round) {
        Dims sizes, a, b;
        for (size_t rank = random() % 5; sizes.size() < rank;) sizes.push_back(1 + random() % 4);
        a = b = dense_strides(sizes);
        for (size_t d = 0; d < sizes.size(); ++d) {
            if (random() % 8 == 0) a[d] = random() % 7;
            if (random() % 8 == 0) b[d] = 0;
        }
        const auto before = visited(sizes, a, b);
        const size_t alone = random() % 5;
        SmallVector<int, 8> first(sizes.size());
        int64_t* const arrays[] = {a.data(), b.data()};
        const auto left = static_cast<size_t>(merge_dims(
            {sizes.data(), sizes.size()}, arrays,
            [&](int d) { return static_cast<size_t>(d) != alone; }, first.data()));
        CHECK(left <= sizes.size());
        merged += left < sizes.size();
        const bool stands_alone =
            alone >= sizes.size() || std::count(first.begin(), first.begin() + left, alone) == 1;
        CHECK(stands_alone);
        for (Dims* dims : {&sizes, &a, &b}) dims->resize(left);
        CHECK(visited(sizes, a, b) == before);
    }
    CHECK(merged > 500);
}

void all_that_can_be_is_one() {
    Dims sizes{2, 3, 4}, strides{24, 8, 2}, none{0, 0, 0};
    int64_t* const both[] = {strides.data(), none.data()};
    CHECK(merge_dims({sizes.data(), 3}, both) == 1);
    CHECK(sizes[0] == 24 && strides[0] == 2 && none[0] == 0);
    CHECK(merge_dims({sizes.data(), size_t{0}}, both) == 0);
}

void bounds() {
    constexpr int64_t huge = int64_t{1} << 62;
    CHECK(in_bounds({{2, 3}, {3, 1}, 0}, 6) && !in_bounds({{2, 3}, {3, 1}, 1}, 6));
    CHECK(in_bounds({{2, 3}, {0, 1}, 3}, 6) && !in_bounds({{2, 3}, {4, 1}, 0}, 6));
    CHECK(in_bounds({{}, {}, 5}, 6) && !in_bounds({{}, {}, 6}, 6));
    CHECK(in_bounds({{2, 0}, {100, 1}, 100}, 6) && in_bounds({{0}, {1}, 0}, 0));
    CHECK(!in_bounds({{2}, {-1}, 3}, 6) && !in_bounds({{-2}, {1}, 0}, 6) &&
          !in_bounds({{2}, {1}, -1}, 6));
    CHECK(!in_bounds({{3}, {huge}, 0}, 6) && !in_bounds({{2, 2}, {huge, huge}, 1}, 6));
    CHECK(!in_bounds({{0}, {-1}, 0}, 6));
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::merging_keeps_the_loop();
    nntile::all_that_can_be_is_one();
    nntile::bounds();
    return nntile::test::result();
}
