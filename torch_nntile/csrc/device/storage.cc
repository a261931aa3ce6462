// SPDX-License-Identifier: BSD-3-Clause
#include "device/storage.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/record_function.h>

#include <algorithm>

#include "contract/device.h"
#include "contract/errors.h"
#include "contract/operand.h"
#include "observe/recording.h"

namespace torch_nntile {
namespace {

uint32_t copy_op() {
    static const uint32_t op = [] {
        uint32_t found = 0;
        call(nntile_op_find, "copy", &found);
        return found;
    }();
    return op;
}

void record_copy(const nntile_operand* operands, int32_t compute) {
    call(nntile_record_op, record(), copy_op(), operands, 1, 1, nullptr, 0,
         static_cast<nntile_dtype>(compute));
}

}  // namespace

at::Tensor make_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype) {
    return at::detail::empty_strided_generic(sizes, strides, &allocator(), device_keys, dtype);
}

void copy_on_device(const at::Tensor& source, const at::Tensor& target) {
    Recording recording("copy");
    Operands operands;
    operands.tensor(source);
    operands.tensor(target);
    record_copy(operands.data(), operands.data()[1].dtype);
    recording.done();
}

bool may_overlap_itself(const at::Tensor& t) {
    if (t.is_non_overlapping_and_dense()) return false;
    c10::SmallVector<std::pair<int64_t, int64_t>, 6> dims;  // stride, extent
    for (int64_t d = 0; d < t.dim(); ++d) {
        if (t.size(d) == 0) return false;
        if (t.size(d) > 1) dims.emplace_back(t.stride(d), t.size(d));
    }
    std::sort(dims.begin(), dims.end());
    int64_t last = 0;  // offset of the last element of the dims of smaller strides
    for (const auto& [stride, extent] : dims) {
        if (stride <= last) return true;
        last += stride * (extent - 1);
    }
    return false;
}

at::Tensor whole_storage(const at::Tensor& t) {
    const auto elements = static_cast<int64_t>(t.storage().nbytes() / t.itemsize());
    return at::native::as_strided_tensorimpl(t, {elements}, {1}, 0);
}

void resize_storage(c10::StorageImpl& storage, size_t nbytes, c10::ScalarType dtype) {
    c10::DataPtr fresh = allocator().allocate(nbytes);
    const size_t kept = std::min(nbytes, storage.nbytes());
    if (kept) {
        if (kept % c10::elementSize(dtype) || dtype_of(dtype) == NNTILE_NONE) dtype = c10::kByte;
        const Address from = address_of(storage), to = address_of(fresh);
        const auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
        const int64_t size = static_cast<int64_t>(kept) / bytes, stride = 1;
        nntile_operand operands[2] = {};
        for (nntile_operand& o : operands) {
            o.kind = NNTILE_OPERAND_TENSOR;
            o.dtype = dtype_of(dtype);
            o.ndim = 1;
            o.sizes = &size;
            o.strides = &stride;
        }
        operands[0].buffer = from.buffer;
        operands[0].offset = from.byte / bytes;
        operands[1].buffer = to.buffer;
        record_copy(operands, operands[0].dtype);
    }
    storage.set_data_ptr_noswap(std::move(fresh));
    storage.set_nbytes(nbytes);
}

void read_to_host(const at::Tensor& source, void* host, size_t nbytes) {
    RECORD_FUNCTION("nntile::wait", std::vector<c10::IValue>());
    const Waiting waiting;
    Operands operand;
    operand.tensor(source);
    call(nntile_record_read, record(), operand.data(), host, nbytes);
}

void write_from_host(const at::Tensor& target, const at::Tensor& host) {
    const Recording recording("write");
    Operands operand;
    operand.tensor(target);
    call(nntile_record_write, record(), operand.data(), host.const_data_ptr(), host.nbytes());
}

}  // namespace torch_nntile
