// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/row.hh"

#include "kernels/fold.hh"

namespace nntile::kernels {

void Line::make(const Block& block, Compute compute, int64_t stride) {
    base_ = data_ = block.data;
    dtype_ = block.dtype;
    bytes_ = size_of(block.dtype);
    stride_ = stride;
    in_place_ = block.dtype == dtype_of(compute) && stride == 1;
    load_ = loader(block.dtype, compute);
    store_ = storer(compute, block.dtype);
}

double Line::element(int64_t at) const {
    double value;
    loader(dtype_, compute_f64)(data_ + at * stride_ * bytes_, &value, 1, 1);
    return value;
}

int64_t Line::integer() const {
    int64_t value;
    loader(dtype_, compute_i64)(data_, &value, 1, 1);
    return value;
}

void Line::set_scalar(double value) { storer(compute_f64, dtype_)(&value, data_, 1, 1); }

int Rows::make(const Args& args, std::initializer_list<int> scalars) {
    const size_t last = args.sizes.size() - 1;
    d = args.sizes[last];
    compute = compute_of(args.blocks[0].dtype);
    whole = true;
    const int64_t* strides[max_lines];
    for (size_t k = 0; k < args.blocks.size(); ++k) {
        const Block& b = args.blocks[k];
        strides[k] = b.data ? b.strides : nullptr;
        line[k].make(b, compute, b.data && d != 1 ? b.strides[last] : 1);
        const bool scalar =
            std::find(scalars.begin(), scalars.end(), static_cast<int>(k)) != scalars.end();
        whole &= !b.data || scalar || line[k].in_place();
    }
    Args outer = args;
    outer.sizes = args.sizes.first(last);
    return space.make(outer, std::span(strides, args.blocks.size()),
                      {static_cast<int>(args.blocks.size()) - 1});
}

double row_max(Rows& rows, Line& x) {
    const Folds::Op& amax = folds().op[static_cast<int>(Fold::amax)][rows.compute];
    Total max = amax.identity;
    rows.pieces([&](int64_t at, int64_t n) { amax.run(x.read(at, n), n, &max); });
    return max.f;
}

}  // namespace nntile::kernels
