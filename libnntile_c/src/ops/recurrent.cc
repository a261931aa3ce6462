// SPDX-License-Identifier: BSD-3-Clause
// The part of an LSTM, GRU or plain layer that goes from step to step, for all steps at once: a
// task for each part of the batch. Products with the inputs, and gradients of weights, are products
// of all steps and no part of it. Kernel dims: n, t, gates, h, and of a GRU what it keeps (4 h).
// Gates are in PyTorch's order: i, f, g, o; r, z, n.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

// (t, n, gates) of what the gates get from the inputs, (gates, h) of the weight; so many gates are
// h.
struct Sizes {
    int64_t t, n, gates, h;
};
Sizes sizes_of(const Call& call, const Dims& x, const Dims& w, int64_t gates = 4) {
    check(x.size() == 3 && w.size() == 2 && x[2] == w[0] && w[0] == gates * w[1],
          Status::invalid_argument, call.row.name, ": gates (t, n, ", gates, " h) and a weight (",
          gates, " h, h) are expected, got ", text_of_dims(x), " and ", text_of_dims(w));
    check(product(x) > 0, Status::unsupported, call.row.name,
          ": a sequence without elements has no kernel");
    return {x[0], x[1], x[2], w[1]};
}
void check_sizes(const Call& call, size_t input, const Dims& want) {
    if (!call.has(input)) return;
    std::string_view name = call.row.inputs[input].name;
    if (name.back() == '?') name.remove_suffix(1);
    check(call.inputs[input].sizes == want, Status::invalid_argument, call.row.name, ": ", name,
          " must have shape ", text_of_dims(want), ", got ",
          text_of_dims(call.inputs[input].sizes));
}

constexpr int8_t n = 0, t = 1, g = 2, h = 3, k = 4;
const Labels of_gates{t, n, g}, of_steps{t, n, h}, of_state{n, h}, of_weight{g, h},
    of_kept{t, n, k};

void labels(const Sizes& s, Relation& r) {
    r.labels = {{s.n, LabelKind::parallel},
                {s.t, LabelKind::whole},
                {s.gates, LabelKind::whole},
                {s.h, LabelKind::whole}};
}

// x, w, hx, cx -> y, cy, cells, gates
Sizes forward_of(const Call& call) {
    const Sizes s = sizes_of(call, call.inputs[0].sizes, call.inputs[1].sizes);
    for (size_t input : {2, 3}) check_sizes(call, input, {s.n, s.h});
    return s;
}
void forward_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = forward_of(call);
    const Type steps{call.compute, {s.t, s.n, s.h}, false};
    outputs = {steps,
               {call.compute, {s.n, s.h}, false},
               steps,
               {call.compute, {s.t, s.n, s.gates}, false}};
}
void forward_relate(const Call& call, std::span<const Type>, Relation& r) {
    labels(forward_of(call), r);
    r.operands = {of_gates, of_weight, of_state, of_state, of_steps, of_state, of_steps, of_gates};
}

// dy?, dcy?, w, cx, cells, gates -> dx, dhx, dcx
Sizes backward_of(const Call& call) {
    const Sizes s = sizes_of(call, call.inputs[5].sizes, call.inputs[2].sizes);
    for (size_t input : {0, 4}) check_sizes(call, input, {s.t, s.n, s.h});
    for (size_t input : {1, 3}) check_sizes(call, input, {s.n, s.h});
    return s;
}
void backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = backward_of(call);
    const Type state{call.compute, {s.n, s.h}, false};
    outputs = {{call.compute, {s.t, s.n, s.gates}, false}, state, state};
}
void backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    labels(backward_of(call), r);
    r.operands = {call.has(0) ? of_steps : Labels{},
                  call.has(1) ? of_state : Labels{},
                  of_weight,
                  of_state,
                  of_steps,
                  of_gates,
                  of_gates,
                  of_state,
                  of_state};
}

void params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("reverse").i)};
}

// ---- GRU: x, w, bias?, hx -> y, kept
constexpr int64_t gru_gates = 3, gru_kept = 4;

void gru_labels(const Sizes& s, Relation& r) {
    labels(s, r);
    r.labels.push_back({gru_kept * s.h, LabelKind::whole});
    r.flops = 2 / static_cast<double>(gru_kept * s.h);
}
void gru_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = sizes_of(call, call.inputs[0].sizes, call.inputs[1].sizes, gru_gates);
    check_sizes(call, 2, {s.gates});
    check_sizes(call, 3, {s.n, s.h});
    outputs = {{call.compute, {s.t, s.n, s.h}, false},
               {call.compute, {s.t, s.n, gru_kept * s.h}, false}};
}
void gru_relate(const Call& call, std::span<const Type>, Relation& r) {
    gru_labels(sizes_of(call, call.inputs[0].sizes, call.inputs[1].sizes, gru_gates), r);
    r.operands = {of_gates, of_weight, call.has(2) ? Labels{g} : Labels{},
                  of_state, of_steps,  of_kept};
}

// dy, w, hx, y, kept -> dx, dadded, dhx
Sizes gru_backward_of(const Call& call) {
    const Dims &y = call.inputs[3].sizes, &w = call.inputs[1].sizes;
    check(y.size() == 3 && w.size() == 2, Status::invalid_argument, call.row.name,
          ": y (t, n, h) and a weight (3 h, h) are expected, got ", text_of_dims(y), " and ",
          text_of_dims(w));
    const Sizes s = sizes_of(call, {y[0], y[1], w[0]}, w, gru_gates);
    for (size_t input : {0, 3}) check_sizes(call, input, {s.t, s.n, s.h});
    check_sizes(call, 2, {s.n, s.h});
    check_sizes(call, 4, {s.t, s.n, gru_kept * s.h});
    return s;
}
void gru_backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = gru_backward_of(call);
    const Type gates{call.compute, {s.t, s.n, s.gates}, false};
    outputs = {gates, gates, {call.compute, {s.n, s.h}, false}};
}
void gru_backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    gru_labels(gru_backward_of(call), r);
    r.operands = {of_steps, of_weight, of_state, of_steps, of_kept, of_gates, of_gates, of_state};
}

// ---- plain: x, w, hx -> y
void rnn_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = sizes_of(call, call.inputs[0].sizes, call.inputs[1].sizes, 1);
    check_sizes(call, 2, {s.n, s.h});
    outputs.push_back({call.compute, {s.t, s.n, s.h}, false});
}
void rnn_relate(const Call& call, std::span<const Type>, Relation& r) {
    labels(sizes_of(call, call.inputs[0].sizes, call.inputs[1].sizes, 1), r);
    r.operands = {of_gates, of_weight, of_state, of_steps};
}

// dy, w, y -> dx, dhx
Sizes rnn_backward_of(const Call& call) {
    const Sizes s = sizes_of(call, call.inputs[2].sizes, call.inputs[1].sizes, 1);
    check_sizes(call, 0, {s.t, s.n, s.h});
    return s;
}
void rnn_backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = rnn_backward_of(call);
    outputs = {{call.compute, {s.t, s.n, s.h}, false}, {call.compute, {s.n, s.h}, false}};
}
void rnn_backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    labels(rnn_backward_of(call), r);
    r.operands = {of_steps, of_weight, of_steps, of_gates, of_state};
}
void rnn_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("reverse").i), fixed_param(call.attr("nonlinearity").i)};
}

// ---- one step of a cell, without its products: x, added, cx, x_bias?, added_bias? -> hy, cy,
// gates
namespace cell {

constexpr int8_t n = 0, g = 1, h = 2, k = 3;
constexpr int64_t kept = 5;       // of a GRU: r, z, n, what the state added to n, hx
constexpr double functions = 30;  // of a gate, in flops
const Labels of_gates{n, g}, of_state{n, h}, of_kept{n, k}, of_bias{g};

void labels(const Dims& state, int64_t gates, Relation& r) {
    r.labels = {{state[0], LabelKind::parallel},
                {gates * state[1], LabelKind::whole},
                {state[1], LabelKind::whole}};
    if (gates == gru_gates) r.labels.push_back({kept * state[1], LabelKind::whole});
    const auto extent = static_cast<double>(std::max<int64_t>(state[1], 1));
    r.flops = functions / (gates == gru_gates ? kept * extent * extent : extent);
}
// The sizes (n, h) of the state.
Dims forward_of(const Call& call, int64_t gates) {
    const Dims& state = call.inputs[2].sizes;
    check(state.size() == 2, Status::invalid_argument, call.row.name, ": ", call.row.inputs[2].name,
          " must have shape (n, h), got ", text_of_dims(state));
    for (size_t input : {0, 1}) check_sizes(call, input, {state[0], gates * state[1]});
    for (size_t input : {3, 4}) check_sizes(call, input, {gates * state[1]});
    return state;
}
template <int64_t gates>
void shape(const Call& call, std::vector<Type>& outputs) {
    const Dims state = forward_of(call, gates);
    outputs = {{call.compute, state, false}};
    if (gates == gru_gates) outputs.push_back({call.compute, {state[0], kept * state[1]}, false});
    else {
        outputs.push_back(outputs[0]);
        outputs.push_back({call.compute, {state[0], gates * state[1]}, false});
    }
}
template <int64_t gates>
void relate(const Call& call, std::span<const Type>, Relation& r) {
    labels(forward_of(call, gates), gates, r);
    r.operands = {of_gates, of_gates, of_state};
    for (size_t input : {3, 4}) r.operands.push_back(call.has(input) ? of_bias : Labels{});
    r.operands.push_back(of_state);
    if (gates == gru_gates) r.operands.push_back(of_kept);
    else
        for (const Labels& l : {of_state, of_gates}) r.operands.push_back(l);
}

// dhy?, dcy?, cx, cy, gates -> dgates, dcx
Dims lstm_backward_of(const Call& call) {
    const Dims& state = call.inputs[2].sizes;
    check(state.size() == 2, Status::invalid_argument, call.row.name,
          ": cx must have shape (n, h), got ", text_of_dims(state));
    for (size_t input : {0, 1, 3}) check_sizes(call, input, state);
    check_sizes(call, 4, {state[0], 4 * state[1]});
    return state;
}
void lstm_backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims state = lstm_backward_of(call);
    outputs = {{call.compute, {state[0], 4 * state[1]}, false}, {call.compute, state, false}};
}
void lstm_backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    labels(lstm_backward_of(call), 4, r);
    r.operands = {call.has(0) ? of_state : Labels{},
                  call.has(1) ? of_state : Labels{},
                  of_state,
                  of_state,
                  of_gates,
                  of_gates,
                  of_state};
}

// dhy, kept -> dx, dadded, dhx
Dims gru_backward_of(const Call& call) {
    const Dims& state = call.inputs[0].sizes;
    check(state.size() == 2, Status::invalid_argument, call.row.name,
          ": dhy must have shape (n, h), got ", text_of_dims(state));
    check_sizes(call, 1, {state[0], kept * state[1]});
    return state;
}
void gru_backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims state = gru_backward_of(call);
    const Type gates{call.compute, {state[0], gru_gates * state[1]}, false};
    outputs = {gates, gates, {call.compute, state, false}};
}
void gru_backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    labels(gru_backward_of(call), gru_gates, r);
    r.operands = {of_state, of_kept, of_gates, of_gates, of_state};
}

}  // namespace cell

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(recurrent) {
    const AttrRow reverse{"reverse", AttrKind::integer, "0"},
        nonlinearity{"nonlinearity", AttrKind::text, "tanh", "tanh|relu"};
    return {
        {.name = "lstm_cell",
         .doc = "i, f, g, o = x + x_bias + added + added_bias; cy = sigmoid(f) * cx + sigmoid(i) * "
                "tanh(g); "
                "hy = sigmoid(o) * tanh(cy); gates: what the functions gave",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}, {"added"}, {"cx"}, {"x_bias?"}, {"added_bias?"}},
         .outputs = {{"hy"}, {"cy"}, {"gates"}},
         .shape = cell::shape<4>,
         .relate = cell::relate<4>,
         .kernel = "lstm_cell",
         .kernel_dims = all_dims},
        {.name = "lstm_cell_backward",
         .doc = "dgates and dcx of lstm_cell",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dhy?"}, {"dcy?"}, {"cx"}, {"cy"}, {"gates"}},
         .outputs = {{"dgates"}, {"dcx"}},
         .shape = cell::lstm_backward_shape,
         .relate = cell::lstm_backward_relate,
         .kernel = "lstm_cell_backward",
         .kernel_dims = all_dims},
        {.name = "gru_cell",
         .doc = "r, z = sigmoid(x + x_bias + added + added_bias), n = tanh(x + x_bias + r * (added "
                "+ added_bias)), "
                "hy = n + z * (hx - n); kept: r, z, n, what the state added to n, hx",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}, {"added"}, {"hx"}, {"x_bias?"}, {"added_bias?"}},
         .outputs = {{"hy"}, {"kept"}},
         .shape = cell::shape<gru_gates>,
         .relate = cell::relate<gru_gates>,
         .kernel = "gru_cell",
         .kernel_dims = all_dims},
        {.name = "gru_cell_backward",
         .doc = "dx, dadded and dhx of gru_cell",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dhy"}, {"kept"}},
         .outputs = {{"dx"}, {"dadded"}, {"dhx"}},
         .shape = cell::gru_backward_shape,
         .relate = cell::gru_backward_relate,
         .kernel = "gru_cell_backward",
         .kernel_dims = all_dims},
        {.name = "lstm_sequence",
         .doc =
             "for each step: i, f, g, o = x + h @ w^T; c = sigmoid(f) * c + sigmoid(i) * tanh(g); "
             "y = h = sigmoid(o) * tanh(c); from the last step on with reverse",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}, {"w"}, {"hx"}, {"cx"}},
         .outputs = {{"y"}, {"cy"}, {"cells"}, {"gates"}},
         .attrs = {reverse},
         .shape = forward_shape,
         .relate = forward_relate,
         .kernel = "lstm_sequence",
         .kernel_dims = all_dims,
         .params = params,
         .flops = 2},
        {.name = "lstm_sequence_backward",
         .doc = "dx, dhx and dcx of lstm_sequence",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy?"}, {"dcy?"}, {"w"}, {"cx"}, {"cells"}, {"gates"}},
         .outputs = {{"dx"}, {"dhx"}, {"dcx"}},
         .attrs = {reverse},
         .shape = backward_shape,
         .relate = backward_relate,
         .kernel = "lstm_sequence_backward",
         .kernel_dims = all_dims,
         .params = params,
         .flops = 2},
        {.name = "gru_sequence",
         .doc = "for each step: r, z = sigmoid(x + h @ w^T + bias), n = tanh(x + r * (h @ w^T + "
                "bias)), "
                "y = h = n + z * (h - n); from the last step on with reverse",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}, {"w"}, {"bias?"}, {"hx"}},
         .outputs = {{"y"}, {"kept"}},
         .attrs = {reverse},
         .shape = gru_shape,
         .relate = gru_relate,
         .kernel = "gru_sequence",
         .kernel_dims = all_dims,
         .params = params},
        {.name = "gru_sequence_backward",
         .doc = "dx and dhx of gru_sequence, and dadded, of h @ w^T + bias",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy"}, {"w"}, {"hx"}, {"y"}, {"kept"}},
         .outputs = {{"dx"}, {"dadded"}, {"dhx"}},
         .attrs = {reverse},
         .shape = gru_backward_shape,
         .relate = gru_backward_relate,
         .kernel = "gru_sequence_backward",
         .kernel_dims = all_dims,
         .params = params},
        {.name = "rnn_sequence",
         .doc = "for each step: y = h = tanh(x + h @ w^T), or relu; from the last step on with "
                "reverse",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}, {"w"}, {"hx"}},
         .outputs = {{"y"}},
         .attrs = {reverse, nonlinearity},
         .shape = rnn_shape,
         .relate = rnn_relate,
         .kernel = "rnn_sequence",
         .kernel_dims = all_dims,
         .params = rnn_params,
         .flops = 2},
        {.name = "rnn_sequence_backward",
         .doc = "dx and dhx of rnn_sequence",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy"}, {"w"}, {"y"}},
         .outputs = {{"dx"}, {"dhx"}},
         .attrs = {reverse, nonlinearity},
         .shape = rnn_backward_shape,
         .relate = rnn_backward_relate,
         .kernel = "rnn_sequence_backward",
         .kernel_dims = all_dims,
         .params = rnn_params,
         .flops = 2},
    };
}
