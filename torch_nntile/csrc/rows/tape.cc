// SPDX-License-Identifier: BSD-3-Clause
#include "rows/tape.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <unordered_map>

#include "contract/device.h"
#include "host/fallback.h"

namespace torch_nntile {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using Value = Tape::Value;

bool any_ours(Arguments values) {
    bool found = false;
    for (const IValue& v : values)
        each_tensor(v, [&](const at::Tensor& t) { found |= t.defined() && ours(t); });
    return found;
}

// What goes on while a composition runs: PyTorch tells of each call, and of the calls within it.
class Writer {
public:
    Writer() = default;
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    void begin(const at::RecordFunction& function);
    void end(const at::RecordFunction& function);

    void take(Arguments arguments);
    bool finish(Arguments results, std::vector<Value>& values);

    std::vector<Tape::Call> calls;
    size_t count() const { return known_.size(); }

private:
    bool note(const IValue& v, Value& value);
    int number_of(const at::Tensor& t) const;
    int number(const at::Tensor& t);

    bool follows_ = true;  // from the signature
    int depth_ = 0;
    bool noted_ = false, from_device_ = false;  // of the call that runs
    // Weak: no tensor lives longer because it has a number, and its address is not used again.
    std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> known_;
    std::unordered_map<const c10::TensorImpl*, int> numbers_;
};

int Writer::number_of(const at::Tensor& t) const {
    const auto it = numbers_.find(t.unsafeGetTensorImpl());
    return it == numbers_.end() ? -1 : it->second;
}

int Writer::number(const at::Tensor& t) {
    const auto [it, added] =
        numbers_.try_emplace(t.unsafeGetTensorImpl(), static_cast<int>(count()));
    if (added) known_.emplace_back(t.getIntrusivePtr());
    return it->second;
}

void Writer::take(Arguments arguments) {
    for (const IValue& v : arguments)
        each_tensor(v, [this](const at::Tensor& t) {
            // Undefined ones have a number too: play() counts them.
            if (t.defined())
                numbers_.try_emplace(t.unsafeGetTensorImpl(), static_cast<int>(count()));
            known_.emplace_back(t.getIntrusivePtr());
        });
}

// False if it is made of something unknown. A number that Python has made a tensor of is a
// constant.
bool Writer::note(const IValue& v, Value& value) {
    if (v.isGenerator()) return false;
    if (!v.isTensor() && !v.isTensorList() && !v.isOptionalTensorList()) {
        value.constant = v;
        return !v.isObject() && !v.isPyObject() && !v.isTuple() && !v.isGenericDict();
    }
    if (v.isTensor() &&
        (!v.toTensor().defined() || v.toTensor().unsafeGetTensorImpl()->is_wrapped_number())) {
        value.constant = v;
        return true;
    }
    value.kind = v.isTensor()       ? Value::Kind::tensor
                 : v.isTensorList() ? Value::Kind::list
                                    : Value::Kind::optional_list;
    bool known = true;
    each_tensor(v, [&](const at::Tensor& t) {
        value.tensors.push_back(t.defined() ? number_of(t) : -1);
        known &= !t.defined() || value.tensors.back() >= 0;
    });
    return known;
}

void Writer::begin(const at::RecordFunction& function) {
    ++depth_;
    if (!follows_) return;
    const auto name = function.operator_name();
    const auto op = name ? c10::Dispatcher::singleton().findOp(*name) : std::nullopt;
    if (!op) return;  // a range of a profiler
    const Arguments all = function.inputs();
    const size_t n = op->schema().arguments().size();
    if (all.size() < n) {
        follows_ = false;
        return;
    }
    const Arguments inputs = all.slice(all.size() - n);
    const bool from_device = any_ours(inputs);
    if (from_device &&
        (op->hasTag(at::Tag::data_dependent_output) || op->hasTag(at::Tag::dynamic_output_shape)))
        follows_ = false;
    if (depth_ > 1 || !follows_) return;
    Tape::Call& call = calls.emplace_back(Tape::Call{*op, {}, {}, {}});
    noted_ = true;
    from_device_ = from_device;
    for (const IValue& v : inputs) noted_ &= note(v, call.arguments.emplace_back());
}

void Writer::end(const at::RecordFunction& function) {
    if (--depth_ > 0 || !follows_ || calls.empty()) return;
    const auto name = function.operator_name();
    if (!name || calls.back().op.operator_name() != *name || !calls.back().results.empty()) return;
    Tape::Call& call = calls.back();
    const std::vector<IValue>& outputs = function.outputs();
    const bool raised = outputs.size() != call.op.schema().returns().size();
    const bool on_device = from_device_ || any_ours(outputs);
    if (raised || (on_device && !noted_) ||
        (!on_device && call.op.hasTag(at::Tag::nondeterministic_seeded))) {
        follows_ = false;
        return;
    }
    if (!on_device) {  // what the host computes of constants is a constant
        calls.pop_back();
        return;
    }
    for (const IValue& v : outputs) {
        Value& value = call.results.emplace_back();
        each_tensor(v, [&](const at::Tensor& t) {
            follows_ &= !t.defined() || ours(t);
            value.tensors.push_back(t.defined() ? number(t) : -1);
        });
    }
}

bool Writer::finish(Arguments results, std::vector<Value>& values) {
    for (const IValue& v : results) follows_ = follows_ && note(v, values.emplace_back());
    std::vector<bool> wanted(count());
    const auto want = [&](const Value& v) {
        for (const int t : v.tensors)
            if (t >= 0) wanted[t] = true;
    };
    for (const Value& v : values) want(v);
    for (size_t k = calls.size(); k-- > 0;) {
        const auto ends = [&, this](const Value& v) {
            for (const int t : v.tensors)
                if (t >= 0 && !wanted[t]) calls[k].ends.push_back(t);
            want(v);
        };
        for (const Value& v : calls[k].results) ends(v);
        for (const Value& v : calls[k].arguments) ends(v);
    }
    return follows_;
}

thread_local Writer* writer = nullptr;

// Calls of this thread are told to the writer, from here to the end of the scope.
class Listening {
public:
    explicit Listening(Writer& w)
        : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                                 .needsInputs(true)
                                                 .needsOutputs(true)
                                                 .scopes({at::RecordScope::FUNCTION}))) {
        writer = &w;
    }
    ~Listening() {
        writer = nullptr;
        at::removeCallback(handle_);
    }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

private:
    static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
        writer->begin(function);
        return nullptr;
    }
    static void end(const at::RecordFunction& function, at::ObserverContext*) {
        writer->end(function);
    }
    at::CallbackHandle handle_;
};

IValue made_of(const Value& value, const std::vector<at::Tensor>& tensors) {
    const auto tensor = [&](int t) { return t < 0 ? at::Tensor() : tensors[t]; };
    switch (value.kind) {
        case Value::Kind::constant: return value.constant;
        case Value::Kind::tensor: return tensor(value.tensors[0]);
        case Value::Kind::list: {
            std::vector<at::Tensor> list;
            list.reserve(value.tensors.size());
            for (const int t : value.tensors) list.push_back(tensor(t));
            return list;
        }
        case Value::Kind::optional_list: break;
    }
    c10::List<std::optional<at::Tensor>> list;
    for (const int t : value.tensors)
        list.push_back(t < 0 ? std::nullopt : std::optional(tensors[t]));
    return list;
}

}  // namespace

// Within another tape the call stands on that one. Who has switched callbacks off is not seen.
bool Tape::can_be_written() { return !writer && at::isRecordFunctionEnabled(); }

std::shared_ptr<const Tape> Tape::of(torch::jit::Stack& stack, size_t arguments,
                                     const std::function<void()>& function) {
    Writer w;
    const int64_t on_host = compositions_on_host();
    const size_t below = stack.size() - arguments;
    w.take(torch::jit::last(stack, arguments));
    {
        Listening listening(w);
        function();
    }
    auto tape = std::make_shared<Tape>();
    const Arguments results = Arguments(stack).slice(below);
    if (compositions_on_host() != on_host || !w.finish(results, tape->results_)) return nullptr;
    tape->calls_ = std::move(w.calls);
    tape->tensors_ = w.count();
    return tape;
}

void Tape::play(torch::jit::Stack& stack, size_t arguments) const {
    std::vector<at::Tensor> tensors;
    tensors.reserve(tensors_);
    for (const IValue& v : torch::jit::last(stack, arguments))
        each_tensor(v, [&](const at::Tensor& t) { tensors.push_back(t); });
    tensors.resize(tensors_);
    torch::jit::Stack of_call;
    for (const Call& call : calls_) {
        of_call.clear();
        for (const Value& v : call.arguments) of_call.push_back(made_of(v, tensors));
        call.op.callBoxed(&of_call);
        for (size_t r = 0; r < of_call.size(); ++r) {
            size_t k = 0;
            each_tensor(of_call[r], [&](const at::Tensor& t) {
                if (const int number = call.results[r].tensors[k++]; number >= 0)
                    tensors[number] = t;
            });
        }
        of_call.clear();
        for (const int t : call.ends) tensors[t].reset();
    }
    torch::jit::drop(stack, arguments);
    for (const Value& v : results_) stack.push_back(made_of(v, tensors));
}

}  // namespace torch_nntile
