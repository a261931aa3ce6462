// SPDX-License-Identifier: BSD-3-Clause
// The three convolutions, and when they are products of matrices.
#pragma once

#include <cstdint>
#include <span>

namespace nntile::kernels::convolutions {

enum Kind { forward, backward_input, backward_weight };

// Of the sizes of a task: whether its pixels are few beside the channels of y. Then it is a product
// of the weight, as it lies, with patches of the image. Else oneDNN brings the weight into blocks
// of channels or back, which takes longest for a result; and images are added up from patches.
inline bool has_few_pixels(Kind kind, std::span<const int64_t> sizes) {
    constexpr int64_t channels_a_pixel[] = {6, 8, 2};
    const size_t rank = (sizes.size() - 4) / 3;
    int64_t pixels = sizes[0];
    for (int64_t extent : sizes.subspan(4, rank)) pixels *= extent;
    return pixels * channels_a_pixel[kind] <= sizes[1];
}
template <Kind kind>
bool has_few_pixels(std::span<const int64_t> sizes) {
    return has_few_pixels(kind, sizes);
}

}  // namespace nntile::kernels::convolutions
