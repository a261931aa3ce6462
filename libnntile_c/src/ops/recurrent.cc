// SPDX-License-Identifier: BSD-3-Clause
// The part of an LSTM layer that goes from step to step, for all steps at once: a task for each part of the batch.
// Products with the inputs, and gradients of weights, are products of all steps and no part of it. Kernel dims: n, t,
// gates (4 h), h. Gates are in PyTorch's order: i, f, g, o.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

// (t, n, 4 h) of what the gates get from the inputs, (4 h, h) of the weight.
struct Sizes {
    int64_t t, n, gates, h;
};
Sizes sizes_of(const Call& call, const Dims& x, const Dims& w) {
    check(x.size() == 3 && w.size() == 2 && x[2] == w[0] && w[0] == 4 * w[1], Status::invalid_argument, call.row.name,
          ": gates (t, n, 4 h) and a weight (4 h, h) are expected, got ", text_of_dims(x), " and ", text_of_dims(w));
    check(product(x) > 0, Status::unsupported, call.row.name, ": a sequence without elements has no kernel");
    return {x[0], x[1], x[2], w[1]};
}
void check_sizes(const Call& call, size_t input, const Dims& want) {
    if (!call.has(input)) return;
    std::string_view name = call.row.inputs[input].name;
    if (name.back() == '?') name.remove_suffix(1);
    check(call.inputs[input].sizes == want, Status::invalid_argument, call.row.name, ": ", name, " must have shape ",
          text_of_dims(want), ", got ", text_of_dims(call.inputs[input].sizes));
}

constexpr int8_t n = 0, t = 1, g = 2, h = 3;
const Labels of_gates{t, n, g}, of_steps{t, n, h}, of_state{n, h}, of_weight{g, h};

void labels(const Sizes& s, Relation& r) {
    r.labels = {{s.n, LabelKind::parallel}, {s.t, LabelKind::whole}, {s.gates, LabelKind::whole},
                {s.h, LabelKind::whole}};
}

// x, w, hx, cx -> y, cy, cells, gates
Sizes forward_of(const Call& call) {
    const Sizes s = sizes_of(call, call.inputs[0].sizes, call.inputs[1].sizes);
    for (size_t k : {2, 3}) check_sizes(call, k, {s.n, s.h});
    return s;
}
void forward_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = forward_of(call);
    const Type steps{call.compute, {s.t, s.n, s.h}, false};
    outputs = {steps, {call.compute, {s.n, s.h}, false}, steps, {call.compute, {s.t, s.n, s.gates}, false}};
}
void forward_relate(const Call& call, std::span<const Type>, Relation& r) {
    labels(forward_of(call), r);
    r.operands = {of_gates, of_weight, of_state, of_state, of_steps, of_state, of_steps, of_gates};
}

// dy?, dcy?, w, cx, cells, gates -> dx, dhx, dcx
Sizes backward_of(const Call& call) {
    const Sizes s = sizes_of(call, call.inputs[5].sizes, call.inputs[2].sizes);
    for (size_t k : {0, 4}) check_sizes(call, k, {s.t, s.n, s.h});
    for (size_t k : {1, 3}) check_sizes(call, k, {s.n, s.h});
    return s;
}
void backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = backward_of(call);
    const Type state{call.compute, {s.n, s.h}, false};
    outputs = {{call.compute, {s.t, s.n, s.gates}, false}, state, state};
}
void backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    labels(backward_of(call), r);
    r.operands = {call.has(0) ? of_steps : Labels{}, call.has(1) ? of_state : Labels{}, of_weight, of_state, of_steps,
                  of_gates, of_gates, of_state, of_state};
}

void params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("reverse").i)};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(recurrent) {
    const AttrRow reverse{"reverse", AttrKind::integer, "0"};
    return {
        {.name = "lstm_sequence",
         .doc = "for each step: i, f, g, o = x + h @ w^T; c = sigmoid(f) * c + sigmoid(i) * tanh(g); "
                "y = h = sigmoid(o) * tanh(c); from the last step on with reverse",
         .rule = Rule::whole, .types = Types::floating, .inputs = {{"x"}, {"w"}, {"hx"}, {"cx"}},
         .outputs = {{"y"}, {"cy"}, {"cells"}, {"gates"}}, .attrs = {reverse}, .shape = forward_shape,
         .relate = forward_relate, .kernel = "lstm_sequence", .kernel_dims = all_dims, .params = params, .flops = 2},
        {.name = "lstm_sequence_backward", .doc = "dx, dhx and dcx of lstm_sequence", .rule = Rule::whole,
         .types = Types::floating, .inputs = {{"dy?"}, {"dcy?"}, {"w"}, {"cx"}, {"cells"}, {"gates"}},
         .outputs = {{"dx"}, {"dhx"}, {"dcx"}}, .attrs = {reverse}, .shape = backward_shape,
         .relate = backward_relate, .kernel = "lstm_sequence_backward", .kernel_dims = all_dims, .params = params,
         .flops = 2},
    };
}
