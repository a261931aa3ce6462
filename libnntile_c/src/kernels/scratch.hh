// SPDX-License-Identifier: BSD-3-Clause
// Memory of a thread that grows to what its largest call needs, so that a task takes no page
// faults.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/error.hh"

namespace nntile::kernels {

constexpr size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

class Scratch {
public:
    // Room for so many bytes, of which take() gives parts. Throws out_of_memory.
    void begin(size_t bytes) {
        if (bytes > size_) {
            data_.reset();
            size_ = 0;
            constexpr size_t page = 4096;
            const size_t rounded = (bytes + page - 1) / page * page;
            data_.reset(static_cast<std::byte*>(std::aligned_alloc(page, rounded)));
            check(data_ != nullptr, Status::out_of_memory, "no memory for ", rounded,
                  " bytes of scratch");
            size_ = rounded;
        }
        free_ = data_.get();
    }
    template <class T = std::byte>
    T* take(size_t count) {
        return reinterpret_cast<T*>(std::exchange(free_, free_ + padded(count * sizeof(T))));
    }

private:
    struct Delete {
        void operator()(std::byte* p) const { std::free(p); }
    };
    std::unique_ptr<std::byte, Delete> data_;
    std::byte* free_ = nullptr;
    size_t size_ = 0;
};

}  // namespace nntile::kernels
