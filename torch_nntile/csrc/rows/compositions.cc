// SPDX-License-Identifier: BSD-3-Clause
#include "rows/compositions.h"

#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <bit>
#include <optional>
#include <string>

#include "contract/device.h"
#include "contract/errors.h"
#include "contract/operand.h"
#include "host/fallback.h"
#include "rows/implement.h"
#include "rows/tape.h"
#include "shapes/by_signature.h"

namespace torch_nntile {
namespace {

// The calls of a composition belong together: the recorder ends no graph among them.
class Composing {
public:
    Composing() { call(nntile_record_compose, record(), 1); }
    ~Composing() { (void)nntile_record_compose(record(), 0, nullptr); }
    Composing(const Composing&) = delete;
    Composing& operator=(const Composing&) = delete;
};

// All that a composition can ask of its arguments but their data; false: it can ask for more, since
// one is a generator, or a tensor of the host, whose numbers are there to be read.
bool sign(Arguments arguments, Signature& signature) {
    signature = signature_of(arguments, true);
    c10::SmallVector<const c10::TensorImpl*, 8> seen;
    bool all_ours = true;
    for (const c10::IValue& v : arguments) {
        if (v.isGenerator() || (v.isDevice() && v.toDevice().type() != device_type)) return false;
        each_tensor(v, [&](const at::Tensor& t) {
            if (!t.defined()) return;
            const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
            if (impl->is_wrapped_number() && !t.is_complex()) {
                const Number number = number_of(t);
                signature.append({std::bit_cast<int64_t>(number.f), number.i});
                return;
            }
            if (!ours(t) || t.layout() != c10::kStrided) {
                all_ours = false;
                return;
            }
            // Arguments that share a storage may be the same, or written through each other.
            int64_t same = 0;
            for (size_t k = 0; k < seen.size(); ++k)
                if (seen[k]->unsafe_storage().unsafeGetStorageImpl() ==
                    impl->unsafe_storage().unsafeGetStorageImpl())
                    same = static_cast<int64_t>(2 * k) + 1 + (seen[k] == impl);
            seen.push_back(impl);
            signature.append({same, impl->storage_offset(), int64_t{t.requires_grad()},
                              static_cast<int64_t>(impl->unsafe_storage().nbytes())});
        });
    }
    return all_ours;
}

class Composition final : public c10::OperatorKernel {
public:
    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
        check_not_forked();
        const size_t n = op.schema().arguments().size();
        const Composing composing;
        const auto python = [&] {
            check_devices(op, torch::jit::last(*stack, n));
            op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse3), stack);
        };
        Signature signature;
        // A mode of the user's sees the composition's calls.
        if (c10::impl::TorchDispatchModeTLS::stack_len() > 0 ||
            !sign(torch::jit::last(*stack, n), signature))
            return python();
        const std::optional<Seen> seen = seen_.find(signature);
        if (seen && seen->tape) return seen->tape->play(*stack, n);
        // Numbers that are others at each call are worth no tape: it takes a second call.
        if (!seen) seen_.keep(signature, {});
        if (!seen || seen->written || !Tape::can_be_written()) return python();
        seen_.keep(signature, {true, Tape::of(*stack, n, python)});
    }

private:
    struct Seen {
        bool written = false;
        std::shared_ptr<const Tape> tape;  // nullptr after it was written: there can be none
    };
    BySignature<Seen> seen_;
};

}  // namespace

void register_composition(const char* aten_name, const char* overload, bool on_host) {
    const std::string name = *overload ? std::string(aten_name) + "." + overload : aten_name;
    implement(name, std::make_unique<Composition>());
    if (on_host) register_composition_on_host(name.c_str());
}

}  // namespace torch_nntile
