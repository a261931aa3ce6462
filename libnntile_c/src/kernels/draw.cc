// SPDX-License-Identifier: BSD-3-Clause
// Draws by the inverse of the distribution function: the first element up to which the sum of
// probabilities passes u of the whole. Sums are of blocks, so that a draw visits one of them.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/functions.hh"
#include "kernels/reader.hh"
#include "kernels/refuse.hh"
#include "kernels/space.hh"

namespace nntile::kernels {
namespace {

constexpr int64_t block = 256;

class Distribution {
public:
    Distribution(const Block& p, int64_t step, int64_t n)
        : data_(p.data), reader_(p.dtype, compute_f64), step_(step), n_(n) {}

    Refusal sum(int64_t row) {
        row_ = row;
        ends_.clear();
        double total = 0;
        bool good = true;
        each(0, n_, [&](const double* p, int64_t, int64_t count) {
            double part[4] = {};
            for (int64_t i = 0; i < count; ++i) {
                good &= p[i] >= 0 && p[i] <= std::numeric_limits<double>::max();
                part[i % 4] += p[i];
            }
            ends_.push_back(total += part[0] + part[1] + (part[2] + part[3]));
        });
        return !good ? Refusal::no_distribution : total > 0 ? Refusal::none : Refusal::no_chance;
    }

    // For u in [0, 1): never one of probability 0, however sums are rounded.
    int64_t draw(double u) const {
        const double target = u * ends_.back();
        auto at = std::upper_bound(ends_.begin(), ends_.end(), target);
        if (at == ends_.end()) at = std::lower_bound(ends_.begin(), ends_.end(), ends_.back());
        const int64_t first = (at - ends_.begin()) * block;
        double sum = at == ends_.begin() ? 0 : at[-1];
        int64_t found = -1;
        each(first, std::min(block, n_ - first), [&](const double* p, int64_t from, int64_t count) {
            for (int64_t i = 0; i < count && sum <= target; ++i) {
                if (p[i] > 0) found = from + i;
                sum += p[i];
            }
        });
        return found;
    }

private:
    template <class Use>
    void each(int64_t first, int64_t count, Use&& use) const {
        for (int64_t from = first; from < first + count; from += block)
            reader_.pieces(data_, row_ + from * step_, step_, std::min(block, first + count - from),
                           [&](const void* p, int64_t, int64_t n) {
                               use(static_cast<const double*>(p), from, n);
                           });
    }

    const std::byte* data_;
    Reader reader_;
    int64_t step_, n_, row_ = 0;
    std::vector<double> ends_;  // the sum up to the end of each block
};

}  // namespace

int draw(const Args& args) {
    const size_t d = args.sizes.size() - 1, k = d - 1;
    const Block &p = args.blocks[0], &u = args.blocks[1], &y = args.blocks[2];
    Dims sizes(args.sizes);
    sizes[d] = sizes[k] = 1;
    Args of_rows = args;
    of_rows.sizes = sizes;
    const int64_t* strides[] = {p.strides, u.strides, y.strides};
    Space rows;
    if (const int status = rows.make(of_rows, strides, {0})) return status;
    if (rows.empty() || args.sizes[k] == 0) return 0;
    Distribution distribution(p, p.strides[d], args.sizes[d]);
    Walk walk(rows, rows.dims);
    do {
        if (const Refusal wrong = distribution.sum(walk.offset[0]); wrong != Refusal::none)
            return refuse(args, {wrong});
        for (int64_t s = 0; s < args.sizes[k]; ++s)
            reinterpret_cast<int64_t*>(y.data)[walk.offset[2] + s * y.strides[k]] =
                distribution.draw(
                    reinterpret_cast<const double*>(u.data)[walk.offset[1] + s * u.strides[k]]);
    } while (walk.next());
    return 0;
}

}  // namespace nntile::kernels
