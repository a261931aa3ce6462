// SPDX-License-Identifier: BSD-3-Clause
// The table of kernels. Operands are listed in order, inputs before outputs; '?' marks an optional
// one.
#include "kernels/convolution_kinds.hh"
#include "kernels/cuda.hh"
#include "kernels/functions.hh"

namespace nntile::kernels {

static constexpr KernelRow rows[] = {
    {"map", "inputs.. -> outputs..; any dims; params and program of its instructions", map,
     NNTILE_ON_CUDA(map)},
    {"copy", "x -> y, converted to the dtype of y; any dims", copy, NNTILE_ON_CUDA(copy)},
    {"copies",
     "x.. -> y; dims rows.., columns; params of each x: its columns(i), offset of the first one in "
     "y(i). Each x goes "
     "to its own part of y",
     copies, NNTILE_ON_CUDA(copies)},
    {"fill", "-> y; any dims; params value(f)", fill, NNTILE_ON_CUDA(fill)},
    {"gemm",
     "a, b, c? -> y; dims batch.., m, n, k; params alpha(f), beta(f), accumulate(i). "
     "y = (accumulate ? y : beta * c) + alpha * a @ b; c is not read for beta = 0. With a program: "
     "a, b, c?, "
     "inputs.. -> y, outputs..; the program reads the inputs and y, its params follow",
     gemm, NNTILE_ON_CUDA(gemm), Work::product},
    {"reduce",
     "x -> y (strides 0 on reduced dims); any dims; params op(i: the row of fold.def), "
     "accumulate(i)",
     reduce, NNTILE_ON_CUDA(reduce)},
    {"map_reduce",
     "inputs.., outputs of the program but one.. -> y (strides 0 on reduced dims); dims kept.., "
     "reduced..; params of the program's instructions, then those of reduce, which output is "
     "reduced(i), its dtype(i), number of reduced dims(i)",
     map_reduce, nullptr},
    {"argmax", "x -> y (i64); dims outer.., reduced..; params number of reduced dims(i)", argmax,
     NNTILE_ON_CUDA(argmax)},
    {"argmin", "x -> y (i64); dims outer.., reduced..; params number of reduced dims(i)", argmin,
     NNTILE_ON_CUDA(argmin)},
    {"softmax", "x -> y; dims rows.., d", softmax, NNTILE_ON_CUDA(softmax)},
    {"log_softmax", "x -> y; dims rows.., d", log_softmax, NNTILE_ON_CUDA(log_softmax)},
    {"softmax_backward", "dy, y -> dx; dims rows.., d", softmax_backward,
     NNTILE_ON_CUDA(softmax_backward)},
    {"log_softmax_backward", "dy, y -> dx; dims rows.., d", log_softmax_backward,
     NNTILE_ON_CUDA(log_softmax_backward)},
    {"layer_norm", "x, weight?, bias? -> y, mean, rstd; dims rows.., d; params eps(f)", layer_norm,
     NNTILE_ON_CUDA(layer_norm)},
    {"layer_norm_backward_input", "dy, x, mean, rstd, weight? -> dx; dims rows.., d",
     layer_norm_backward_input, NNTILE_ON_CUDA(layer_norm_backward_input)},
    {"layer_norm_backward_affine",
     "dy, x, mean, rstd -> dw?, db?; dims rows.., d; params accumulate(i)",
     layer_norm_backward_affine, NNTILE_ON_CUDA(layer_norm_backward_affine)},
    {"rms_norm", "x, weight? -> y, rstd; dims rows.., d; params eps(f)", rms_norm,
     NNTILE_ON_CUDA(rms_norm)},
    {"rms_norm_backward_input", "dy, x, rstd, weight? -> dx; dims rows.., d",
     rms_norm_backward_input, NNTILE_ON_CUDA(rms_norm_backward_input)},
    {"rms_norm_backward_affine", "dy, x, rstd -> dw; dims rows.., d; params accumulate(i)",
     rms_norm_backward_affine, NNTILE_ON_CUDA(rms_norm_backward_affine)},
    {"nll_loss",
     "logp, target, weight?, total_weight? -> y; dims rows.., classes; params "
     "reduction(i: none|mean|sum), ignore_index(i), accumulate(i). mean divides by total_weight",
     nll_loss, NNTILE_ON_CUDA(nll_loss)},
    {"nll_total_weight",
     "target, weight? -> total; dims rows.., classes; params ignore_index(i), accumulate(i)",
     nll_total_weight, NNTILE_ON_CUDA(nll_total_weight)},
    {"nll_loss_backward",
     "dy, target, weight?, total_weight? -> dx; dims rows.., classes; params "
     "reduction(i: none|mean|sum), ignore_index(i)",
     nll_loss_backward, NNTILE_ON_CUDA(nll_loss_backward)},
    {"cross_entropy",
     "x, target, weight?, total_weight? -> loss, logsumexp (f64); dims rows.., classes; params "
     "ignore_index(i), "
     "label_smoothing(f). A loss is divided by total_weight if there is one",
     cross_entropy, NNTILE_ON_CUDA(cross_entropy)},
    {"cross_entropy_backward",
     "dy, x, target, weight?, logsumexp, total_weight? -> dx; dims and params as cross_entropy",
     cross_entropy_backward, NNTILE_ON_CUDA(cross_entropy_backward)},
    {"convolution",
     "x, w, bias? -> y; dims n, co, c, w's channels of one of several groups, y's spatial.., "
     "x's.., window..; params "
     "groups(i), stride.., padding.., dilation..",
     convolution, NNTILE_ON_CUDA(convolution), Work::reorders, 0,
     convolutions::has_few_pixels<convolutions::forward>},
    {"convolution_backward_input", "dy, w -> dx; dims and params as convolution",
     convolution_backward_input, NNTILE_ON_CUDA(convolution_backward_input), Work::reorders, 0,
     convolutions::has_few_pixels<convolutions::backward_input>},
    {"convolution_backward_weight",
     "dy, x -> dw; dims as convolution; params accumulate(i), then as convolution",
     convolution_backward_weight, NNTILE_ON_CUDA(convolution_backward_weight), Work::reorders, 0,
     convolutions::has_few_pixels<convolutions::backward_weight>},
    {"channel_sums",
     "x, y, shift? -> first, second (f64); dims of x, of which shift, first and second have some; "
     "params "
     "accumulate(i). Sums of x, and of x * (y - shift)",
     channel_sums, NNTILE_ON_CUDA(channel_sums)},
    {"channel_blend",
     "a, b?, p, q?, s?, r -> y; dims of a, of which p, q, s and r have some. y = p * a + q * (b - "
     "s) + r, without b: "
     "p * a + r",
     channel_blend, NNTILE_ON_CUDA(channel_blend)},
    {"group_norm",
     "x, weight?, bias? -> y, mean, rstd; dims images, groups, channels of a group, pixels, of "
     "which weight and bias "
     "have groups and channels, mean and rstd images and groups; params eps(f)",
     group_norm, NNTILE_ON_CUDA(group_norm)},
    {"group_norm_backward",
     "dy, x, mean, rstd, weight? -> dx, sums of dy * (x - mean) * rstd, sums of dy; dims as "
     "group_norm, of which the "
     "sums have images, groups and channels",
     group_norm_backward, NNTILE_ON_CUDA(group_norm_backward)},
    {"lstm_cell",
     "x, added, cx, x_bias?, added_bias? -> hy, cy, gates; dims n, 4 h, h; x, added and gates have "
     "n, 4 h, biases 4 h",
     lstm_cell, NNTILE_ON_CUDA(lstm_cell)},
    {"lstm_cell_backward", "dhy?, dcy?, cx, cy, gates -> dgates, dcx; dims as lstm_cell",
     lstm_cell_backward, NNTILE_ON_CUDA(lstm_cell_backward)},
    {"gru_cell",
     "x, added, hx, x_bias?, added_bias? -> hy, kept; dims n, 3 h, h, 5 h; x and added have n, 3 "
     "h, biases 3 h, kept "
     "n, 5 h",
     gru_cell, NNTILE_ON_CUDA(gru_cell)},
    {"gru_cell_backward", "dhy, kept -> dx, dadded, dhx; dims as gru_cell", gru_cell_backward,
     NNTILE_ON_CUDA(gru_cell_backward)},
    {"lstm_sequence",
     "x, w, hx, cx -> y, cy, cells, gates; dims n, t, 4 h, h; x and gates have n, t, 4 h, w 4 h, "
     "h; params "
     "reverse(i). x: the gates without what the hidden state adds",
     lstm_sequence, NNTILE_ON_CUDA(lstm_sequence), Work::flops},
    {"lstm_sequence_backward",
     "dy?, dcy?, w, cx, cells, gates -> dx, dhx, dcx; dims and params as lstm_sequence",
     lstm_sequence_backward, NNTILE_ON_CUDA(lstm_sequence_backward), Work::flops},
    {"gru_sequence",
     "x, w, bias?, hx -> y, kept; dims n, t, 3 h, h, 4 h; x has n, t, 3 h, w 3 h, h, kept n, t, 4 "
     "h; params "
     "reverse(i). x: the gates without what the hidden state adds",
     gru_sequence, NNTILE_ON_CUDA(gru_sequence), Work::flops},
    {"gru_sequence_backward",
     "dy, w, hx, y, kept -> dx, dadded, dhx; dims and params as gru_sequence; dadded: of what the "
     "hidden state adds",
     gru_sequence_backward, NNTILE_ON_CUDA(gru_sequence_backward), Work::flops},
    {"rnn_sequence",
     "x, w, hx -> y; dims n, t, h, h; params reverse(i), nonlinearity(i: tanh|relu)", rnn_sequence,
     NNTILE_ON_CUDA(rnn_sequence), Work::flops},
    {"rnn_sequence_backward", "dy, w, y -> dx, dhx; dims and params as rnn_sequence",
     rnn_sequence_backward, NNTILE_ON_CUDA(rnn_sequence_backward), Work::flops},
    {"max_pool",
     "x -> y, indices (i64); dims n, c, y's spatial.., x's spatial..; params kernel_size.., "
     "stride.., padding.., "
     "dilation..",
     max_pool, NNTILE_ON_CUDA(max_pool)},
    {"max_pool_backward", "dy, indices -> dx; dims and params as max_pool", max_pool_backward,
     NNTILE_ON_CUDA(max_pool_backward)},
    {"avg_pool",
     "x -> y; dims as max_pool; params divisor(i; 0: elements of the window), "
     "count_include_pad(i), then those of "
     "max_pool, or none of them: as many windows as y has",
     avg_pool, NNTILE_ON_CUDA(avg_pool)},
    {"avg_pool_backward", "dy -> dx; dims and params as avg_pool", avg_pool_backward,
     NNTILE_ON_CUDA(avg_pool_backward)},
    {"embedding", "weight, indices -> y; dims i.., e, v", embedding, NNTILE_ON_CUDA(embedding),
     Work::table},
    {"embedding_backward",
     "dy, indices -> dw; dims i.., e, v; params padding_idx(i, -1: none), accumulate(i)",
     embedding_backward, NNTILE_ON_CUDA(embedding_backward), Work::table},
    {"embedding_bag",
     "weight, indices, offsets, weights? -> y; dims offsets, bags, indices, e, v; params mode(i: "
     "sum|mean|max), "
     "padding_idx(i, -1: none)",
     embedding_bag, NNTILE_ON_CUDA(embedding_bag), Work::visits},
    {"embedding_bag_max",
     "weight, indices, offsets, weights? -> y, rows (i64); dims offsets, bags, indices, e, v; "
     "params mode(i), "
     "padding_idx(i, -1: none)",
     embedding_bag_max, NNTILE_ON_CUDA(embedding_bag_max), Work::visits},
    {"bag_of",
     "offsets -> y, sizes; dims offsets, bags, indices, e, v, of which only offsets and indices "
     "count",
     bag_of, NNTILE_ON_CUDA(bag_of), Work::visits},
    {"gather",
     "x, indices.. -> y; dims any.., then those of x that are indexed; params of_dim(i: 1 for "
     "gather, whose wrong "
     "index is no IndexError), wrap(i: a negative index counts from the end)",
     gather, NNTILE_ON_CUDA(gather), Work::visits},
    {"scatter",
     "base, x, indices.. -> y; dims those of y and x.., those of x alone.., then those of y that "
     "are indexed; params "
     "of_dim(i), wrap(i), number of dims of x alone(i), mode(i: put|sum|prod|amin|amax), "
     "include_self(i), alpha(f). y "
     "may be base",
     scatter, NNTILE_ON_CUDA(scatter), Work::visits},
    {"scan", "x -> y; dims rows.., d; params op(i: sum|prod|logsumexp)", scan,
     NNTILE_ON_CUDA(scan)},
    {"cumulative_extreme", "x -> y, indices (i64); dims rows.., d; params largest(i)",
     cumulative_extreme, NNTILE_ON_CUDA(cumulative_extreme)},
    {"sort",
     "x -> y, indices (i64); dims rows.., k = d, d; params descending(i). Of equals the first "
     "stays first",
     sort, NNTILE_ON_CUDA(sort)},
    {"topk", "x -> y, indices (i64); dims rows.., k, d; params largest(i), sorted(i)", topk,
     NNTILE_ON_CUDA(topk)},
    {"kthvalue", "x -> y, indices (i64); dims rows.., 1, d; params k(i, from 1)", kthvalue,
     NNTILE_ON_CUDA(kthvalue)},
    {"flip", "x -> y; dims any.., then those that are turned round; params their number(i)", flip,
     NNTILE_ON_CUDA(flip)},
    {"triangle",
     "x -> y; dims matrices.., rows, columns; params diagonal(i), upper(i: that side stays, else "
     "the lower one). The "
     "index is the place of a row among all",
     triangle, NNTILE_ON_CUDA(triangle), Work::pass, 2},
    {"resample",
     "x -> y; dims rows.., then of each dim that is resampled m of y and n of x; params "
     "mode(i: nearest|nearest_exact|linear|cubic|reflect|replicate), align_corners(i), "
     "antialias(i), transposed(i), "
     "number of those dims(i), left(i).., scale(f, 0: none)..",
     resample, NNTILE_ON_CUDA(resample)},
    {"grid_sample",
     "x, grid -> y; dims n, c, places, x's spatial.., numbers of a place; params "
     "mode(i: bilinear|nearest|bicubic), padding(i: zeros|border|reflection), align_corners(i)",
     grid_sample, NNTILE_ON_CUDA(grid_sample)},
    {"grid_sample_backward", "dy, x, grid -> dx, dgrid; dims and params as grid_sample",
     grid_sample_backward, NNTILE_ON_CUDA(grid_sample_backward)},
    {"searchsorted",
     "sequence, x, sorter? (i64) -> y (i64 or i32); dims rows.., m of x, n of sequence; params "
     "right(i)",
     searchsorted, NNTILE_ON_CUDA(searchsorted), Work::visits},
    {"draw", "p, u (f64) -> y (i64); dims rows.., samples, d", draw, NNTILE_ON_CUDA(draw)},
    {"attention",
     "q, k, v, mask? -> y, logsumexp; dims heads.., queries, keys, size, value size; params "
     "is_causal(i), "
     "scale(f, nan: 1 / sqrt(size)). The index is the place of a query among all",
     attention, NNTILE_ON_CUDA(attention), Work::flops, 4},
    {"attention_backward",
     "dy, q, k, v, mask?, y, logsumexp -> dq, dk, dv; dims heads.., queries, keys, size, value "
     "size; params "
     "is_causal(i), scale(f, nan: 1 / sqrt(size))",
     attention_backward, NNTILE_ON_CUDA(attention_backward), Work::flops},
};

std::span<const KernelRow> kernel_rows() { return rows; }

const KernelRow* find_kernel(std::string_view name) {
    for (const KernelRow& row : rows)
        if (name == row.name) return &row;
    return nullptr;
}

}  // namespace nntile::kernels
