// SPDX-License-Identifier: BSD-3-Clause
// What kernels over whole rows share: the loops of a row in its compute type, and how rows are read
// and written.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/convert.hh"
#include "kernels/space.hh"

namespace nntile::kernels {

// Rows whose terms are added up before the sum becomes a double: to convert each takes most of the
// time.
constexpr int64_t affine_rows = 4;

// On contiguous arrays of f32 or f64; y and dx may be one of the inputs. Sums come back in double.
struct RowLoops {
    double (*exp_sum)(const void* x, int64_t n, double max, void* y);  // y = exp(x - max) if given
    void (*scale)(void* y, int64_t n, double factor);
    void (*exp_scale)(const void* x, int64_t n, double max, double factor, void* y);
    void (*add)(const void* x, int64_t n, void* y);     // y += x
    void (*forbid)(const void* x, int64_t n, void* y);  // y += -inf where x is 0
    void (*shift)(const void* x, int64_t n, double max, double log_sum, void* y);
    double (*sum)(const void* x, int64_t n);
    double (*dot)(const void* a, const void* b, int64_t n);
    void (*softmax_backward)(const void* dy, const void* y, int64_t n, double dot, void* dx);
    // sum of w * (x - max); w: 1 if null
    double (*shifted_dot)(const void* x, const void* w, int64_t n, double max);
    // dx = exp(x - log_sum) * all - w * share, less `target` at that place if it is one of the n
    void (*cross_entropy_backward)(const void* x, const void* w, int64_t n, double log_sum,
                                   double all, double share, int64_t place, double target,
                                   void* dx);
    void (*log_softmax_backward)(const void* dy, const void* y, int64_t n, double sum, void* dx);
    double (*deviation)(const void* x, int64_t n, double mean);  // sum of (x - mean)^2
    void (*normalize)(const void* x, const void* w, const void* b, int64_t n, double mean,
                      double rstd, void* y);
    // sums[0] += sum of g, sums[1] += sum of g * (x - mean) * rstd, with g = dy * w
    void (*norm_sums)(const void* dy, const void* x, const void* w, int64_t n, double mean,
                      double rstd, double* sums);
    // dx = rstd * (g - a - (x - mean) * rstd * b)
    void (*norm_input)(const void* dy, const void* x, const void* w, int64_t n, double mean,
                       double rstd, double a, double b, void* dx);
    // dw += dy * (x - mean) * rstd, db += dy, of so many rows, at most affine_rows
    void (*norm_affine)(const void* const* dy, const void* const* x, const double* mean,
                        const double* rstd, int64_t rows, int64_t n, double* dw, double* db);
    // gates: i, f, g, o of n each; they become what their functions give. cell = f * before + i *
    // g, y = o * tanh(cell)
    void (*lstm)(void* gates, const void* before, int64_t n, void* cell, void* y);
    // From dy and dcell, of this step: gradients of the gates, and dcell of the step before.
    void (*lstm_backward)(const void* gates, const void* before, const void* cell, const void* dy,
                          int64_t n, void* dcell, void* dgates);
    // x and added: r, z, n of h each, from the inputs and the state; hidden: the state before, then
    // after. kept: r, z, n, and what was added to n.
    void (*gru)(const void* x, const void* added, int64_t h, void* hidden, void* kept);
    // dhidden: of the state after; then what of it goes to the one before past the gates.
    void (*gru_backward)(const void* kept, const void* before, int64_t h, void* dhidden, void* dx,
                         void* dadded);
    void (*rnn)(const void* x, int64_t n, bool relu, void* y);  // y = tanh(x), or relu
    void (*rnn_backward)(const void* y, const void* dy, int64_t n, bool relu, void* dx);
    // sums[0] += sum of x, sums[1] += sum of x * (y - shift), all in double; y may be x
    void (*moments)(const void* x, const void* y, int64_t n, double shift, double* sums);
    // The same for n channels beside each other, of so many rows x_step and y_step elements apart:
    // shift, first and second have an element for each channel; shift: may be null.
    void (*moments_of_each)(const void* x, const void* y, int64_t n, int64_t rows, int64_t x_step,
                            int64_t y_step, const double* shift, double* first, double* second);
    void (*blend)(const void* a, const void* b, int64_t n, double p, double q, double r,
                  void* y);  // y = p * a + q * b + r, without b if that is null
};
struct RowTables {
    RowLoops table[2];  // compute_f32, compute_f64
};
NNTILE_ISA_TABLE(RowTables, row_tables)

// One operand along the last dim. Where it does not lie as the loops want it, a panel of rows is
// read, or written, at once, or else pieces of a row.
class Line {
public:
    static constexpr int64_t piece = 512;

    void make(const Block& block, Compute compute, int64_t stride);
    explicit operator bool() const { return base_ != nullptr; }
    bool in_place() const { return in_place_ || panel_; }
    void move_to(int64_t offset, int64_t row_of_panel = 0) {
        data_ = base_ + offset * bytes_;
        if (panel_ && row_stride_ != 0) row_ = panel_ + row_of_panel * row_bytes_;
    }

    const void* read(int64_t at, int64_t n) {  // nullptr if absent
        if (panel_) {
            if (stale_) load_panel();
            return row_ + at * compute_bytes_;
        }
        if (!base_ || in_place_) return base_ ? data_ + at * bytes_ : nullptr;
        load_(data_ + at * stride_ * bytes_, buffer_, stride_, n);
        return buffer_;
    }
    void* target(int64_t at) {
        if (panel_) return row_ + at * compute_bytes_;
        return in_place_ ? static_cast<void*>(data_ + at * bytes_) : buffer_;
    }
    void flush(int64_t at, int64_t n) {  // after target() was written
        if (panel_) written_ = true;
        else if (!in_place_) store_(buffer_, data_ + at * stride_ * bytes_, stride_, n);
    }
    double scalar() const { return element(0); }
    double element(int64_t at) const;
    int64_t integer() const;
    void set_scalar(double value);

    int64_t stride() const { return stride_; }
    // From now on in panels of rows of d elements, in memory of so many bytes for each row.
    void pack(std::byte* panel, int64_t row_bytes, int64_t d);
    void begin_panel(int64_t offset, int64_t row_stride, int64_t rows);
    void end_panel() {
        if (written_) store_panel();
    }

private:
    bool by_columns(int64_t rows) const;
    void load_panel();
    void store_panel();

    std::byte *base_ = nullptr, *data_ = nullptr;
    int64_t bytes_ = 0, compute_bytes_ = 0, stride_ = 0;
    DType dtype_ = DType::none;
    bool in_place_ = false, same_ = false;
    Convert load_ = nullptr, store_ = nullptr;
    // Of a panel: its memory, the row at which the line is, and where its rows lie in the operand.
    std::byte *panel_ = nullptr, *row_ = nullptr, *first_ = nullptr;
    int64_t row_bytes_ = 0, row_stride_ = 0, rows_ = 0, d_ = 0;
    bool stale_ = false, written_ = false;
    alignas(64) std::byte buffer_[piece * sizeof(double)];
};

// Pieces of the rows along the last dim of a space. A line whose elements lie apart there, and
// beside each other along another dim, is read in panels of rows along that one.
class Pieces {
public:
    // The operands that have a line; lines[k] of each is made here. A piece has so many elements,
    // at most Line::piece; whole: all of a row, if all lines lie in place.
    Pieces(const Args& args, Space& space, Compute compute, std::span<const size_t> operands,
           std::span<Line> lines, int64_t piece, bool whole);
    bool packed() const { return across_ >= 0; }

    template <class Body>  // body(offsets of all operands, elements), with all lines at the first
                           // of these
    void each(Body&& body) {
        const int last = space_.dims - 1;
        const int64_t n = space_.sizes[last], all = packed() ? space_.sizes[across_] : 1;
        Walk walk(space_, packed() ? last - 1 : last);
        do {
            for (int64_t row = 0; row < all; row += most_rows)
                for (int64_t at = 0; at < n; at += piece_) {
                    const int64_t rows = std::min(most_rows, all - row),
                                  count = std::min(piece_, n - at);
                    begin(walk, row, rows, at, count);
                    for (int64_t r = row; r < row + rows; ++r) {
                        int64_t offset[max_operands];
                        for (int k = 0; k < space_.operands; ++k) offset[k] = place(walk, k, r, at);
                        for (size_t k : operands_) lines_[k].move_to(offset[k], r - row);
                        body(static_cast<const int64_t*>(offset), count);
                    }
                }
        } while (walk.next());
    }

private:
    static constexpr int64_t most_rows = 64;

    int64_t place(const Walk& walk, size_t k, int64_t row, int64_t at) const {
        const int64_t* strides = space_.strides[k];
        return walk.offset[k] + (packed() ? row * strides[across_] : 0) +
               at * strides[space_.dims - 1];
    }
    void begin(const Walk& walk, int64_t row, int64_t rows, int64_t at, int64_t count);

    Space& space_;
    std::span<const size_t> operands_;
    std::span<Line> lines_;
    int across_ = -1;
    int64_t piece_, row_bytes_ = 0;
    struct Panel {
        size_t line;
        std::byte* memory;
    };
    SmallVector<Panel, 4> panels_;
};

// The rows of a task: all dims but the last, which is `d`.
class Rows {
public:
    static constexpr int max_lines = 7;

    // `scalars`: operands with one element per row.
    int make(const Args& args, std::initializer_list<int> scalars = {});
    const RowLoops& loops() const { return row_tables().table[compute]; }

    template <class Body>  // with all lines at the row
    void each(Body&& body) {
        if (space.empty()) return;
        const int inner = space.dims - 1;
        const int64_t size = space.sizes[inner];
        Walk walk(space, inner);
        do {
            for (int64_t first = 0; first < size; first += panel) {
                const int64_t rows = std::min(panel, size - first);
                for (int k : packed)
                    line[k].begin_panel(walk.offset[k] + first * space.strides[k][inner],
                                        space.strides[k][inner], rows);
                for (int64_t r = 0; r < rows; ++r) {
                    for (int k = 0; k < space.operands; ++k)
                        line[k].move_to(walk.offset[k] + (first + r) * space.strides[k][inner], r);
                    body();
                }
                for (int k : packed) line[k].end_panel();
            }
        } while (walk.next());
    }
    template <class Body>  // body(at, n) for pieces of the row
    void pieces(Body&& body) const {
        const int64_t step = piece();
        for (int64_t at = 0; at < d; at += step) body(at, std::min(step, d - at));
    }
    // So much of a row is read at once: all of it, if every line is in place or packed.
    int64_t piece() const { return whole ? std::max<int64_t>(d, 1) : Line::piece; }
    bool is_packed() const { return !packed.empty(); }

    Compute compute;
    int64_t d;
    Line line[max_lines];

private:
    void pack();

    bool whole;  // every line in place: a row is one piece
    Space space;
    int64_t panel = INT64_MAX;           // rows
    SmallVector<int, max_lines> packed;  // lines
};

double row_max(Rows& rows, Line& x);  // of the row at which x is; nan wins

}  // namespace nntile::kernels
