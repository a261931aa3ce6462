// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/copy.hh"

#include <cstring>

#include "base/merge_dims.hh"
#include "base/shape.hh"

namespace nntile::runtime {

namespace {

struct Block {
    Dims sizes, to, from;  // strides in bytes; neighbours that are dense in both arrays are one dim
};

Block merged(std::span<const int64_t> to, std::span<const int64_t> from,
             std::span<const int64_t> sizes, int64_t bytes) {
    Block b;
    for (size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == 1) continue;
        b.sizes.push_back(sizes[i]);
        b.to.push_back(to[i] * bytes);
        b.from.push_back(from[i] * bytes);
    }
    b.sizes.push_back(bytes);  // of an element
    b.to.push_back(1);
    b.from.push_back(1);
    int64_t* const arrays[] = {b.to.data(), b.from.data()};
    b.sizes.resize(static_cast<size_t>(merge_dims({b.sizes.data(), b.sizes.size()}, arrays)));
    return b;
}

// dim: the outermost one of the block.
void copy_dims(const Block& b, size_t dim, std::byte* to, const std::byte* from) {
    if (dim + 1 == b.sizes.size()) {
        std::memcpy(to, from, static_cast<size_t>(b.sizes[dim]));
        return;
    }
    for (int64_t j = 0; j < b.sizes[dim]; ++j)
        copy_dims(b, dim + 1, to + j * b.to[dim], from + j * b.from[dim]);
}

}  // namespace

void copy_block(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from,
                std::span<const int64_t> from_strides, std::span<const int64_t> sizes,
                int64_t bytes) {
    if (product(sizes) == 0) return;
    copy_dims(merged(to_strides, from_strides, sizes, bytes), 0, to, from);
}

}  // namespace nntile::runtime
