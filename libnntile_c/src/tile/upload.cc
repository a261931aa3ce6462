// SPDX-License-Identifier: BSD-3-Clause
#include "tile/upload.hh"

#include "tile/cuts.hh"

namespace nntile::tile {

UploadCuts upload_cuts(DType dtype, std::span<const int64_t> sizes, int64_t most_task_bytes) {
    constexpr size_t most_dims = 64;  // that hints have a bit for
    UploadCuts found;
    int64_t bytes = product(sizes) * size_of(dtype);
    const bool small = bytes <= most_task_bytes / 2;
    const int64_t most = std::max<int64_t>(most_task_bytes / tiles_in_a_task, 1);
    for (size_t d = 0; d < sizes.size(); ++d) {
        found.cuts.push_back(whole(sizes[d]));
        if (small || bytes <= most || sizes[d] < 2 || d >= most_dims) continue;
        const int64_t one = bytes / sizes[d];
        const int64_t length = std::max<int64_t>(most / one, 1);
        int64_t segments = (sizes[d] + length - 1) / length;
        Cut cut = even_cut(sizes[d], segments);
        while (longest(cut) > length) cut = even_cut(sizes[d], ++segments);
        bytes = longest(cut) * one;
        found.cuts[d] = std::move(cut);
        found.hints |= uint64_t{1} << d;
    }
    return found;
}

}  // namespace nntile::tile
