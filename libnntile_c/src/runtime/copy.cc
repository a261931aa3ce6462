// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/copy.hh"

#include <cstring>

#include "base/shape.hh"

namespace nntile::runtime {

namespace {

struct Block {
    Dims sizes, to, from;  // strides in bytes; neighbours that are dense in both arrays are one dim
};

Block coalesced(std::span<const int64_t> to, std::span<const int64_t> from,
                std::span<const int64_t> sizes, int64_t bytes) {
    Block b;
    b.sizes.push_back(bytes);
    b.to.push_back(1);
    b.from.push_back(1);
    for (size_t i = sizes.size(); i-- > 0;) {  // innermost first
        if (sizes[i] == 1) continue;
        const int64_t run_to = b.sizes.back() * b.to.back(),
                      run_from = b.sizes.back() * b.from.back();
        if (to[i] * bytes == run_to && from[i] * bytes == run_from) {
            b.sizes.back() *= sizes[i];
            continue;
        }
        b.sizes.push_back(sizes[i]);
        b.to.push_back(to[i] * bytes);
        b.from.push_back(from[i] * bytes);
    }
    return b;
}

void copy_dims(const Block& b, size_t dims, std::byte* to, const std::byte* from) {
    if (dims == 1) {
        std::memcpy(to, from, static_cast<size_t>(b.sizes[0]));
        return;
    }
    for (int64_t j = 0; j < b.sizes[dims - 1]; ++j)
        copy_dims(b, dims - 1, to + j * b.to[dims - 1], from + j * b.from[dims - 1]);
}

}  // namespace

void copy_block(std::byte* to, std::span<const int64_t> to_strides, const std::byte* from,
                std::span<const int64_t> from_strides, std::span<const int64_t> sizes,
                int64_t bytes) {
    if (product(sizes) == 0) return;
    const Block b = coalesced(to_strides, from_strides, sizes, bytes);
    copy_dims(b, b.sizes.size(), to, from);
}

}  // namespace nntile::runtime
