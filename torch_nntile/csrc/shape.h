// SPDX-License-Identifier: BSD-3-Clause
// What a Meta kernel says of a call's results, and what it can depend on.
#pragma once

#include <ATen/core/DimVector.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "boxed.h"

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

// Words that say all of a call that shapes can depend on: dtypes, sizes, strides, integers, texts;
// with `values` also numbers. No buffers, no offsets.
using Signature = c10::SmallVector<int64_t, 96>;
void append_signature(Arguments arguments, bool values, Signature& out);
uint64_t hash_of(const Signature& signature);

}  // namespace torch_nntile
