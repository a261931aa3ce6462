// SPDX-License-Identifier: BSD-3-Clause
// map_reduce: the bits of map, then reduce.
#include "kernels/fold.hh"
#include "programs.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

struct Case {
    DType dtype;
    Index sizes;     // kept.., reduced..
    size_t reduced;  // dims
    bool two = false, accumulate = false;
    Lie lie = Lie::dense;
};

Index dims(size_t from, size_t to) {
    Index list;
    for (; from < to; ++from) list.push_back(static_cast<int64_t>(from));
    return list;
}

// r2 = x - y, a result of its own if `two` are wanted; r3 = r2 * r2.
void check(const Case& c, const char* fold) {
    const auto kind =
        static_cast<int64_t>(std::find(std::begin(kernels::fold_names),
                                       std::end(kernels::fold_names), std::string_view(fold)) -
                             std::begin(kernels::fold_names));
    const size_t rank = c.sizes.size(), kept = rank - c.reduced;
    const bool truth = std::string_view(fold) == "any" || std::string_view(fold) == "all";
    Tensor x(c.dtype, c.sizes, c.lie), y(c.dtype, c.sizes, Lie::dense, dims(0, kept)),
        d(c.dtype, c.sizes, Lie::gapped), z(c.dtype, c.sizes),
        total(truth ? DType::boolean : c.dtype, c.sizes, Lie::reversed, dims(kept, rank));
    for (Tensor* t : {&x, &y, &total}) t->random();
    Tensor d2 = d, total2 = total;
    const DType compute = compute_of(c.dtype);
    const kernels::Program p = program({instruction("sub", compute, {0, 1}, {2}, 0, c.dtype),
                                        instruction("mul", compute, {2, 2}, {3}, 1, c.dtype)},
                                       2, c.two ? 2 : 1, 4);
    const std::vector<kernels::Param> own =
        is_floating(c.dtype) ? std::vector{real(1)} : std::vector{integer(1)};
    std::vector<Tensor*> map{&x, &y}, both = map;
    if (c.two) {
        map.push_back(&d);
        both.push_back(&d2);
    }
    map.push_back(&z);
    both.push_back(&total2);
    CHECK(run("map", c.sizes, map, own, nullptr, &p) == 0);
    const std::vector<kernels::Param> how{integer(kind), integer(c.accumulate)};
    CHECK(run("reduce", c.sizes, {&z, &total}, how) == 0);
    std::vector<kernels::Param> all = own;
    all.insert(all.end(), how.begin(), how.end());
    for (size_t n : {size_t{c.two}, static_cast<size_t>(c.dtype), c.reduced})
        all.push_back(integer(static_cast<int64_t>(n)));
    CHECK(run("map_reduce", c.sizes, both, all, nullptr, &p) == 0);
    std::string what = std::string(fold) + " of " + name_of(c.dtype);
    for (int64_t n : c.sizes) what += " " + std::to_string(n);
    if (!total.same_bytes(total2)) report(__FILE__, __LINE__, what);
    if (c.two && !d.same_bytes(d2)) report(__FILE__, __LINE__, "the other result beside " + what);
}

}  // namespace

int main() {
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32})
        for (const char* fold : kernels::fold_names) {
            check({dtype, {5, 7}, 1}, fold);
            check({dtype, {5, 7, 3}, 1, true}, fold);
            check({dtype, {3, 2, 9, 8}, 2, true, true}, fold);
        }
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
        for (int64_t n : {7, 11, 15, 47, 200})  // many parts of rows
            check({dtype, {8001, n}, 1, n == 11, n == 15}, "sum");
        check({dtype, {3, 61, 1700}, 1}, "sum");
        check({dtype, {4 * 65536 + 2048 + 3}, 1}, "sumsq");  // a rest that is shorter than lanes
        check({dtype, {3, 140960}, 1, true, true}, "amax");
        check({dtype, {2, 2, 390, 607}, 2, true}, "sum");  // parts that end within pieces
        check({dtype, {7, 300, 13, 17}, 1, false, false, Lie::gapped}, "sum");
        check({dtype, {0, 5}, 1}, "sum");
    }
    return result();
}
