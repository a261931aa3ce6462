// SPDX-License-Identifier: BSD-3-Clause
// What PyTorch asks of an accelerator: is it there, its generators, resizing a storage.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>

#include <memory>
#include <mutex>
#include <set>

#include "contract/device.h"
#include "device/storage.h"

namespace torch_nntile {
namespace {

// Uploads copy before they return, so pinned memory is plain memory; that it was asked for is kept,
// as is_pinned() has to know.
class PinnedAllocator final : public c10::Allocator {
public:
    c10::DataPtr allocate(size_t nbytes) override {
        auto plain = std::make_unique<c10::DataPtr>(c10::GetCPUAllocator()->allocate(nbytes));
        void* address = plain->get();
        std::lock_guard lock(mutex_);
        live_.insert(address);
        return {address, plain.release(), &release, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void* to, const void* from, size_t nbytes) const override {
        default_copy_data(to, from, nbytes);
    }
    bool has(const void* address) {
        std::lock_guard lock(mutex_);
        return address && live_.count(address);
    }

private:
    static void release(void* context);

    std::mutex mutex_;
    std::multiset<const void*> live_;  // those of no bytes are all null
};

PinnedAllocator& pinned() {
    static auto* allocator = new PinnedAllocator;  // tensors may end after static objects
    return *allocator;
}

void PinnedAllocator::release(void* context) {
    const std::unique_ptr<c10::DataPtr> plain(static_cast<c10::DataPtr*>(context));
    std::lock_guard lock(pinned().mutex_);
    pinned().live_.erase(pinned().live_.find(plain->get()));
}

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    // The runtime starts by itself; there is nothing that a query could start too early.
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    c10::DeviceIndex deviceCount() const override { return device_count(); }
    void setCurrentDevice(c10::DeviceIndex index) const override { check_index(index); }
    c10::DeviceIndex getCurrentDevice() const override { return 0; }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
        check_index(index);
        return 0;
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
        return exchangeDevice(index);
    }
    c10::Device getDeviceFromPtr(void*) const override { return device(); }
    c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned(); }
    bool isPinnedPtr(const void* address) const override { return pinned().has(address); }
    at::Generator getNewGenerator(c10::DeviceIndex index) const override {
        check_index(index);
        return new_generator();
    }
    const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
        check_index(index);
        return default_generator();
    }
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
        resize_storage(*storage.unsafeGetStorageImpl(), nbytes);
    }
};

const bool registered = [] {
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
}();

}  // namespace
}  // namespace torch_nntile
