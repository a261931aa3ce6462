// SPDX-License-Identifier: BSD-3-Clause
// Attention without scores in memory, and its gradients. Kernel dims: heads.., queries, keys, size,
// value size; heads and queries are parallel, in the gradient only heads. `order` is for the
// recorder: dims of the results in the order in which they are stored, one list after the other.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

// Sizes of the operands of the forward, and where its labels begin.
struct Sizes {
    Dims heads;
    int64_t queries, keys, size, value_size;
    size_t n;  // number of heads' dims, and label of the queries

    Dims with(std::initializer_list<int64_t> last) const {
        Dims sizes(heads);
        for (int64_t s : last) sizes.push_back(s);
        return sizes;
    }
    Labels labels(std::initializer_list<int> last) const {
        Labels l = iota_labels(n);
        for (int k : last) l.push_back(static_cast<int8_t>(n + static_cast<size_t>(k)));
        return l;
    }
};
enum { queries_label, keys_label, size_label, value_size_label };

void check_size(const Call& call, size_t input, const Dims& want) {
    check(call.inputs[input].sizes == want, Status::invalid_argument, call.row.name, ": ",
          call.row.inputs[input].name, " must have shape ", text_of_dims(want), ", got ",
          text_of_dims(call.inputs[input].sizes));
}

// `at`: the input q; k, v and mask? follow.
Sizes sizes_of(const Call& call, size_t at) {
    const Dims &q = call.inputs[at].sizes, &k = call.inputs[at + 1].sizes,
               &v = call.inputs[at + 2].sizes;
    const size_t rank = q.size();
    check(rank >= 2 && k.size() == rank && v.size() == rank, Status::invalid_argument,
          call.row.name, ": q ", text_of_dims(q), ", k ", text_of_dims(k), " and v ",
          text_of_dims(v), " must have the same number of dims, at least 2");
    if (rank > 2) {  // PyTorch's kernel for the CPU takes fewer heads of keys
        const int64_t heads = q[rank - 3], groups = k[rank - 3];
        check(groups == heads || groups == 0 || heads % groups != 0, Status::unsupported,
              call.row.name, ": q ", text_of_dims(q), " has more heads than k ", text_of_dims(k),
              "; repeat those");
    }
    Sizes s{
        Dims(q.begin(), q.end() - 2), q[rank - 2], k[rank - 2], q[rank - 1], v[rank - 1], rank - 2};
    check_size(call, at + 1, s.with({s.keys, s.size}));
    check_size(call, at + 2, s.with({s.keys, s.value_size}));
    if (!call.has(at + 3)) return s;
    const Dims &mask = call.inputs[at + 3].sizes, scores = s.with({s.queries, s.keys});
    bool fits = mask.size() <= rank;
    for (size_t d = 0; fits && d < mask.size(); ++d)
        fits = mask[d] == 1 || mask[d] == scores[rank - mask.size() + d];
    check(fits, Status::invalid_argument, call.row.name, ": mask ", text_of_dims(mask),
          " does not broadcast to ", text_of_dims(scores));
    check(is_floating(call.inputs[at + 3].dtype) || call.inputs[at + 3].dtype == DType::boolean,
          Status::type_error, call.row.name, ": mask must be bool or floating, got ",
          name_of(call.inputs[at + 3].dtype));
    return s;
}

// The dims of result `at`, whose order starts behind those of the results before it.
template <class List>
List ordered(const Call& call, const List& dims, size_t& at) {
    const Dims& order = call.attr("order").ints;
    if (order.empty()) return dims;
    List out;
    std::vector<bool> seen(dims.size());
    bool ok = order.size() >= at + dims.size();
    for (size_t d = 0; ok && d < dims.size(); ++d) {
        const int64_t from = order[at + d];
        ok = from >= 0 && from < static_cast<int64_t>(dims.size()) && !seen[from];
        if (!ok) break;
        seen[from] = true;
        out.push_back(dims[from]);
    }
    check(ok, Status::invalid_argument, call.row.name, ": order ", text_of_dims(order),
          " has no permutation of ", dims.size(), " dims at ", at);
    at += dims.size();
    return out;
}

Dims logs_of(const Sizes& s) { return s.with({s.queries}); }
DType type_of_logs(DType compute) { return compute == DType::f64 ? compute : DType::f32; }

void forward_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = sizes_of(call, 0);
    check(call.attr("dropout_p").f == 0, Status::invalid_argument, call.row.name,
          ": dropout_p must be 0, got ", call.attr("dropout_p").f);
    size_t at = 0;
    outputs.push_back({call.compute, ordered(call, s.with({s.queries, s.value_size}), at), false});
    outputs.push_back({type_of_logs(call.compute), ordered(call, logs_of(s), at), false});
}

// A point of the scores takes so many products with rows of q or k, or of v or y, and an
// exponential, whose flops are slower than those of a product.
void add_labels(const Sizes& s, LabelKind queries, double products, Relation& r) {
    constexpr double exponential = 48;
    const auto size = static_cast<double>(s.size), value_size = static_cast<double>(s.value_size);
    r.flops = (products * (size + value_size) + exponential) / (size * value_size);
    parallel_labels(s.heads, r);
    r.labels.push_back({s.queries, queries});
    for (int64_t extent : {s.keys, s.size, s.value_size})
        r.labels.push_back({extent, LabelKind::whole});
}
Labels mask_labels(const Call& call, const Sizes& s, size_t input) {
    return call.has(input) ? broadcast_labels(call.inputs[input].sizes, s.with({s.queries, s.keys}))
                           : Labels{};
}

void forward_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Sizes s = sizes_of(call, 0);
    add_labels(s, LabelKind::parallel, 2, r);
    size_t at = 0;
    r.operands = {s.labels({queries_label, size_label}), s.labels({keys_label, size_label}),
                  s.labels({keys_label, value_size_label}), mask_labels(call, s, 3)};
    r.operands.push_back(ordered(call, s.labels({queries_label, value_size_label}), at));
    r.operands.push_back(ordered(call, s.labels({queries_label}), at));
}

void params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("is_causal").i), attr_param(call.row, "scale")};
}

// dy, q, k, v, mask?, y, logsumexp -> dq, dk, dv
void backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Sizes s = sizes_of(call, 1);
    for (size_t input : {0, 5}) check_size(call, input, s.with({s.queries, s.value_size}));
    check_size(call, 6, logs_of(s));
    check(is_floating(call.inputs[6].dtype), Status::type_error, call.row.name,
          ": logsumexp must be floating, got ", name_of(call.inputs[6].dtype));
    size_t at = 0;
    for (size_t input : {1, 2, 3})
        outputs.push_back({call.compute, ordered(call, call.inputs[input].sizes, at), false});
}

void backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Sizes s = sizes_of(call, 1);
    add_labels(s, LabelKind::whole, 5, r);
    const Labels q = s.labels({queries_label, size_label}), k = s.labels({keys_label, size_label}),
                 v = s.labels({keys_label, value_size_label}),
                 y = s.labels({queries_label, value_size_label});
    r.operands = {y, q, k, v, mask_labels(call, s, 4), y, s.labels({queries_label})};
    size_t at = 0;
    for (const Labels* labels : {&q, &k, &v}) r.operands.push_back(ordered(call, *labels, at));
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(attention) {
    const AttrRow causal{"is_causal", AttrKind::integer, "0"},
        scale{"scale", AttrKind::real, "nan"}, dropout{"dropout_p", AttrKind::real, "0"},
        order{"order", AttrKind::integers, ""};
    return {
        {.name = "attention",
         .doc =
             "y = softmax(scale * q @ k^T + mask) @ v; a mask of bools is -inf where it is False; "
             "scale nan: 1 / sqrt(size of q)",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"q"}, {"k"}, {"v"}, {"mask?", "any"}},
         .outputs = {{"y"}, {"logsumexp", "any"}},
         .attrs = {causal, scale, dropout, order},
         .shape = forward_shape,
         .relate = forward_relate,
         .kernel = "attention",
         .kernel_dims = 4,
         .params = params},
        {.name = "attention_backward",
         .doc = "gradients of attention: of q, k and v from those of y; the scores are made again "
                "from logsumexp",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy"}, {"q"}, {"k"}, {"v"}, {"mask?", "any"}, {"y"}, {"logsumexp", "any"}},
         .outputs = {{"dq"}, {"dk"}, {"dv"}},
         .attrs = {causal, scale, order},
         .shape = backward_shape,
         .relate = backward_relate,
         .kernel = "attention_backward",
         .kernel_dims = 4,
         .params = params},
    };
}
