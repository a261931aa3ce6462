// SPDX-License-Identifier: BSD-3-Clause
// Shapes of results by example. Programs with ever new sequence lengths call the same few ops on
// ever new sizes, and a Meta kernel in Python costs 20 to 800 us a call. Whatever the op: if each
// dim of its results was a dim of an argument, or constant, in every call so far, it will be so in
// the next one that looks the same.
//
// "Looks the same": equal call_state(), dtypes, ranks, integers and texts, all tensors dense, and
// all dims that have always been equal, or constant, still are; so a call that breaks a rule about
// shapes goes to the Meta kernel, which knows the words of the error. Who takes the answer must
// check it: the core does, as it checks all calls.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shapes/shape.h"

namespace torch_nntile {

class LearnedShapes {
public:
    // nullopt: ask the Meta kernel, and teach() what it says.
    std::optional<Shapes> guess(const c10::OperatorHandle& op, Arguments arguments);
    void teach(const c10::OperatorHandle& op, Arguments arguments, const Shapes& shapes);

private:
    using Sizes = c10::SmallVector<int64_t, 16>;  // of all dims of all tensors
    using Dims = uint64_t;                        // a bit for each of them

    struct Dim {
        int64_t constant;
        bool is_constant = true;
        Dims same;  // dims of arguments that have always been equal to it
    };
    struct Result {
        c10::ScalarType dtype;
        std::vector<Dim> dims;
    };
    struct Rule {
        int examples = 0;
        bool hopeless = false;
        std::vector<Dim> arguments;
        std::vector<std::vector<Result>> results;
    };

    // The structure of the call and its sizes; false: nothing is learned of such calls.
    static bool read(const c10::OperatorHandle& op, Arguments arguments, Signature& structure,
                     Sizes& sizes);
    static bool fits(const Rule& rule, const Sizes& sizes);
    static void learn(Rule& rule, const Sizes& sizes, const Shapes& shapes);

    std::mutex mutex_;
    std::unordered_map<Signature, Rule, HashOfSignature> rules_;
};

}  // namespace torch_nntile
