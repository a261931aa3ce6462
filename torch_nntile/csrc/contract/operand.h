// SPDX-License-Identifier: BSD-3-Clause
// Tensors and numbers as the recorder takes them. Sizes and strides are borrowed from the tensors,
// so these must live until the call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <forward_list>
#include <utility>

#include "nntile/nntile.h"

namespace torch_nntile {

// Where a storage is.
struct Address {
    nntile_buffer* buffer;
    int64_t byte;  // offset of the storage's first byte in the buffer
};
Address address_of(const c10::DataPtr& data);
inline Address address_of(const c10::StorageImpl& storage) {
    return address_of(storage.data_ptr());
}

// The dtype of libnntile_c, or NNTILE_NONE where it has none (complex, float8, uint16 ...).
nntile_dtype dtype_of(c10::ScalarType type);
c10::ScalarType type_of(nntile_dtype dtype);
// By the name that op rows use; NNTILE_NONE for an unknown one.
nntile_dtype dtype_named(const char* name);

// A number that is an argument: a Scalar, or a 0-dim CPU tensor. Of a complex one only the type is
// kept.
struct Number {
    c10::ScalarType type = c10::ScalarType::Undefined;
    double f = 0;
    int64_t i = 0;
};
Number number_of(const at::Tensor& zero_dim_cpu);
Number number_of(const c10::Scalar& scalar);
Number number_of(const c10::IValue& number_or_tensor);      // reads a tensor
int64_t wrapped(int64_t number, c10::ScalarType integral);  // as a cast does it; bool has all
int64_t nearest(int64_t number, c10::ScalarType integral);  // one that it holds
bool fits(const Number& number, c10::ScalarType integral);  // between the least and the most

class Operands {
public:
    void absent() { list_.emplace_back(); }
    // Dtypes that libnntile_c lacks are carried by one of the same bits: enough to move data.
    // Sizes and strides stay where they are: a tensor that lives no longer than the call is kept
    // here.
    void tensor(const at::Tensor& t);
    void tensor(const at::Tensor&&) = delete;
    void tensor(at::Tensor&& t) { tensor(std::as_const(kept_.emplace_front(std::move(t)))); }
    void number(const Number& n, nntile_dtype dtype);

    const nntile_operand* data() const { return list_.data(); }
    size_t size() const { return list_.size(); }

private:
    void pair(const at::Tensor& t, nntile_operand& operand);

    c10::SmallVector<nntile_operand, 8> list_;
    std::forward_list<at::Tensor> kept_;
    std::forward_list<at::DimVector> pairs_;  // layouts of complex tensors: one dim more
};

int64_t bytes_of(const nntile_operand& operand);

}  // namespace torch_nntile
