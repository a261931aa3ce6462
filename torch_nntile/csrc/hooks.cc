// SPDX-License-Identifier: BSD-3-Clause
// What PyTorch asks of an accelerator: is it there, its generators, resizing a storage.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>

#include "device.h"
#include "storage.h"

namespace torch_nntile {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    // The runtime starts by itself; there is nothing that a query could start too early.
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    c10::DeviceIndex deviceCount() const override { return device_count; }
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
    // Uploads copy before they return, so pinned memory is plain memory.
    c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
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
