// SPDX-License-Identifier: BSD-3-Clause
// What is known of calls, by their signatures.
#pragma once

#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "contract/device.h"
#include "shapes/shape.h"

namespace torch_nntile {

// Programs may have ever new signatures: where there are too many it starts anew.
template <class Value, size_t most = 1024>
class BySignature {
public:
    std::optional<Value> find(const Signature& signature) {
        check_not_forked();
        std::shared_lock lock(mutex_);
        const auto it = known_.find(signature);
        return it == known_.end() ? std::nullopt : std::optional(it->second);
    }
    void keep(Signature signature, Value value) {
        std::unique_lock lock(mutex_);
        if (known_.size() >= most) known_.clear();
        known_.insert_or_assign(std::move(signature), std::move(value));
    }

private:
    std::shared_mutex mutex_;
    std::unordered_map<Signature, Value, HashOfSignature> known_;
};

}  // namespace torch_nntile
