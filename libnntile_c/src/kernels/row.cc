// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/row.hh"

#include <cstdlib>

#include "kernels/fold.hh"
#include "kernels/scratch.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {

void Line::make(const Block& block, Compute compute, int64_t stride) {
    base_ = data_ = block.data;
    dtype_ = block.dtype;
    bytes_ = size_of(block.dtype);
    compute_bytes_ = size_of(compute);
    stride_ = stride;
    same_ = block.dtype == dtype_of(compute);
    in_place_ = same_ && stride == 1;
    load_ = loader(block.dtype, compute);
    store_ = storer(compute, block.dtype);
}

void Line::pack(std::byte* panel, int64_t row_bytes, int64_t d) {
    panel_ = row_ = panel;
    row_bytes_ = row_bytes;
    d_ = d;
    begin_panel(0, 0, 1);
}

void Line::begin_panel(int64_t offset, int64_t row_stride, int64_t rows) {
    first_ = base_ + offset * bytes_;
    row_stride_ = row_stride;
    rows_ = rows;
    row_ = panel_;
    stale_ = true;
    written_ = false;
}

namespace {

// Columns of a panel that are converted before they are transposed.
constexpr int64_t block = 64;
constexpr int64_t most_rows = 64;

}  // namespace

// Rows one after the other, or, where they lie closer to each other than their elements do, in
// columns.
bool Line::by_columns(int64_t rows) const {
    return rows > 1 && std::abs(row_stride_) < std::abs(stride_);
}

void Line::load_panel() {
    stale_ = false;
    const int64_t rows = row_stride_ == 0 ? 1 : rows_;
    if (!by_columns(rows)) {
        for (int64_t r = 0; r < rows; ++r)
            load_(first_ + r * row_stride_ * bytes_, panel_ + r * row_bytes_, stride_, d_);
        return;
    }
    if (same_ && row_stride_ == 1)
        return transpose_of(bytes_)(first_, stride_, panel_, row_bytes_ / bytes_, rows, d_);
    alignas(64) std::byte raw[most_rows * block * sizeof(double)];
    // Columns lie too far from each other for the processor to see that they come.
    constexpr int64_t line = 64, ahead = 12;
    const int64_t span = rows * std::abs(row_stride_) * bytes_,
                  low = row_stride_ < 0 ? line - span : 0;
    for (int64_t at = 0; at < d_; at += block) {
        const int64_t n = std::min(block, d_ - at);
        for (int64_t j = 0; j < n; ++j) {
            const std::byte* next = first_ + (at + j + ahead) * stride_ * bytes_ + low;
            for (int64_t k = 0; at + j + ahead < d_ && k < span; k += line)
                __builtin_prefetch(next + k);
            load_(first_ + (at + j) * stride_ * bytes_, raw + j * rows * compute_bytes_,
                  row_stride_, rows);
        }
        transpose_of(compute_bytes_)(raw, rows, panel_ + at * compute_bytes_,
                                     row_bytes_ / compute_bytes_, rows, n);
    }
}

void Line::store_panel() {
    if (!by_columns(rows_)) {
        for (int64_t r = 0; r < rows_; ++r)
            store_(panel_ + r * row_bytes_, first_ + r * row_stride_ * bytes_, stride_, d_);
        return;
    }
    if (same_ && row_stride_ == 1)
        return transpose_of(bytes_)(panel_, row_bytes_ / bytes_, first_, stride_, d_, rows_);
    alignas(64) std::byte raw[most_rows * block * sizeof(double)];
    for (int64_t at = 0; at < d_; at += block) {
        const int64_t n = std::min(block, d_ - at);
        transpose_of(compute_bytes_)(panel_ + at * compute_bytes_, row_bytes_ / compute_bytes_, raw,
                                     rows_, n, rows_);
        for (int64_t j = 0; j < n; ++j)
            store_(raw + j * rows_ * compute_bytes_, first_ + (at + j) * stride_ * bytes_,
                   row_stride_, rows_);
    }
}

double Line::element(int64_t at) const {
    const std::byte* from = data_ + at * stride_ * bytes_;
    if (dtype_ == DType::f32) return *reinterpret_cast<const float*>(from);
    double value;
    loader(dtype_, compute_f64)(from, &value, 1, 1);
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
    const int64_t* strides[max_lines];
    for (size_t k = 0; k < args.blocks.size(); ++k) {
        const Block& b = args.blocks[k];
        strides[k] = b.data ? b.strides : nullptr;
        line[k].make(b, compute, b.data && d != 1 ? b.strides[last] : 1);
        const bool scalar =
            std::find(scalars.begin(), scalars.end(), static_cast<int>(k)) != scalars.end();
        if (b.data && !scalar && !line[k].in_place()) packed.push_back(static_cast<int>(k));
    }
    whole = packed.empty();
    Args outer = args;
    outer.sizes = args.sizes.first(last);
    if (int status = space.make(outer, std::span(strides, args.blocks.size()),
                                {static_cast<int>(args.blocks.size()) - 1}))
        return status;
    if (!whole) pack();
    return 0;
}

// A panel has rows that are neighbours in memory, so that this is read and written as it lies,
// once.
void Rows::pack() {
    constexpr int64_t few = 16, memory = 128 << 10, most_memory = 8 << 20;
    // No power of two
    const int64_t row_bytes = static_cast<int64_t>(padded(d * size_of(compute))) + 64;
    const int64_t bytes = row_bytes * static_cast<int64_t>(packed.size());
    int best = space.dims - 1;
    int64_t least = INT64_MAX;
    for (int dim = space.dims; dim-- > 0;) {
        int64_t cost = 0;
        for (int k : packed) {
            const int64_t along = std::abs(line[k].stride()),
                          across = std::abs(space.strides[k][dim]);
            cost += std::min({across == 0 ? along : across, along, few});
        }
        if (cost < least) best = dim;
        least = std::min(least, cost);
    }
    std::swap(space.sizes[best], space.sizes[space.dims - 1]);
    for (int k = 0; k < space.operands; ++k)
        std::swap(space.strides[k][best], space.strides[k][space.dims - 1]);
    const int64_t rows = std::clamp(memory / bytes / few * few, few, most_rows);
    panel = std::max<int64_t>(std::min(rows, space.sizes[space.dims - 1]), 1);
    // Whatever the number of rows: bits should not depend on a cut
    if (rows * bytes > most_memory) {
        panel = INT64_MAX;
        packed = {};
        return;
    }
    static thread_local Scratch scratch;
    scratch.begin(static_cast<size_t>(panel * bytes));
    for (int k : packed)
        line[k].pack(scratch.take(static_cast<size_t>(panel * row_bytes)), row_bytes, d);
    whole = true;
}

Pieces::Pieces(const Args& args, Space& space, Compute compute, std::span<const size_t> operands,
               std::span<Line> lines, int64_t piece, bool whole)
    : space_(space), operands_(operands), lines_(lines) {
    const int last = space.dims - 1;
    const int64_t n = space.sizes[last];
    bool in_place = true;
    for (size_t k : operands) {
        const int64_t* strides = space.strides[k];
        lines[k].make(args.blocks[k], compute, n == 1 ? 1 : strides[last]);
        if (!lines[k]) continue;
        in_place &= lines[k].in_place();
        for (int d = last; d-- > 0 && across_ < 0;)
            if (strides[d] == 1 && std::abs(strides[last]) > 1) across_ = d;
    }
    piece_ = in_place && whole ? n : std::min(n, piece);
    if (!packed()) return;
    std::swap(space.sizes[across_], space.sizes[last - 1]);
    for (int k = 0; k < space.operands; ++k)
        std::swap(space.strides[k][across_], space.strides[k][last - 1]);
    across_ = last - 1;
    row_bytes_ = static_cast<int64_t>(padded(static_cast<size_t>(piece_ * size_of(compute)))) + 64;
    for (size_t k : operands)
        if (lines[k] && space.strides[k][across_] == 1 && std::abs(space.strides[k][last]) > 1)
            panels_.push_back({k, nullptr});
    const auto bytes = static_cast<size_t>(row_bytes_ * std::min(most_rows, space.sizes[across_]));
    static thread_local Scratch scratch;
    scratch.begin(panels_.size() * padded(bytes));
    for (auto& [k, memory] : panels_) memory = scratch.take(bytes);
}

void Pieces::begin(const Walk& walk, int64_t row, int64_t rows, int64_t at, int64_t count) {
    for (const auto& [k, memory] : panels_) {
        lines_[k].pack(memory, row_bytes_, count);
        lines_[k].begin_panel(place(walk, k, row, at), 1, rows);
    }
}

double row_max(Rows& rows, Line& x) {
    const Folds::Op& amax = folds().op[static_cast<int>(Fold::amax)][rows.compute];
    Total max = amax.identity;
    rows.pieces([&](int64_t at, int64_t n) { amax.run(x.read(at, n), n, &max); });
    return max.f;
}

}  // namespace nntile::kernels
