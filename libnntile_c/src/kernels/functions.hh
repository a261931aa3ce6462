// SPDX-License-Identifier: BSD-3-Clause
// The CPU functions behind the rows of kernels.cc; each is documented there.
#pragma once

#include <string>
#include <string_view>

#include "kernels/kernel.hh"

namespace nntile::kernels {

int map(const Args& args);
int copy(const Args& args);
int copies(const Args& args);
int fill(const Args& args);
int gemm(const Args& args);
int reduce(const Args& args);
int map_reduce(const Args& args);
int argmax(const Args& args);
int argmin(const Args& args);
int softmax(const Args& args);
int log_softmax(const Args& args);
int softmax_backward(const Args& args);
int log_softmax_backward(const Args& args);
int layer_norm(const Args& args);
int layer_norm_backward_input(const Args& args);
int layer_norm_backward_affine(const Args& args);
int rms_norm(const Args& args);
int rms_norm_backward_input(const Args& args);
int rms_norm_backward_affine(const Args& args);
int nll_loss(const Args& args);
int nll_total_weight(const Args& args);
int nll_loss_backward(const Args& args);
int cross_entropy(const Args& args);
int cross_entropy_backward(const Args& args);
bool has_convolution();  // whether the library was built with oneDNN
int convolution(const Args& args);
int convolution_backward_input(const Args& args);
int convolution_backward_weight(const Args& args);
// The names of the library's code that one of the three would run, for tests.
std::string convolution_code(const Args& args, std::string_view kernel);
int channel_sums(const Args& args);
int channel_blend(const Args& args);
int group_norm(const Args& args);
int group_norm_backward(const Args& args);
int lstm_cell(const Args& args);
int lstm_cell_backward(const Args& args);
int gru_cell(const Args& args);
int gru_cell_backward(const Args& args);
int lstm_sequence(const Args& args);
int lstm_sequence_backward(const Args& args);
int gru_sequence(const Args& args);
int gru_sequence_backward(const Args& args);
int rnn_sequence(const Args& args);
int rnn_sequence_backward(const Args& args);
int max_pool(const Args& args);
int max_pool_backward(const Args& args);
int avg_pool(const Args& args);
int avg_pool_backward(const Args& args);
int embedding(const Args& args);
int embedding_backward(const Args& args);
int embedding_bag(const Args& args);
int embedding_bag_max(const Args& args);
int bag_of(const Args& args);
int gather(const Args& args);
int scatter(const Args& args);
int scan(const Args& args);
int cumulative_extreme(const Args& args);
int sort(const Args& args);
int topk(const Args& args);
int kthvalue(const Args& args);
int flip(const Args& args);
int triangle(const Args& args);
int resample(const Args& args);
int grid_sample(const Args& args);
int grid_sample_backward(const Args& args);
int searchsorted(const Args& args);
int draw(const Args& args);
int attention(const Args& args);
int attention_backward(const Args& args);

}  // namespace nntile::kernels
