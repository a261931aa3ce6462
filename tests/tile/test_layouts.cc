// SPDX-License-Identifier: BSD-3-Clause
// Statements on strides against the enumeration of all elements.
#include <random>
#include <set>

#include "check.hh"
#include "tile/layouts.hh"

using namespace nntile;
using namespace nntile::tile;

namespace {

std::mt19937 generator(1);

int64_t number(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(generator() % (to - from + 1));
}

Layout layout() {
    Layout made;
    for (int64_t d = number(0, 4); d > 0; --d) {
        made.sizes.push_back(number(1, 4));
        made.strides.push_back(number(0, 14));
    }
    made.offset = number(0, 20);
    return made;
}

std::vector<int64_t> elements(const Layout& layout) {
    std::vector<int64_t> found{layout.offset};
    for (size_t d = 0; d < layout.sizes.size(); ++d) {
        std::vector<int64_t> next;
        for (int64_t at : found)
            for (int64_t j = 0; j < layout.sizes[d]; ++j)
                next.push_back(at + j * layout.strides[d]);
        found = std::move(next);
    }
    return found;
}

// Sizes with this product.
Dims factors(int64_t numel) {
    Dims sizes;
    while (numel > 1 && sizes.size() < 4) {
        int64_t n = number(1, numel);
        while (numel % n) --n;
        sizes.push_back(n);
        numel /= n;
    }
    if (numel > 1) sizes.push_back(numel);
    return sizes;
}

void test_injective() {
    int known = 0;
    for (int k = 0; k < 100'000; ++k) {
        const Layout a = layout();
        const auto all = elements(a);
        if (!is_injective(a)) continue;
        ++known;
        CHECK(std::set(all.begin(), all.end()).size() == all.size());
    }
    CHECK(known > 10'000);
    CHECK(is_injective({{4, 3}, {1, 8}, 2}) && !is_injective({{4, 3}, {1, 3}, 0}));
}

void test_never_meet() {
    int known = 0, missed = 0;
    for (int k = 0; k < 200'000; ++k) {
        const Layout a = layout();
        const bool same = number(0, 1) == 0;
        Layout b = same ? a : layout();
        b.offset = number(0, 60);
        const auto first = elements(a), second = elements(b);
        const std::set<int64_t> all(first.begin(), first.end());
        bool meet = false;
        for (int64_t at : second) meet = meet || all.count(at);
        const bool never = never_meet(a, b);
        CHECK(!(never && meet));
        known += never;
        missed += same && is_injective(a) && !meet && !never;
    }
    CHECK(known > 20'000);
    CHECK(missed == 0);
}

void test_viewed() {
    int known = 0;
    for (int k = 0; k < 200'000; ++k) {
        const Layout a = layout();
        const Dims sizes = factors(a.numel());
        const auto seen = viewed(a, sizes);
        if (seen) CHECK(seen->sizes == sizes && elements(*seen) == elements(a));
        known += seen.has_value();
        CHECK(viewed(a, a.sizes).has_value());
        const auto dense = viewed(Layout::dense(a.sizes), sizes);
        CHECK(dense && is_dense(*dense));
    }
    CHECK(known > 20'000);
    CHECK(!viewed({{2, 3}, {1, 2}, 0}, Dims{6}));
}

}  // namespace

int main() {
    test_injective();
    test_never_meet();
    test_viewed();
    return nntile::test::result();
}
