// SPDX-License-Identifier: BSD-3-Clause
// A program and the reduction of one of its results, part by part: the result is never stored as a
// whole. A part is what stays in the cache, cut along kept dims, so that each total is made by
// reduce() of the same elements in the same order; or, where the elements of one total are too
// many, along them, at the pieces in which they are folded. So the bits are those of map, then
// reduce.
#include <algorithm>
#include <cstring>

#include "base/shape.hh"
#include "kernels/fold.hh"
#include "kernels/functions.hh"
#include "kernels/reader.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels {
namespace {

constexpr int64_t part_bytes = 256 << 10;

class MapReduce {
public:
    explicit MapReduce(const Args& args)
        : args_(args),
          n_in_(args.program->n_in),
          own_(args.params.last(5)),
          first_reduced_(args.sizes.size() - static_cast<size_t>(own_[4].i)),
          dtype_(static_cast<DType>(own_[3].i)),
          most_(part_bytes / size_of(dtype_)),
          starts_(args.sizes.size(), 0),
          sizes_(args.sizes) {
        for (size_t d = first_reduced_; d < sizes_.size(); ++d) reduced_ *= sizes_[d];
    }

    int run() {
        static thread_local Scratch scratch;
        // Parts of equal length may have up to twice as many, behind what is left of the one
        // before.
        const auto bytes = static_cast<size_t>((2 * most_ + 2 * run_piece) * size_of(dtype_));
        scratch.begin(bytes);
        room_ = scratch.take(bytes);
        if (reduced_ <= most_)
            return for_parts(0, first_reduced_, reduced_, [&] { return reduce_part(); });
        return for_parts(0, first_reduced_, most_, [&] { return fold_one(); });
    }

private:
    // Calls use() for each part of the dims from first to last, of at most so many points; each is
    // `inner` of them. starts_ and sizes_ say which part it is.
    template <class Use>
    int for_parts(size_t first, size_t last, int64_t inner, Use&& use) {
        size_t whole = last;  // dims from here on are not cut
        for (; whole > first && inner * sizes_[whole - 1] <= most_; --whole)
            inner *= sizes_[whole - 1];
        if (whole == first) return use();
        const Dims all(sizes_);
        const size_t cut = whole - 1;
        const int64_t parts = std::min(all[cut], (all[cut] * inner + most_ - 1) / most_);
        for (size_t d = first; d < cut; ++d) sizes_[d] = 1;
        int status = 0;
        for (bool more = true; more && status == 0;) {
            for (int64_t p = 0; p < parts && status == 0; ++p) {  // of equal length
                starts_[cut] = all[cut] * p / parts;
                sizes_[cut] = all[cut] * (p + 1) / parts - starts_[cut];
                status = use();
            }
            size_t d = cut;
            for (; d > first && ++starts_[d - 1] == all[d - 1]; --d) starts_[d - 1] = 0;
            more = d > first;
        }
        starts_[cut] = 0;
        sizes_ = all;
        return status;
    }

    Block at_start(Block block) const {
        if (!block.data || !block.strides) return block;  // a number
        int64_t offset = 0;
        for (size_t d = 0; d < starts_.size(); ++d) offset += starts_[d] * block.strides[d];
        block.data += offset * size_of(block.dtype);
        return block;
    }

    // The part of the program's result, dense.
    int map_part(std::byte* to, const Dims& strides) const {
        SmallVector<Block, 8> blocks;
        const size_t at = n_in_ + static_cast<size_t>(own_[2].i);
        for (size_t k = 0; k < args_.blocks.size(); ++k)  // it stands between the other outputs
            blocks.push_back(k == at ? Block{to, dtype_, strides.data()}
                                     : at_start(args_.blocks[k < at ? k : k - 1]));
        Args part = args_;
        part.sizes = sizes_;
        part.blocks = blocks;
        return map(part);
    }

    int reduce_part() const {
        const Dims strides = dense_strides(sizes_);
        if (int status = map_part(room_, strides)) return status;
        const Block blocks[] = {{room_, dtype_, strides.data()}, at_start(args_.blocks.back())};
        Args part = args_;
        part.sizes = sizes_;
        part.blocks = blocks;
        part.params = own_.first(2);
        part.program = nullptr;
        part.numbers = 0;
        return reduce(part);
    }

    int fold_one() {
        const Compute compute = compute_of(dtype_), wide = total_compute(compute);
        const Folds::Op& op = folds().op[own_[0].i][compute];
        const Reader reader(dtype_);
        Total total = op.identity;
        int64_t have = 0;
        const auto fold = [&](int64_t n) {
            reader.pieces(room_, 0, 1, n,
                          [&](const void* run, int64_t, int64_t m) { op.run(run, m, &total); });
            have -= n;
            std::memmove(room_, room_ + n * size_of(dtype_),
                         static_cast<size_t>(have * size_of(dtype_)));
        };
        const int status = for_parts(first_reduced_, sizes_.size(), 1, [&] {
            const Dims strides = dense_strides(sizes_);
            if (int failed = map_part(room_ + have * size_of(dtype_), strides)) return failed;
            have += product(sizes_);
            // The last piece is not cut: a short rest would be folded in another way.
            if (have >= 2 * run_piece) fold((have / run_piece - 1) * run_piece);
            return 0;
        });
        if (status) return status;
        fold(have);
        const Block y = at_start(args_.blocks.back());
        if (own_[1].i) {
            Total before;
            loader(y.dtype, wide)(y.data, &before, 1, 1);
            op.join(&before, 1, &total);
        }
        storer(wide, y.dtype)(&total, y.data, 1, 1);
        return 0;
    }

    const Args& args_;
    const size_t n_in_;
    const std::span<const Param> own_;
    const size_t first_reduced_;
    const DType dtype_;
    const int64_t most_;  // points of a part
    Dims starts_, sizes_;
    int64_t reduced_ = 1;
    std::byte* room_ = nullptr;
};

}  // namespace

int map_reduce(const Args& args) { return MapReduce(args).run(); }

}  // namespace nntile::kernels
