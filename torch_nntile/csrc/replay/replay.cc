// SPDX-License-Identifier: BSD-3-Clause
// Replays of recorded graphs (torch_nntile/replay/recording.py): tensors are bound to the slots of
// a capture here, since in Python each costs 2 us. An op is how Python hands over tensors.
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "contract/device.h"
#include "contract/errors.h"
#include "contract/operand.h"
#include "device/rng.h"
#include "device/storage.h"
#include "device/switches.h"
#include "nntile/capture.h"
#include "shapes/shape.h"

namespace torch_nntile {
namespace {

using Ints = c10::IntArrayRef;
using at::Tensor;

// Which part of a storage a tensor is.
struct View {
    Shape shape;
    int64_t offset;

    static View of(const Tensor& t) { return {Shape::of(t), t.storage_offset()}; }
    bool is(const Tensor& t) const {
        return t.scalar_type() == shape.dtype && t.storage_offset() == offset &&
               t.sizes() == Ints(shape.sizes) && t.strides() == Ints(shape.strides);
    }
    Tensor over(const Tensor& base) const {
        auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(base.storage()), device_keys,
                                                         c10::scalarTypeToTypeMeta(shape.dtype));
        impl->set_sizes_and_strides(shape.sizes, shape.strides, offset);
        return Tensor(std::move(impl));
    }
};

nntile_buffer* buffer_of(const Tensor& t) {
    return address_of(*t.storage().unsafeGetStorageImpl()).buffer;
}

// Lists in order: what the recording's tensors stand for.
struct Recorded {
    struct Storage {
        int64_t first;  // the result that is it, where its layout says so
        int64_t nbytes;
    };
    struct Result {
        View view;
        int64_t storage, argument;  // one of them is -1
    };
    struct Leaf {
        Tensor tensor;
        int64_t argument;  // -1: always this tensor
        const Tensor& of(at::TensorList arguments) const {
            return argument < 0 ? tensor : arguments[argument];
        }
    };
    struct Gradient {
        uint32_t slot;
        Leaf leaf;
        at::DimVector strides;
        bool reads;  // more is added to it
    };
    struct Required {
        Tensor leaf;
        int64_t address;
        bool requires_grad, has_gradient;
        bool holds() const {
            return reinterpret_cast<int64_t>(leaf.const_data_ptr()) == address &&
                   leaf.requires_grad() == requires_grad && leaf.grad().defined() == has_gradient;
        }
    };

    nntile_capture* capture;
    int64_t drawn;  // numbers of the generator
    std::vector<View> arguments;
    std::vector<std::pair<int64_t, int64_t>> aliases;  // arguments that are one storage
    std::vector<nntile_capture_binding> bindings;      // a slot each; then, by number:
    std::vector<int64_t> bound_arguments, bound_storages;
    size_t bound_others = 0;  // that the caller binds
    std::vector<Storage> storages;
    std::vector<Result> results;
    std::vector<Gradient> gradients;
    std::vector<Leaf> dropped;       // whose gradients go
    std::vector<Required> required;  // as they were: then it stands for a call
};

struct All {
    std::mutex mutex;
    int64_t last = 0;
    std::unordered_map<int64_t, std::shared_ptr<Recorded>> recorded;
};
All& all() {
    static auto* a = new All;
    return *a;
}

// spec: numbers, as keep() in recording.py lists them.
class Spec {
public:
    explicit Spec(Ints numbers) : numbers_(numbers) {}
    int64_t next() {
        TORCH_CHECK(at_ < numbers_.size(), "nntile::_recording: the specification is too short");
        return numbers_[at_++];
    }
    template <class Each>
    void list(Each&& each) {
        for (int64_t n = next(); n > 0; --n) each();
    }

private:
    Ints numbers_;
    size_t at_ = 0;
};

int64_t keep(Ints spec, at::TensorList arguments, at::TensorList results, at::TensorList leaves,
             at::TensorList gradients, at::TensorList dropped) {
    auto r = std::make_shared<Recorded>();
    Spec s(spec);
    r->capture = reinterpret_cast<nntile_capture*>(s.next());
    r->drawn = s.next();
    for (const Tensor& t : arguments) r->arguments.push_back(View::of(t));
    s.list([&] {
        const int64_t k = s.next();
        r->aliases.emplace_back(k, s.next());
    });
    const auto slot = [&] { r->bindings.push_back({static_cast<uint32_t>(s.next()), nullptr}); };
    s.list([&] {
        slot();
        r->bound_arguments.push_back(s.next());
    });
    s.list([&] {
        slot();
        r->bound_storages.push_back(s.next());
    });
    s.list([&] {
        slot();
        ++r->bound_others;
    });
    s.list([&] {
        const int64_t first = s.next();
        r->storages.push_back({first, s.next()});
    });
    for (const Tensor& t : results) {
        const int64_t storage = s.next();
        r->results.push_back({View::of(t), storage, s.next()});
    }
    const auto leaf = [&](const Tensor& t) {
        const int64_t argument = s.next();
        return Recorded::Leaf{argument < 0 ? t : Tensor(), argument};
    };
    for (size_t k = 0; k < leaves.size(); ++k) {
        const auto at = static_cast<uint32_t>(s.next());
        const bool reads = s.next() != 0;
        r->gradients.push_back({at, leaf(leaves[k]), at::DimVector(gradients[k].strides()), reads});
    }
    for (const Tensor& t : dropped) r->dropped.push_back(leaf(t));
    All& a = all();
    std::lock_guard lock(a.mutex);
    a.recorded.emplace(++a.last, std::move(r));
    return a.last;
}

// state: for each leaf whether it requires a gradient, and has one
void require(int64_t number, at::TensorList leaves, Ints state) {
    std::lock_guard lock(all().mutex);
    auto& required = all().recorded.at(number)->required;
    required.clear();
    for (size_t k = 0; k < leaves.size(); ++k)
        required.push_back({leaves[k], reinterpret_cast<int64_t>(leaves[k].const_data_ptr()),
                            state[2 * k] != 0, state[2 * k + 1] != 0});
}

void forget(int64_t number) {
    std::shared_ptr<const Recorded> ended;  // its tensors end behind the lock
    std::lock_guard lock(all().mutex);
    if (const auto it = all().recorded.find(number); it != all().recorded.end()) {
        ended = std::move(it->second);
        all().recorded.erase(it);
    }
}

std::shared_ptr<const Recorded> find(int64_t number) {
    std::lock_guard lock(all().mutex);
    const auto it = all().recorded.find(number);
    return it == all().recorded.end() ? nullptr : it->second;
}

bool fits(const Recorded& r, at::TensorList arguments) {
    if (arguments.size() != r.arguments.size()) return false;
    for (size_t k = 0; k < arguments.size(); ++k)
        if (!ours(arguments[k]) || !r.arguments[k].is(arguments[k])) return false;
    for (const auto& [k, first] : r.aliases)
        if (buffer_of(arguments[k]) != buffer_of(arguments[first])) return false;
    return std::all_of(r.required.begin(), r.required.end(),
                       [](const Recorded::Required& leaf) { return leaf.holds(); });
}

// False if data that was recorded is gone, or a gradient; nothing has changed then.
bool replay_one(const Recorded& r, at::TensorList arguments, at::TensorList others, Ints numbers,
                c10::ArrayRef<double> values, std::vector<Tensor>& results) {
    std::vector<nntile_capture_binding> bindings = r.bindings;
    auto next = bindings.begin();
    for (const int64_t k : r.bound_arguments) (next++)->buffer = buffer_of(arguments[k]);
    std::vector<Tensor> bases;
    for (const auto& [first, nbytes] : r.storages) {
        const auto& [shape, offset] = r.results[first].view;
        Tensor base = make_tensor(shape.sizes, shape.strides, shape.dtype);
        if (offset || static_cast<int64_t>(base.storage().nbytes()) != nbytes)
            base = make_tensor({nbytes}, {1}, at::kByte);
        bases.push_back(std::move(base));
    }
    for (const int64_t k : r.bound_storages) (next++)->buffer = buffer_of(bases[k]);
    TORCH_CHECK(others.size() == r.bound_others, "nntile::_replay: ", r.bound_others,
                " tensors are to be bound, got ", others.size());
    for (const Tensor& t : others) (next++)->buffer = buffer_of(t);
    std::vector<std::pair<Tensor, Tensor>> made;  // gradients, by leaf
    for (const Recorded::Gradient& g : r.gradients) {
        const Tensor& leaf = g.leaf.of(arguments);
        Tensor now = leaf.grad();
        if (!now.defined() || now.strides() != Ints(g.strides)) {
            if (g.reads) return false;
            now = make_tensor(leaf.sizes(), g.strides, leaf.scalar_type());
            made.emplace_back(leaf, now);
        }
        bindings.push_back({g.slot, buffer_of(now)});
    }
    std::vector<nntile_capture_number> live;
    for (size_t k = 0; k < numbers.size(); ++k)
        live.push_back({static_cast<uint32_t>(numbers[k]), values[k]});
    const Draw state = default_state();
    follow_switches();
    nntile_error* error = nullptr;
    const nntile_status status = nntile_capture_replay(
        r.capture, bindings.data(), bindings.size(), live.data(), live.size(),
        static_cast<int64_t>(state.seed), static_cast<int64_t>(state.offset), &error);
    if (status == NNTILE_NOT_FOUND) {
        nntile_error_destroy(error);
        return false;
    }
    if (status != NNTILE_OK) raise(status, error);
    if (r.drawn) set_default_state({state.seed, state.offset + static_cast<uint64_t>(r.drawn)});
    for (auto& [leaf, gradient] : made) leaf.mutable_grad() = gradient;
    for (const Recorded::Leaf& leaf : r.dropped) leaf.of(arguments).mutable_grad().reset();
    for (size_t k = 0; k < r.results.size(); ++k) {
        const auto& [view, storage, argument] = r.results[k];
        const Tensor& base = argument < 0 ? bases[storage] : arguments[argument];
        const bool itself = argument >= 0 || r.storages[storage].first == static_cast<int64_t>(k);
        results.push_back(itself && view.is(base) ? base : view.over(base));
    }
    return true;
}

// The first recording that was made of such arguments is replayed. Its place in the list, and what
// it returns; -1: none can be.
std::tuple<int64_t, std::vector<Tensor>> replay(Ints recordings, at::TensorList arguments,
                                                at::TensorList others, Ints numbers,
                                                c10::ArrayRef<double> values) {
    check_not_forked();
    for (size_t k = 0; k < recordings.size(); ++k) {
        const auto r = find(recordings[k]);
        std::vector<Tensor> results;
        if (r && fits(*r, arguments) && replay_one(*r, arguments, others, numbers, values, results))
            return {static_cast<int64_t>(k), std::move(results)};
    }
    return {-1, {}};
}

}  // namespace

// No kernel for a device: they do the same wherever their tensors are.
TORCH_LIBRARY_FRAGMENT(nntile, m) {
    m.def(
        "_recording(int[] spec, Tensor[] arguments, Tensor[] results, Tensor[] leaves, "
        "Tensor[] gradients, Tensor[] dropped) -> int",
        &keep);
    m.def("_require(int recording, Tensor[] leaves, int[] state) -> ()", &require);
    m.def("_forget(int recording) -> ()", &forget);
    m.def(
        "_replay(int[] recordings, Tensor[] arguments, Tensor[] others, int[] numbers, "
        "float[] values) -> (int, Tensor[])",
        &replay);
}

}  // namespace torch_nntile
