// SPDX-License-Identifier: BSD-3-Clause
// A call through a row: inputs, results, one node; for a list op one node for each element.
#include <ATen/core/stack.h>

#include "contract/callers_thread.h"
#include "host/fallback.h"
#include "observe/recording.h"
#include "rows/implement.h"
#include "rows/rows.h"

namespace torch_nntile {

using at::Tensor;
using c10::IValue;
using c10::ScalarType;

// Of random numbers the parameters are part of a signature: Meta kernels check them.
Row::Row(RowTable table)
    : t_(std::move(table)), cache_(!t_.has_tensor_argument || t_.generator != no_argument) {
    for (auto& type : learned_) type.store(ScalarType::Undefined, std::memory_order_relaxed);
}

bool Row::infer_and_record(const c10::OperatorHandle& op, const View& view, const Inputs& in,
                           Results& out, MetaCache::Guess& guess) {
    if (!infer_fast(view, in, out)) infer_cached(op, view, in, out, guess);
    if (!numbers_fit(view, in, out)) refuse_as_cpu(op, view.arguments, 1, true);  // or they wrap
    try {
        return check_writes(in, out) && takes_node(view, in, out) && record_node(view, in, out);
    } catch (const c10::OutOfMemoryError&) {
        throw;  // the CPU would only ask for as much again
    } catch (const c10::Error&) {
        // Users know its words; Meta has let this pass.
        if (!guess.made) refuse_as_cpu(op, view.arguments);
        throw;
    }
}

// Whether it is computed in floats of 16 bits: integers are in the default dtype.
static bool is_short(c10::ScalarType common) {
    if (c10::isIntegralType(common, true)) common = c10::get_default_dtype_as_scalartype();
    return c10::isReducedFloatingType(common);
}

bool Row::call_one(const c10::OperatorHandle& op, torch::jit::Stack* stack, Arguments arguments) {
    const View view{*this, arguments};
    Inputs in;
    read_inputs(view, in);
    if (in.foreign) return false;
    check_devices(arguments);
    if ((t_.uniform && !in.uniform) || (t_.wide && is_short(in.common)))
        refuse_as_cpu(op, arguments);
    Results out;
    MetaCache::Guess guess{true};
    try {
        if (!infer_and_record(op, view, in, out, guess)) return false;
    } catch (const c10::OutOfMemoryError&) {
        throw;
    } catch (const c10::Error&) {
        if (!guess.made) throw;
        out.clear();  // what was learned does not hold here
        guess = {false};
        if (!infer_and_record(op, view, in, out, guess)) return false;
    }

    Results returns;
    for (size_t r = 0; r < t_.returns.size(); ++r) {
        if (t_.returns[r] != no_argument) {
            returns.push_back(arguments[t_.returns[r]].toTensor());
            continue;
        }
        for (size_t o = 0; o < out.size(); ++o)
            if (t_.outputs[o].result == static_cast<int>(r)) returns.push_back(std::move(out[o]));
    }
    torch::jit::drop(*stack, arguments.size());
    for (Tensor& t : returns) stack->emplace_back(std::move(t));
    return true;
}

bool Row::call_foreach(const c10::OperatorHandle& op, torch::jit::Stack* stack,
                       Arguments arguments) {
    size_t count = 0;
    for (size_t k = 0; k < arguments.size(); ++k) {
        if (!t_.walked[k] || arguments[k].isNone()) continue;
        const size_t n = arguments[k].toListRef().size();
        TORCH_CHECK(!count || !n || n == count,
                    "Tensor lists must have the same number of tensors, got ", count, " and ", n);
        count = std::max(count, n);
    }
    std::vector<Inputs> inputs(count);
    bool plain = true;
    for (size_t k = 0; k < count; ++k) {
        read_inputs({*this, arguments, static_cast<int64_t>(k)}, inputs[k]);
        const ScalarType type = inputs[k].common;
        plain &= type == ScalarType::Undefined ||
                 (inputs[k].uniform && !inputs[k].doubtful && c10::isFloatingType(type));
        const bool fits =
            type == ScalarType::Undefined || takes(type) || c10::isIntegralType(type, true);
        if (inputs[k].foreign || !fits) return false;
    }
    if (!plain) cache_.ask_cpu(op, arguments);
    // Without new tensors there is nothing to infer: the op checks the shapes of each element
    // itself.
    std::shared_ptr<const Shapes> shapes;
    if (std::find(t_.returns.begin(), t_.returns.end(), no_argument) != t_.returns.end())
        shapes = cache_.shapes(op, arguments);
    std::vector<std::vector<Tensor>> made(t_.returns.size());
    // Autograd leaves the version counters of lists to the kernel; fused optimizers leave them
    // alone.
    const bool bumps = t_.name.starts_with("aten::_foreach_");
    std::vector<Results> outs(count);
    for (size_t k = 0; k < count; ++k) {  // all, before one of them is written
        const View view{*this, arguments, static_cast<int64_t>(k)};
        Results& out = outs[k];
        for (const OutputSource& source : t_.outputs) {
            if (source.argument == no_argument) {
                out.push_back((*shapes)[source.result][k].make());
                made[source.result].push_back(out.back());
            } else {
                const IValue& written = view[source.argument];
                out.push_back(written.isNone() ? Tensor() : written.toTensor());
            }
        }
        if (!check_writes(inputs[k], out) || !takes_node(view, inputs[k], out)) return false;
    }
    for (size_t k = 0; k < count; ++k) {
        const Results& out = outs[k];
        if (record_node({*this, arguments, static_cast<int64_t>(k)}, inputs[k], out)) {
            for (size_t o = 0; o < out.size() && bumps; ++o)
                if (t_.outputs[o].argument != no_argument && !out[o].is_inference())
                    out[o].unsafeGetTensorImpl()->bump_version();
            continue;
        }
        TORCH_CHECK_NOT_IMPLEMENTED(k == 0, "nntile: ", t_.name, " does not take element ", k,
                                    " of its lists");
        return false;
    }
    c10::SmallVector<IValue, 2> returns;
    for (size_t r = 0; r < t_.returns.size(); ++r) {
        const int k = t_.returns[r];
        returns.push_back(k == no_argument ? IValue(std::move(made[r])) : arguments[k]);
    }
    torch::jit::drop(*stack, arguments.size());
    for (IValue& v : returns) stack->push_back(std::move(v));
    return true;
}

void Row::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    run_backward_here();
    Recording recording(t_.name.c_str());
    const auto arguments = torch::jit::last(*stack, t_.walked.size());
    if (!(t_.foreach ? call_foreach(op, stack, arguments) : call_one(op, stack, arguments)))
        fallback_refused(op, stack);
    recording.done();
}

void register_row(const char* aten_name, const char* overload, const char* op,
                  const char* arguments, int flags) {
    RowTable table = parse_row(aten_name, overload, op, arguments, flags);
    const std::string name = table.name;
    implement(name, std::make_unique<Row>(std::move(table)));
}

}  // namespace torch_nntile
