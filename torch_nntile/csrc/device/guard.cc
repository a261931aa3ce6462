// SPDX-License-Identifier: BSD-3-Clause
// Device guard: one device, one queue in order. Streams and events are names for that queue; those
// that wait, wait for all of it.
#include <ATen/record_function.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <chrono>

#include "contract/device.h"
#include "contract/errors.h"
#include "contract/versions.h"
#include "observe/recording.h"

namespace torch_nntile {
namespace {

struct Event {
    std::chrono::steady_clock::time_point time;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
public:
    c10::DeviceType type() const override { return device_type; }
    c10::Device exchangeDevice(c10::Device d) const override {
        setDevice(d);
        return device();
    }
    c10::Device getDevice() const override { return device(); }
    void setDevice(c10::Device d) const override { check_index(d.index()); }
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::DeviceIndex deviceCount() const noexcept override { return torch_nntile::device_count(); }

    c10::Stream getStream(c10::Device) const noexcept override { return queue(); }
    c10::Stream getDefaultStream(c10::Device) const override { return queue(); }
    c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return queue(); }
    c10::Stream getNewStream(c10::Device, int) const override { return queue(); }
    c10::Stream exchangeStream(c10::Stream) const noexcept override { return queue(); }
    bool queryStream(const c10::Stream&) const override { return !busy(); }
    void synchronizeStream(const c10::Stream&) const override { synchronize(); }
    void synchronizeDevice(const c10::DeviceIndex) const override { synchronize(); }

    // Only an event with timing waits here: its time is when the work before it has ended.
    void record(void** event, const c10::Stream&, const c10::DeviceIndex,
                const c10::EventFlag flag) const override {
        if (!*event) *event = new Event;
        if (flag == c10::EventFlag::BACKEND_DEFAULT) synchronize();
        static_cast<Event*>(*event)->time = std::chrono::steady_clock::now();
    }
    void block(void*, const c10::Stream&) const override {}
    bool queryEvent(void* event) const override { return !event || !busy(); }
    void synchronizeEvent(void*) const override { synchronize(); }
    void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
        delete static_cast<Event*>(event);
    }
    double elapsedTime(void* begin, void* end, const c10::DeviceIndex) const override {
        TORCH_CHECK(begin && end,
                    "nntile: both events must be recorded before their times are compared");
        const auto time = static_cast<Event*>(end)->time - static_cast<Event*>(begin)->time;
        return std::chrono::duration<double, std::milli>(time).count();
    }
    c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }
    // PyTorch 2.12's own is an error, and autograd asks. Others have none, or one that says no.
    NNTILE_SINCE_2_12(bool isStreamCapturing(const c10::Stream&) const override { return false; })

private:
    static c10::Stream queue() { return c10::Stream(c10::Stream::DEFAULT, device()); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

c10::DeviceIndex device_count() {
    nntile_settings settings{};
    settings.struct_size = sizeof(settings);
    // A setting that is wrong is an error of the first tensor; this is asked where none may be.
    if (nntile_context_settings_get(&settings, nullptr) != NNTILE_OK) return 1;
    return static_cast<c10::DeviceIndex>(std::min(settings.local_processes, 127));
}

void check_index(c10::DeviceIndex index) {
    TORCH_CHECK(
        index >= -1 && index < device_count(), "nntile: device index ", static_cast<int>(index),
        " does not exist; the only device is nntile:0 (StarPU places its tasks on cores and GPUs)");
}

void check_not_forked() {
    if (!nntile_context_forked()) [[likely]]
        return;
    call(nntile_record_run, record());
}

bool busy() { return nntile_record_pending(record()) || tasks_in_flight(); }

bool tasks_in_flight() {
    nntile_context_stats stats{};
    stats.struct_size = sizeof(stats);
    return nntile_context_active() && nntile_context_stats_get(&stats, nullptr) == NNTILE_OK &&
           stats.in_flight > 0;
}

void synchronize() {
    RECORD_FUNCTION("nntile::wait", std::vector<c10::IValue>());
    const Waiting waiting;
    // In graph mode nothing runs before run() or a host read: waiting does not change that.
    // What is submitted also holds graphs that did not fit before. A run ends steps that have
    // begun, and is refused inside of a captured function.
    call(nntile_record_submit, record());
    if (nntile_record_pending(record()) && nntile_record_mode(record()) == NNTILE_EAGER)
        call(nntile_record_run, record());
    if (nntile_context_active()) call(nntile_context_wait);
}

}  // namespace torch_nntile
