// SPDX-License-Identifier: BSD-3-Clause
// Reading runs of elements in their compute type: in place where they lie so, else through a small
// buffer.
#pragma once

#include <algorithm>

#include "kernels/convert.hh"

namespace nntile::kernels {

class Reader {
public:
    static constexpr int64_t piece = 512;

    explicit Reader(DType dtype) : Reader(dtype, compute_of(dtype)) {}
    Reader(DType dtype, Compute compute)
        : bytes_(size_of(dtype)),
          same_(dtype == dtype_of(compute)),
          load_(loader(dtype, compute)) {}

    int64_t bytes() const { return bytes_; }
    // Whether runs of n elements `stride` apart are read in place.
    bool in_place(int64_t stride, int64_t n) const { return same_ && (stride == 1 || n == 1); }

    // use(pointer, first, n) for consecutive pieces of n elements `stride` apart, from data +
    // offset.
    template <class Use>
    void pieces(const std::byte* data, int64_t offset, int64_t stride, int64_t n, Use&& use) const {
        data += offset * bytes_;
        if (in_place(stride, n)) return use(static_cast<const void*>(data), int64_t{0}, n);
        alignas(64) std::byte buffer[piece * sizeof(double)];
        for (int64_t i = 0; i < n; i += piece) {
            const int64_t count = std::min(piece, n - i);
            load_(data + i * stride * bytes_, buffer, stride, count);
            use(static_cast<const void*>(buffer), i, count);
        }
    }

private:
    int64_t bytes_;
    bool same_;
    Convert load_;
};

}  // namespace nntile::kernels
