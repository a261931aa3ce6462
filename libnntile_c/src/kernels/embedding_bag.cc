// SPDX-License-Identifier: BSD-3-Clause
// Sums, means and maxima of bags of rows of a table. The dims are offsets, bags, indices, e (a row)
// and v (the table).
#include "kernels/bags.hh"
#include "kernels/functions.hh"
#include "kernels/refuse.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
namespace {

int64_t integer_at(const Block& block, int dim, int64_t at) {
    int64_t value;
    loader(block.dtype, compute_i64)(block.data + at * block.strides[dim] * size_of(block.dtype),
                                     &value, 1, 1);
    return value;
}

// Where a bag begins; behind the last one, where that ends. Sorted, from 0 to the number of
// indices.
int check_offsets(const Args& args, const Block& offsets) {
    const int64_t n = args.sizes[dim_indices];
    int64_t before = 0;
    for (int64_t k = 0; k < args.sizes[dim_offsets]; ++k) {
        const int64_t offset = integer_at(offsets, dim_offsets, k);
        if (!begins_bag(offset, k, before, n))
            return refuse(args, {Refusal::offset, k, n, offset, before});
        before = offset;
    }
    return 0;
}

template <class T>
struct Bags {
    static constexpr Compute compute = sizeof(T) == 4 ? compute_f32 : compute_f64;
    const Args& args;
    const Block &table = args.blocks[0], &indices = args.blocks[1], &offsets = args.blocks[2],
                &weights = args.blocks[3], &y = args.blocks[4], *largest;
    const int64_t mode = args.params[0].i, padding = args.params[1].i;
    const bool wide = indices.dtype == DType::i64;
    // Rows are read where they are.
    const bool direct = size_of(table.dtype) == sizeof(T) && table.strides[dim_e] == 1;
    const bool summed = table.strides[dim_e] == 1 && mode != mode_max &&
                        (!weights.data || weights.dtype == table.dtype);
    const BagRows rows{table.data,
                       table.strides[dim_v],
                       indices.data,
                       wide,
                       indices.strides[dim_indices],
                       args.sizes[dim_indices],
                       padding,
                       weights.data,
                       weights.data ? weights.strides[dim_indices] : 0};
    T total[Line::piece], row[Line::piece];
    int64_t best[Line::piece];

    Bags(const Args& of, bool with_rows) : args(of), largest(with_rows ? &of.blocks[5] : nullptr) {}

    int64_t index_at(int64_t i) const {
        const int64_t offset = i * indices.strides[dim_indices];
        return wide ? reinterpret_cast<const int64_t*>(indices.data)[offset]
                    : reinterpret_cast<const int32_t*>(indices.data)[offset];
    }
    template <class I>
    uint64_t largest_index() const {  // a negative one is large
        const I* index = reinterpret_cast<const I*>(indices.data);
        uint64_t most = 0;
        for (int64_t i = 0; i < args.sizes[dim_indices]; ++i)
            most = std::max(most, static_cast<uint64_t>(index[i * indices.strides[dim_indices]]));
        return most;
    }
    int check_indices() const {
        const int64_t size = args.sizes[dim_v];
        const uint64_t most = wide ? largest_index<int64_t>() : largest_index<int32_t>();
        if (most < static_cast<uint64_t>(size)) return 0;
        for (int64_t i = 0; i < args.sizes[dim_indices]; ++i) {
            const int64_t index = index_at(i);
            if (index < 0 || index >= size) return refuse(args, {Refusal::bag_index, index, size});
        }
        return 0;
    }

    // A piece of rows first.. to last of the indices, in `total`. Returns how many they are.
    int64_t sum_one_by_one(int64_t first, int64_t last, int64_t at, int64_t n) {
        int64_t count = 0;
        std::fill_n(total, n, T{});
        std::fill_n(best, n, int64_t{0});
        for (int64_t i = first; i < last; ++i) {
            const int64_t index = index_at(i);
            if (index == padding) continue;
            const int64_t offset = index * table.strides[dim_v] + at * table.strides[dim_e];
            const T* x = row;
            if (direct) x = reinterpret_cast<const T*>(table.data) + offset;
            else
                loader(table.dtype, compute)(table.data + offset * size_of(table.dtype), row,
                                             table.strides[dim_e], n);
            if (mode == mode_max) {
                for (int64_t j = 0; j < n; ++j)
                    if (count == 0 || x[j] > total[j]) total[j] = x[j], best[j] = index;
            } else {
                T weight = 1;
                if (weights.data)
                    loader(weights.dtype, compute)(
                        weights.data + i * weights.strides[dim_indices] * size_of(weights.dtype),
                        &weight, 1, 1);
                for (int64_t j = 0; j < n; ++j) total[j] += weight * x[j];
            }
            ++count;
        }
        return count;
    }
    void bag(int64_t b, int64_t first, int64_t last, int64_t at, int64_t n) {
        BagRows piece = rows;
        piece.table = static_cast<const std::byte*>(rows.table) + at * size_of(table.dtype);
        const auto sum = bag_loops().sum[static_cast<int>(table.dtype)];
        const int64_t count =
            summed ? sum(piece, first, last, n, total) : sum_one_by_one(first, last, at, n);
        if (mode == mode_mean && count > 1)
            for (int64_t j = 0; j < n; ++j) total[j] /= static_cast<T>(count);
        put(total, compute, y, b, at, n);
        if (largest) put(best, compute_i64, *largest, b, at, n);
    }
    static void put(const void* from, Compute type, const Block& to, int64_t b, int64_t at,
                    int64_t n) {
        const int64_t offset = b * to.strides[dim_bags] + at * to.strides[dim_e];
        storer(type, to.dtype)(from, to.data + offset * size_of(to.dtype), to.strides[dim_e], n);
    }

    int run() {
        if (int status = check_offsets(args, offsets)) return status;
        if (int status = check_indices()) return status;
        for (int64_t b = 0; b < args.sizes[dim_bags]; ++b) {
            const bool ends = b + 1 == args.sizes[dim_offsets];
            const int64_t first = integer_at(offsets, dim_offsets, b),
                          last = ends ? args.sizes[dim_indices]
                                      : integer_at(offsets, dim_offsets, b + 1);
            for (int64_t at = 0; at < args.sizes[dim_e]; at += Line::piece)
                bag(b, first, last, at, std::min(Line::piece, args.sizes[dim_e] - at));
        }
        return 0;
    }
};

int run(const Args& args, bool with_rows) {
    if (compute_of(args.blocks[0].dtype) == compute_f64) return Bags<double>(args, with_rows).run();
    return Bags<float>(args, with_rows).run();
}

}  // namespace

int embedding_bag(const Args& args) { return run(args, false); }
int embedding_bag_max(const Args& args) { return run(args, true); }

int bag_of(const Args& args) {
    const Block &offsets = args.blocks[0], &bags = args.blocks[1], &sizes = args.blocks[2];
    if (int status = check_offsets(args, offsets)) return status;
    const int64_t n = args.sizes[dim_indices], count = args.sizes[dim_offsets];
    const Convert store_bags = storer(compute_i64, bags.dtype),
                  store_size = storer(compute_i64, sizes.dtype);
    int64_t bag[Line::piece];
    for (int64_t k = 0; k < count; ++k) {
        const int64_t first = integer_at(offsets, dim_offsets, k),
                      last = k + 1 == count ? n : integer_at(offsets, dim_offsets, k + 1);
        const int64_t size = last - first, step = bags.strides[dim_indices];
        std::fill_n(bag, std::min(size, Line::piece), k);
        for (int64_t i = first; i < last; i += Line::piece)
            store_bags(bag, bags.data + i * step * size_of(bags.dtype), step,
                       std::min(Line::piece, last - i));
        store_size(&size, sizes.data + k * sizes.strides[dim_offsets] * size_of(sizes.dtype), 1, 1);
    }
    return 0;
}

}  // namespace nntile::kernels
