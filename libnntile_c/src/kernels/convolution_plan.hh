// SPDX-License-Identifier: BSD-3-Clause
// What a convolution needs to run, made once for each thread and geometry. Only for files that are
// built with oneDNN.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/convolution_kinds.hh"
#include "kernels/kernel.hh"
#include "kernels/onednn.hh"

namespace nntile::kernels::convolutions {

using dnnl::memory;

// Of each kind: inputs, then the result
constexpr std::string_view operands_of[] = {"xwby", "ywx", "yxw"};

// Where a block's elements are, as oneDNN says it: sizes and strides of its dims.
struct DnnLayout {
    memory::dims sizes, strides;

    memory::desc desc(DType dtype) const { return {sizes, type_of(dtype), strides}; }
    bool lies_apart() const { return lie_apart(sizes, strides); }
    // The same sizes, dense; with the channels last, if so.
    DnnLayout dense(bool last) const {
        DnnLayout other{sizes, memory::dims(sizes.size())};
        int64_t step = 1;
        const auto next = [&](size_t d) {
            other.strides[d] = std::exchange(step, step * sizes[d]);
        };
        if (last) next(1);
        for (size_t d = sizes.size(); d-- > 0;)
            if (d != 1 || !last) next(d);
        return other;
    }
    // Whether an image lies with its channels last, and not in the usual order as well.
    bool lies_last() const {
        int64_t pixels = 1;
        for (size_t d = 2; d < sizes.size(); ++d) pixels *= sizes[d];
        return strides[1] == 1 && sizes[1] > 1 && pixels > 1;
    }
};

// One operand on its way to or from the primitive: as it lies; or through memory of ours in the
// layout that the primitive chose; what it reads as float32 and is not, and what the library
// reorders slowly or not at all, through a dense copy first.
struct Way {
    DnnLayout layout, dense;
    DType dtype = DType::none, read = DType::f32;  // read: by the primitive
    bool packed = false, reordered = false;
    memory::desc own, inside;
    dnnl::reorder reorder;
    std::string reorder_name;
    size_t dense_bytes = 0, inside_bytes = 0;
};

struct Prepared {
    dnnl::primitive primitive;
    std::string name;
    std::vector<Way> ways;  // in the order of the task's blocks
    std::vector<int> names;
    memory::desc scratchpad;
    size_t result, weight;  // which of them
    size_t bytes = 0;       // of scratch memory
    int64_t first_tap = 0;  // bytes from the weight's first element
    // clear: the result has taps that the primitive has not
    bool accumulate = false, clear = false;
};

std::unique_ptr<Prepared> prepare(const Args& args, Kind kind, bool accumulate);
int run_library(const Args& args, Kind kind, bool accumulate);  // adds to the result, if so

// Whether matrix products take less time than the library's convolution, and these.
bool is_product(const Args& args, Kind kind);
int run_product(const Args& args, Kind kind);
// Whether the library has code for its planes alone, and their sum.
bool is_sum_of_planes(const Args& args, Kind kind);
int run_planes(const Args& args, Kind kind);
int clear(const Args& args, const Block& block);  // zeros

}  // namespace nntile::kernels::convolutions
