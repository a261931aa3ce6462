// SPDX-License-Identifier: BSD-3-Clause
// What a Meta kernel says of a call's results, and what it can depend on.
#pragma once

#include <ATen/core/DimVector.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "contract/boxed.h"

namespace torch_nntile {

at::DimVector dense_strides(c10::IntArrayRef sizes);

struct Shape {
    at::DimVector sizes, strides;
    c10::ScalarType dtype = c10::ScalarType::Undefined;  // Undefined: an absent tensor

    static Shape of(const at::Tensor& t);
    at::Tensor make() const;  // with undefined contents
};
using Shapes =
    std::vector<std::vector<Shape>>;  // one list for each return; a tensor is a list of one

// A Meta tensor like t; `resizable` for one that a Meta kernel may resize (an out= argument).
at::Tensor meta_like(const at::Tensor& t, bool resizable);

// The index of torch.get_default_dtype(), below default_dtypes: what integers become in a division.
size_t default_dtype();
inline constexpr size_t default_dtypes = 4;

// What an answer to a call depends on besides its arguments: default dtype, deterministic
// algorithms, autocast, grad and inference mode. Whatever is kept by call has this word in its key.
int64_t call_state();

// Words that say all of a call that shapes can depend on: call_state(), dtypes, sizes, strides,
// integers, texts; with `values` also numbers. No buffers, no offsets.
using Signature = c10::SmallVector<int64_t, 96>;
Signature signature_of(Arguments arguments, bool values);
void append_signature(const c10::IValue& argument, bool values, Signature& out);  // of one argument
struct HashOfSignature {
    size_t operator()(const Signature& signature) const;
};

}  // namespace torch_nntile
