// SPDX-License-Identifier: BSD-3-Clause
// A convolution of volumes with each channel to itself as a sum of convolutions of planes, one tap
// of the depth after another. The library has code for such images; for volumes it has loops, ten
// times slower.
#ifdef NNTILE_HAVE_ONEDNN

#include <algorithm>
#include <array>

#include "kernels/convolution_plan.hh"
#include "kernels/functions.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels::convolutions {
namespace {

using Strides = SmallVector<int64_t, 16>;

// Dims of a task of volumes; of planes, a task of images has batch, channels, then these two each.
enum Dim : size_t { batch, out_channels, in_channels, group, y_depth, x_depth = 7, w_depth = 10 };

// An operand as the planes read or write it: as it lies, or, of images that do not have their
// channels last and of other dtypes, a copy in float32. Images are copied one at a time.
class Volume {
public:
    Volume(const Args& args, const Block& own, size_t channels, size_t depth)
        : args_(args), own_(own), depth_(depth), dims_{channels, depth + 2, depth + 1, depth} {
        copied_ = own.dtype != DType::f32 || (depth != w_depth && own.strides[channels] != 1);
        strides_.assign(args.sizes.size(), 0);
        int64_t next = 1;
        for (size_t dim : dims_) strides_[dim] = std::exchange(next, next * args.sizes[dim]);
        bytes_ = copied_ ? padded(next * sizeof(float)) : 0;
    }
    size_t bytes() const { return bytes_; }
    void take(Scratch& scratch) { data_ = scratch.take(bytes_); }

    Block block(int64_t image) const {
        return copied_ ? Block{data_, DType::f32, strides_.data()} : own(image);
    }
    int fill(int64_t image, const Block& from) const { return copy_to(block(image), from); }
    int load(int64_t image) const { return copied_ ? fill(image, own(image)) : 0; }
    int store(int64_t image) const { return copied_ ? copy_to(own(image), block(image)) : 0; }

    // Of the planes from the first one, `step` apart: the strides of a task of images.
    Block planes(int64_t image, int64_t first, int64_t step, Strides& strides) const {
        Block at = block(image);
        strides.assign(4 + 3 * 2, 0);
        for (size_t dim : {out_channels, in_channels, group}) strides[dim] = at.strides[dim];
        if (depth_ != w_depth) strides[batch] = at.strides[depth_] * step;
        const size_t rows = 4 + (depth_ - y_depth) / 3 * 2;
        for (size_t d : {0, 1}) strides[rows + d] = at.strides[depth_ + 1 + d];
        at.data += first * at.strides[depth_] * static_cast<int64_t>(size_of(at.dtype));
        at.strides = strides.data();
        return at;
    }

private:
    Block own(int64_t image) const {
        Block at = own_;
        at.data += image * at.strides[batch] * static_cast<int64_t>(size_of(at.dtype));
        return at;
    }
    int copy_to(const Block& to, const Block& from) const {
        Strides sizes(args_.sizes.size(), 1);
        for (size_t dim : dims_) sizes[dim] = args_.sizes[dim];
        const Block blocks[] = {from, to};
        Args one = args_;
        one.sizes = sizes;
        one.blocks = blocks;
        one.params = {};
        return copy(one);
    }

    const Args& args_;
    const Block own_;
    const size_t depth_;
    const std::array<size_t, 4> dims_;  // a copy's, its fastest one first
    bool copied_;
    size_t bytes_;
    Strides strides_;
    std::byte* data_ = nullptr;
};

class Planes {
public:
    Planes(const Args& args, Kind kind)
        : args_(args),
          kind_(kind),
          window_(args.params.data() + (kind == backward_weight)),
          accumulate_(kind == backward_weight && args.params[0].i),
          x_(args, block('x'), in_channels, x_depth),
          y_(args, block('y'), out_channels, y_depth),
          w_(args, block('w'), out_channels, w_depth) {}

    int run() {
        thread_local Scratch scratch;
        scratch.begin(x_.bytes() + y_.bytes() + w_.bytes());
        for (Volume* volume : {&x_, &y_, &w_}) volume->take(scratch);
        if (kind_ != backward_weight || accumulate_)
            if (int status = w_.load(0)) return status;
        for (int64_t image = 0; image < args_.sizes[batch]; ++image)
            if (int status = run(image)) return status;
        return kind_ == backward_weight ? w_.store(0) : 0;
    }

private:
    // Output planes that a tap reads, and the input plane of the first one.
    struct Tap {
        int64_t first, count, at;
    };

    const Block& block(char name) const { return args_.blocks[operands_of[kind_].find(name)]; }
    int64_t size(size_t dim) const { return args_.sizes[dim]; }

    Tap tap(int64_t k) const {
        const int64_t step = window_[1].i, offset = k * window_[7].i - window_[4].i;
        const auto is_inside = [&](int64_t o) {
            const int64_t at = o * step + offset;
            return at >= 0 && at < size(x_depth);
        };
        int64_t first = 0, end = size(y_depth);
        while (first < end && !is_inside(first)) ++first;
        while (first < end && !is_inside(end - 1)) --end;
        return {first, end - first, first * step + offset};
    }
    // Whether it gives all planes of the result.
    bool covers(const Tap& tap) const {
        return kind_ == forward
                   ? tap.count == size(y_depth)
                   : tap.count == size(x_depth) && (window_[1].i == 1 || tap.count == 1);
    }

    int run(int64_t image) {
        if (kind_ == backward_weight) return run_weight(image);
        const Volume &from = kind_ == forward ? x_ : y_, &to = kind_ == forward ? y_ : x_;
        if (int status = from.load(image)) return status;
        int64_t base = 0;
        while (base < size(w_depth) && !covers(tap(base))) ++base;
        const bool is_covered = base < size(w_depth);
        if (!is_covered)
            if (int status = begin(to, image)) return status;
        for (int64_t n = 0; n < size(w_depth); ++n) {
            const int64_t k = !is_covered ? n : n == 0 ? base : n - (n <= base);
            if (int status = run(image, k, !is_covered || n > 0)) return status;
        }
        return to.store(image);
    }
    int run_weight(int64_t image) {
        for (const Volume* volume : {&x_, &y_})
            if (int status = volume->load(image)) return status;
        const bool sums = accumulate_ || image > 0;
        for (int64_t k = 0; k < size(w_depth); ++k)
            if (int status = run(image, k, sums)) return status;
        return 0;
    }
    // The bias, or zeros.
    int begin(const Volume& to, int64_t image) const {
        static constexpr float zero = 0;
        const Strides none(args_.sizes.size(), 0);
        if (kind_ == forward && block('b').data) return to.fill(image, block('b'));
        const auto* bytes = reinterpret_cast<const std::byte*>(&zero);
        return to.fill(image, {const_cast<std::byte*>(bytes), DType::f32, none.data()});
    }
    int run(int64_t image, int64_t k, bool sums) const {
        const Tap at = tap(k);
        SmallVector<int64_t, 16> sizes{at.count, size(out_channels), size(in_channels),
                                       size(group)};
        for (size_t depth : {size_t{y_depth}, size_t{x_depth}, size_t{w_depth}})
            for (size_t d : {1, 2}) sizes.push_back(size(depth + d));
        Strides strides[3];
        const Block x = x_.planes(image, at.at, window_[1].i, strides[0]),
                    y = y_.planes(image, at.first, 1, strides[1]),
                    w = w_.planes(image, k, 1, strides[2]);
        SmallVector<Block, 4> blocks;
        for (const char name : operands_of[kind_])
            blocks.push_back(name == 'x'   ? x
                             : name == 'y' ? y
                             : name == 'w' ? w
                             : sums        ? Block{}
                                           : block('b'));
        SmallVector<Param, 8> params;
        if (kind_ == backward_weight) params.push_back({.i = sums});
        params.push_back(window_[0]);
        for (size_t p : {2, 3, 5, 6, 8, 9}) params.push_back(window_[p]);
        Args planes = args_;
        planes.sizes = sizes;
        planes.blocks = blocks;
        planes.params = params;
        if (at.count > 0) return run_library(planes, kind_, sums);
        return kind_ == backward_weight && !sums ? clear(planes, w) : 0;
    }

    const Args& args_;
    const Kind kind_;
    const Param* window_;
    const bool accumulate_;
    Volume x_, y_, w_;
};

}  // namespace

bool is_sum_of_planes(const Args& args, Kind kind) {
    const auto& sizes = args.sizes;
    return sizes.size() == 4 + 3 * 3 && sizes[batch] > 0 && sizes[in_channels] > 1 &&
           args.params[kind == backward_weight].i == sizes[in_channels] &&
           sizes[out_channels] == sizes[in_channels] && sizes[w_depth + 1] * sizes[w_depth + 2] > 1;
}
int run_planes(const Args& args, Kind kind) { return Planes(args, kind).run(); }

}  // namespace nntile::kernels::convolutions

#endif
