// SPDX-License-Identifier: BSD-3-Clause
// Kernels of the device for ops that others have defined.
#pragma once

#include <torch/library.h>

#include <map>
#include <memory>
#include <string>

namespace torch_nntile {

// The namespace's library at the device's key; kept, since kernels live as long.
inline torch::Library& library_of(const std::string& space) {
    static auto* libraries = new std::map<std::string, torch::Library>;
    return libraries
        ->try_emplace(space, torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1, __FILE__,
                      __LINE__)
        .first->second;
}

// name: "aten::add.Tensor". The functor takes the op's arguments as a stack.
template <class Functor>
void implement(const std::string& name, std::unique_ptr<Functor> functor) {
    library_of(name.substr(0, name.find("::")))
        .impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(functor)));
}

}  // namespace torch_nntile
