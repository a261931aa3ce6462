// SPDX-License-Identifier: BSD-3-Clause
// A convolution as a product of matrices: the weight, as it lies, and patches of the image, a row
// for each channel and tap. The library brings a weight into blocks of channels or back, which
// takes longer than to make patches where there are fewer pixels than channels.
#ifdef NNTILE_HAVE_ONEDNN

#include <algorithm>

#include "kernels/convert.hh"
#include "kernels/convolution_plan.hh"
#include "kernels/functions.hh"
#include "kernels/gemm.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels::convolutions {
namespace {

class Convolution {
public:
    Convolution(const Args& args, Kind kind)
        : args_(args),
          kind_(kind),
          rank_((args.sizes.size() - 4) / 3),
          window_(args.params.data() + (kind == backward_weight) + 1),
          x_{block('x'), 2, 4 + rank_},
          y_{block('y'), 1, 4},
          w_(block('w')),
          dtype_((kind == backward_input ? w_ : x_.block).dtype) {
        for (size_t d = 0; d < rank_; ++d) {
            pixels_ *= size(y_.first + d);
            taps_ *= size(tap(d));
        }
        pointwise_ = taps_ == 1;
        for (size_t d = 0; d < rank_; ++d)
            pointwise_ &= window_[d].i == 1 && window_[rank_ + d].i == 0;
        rows_ = size(2) * taps_;
    }

    bool pays() const {
        const int64_t groups = window_[-1].i;
        return groups == 1 && has_products() && weight_has_rows() &&
               (is_wide() || (has_few_pixels(kind_, args_.sizes) && every_tap_meets()));
    }

    int run() {
        images_ = is_wide() ? 1 : size(0);
        if (!pointwise_) find_places();
        for (int64_t image = 0; image < size(0); image += images_)
            if (int status = run(image)) return status;
        return 0;
    }

private:
    // Images as matrices of channels and pixels; the first of the spatial dims of the task.
    struct Images {
        const Block& block;
        size_t channels, first;
    };

    const Block& block(char name) const { return args_.blocks[operands_of[kind_].find(name)]; }
    // Both operands are of a dtype that products are fast of; a result may be the sum in float32.
    bool has_products() const {
        if (dtype_ != DType::f32 && !has_short_products(dtype_)) return false;
        return std::all_of(args_.blocks.begin(), args_.blocks.end(), [&](const Block& b) {
            return !b.data || b.dtype == dtype_ || (b.dtype == DType::f32 && &b == &result());
        });
    }
    const Block& result() const {
        return kind_ == forward ? y_.block : kind_ == backward_input ? x_.block : w_;
    }
    int64_t size(size_t dim) const { return args_.sizes[dim]; }
    size_t tap(size_t d) const { return 4 + 2 * rank_ + d; }
    int64_t columns() const { return images_ * pixels_; }
    // Whether sums of patches are kept in float32 before they are rounded.
    bool rounds() const {
        return kind_ == backward_input && !pointwise_ && x_.block.dtype != DType::f32;
    }
    static std::byte* data(const Images& of, int64_t image) {
        return of.block.data + image * of.block.strides[0] * size_of(of.block.dtype);
    }

    // From one pixel to the next, of `images` images; 0: there is no such step.
    int64_t step(const Images& of, int64_t images) const {
        int64_t step = 0, next = 0;
        const auto fits = [&](int64_t size, int64_t stride) {
            if (size == 1) return true;
            if (step == 0) step = next = stride;
            const bool so = stride == next && stride > 0;
            next = stride * size;
            return so;
        };
        bool all = true;
        for (size_t d = rank_; d-- > 0;)
            all = all && fits(size(of.first + d), of.block.strides[of.first + d]);
        all = all && fits(images, of.block.strides[0]);
        return !all ? 0 : step == 0 ? 1 : step;
    }
    // nullptr: BLAS cannot read it so.
    Matrix matrix(const Images& of, int64_t image) const {
        const int64_t pixel = step(of, images_), channel = of.block.strides[of.channels];
        if (pixel == 0 || (pixel != 1 && channel != 1)) return {nullptr, of.block.dtype, 0, 0};
        return {data(of, image), of.block.dtype, channel, pixel};
    }
    Matrix dense(std::byte* data, DType dtype) const { return {data, dtype, columns(), 1}; }

    // A row of the weight is dense: all taps of a channel, or all channels of a tap, after another.
    bool weight_has_rows() const {
        int64_t next = tap_step();
        for (size_t d = rank_; d-- > 0; next *= size(tap(d)))
            if (size(tap(d)) > 1 && w_.strides[tap(d)] != next) return false;
        return (tap_step() == 1 && channel_step() == taps_) ||
               (channel_step() == 1 && tap_step() == size(2));
    }
    int64_t tap_step() const {
        for (size_t d = rank_; d-- > 0;)
            if (size(tap(d)) > 1) return w_.strides[tap(d)];
        return channel_step() == 1 ? size(2) : 1;
    }
    int64_t channel_step() const { return size(2) > 1 ? w_.strides[2] : taps_; }

    // Of windows of one element: an image that is a matrix as it lies, for a product that is not
    // too narrow. The library reads an image with its channels last as it lies, too.
    bool is_wide() const {
        constexpr int64_t few_pixels = 64;
        return kind_ == forward && pointwise_ && pixels_ >= few_pixels && step(y_, 1) == 1 &&
               (step(x_, 1) == 1 || x_.block.strides[2] != 1);
    }

    // In dim d of the image, of pixel o and tap k; negative: padding.
    int64_t place(size_t d, int64_t o, int64_t k) const {
        const int64_t at = o * window_[d].i - window_[rank_ + d].i + k * window_[2 * rank_ + d].i;
        return at < size(x_.first + d) ? at : -1;
    }
    // The library leaves out taps that meet padding only.
    bool every_tap_meets() const {
        for (size_t d = 0; d < rank_; ++d)
            for (int64_t k = 0; k < size(tap(d)); ++k) {
                int64_t o = 0;
                while (o < size(y_.first + d) && place(d, o, k) < 0) ++o;
                if (o == size(y_.first + d)) return false;
            }
        return true;
    }
    // By channels, images and pixels, as copy_pixels() takes them.
    void lay_sums() {
        sum_strides_.assign(args_.sizes.size(), 0);
        int64_t next = 1;
        for (size_t d = rank_; d-- > 0; next *= size(x_.first + d))
            sum_strides_[x_.first + d] = next;
        sum_strides_[0] = next;
        sum_strides_[2] = images_ * next;
    }
    // Of each tap and pixel: the offset in the image, or in its sums; -1: padding.
    void find_places() {
        if (rounds()) lay_sums();
        const int64_t* strides = rounds() ? sum_strides_.data() : x_.block.strides;
        places_.assign(static_cast<size_t>(taps_ * pixels_), 0);
        for (int64_t t = 0; t < taps_; ++t)
            for (int64_t p = 0; p < pixels_; ++p) {
                int64_t& at = places_[t * pixels_ + p];
                int64_t taps = t, pixels = p;
                for (size_t d = rank_; d-- > 0 && at >= 0;) {
                    const int64_t here = place(d, pixels % size(y_.first + d), taps % size(tap(d)));
                    at = here < 0 ? -1 : at + here * strides[x_.first + d];
                    pixels /= size(y_.first + d);
                    taps /= size(tap(d));
                }
            }
    }

    // visit(row of patches, a channel's elements of an image, their places)
    template <class Patch, class Pixel, class Visit>
    void each_row(const Images& of, int64_t image, Patch* patches, Visit&& visit) const {
        const int64_t channel = channel_step(), tap = tap_step();
        for (int64_t n = 0; n < images_; ++n)
            for (int64_t c = 0; c < size(2); ++c) {
                Pixel* from =
                    reinterpret_cast<Pixel*>(data(of, image + n)) + c * of.block.strides[2];
                for (int64_t t = 0; t < taps_; ++t) {
                    const int64_t row = c * channel + t * tap;
                    visit(patches + row * columns() + n * pixels_, from,
                          places_.data() + t * pixels_);
                }
            }
    }
    template <class T>  // of the size of an element: zero is zero bits in all dtypes
    void gather(int64_t image, std::byte* patches) const {
        each_row<T, const T>(x_, image, reinterpret_cast<T*>(patches),
                             [&](T* row, const T* x, const int64_t* places) {
                                 for (int64_t o = 0; o < pixels_; ++o)
                                     row[o] = places[o] < 0 ? T{} : x[places[o]];
                             });
    }
    int make(int64_t image, std::byte* patches) const {
        if (pointwise_) return copy_pixels(x_, image, patches, true);
        if (dtype_ == DType::f32) gather<float>(image, patches);
        else gather<uint16_t>(image, patches);
        return 0;
    }
    // Patches are summed in float32.
    int add_up(int64_t image, std::byte* patches, const Images& sums) const {
        if (int status = clear(args_, sums.block)) return status;
        each_row<const float, float>(sums, image, reinterpret_cast<float*>(patches),
                                     [&](const float* row, float* x, const int64_t* places) {
                                         for (int64_t o = 0; o < pixels_; ++o)
                                             if (places[o] >= 0) x[places[o]] += row[o];
                                     });
        return 0;
    }
    // Dense: by channels, images and pixels.
    int copy_pixels(const Images& of, int64_t image, std::byte* dense, bool load) const {
        int64_t next = pixels_of(of);
        SmallVector<int64_t, 8> sizes{images_, size(of.channels)},
            strides{of.block.strides[0], of.block.strides[of.channels]}, own{next, images_ * next};
        for (size_t d = 0; d < rank_; ++d) {
            sizes.push_back(size(of.first + d));
            strides.push_back(of.block.strides[of.first + d]);
            own.push_back(next /= sizes.back());
        }
        const Block lying{data(of, image), of.block.dtype, strides.data()},
            packed{dense, of.block.dtype, own.data()};
        const Block blocks[] = {load ? lying : packed, load ? packed : lying};
        Args one = args_;
        one.sizes = sizes;
        one.blocks = blocks;
        one.params = {};
        return copy(one);
    }
    int64_t pixels_of(const Images& of) const {
        int64_t count = 1;
        for (size_t d = 0; d < rank_; ++d) count *= size(of.first + d);
        return count;
    }

    int run(int64_t image) {
        thread_local Scratch scratch;
        const int64_t made = size(1), elements = rows_ * columns();
        const bool sums = kind_ == backward_input && !pointwise_;
        const DType of_patches = sums ? DType::f32 : x_.block.dtype;
        const int64_t pixels = rounds() ? images_ * size(2) * pixels_of(x_) : 0;
        Matrix x = pointwise_ ? matrix(x_, image) : Matrix{}, y = matrix(y_, image);
        std::byte *patches = nullptr, *turned = nullptr;
        const size_t bytes[] = {padded(x.data ? 0 : elements * size_of(of_patches)),
                                padded(y.data ? 0 : made * columns() * size_of(y_.block.dtype)),
                                padded(pixels * sizeof(float)),
                                padded(pixels * size_of(x_.block.dtype))};
        scratch.begin(bytes[0] + bytes[1] + bytes[2] + bytes[3]);
        if (!x.data) x = dense(patches = scratch.take(bytes[0]), of_patches);
        if (!y.data) y = dense(turned = scratch.take(bytes[1]), y_.block.dtype);
        if (turned && kind_ != forward)
            if (int status = copy_pixels(y_, image, turned, true)) return status;
        if (patches && kind_ != backward_input)
            if (int status = make(image, patches)) return status;
        const Matrix w{w_.data, w_.dtype, made == 1 ? rows_ : w_.strides[1], 1};
        if (kind_ == forward) {
            const Block& bias = block('b');
            multiply({made,
                      columns(),
                      rows_,
                      w,
                      x,
                      {bias.data, bias.dtype, bias.data ? bias.strides[1] : 0, 0},
                      y,
                      1,
                      1,
                      false});
            return turned ? copy_pixels(y_, image, turned, false) : 0;
        }
        if (kind_ == backward_weight) {
            multiply(
                {made, rows_, columns(), y, x.transposed(), {}, w, 1, 0, args_.params[0].i != 0});
            return 0;
        }
        multiply({rows_, columns(), made, w.transposed(), y, {}, x, 1, 0, false});
        if (!sums) return patches ? copy_pixels(x_, image, patches, false) : 0;
        if (!rounds()) return add_up(image, patches, x_);
        auto* sum = scratch.take<float>(pixels);
        std::byte* rounded = scratch.take(bytes[3]);
        const Block own{reinterpret_cast<std::byte*>(sum), DType::f32, sum_strides_.data()};
        if (int status = add_up(image, patches, {own, x_.channels, x_.first})) return status;
        storer(compute_f32, x_.block.dtype)(sum, rounded, 1, pixels);
        return copy_pixels(x_, image, rounded, false);
    }

    const Args& args_;
    const Kind kind_;
    const size_t rank_;
    const Param* window_;
    const Images x_, y_;
    const Block& w_;
    int64_t pixels_ = 1, taps_ = 1, rows_ = 0;  // of an image; of a channel; of all channels
    int64_t images_ = 1;                        // of a product
    bool pointwise_ = false;                    // patches are the image itself
    DType dtype_;                               // of what is multiplied
    std::vector<int64_t> places_, sum_strides_;
};

}  // namespace

bool is_product(const Args& args, Kind kind) { return Convolution(args, kind).pays(); }
int run_product(const Args& args, Kind kind) { return Convolution(args, kind).run(); }

}  // namespace nntile::kernels::convolutions

#endif
