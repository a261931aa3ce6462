// SPDX-License-Identifier: BSD-3-Clause
// Elements of blocks, for a thread of a device.
#pragma once

#include "kernels/cuda/job.hh"
#include "kernels/cuda/thread.hh"
#include "kernels/element_isa.hh"

namespace nntile::kernels::cuda {

#define NNTILE_EACH_DTYPE(DO) \
    DO(f32) DO(f64) DO(f16) DO(bf16) DO(i64) DO(i32) DO(i16) DO(i8) DO(u8) DO(boolean)

// size_of() for a thread: a device does not see the table of dtypes.
NNTILE_FN inline int64_t bytes_of(DType dtype) {
    switch (dtype) {
#define DO(d) \
    case DType::d: return sizeof(Storage<DType::d>);
        NNTILE_EACH_DTYPE(DO)
#undef DO
        default: return 0;
    }
}
template <DType D, class T>
NNTILE_FN T number_at(const void* data, int64_t at) {
    return Element<D>::template get<T>(static_cast<const Storage<D>*>(data)[at]);
}
template <class T>
NNTILE_FN T load_as(const void* data, DType dtype, int64_t at) {
    switch (dtype) {
#define DO(d) \
    case DType::d: return number_at<DType::d, T>(data, at);
        NNTILE_EACH_DTYPE(DO)
#undef DO
        default: return T{};
    }
}
template <class T>
NNTILE_FN void store_as(void* data, DType dtype, int64_t at, T x) {
    switch (dtype) {
#define DO(d) \
    case DType::d: static_cast<Storage<DType::d>*>(data)[at] = Element<DType::d>::put(x); return;
        NNTILE_EACH_DTYPE(DO)
#undef DO
        default: return;
    }
}
template <class T>
NNTILE_FN T load_as(const JobBlock& b, int64_t at) {
    if (b.is_number) return b.is_real ? static_cast<T>(b.number.f) : static_cast<T>(b.number.i);
    return load_as<T>(b.data, b.dtype, at);
}
template <class T>
NNTILE_FN void store_as(const JobBlock& b, int64_t at, T x) {
    store_as(b.data, b.dtype, at, x);
}

}  // namespace nntile::kernels::cuda
