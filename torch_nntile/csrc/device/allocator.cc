// SPDX-License-Identifier: BSD-3-Clause
// Storages: an address range and a buffer of the recorder. Nothing here touches memory or takes the
// GIL.
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "contract/address_space.h"
#include "contract/device.h"
#include "contract/errors.h"
#include "contract/notices.h"
#include "device/storage.h"
#include "observe/recording.h"

namespace torch_nntile {
namespace {

// A forked child leaks it: a thread of the parent may hold the lock of the addresses.
void release(void* context) {
    if (nntile_context_forked()) return;
    auto* home = static_cast<Home*>(context);
    nntile_buffer_destroy(home->buffer);
    note_storage(*home, false);
    address_space().give(*home);
    delete home;
}

// Once, at the first tensor: a name that is misspelt has no effect.
std::atomic<bool> told{false};

void tell_unknown_settings() {
    (void)record();  // what is wrong altogether comes first
    if (told.exchange(true)) return;
    char* names = nullptr;
    call(nntile_context_unknown_settings, &names);
    const std::string unknown = names;
    nntile_text_free(names);
    if (!unknown.empty()) notify("nntile::unknown_settings", unknown);
}

class Allocator final : public c10::DeviceAllocator {
public:
    c10::DataPtr allocate(size_t nbytes) override {
        check_not_forked();
        if (!told.load(std::memory_order_relaxed)) [[unlikely]]
            tell_unknown_settings();
        auto home = std::make_unique<Home>();
        nntile_error* error = nullptr;
        address_space().take(nbytes, *home);
        const nntile_status status =
            nntile_buffer_create(record(), static_cast<int64_t>(nbytes), &home->buffer, &error);
        if (status != NNTILE_OK) {
            address_space().give(*home);
            raise(status, error);
        }
        Home* context = home.release();
        note_storage(*context, true);
        return {context->address, context, &release, device()};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void*, const void*, size_t) const override {
        TORCH_CHECK(false, "nntile: a storage has no bytes on the host");
    }
    bool initialized() override { return true; }
    void emptyCache(c10::MempoolId_t) override {}
    void recordStream(const c10::DataPtr&, c10::Stream) override {}

    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
        int64_t count = 0, bytes = 0, peak = 0;
        nntile_buffer_totals(record(), &count, &bytes, &peak);
        c10::CachingDeviceAllocator::DeviceStats stats;
        stats.allocation[0].current = count;
        stats.allocated_bytes[0].current = bytes;
        stats.allocated_bytes[0].peak = peak;
        const nntile_context_stats runtime = runtime_stats();
        stats.reserved_bytes[0].current = runtime.tile_bytes;
        stats.reserved_bytes[0].peak = runtime.reserved_peak_bytes;
        stats.active_bytes[0].current = runtime.tensor_bytes + runtime.run_bytes;
        stats.active_bytes[0].peak = runtime.peak_bytes;
        return stats;
    }
    void resetAccumulatedStats(c10::DeviceIndex) override {}
    void resetPeakStats(c10::DeviceIndex) override {
        nntile_buffer_reset_peak(record());
        nntile_context_reset_peaks();
    }

    // Free and total: of the budget of the runtime; before it starts, of the one it would take.
    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
        const nntile_context_stats runtime = runtime_stats();
        const auto used = static_cast<size_t>(runtime.tensor_bytes + runtime.run_bytes);
        const auto total = static_cast<size_t>(runtime.budget_bytes);
        return {total - std::min(used, total), total};
    }

private:
    static nntile_context_stats runtime_stats() {
        nntile_context_stats stats{};
        stats.struct_size = sizeof(stats);
        call(nntile_context_stats_get, &stats);
        return stats;
    }
};

const bool registered = [] {
    c10::SetAllocator(device_type, &allocator());
    return true;
}();

}  // namespace

c10::DeviceAllocator& allocator() {
    static auto* instance = new Allocator;
    return *instance;
}

nntile_record* record() {
    static nntile_record* instance = [] {
        nntile_record* made = nullptr;
        call(nntile_record_create, &made);
        return made;
    }();
    return instance;
}

Address address_of(const c10::DataPtr& data) {
    if (data.get_deleter() == &release) [[likely]]
        return {static_cast<const Home*>(data.get_context())->buffer, 0};
    // Made from our address by from_blob: torch.save's older writer, DLPack.
    const Home* home = address_space().find(data.get());
    TORCH_CHECK(home, "nntile: address ", data.get(), " is not in a live nntile storage");
    return {home->buffer, static_cast<const char*>(data.get()) - home->address};
}

}  // namespace torch_nntile
