// SPDX-License-Identifier: BSD-3-Clause
// Memory of devices and of the host, and copies.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "devices.hh"
#include "settings.hh"

namespace emulation {

namespace {

constexpr size_t alignment = 256;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

void add_hole(Device& d, uintptr_t address, size_t bytes) {
    auto next = d.holes.lower_bound(address);
    if (next != d.holes.end() && next->first == address + bytes) {
        bytes += next->second;
        next = d.holes.erase(next);
    }
    if (next != d.holes.begin()) {
        const auto before = std::prev(next);
        if (before->first + before->second == address) {
            before->second += bytes;
            return;
        }
    }
    d.holes[address] = bytes;
}

// The first page of so many bytes, and one more, which stays closed; 0: there are no addresses.
uintptr_t take_pages(Device& d, size_t bytes) {
    for (;;) {
        const auto hole = std::find_if(d.holes.begin(), d.holes.end(),
                                       [&](const auto& h) { return h.second >= bytes + page; });
        if (hole != d.holes.end()) {
            const auto [first, all] = *hole;
            d.holes.erase(hole);
            if (all > bytes + page) d.holes[first + bytes + page] = all - bytes - page;
            return first;
        }
        if (d.quarantine.empty()) return 0;
        const auto [address, freed] = d.quarantine.front();
        d.quarantine.pop_front();
        add_hole(d, address, freed);
    }
}

// Fresh memory and what is behind a block hold bytes that are no numbers.
constexpr int poison = 0xff;

void check_behind(const Device& d, const Device::Block& block, uintptr_t at) {
    const std::byte* b = d.alias_of(at + block.bytes);
    const std::byte* end = d.alias_of(block.first_page) + block.pages;
    for (; b < end; ++b)
        if (*b != std::byte{poison}) {
            std::fprintf(stderr, "emulation: somebody wrote behind %zu bytes at %p\n", block.bytes,
                         reinterpret_cast<void*>(at));
            std::abort();
        }
}

// ---- the host's pinned memory

std::mutex pinned_mutex;
std::map<uintptr_t, size_t> pinned;

bool is_pinned(const void* pointer, size_t bytes) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    std::lock_guard lock(pinned_mutex);
    auto at = pinned.upper_bound(address);
    if (at == pinned.begin()) return false;
    --at;
    return address + bytes <= at->first + at->second;
}

// ---- copies

struct Side {
    std::byte* at = nullptr;  // where this process reaches it
    bool device = false, pinned = true;
};
// False: an address that the direction says is a device's, or the host's, and is not.
bool side_of(Side& side, const void* pointer, size_t bytes, bool wants_device, bool wants_host) {
    side.device = device_of(pointer) != nullptr;
    if (side.device ? wants_host : wants_device) return false;
    if (side.device) {
        side.at = view_of(pointer, bytes);
        return side.at != nullptr;
    }
    side.at = static_cast<std::byte*>(const_cast<void*>(pointer));
    side.pinned = is_pinned(pointer, bytes);
    return true;
}

// Rows of `width` bytes, so many bytes apart.
struct Rows {
    size_t width, count, to_pitch, from_pitch;
    size_t extent(size_t pitch) const { return (count - 1) * pitch + width; }
};

cudaError_t copy(void* to, const void* from, const Rows& rows, cudaMemcpyKind kind,
                 const QueueRef& queue, bool wait) {
    if (rows.width == 0 || rows.count == 0) return cudaSuccess;
    const bool any = kind == cudaMemcpyDefault;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    Side a, b;
    if (!side_of(a, to, rows.extent(rows.to_pitch), !any && to_device, !any && !to_device) ||
        !side_of(b, from, rows.extent(rows.from_pitch), !any && from_device, !any && !from_device))
        return failed(cudaErrorInvalidValue);
    const auto bytes = static_cast<long long>(rows.width * rows.count);
    count(!a.device ? copies_from : b.device ? copies_between : copies_to);
    count(!a.device ? bytes_from : b.device ? bytes_between : bytes_to, bytes);
    const bool slow = !a.pinned || !b.pinned;  // such a copy is not asynchronous
    if (slow && !wait) count(pageable);
    const uint64_t number = enqueue(queue, [=] {
        for (size_t r = 0; r < rows.count; ++r)
            std::memmove(a.at + r * rows.to_pitch, b.at + r * rows.from_pitch, rows.width);
    });
    if (wait || slow) queue->wait(number);
    return failed(sticky_error());
}
cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                 const QueueRef& queue, bool wait) {
    return copy(to, from, {bytes, 1, 0, 0}, kind, queue, wait);
}

}  // namespace

}  // namespace emulation

using namespace emulation;

extern "C" {

cudaError_t cudaMalloc(void** out, size_t bytes) {
    EMULATION_ENTER;
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    Device& d = current_device();
    const size_t room = rounded(bytes, alignment), pages = rounded(room, page);
    uintptr_t first = 0;
    {
        std::lock_guard lock(d.memory_mutex);
        if (d.used + static_cast<int64_t>(pages) > settings().memory_bytes)
            return failed(cudaErrorMemoryAllocation);
        first = take_pages(d, pages);
        if (first == 0) return failed(cudaErrorMemoryAllocation);
        const uintptr_t address = first + pages - room;  // ends with the last page
        d.blocks[address] = {bytes, pages, first};
        d.used += static_cast<int64_t>(pages);
        count(live_bytes, static_cast<long long>(pages));
        const long long over = emulation_counts().live_bytes - emulation_counts().peak_bytes;
        if (over > 0) count(peak_bytes, over);
        *out = reinterpret_cast<void*>(address);
    }
    std::memset(d.alias_of(first), poison, pages);
    protect(d, first, pages, PROT_READ | PROT_WRITE);
    return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
    EMULATION_ENTER;
    if (!pointer) {
        current_device();
        return cudaSuccess;
    }
    Device* d = device_of(pointer);
    if (!d) return failed(cudaErrorInvalidValue);
    if (const cudaError_t error = cudaDeviceSynchronize()) return error;  // as it does
    Device::Block block;
    {
        std::lock_guard lock(d->memory_mutex);
        const auto at = d->blocks.find(reinterpret_cast<uintptr_t>(pointer));
        if (at == d->blocks.end()) return failed(cudaErrorInvalidValue);
        block = at->second;
        check_behind(*d, block, at->first);
        d->blocks.erase(at);
        d->used -= static_cast<int64_t>(block.pages);
        count(live_bytes, -static_cast<long long>(block.pages));
        d->quarantine.emplace_back(block.first_page, block.pages + page);
        madvise(d->alias_of(block.first_page), block.pages, MADV_REMOVE);
    }
    protect(*d, block.first_page, block.pages, PROT_NONE);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* left, size_t* total) {
    EMULATION_ENTER;
    Device& d = current_device();
    std::lock_guard lock(d.memory_mutex);
    *left = static_cast<size_t>(std::max<int64_t>(settings().memory_bytes - d.used, 0));
    *total = static_cast<size_t>(settings().memory_bytes);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
    EMULATION_ENTER;
    std::lock_guard lock(pinned_mutex);
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const auto next = pinned.lower_bound(address);
    if ((next != pinned.end() && next->first < address + bytes) ||
        (next != pinned.begin() && std::prev(next)->first + std::prev(next)->second > address))
        return failed(cudaErrorHostMemoryAlreadyRegistered);
    pinned[address] = bytes;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* pointer) {
    std::lock_guard lock(pinned_mutex);
    const bool was = pinned.erase(reinterpret_cast<uintptr_t>(pointer)) > 0;
    return was ? cudaSuccess : failed(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned flags) {
    EMULATION_ENTER;
    *out = std::aligned_alloc(page, rounded(bytes, page));
    if (!*out) return failed(cudaErrorMemoryAllocation);
    return cudaHostRegister(*out, bytes, flags);
}
cudaError_t cudaMallocHost(void** out, size_t bytes) { return cudaHostAlloc(out, bytes, 0); }

cudaError_t cudaFreeHost(void* pointer) {
    if (!pointer) return cudaSuccess;
    const cudaError_t result = cudaHostUnregister(pointer);
    if (result == cudaSuccess) std::free(pointer);
    return result;
}

cudaError_t cudaHostGetDevicePointer(void**, void*, unsigned) {
    return failed(cudaErrorNotSupported);
}
cudaError_t cudaMallocManaged(void**, size_t, unsigned) { return failed(cudaErrorNotSupported); }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* pointer) {
    std::memset(a, 0, sizeof *a);
    const Device* d = device_of(pointer);
    a->type = d                       ? cudaMemoryTypeDevice
              : is_pinned(pointer, 1) ? cudaMemoryTypeHost
                                      : cudaMemoryTypeUnregistered;
    if (d) a->device = d->number;
    else cudaGetDevice(&a->device);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    EMULATION_ENTER;
    return copy(to, from, bytes, kind, queue_of(stream), false);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    EMULATION_ENTER;
    return copy(to, from, bytes, kind, queue_of(nullptr), true);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
    EMULATION_ENTER;
    return copy(to, from, {width, rows, to_pitch, from_pitch}, kind, queue_of(stream), false);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t rows, cudaMemcpyKind kind) {
    EMULATION_ENTER;
    return copy(to, from, {width, rows, to_pitch, from_pitch}, kind, queue_of(nullptr), true);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
    EMULATION_ENTER;
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice, queue_of(stream), false);
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
    EMULATION_ENTER;
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice, queue_of(nullptr), true);
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
    EMULATION_ENTER;
    if (p->extent.depth != 1) return failed(cudaErrorNotSupported);
    return copy(p->dstPtr.ptr, p->srcPtr.ptr,
                {p->extent.width, p->extent.height, p->dstPtr.pitch, p->srcPtr.pitch},
                cudaMemcpyDeviceToDevice, queue_of(stream), false);
}
cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
    const cudaError_t result = cudaMemcpy3DPeerAsync(p, nullptr);
    return result ? result : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    EMULATION_ENTER;
    std::byte* at = view_of(to, bytes);
    if (!at) return failed(cudaErrorInvalidValue);
    enqueue(queue_of(stream), [=] { std::memset(at, value, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
    return cudaMemsetAsync(to, value, bytes, nullptr);
}
}
