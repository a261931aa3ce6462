// SPDX-License-Identifier: BSD-3-Clause
// torch.profiler: tasks as kernels of the device, on the worker that ran them, each linked to the
// op that recorded it. Kineto asks a profiler of activities; the older torch.autograd.profiler asks
// for events, and gets what an op took until the device was idle.
#define USE_KINETO       // the wheel is built with it; its headers are empty without
#define FMT_HEADER_ONLY  // the wheel has no library of it
#include <ATen/record_function.h>
#include <c10/util/ApproximateClock.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "contract/device.h"
#include "contract/versions.h"
#include "observe/recording.h"

#include NNTILE_PROFILER_HEADER

namespace torch_nntile {
namespace {

using libkineto::ActivityType;

struct Task {
    std::string op;
    int32_t worker;
    int32_t mark;
    int64_t begin, end;
};

// Workers may still come here when a session has ended.
struct Collected {
    std::mutex mutex;
    std::vector<Task> tasks;
};
Collected& collected() {
    static auto* c = new Collected;
    return *c;
}

void collect(const nntile_trace_task* t) {
    Collected& c = collected();
    std::lock_guard lock(c.mutex);
    const auto mark = static_cast<int32_t>(Mark::of(*t).op);
    c.tasks.push_back({t->op, t->worker, mark, t->begin_ns, t->end_ns});
}

thread_local std::vector<uint32_t> open_ops;  // correlation ids, the innermost last

class Session final : public libkineto::IActivityProfilerSession {
public:
    void start() override {
        {
            std::lock_guard lock(collected().mutex);
            collected().tasks.clear();
        }
        listen(Listener::torch_profiler, &collect);
        status_ = libkineto::TraceStatus::RECORDING;
    }
    void stop() override {
        listen(Listener::torch_profiler, nullptr);
        status_ = libkineto::TraceStatus::PROCESSING;
    }
    std::vector<std::string> errors() override { return {}; }

    void processTrace(libkineto::ActivityLogger& logger) override {
        processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
    }
    void processTrace(libkineto::ActivityLogger& logger,
                      libkineto::getLinkedActivityCallback linked, int64_t, int64_t) override {
        std::vector<Task> tasks;
        {
            std::lock_guard lock(collected().mutex);
            tasks.swap(collected().tasks);
        }
        for (Task& t : tasks) {
            buffer_->emplace_activity(buffer_->span, ActivityType::CONCURRENT_KERNEL, t.op);
            libkineto::GenericTraceActivity& a = *buffer_->activities.back();
            a.startTime = t.begin;
            a.endTime = t.end;
            a.id = t.mark;
            a.device = 0;
            a.resource = t.worker;
            a.threadId = t.worker;
            if (t.mark) a.linked = linked(a.id);
            workers_.insert(t.worker);
            logger.handleGenericActivity(a);
        }
    }

    std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
        return std::make_unique<libkineto::DeviceInfo>(
            libkineto::DeviceInfo{0, libkineto::kExceedMaxPid, "nntile", "nntile:0"});
    }
    std::vector<libkineto::ResourceInfo> getResourceInfos() override {
        std::vector<libkineto::ResourceInfo> infos;
        for (const int32_t w : workers_) infos.push_back({w, w, 0, "worker " + std::to_string(w)});
        return infos;
    }
    // The activities live as long as the trace.
    std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
        return std::move(buffer_);
    }

    void pushCorrelationId(uint64_t id) override {
        open_ops.push_back(static_cast<uint32_t>(id));
        mark_op(open_ops.back());
    }
    void popCorrelationId() override {
        if (!open_ops.empty()) open_ops.pop_back();
        mark_op(open_ops.empty() ? 0 : open_ops.back());
    }

private:
    std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ =
        std::make_unique<libkineto::CpuTraceBuffer>();
    std::set<int32_t> workers_;
};

class Profiler final : public libkineto::IActivityProfiler {
public:
    const std::string& name() const override { return name_; }
    const std::set<ActivityType>& availableActivities() const override { return types_; }
    std::unique_ptr<libkineto::IActivityProfilerSession> configure(
        const std::set<ActivityType>& types, const libkineto::Config&) override {
        if (!types.count(ActivityType::CONCURRENT_KERNEL)) return nullptr;
        return std::make_unique<Session>();
    }
    std::unique_ptr<libkineto::IActivityProfilerSession> configure(
        int64_t, int64_t, const std::set<ActivityType>& types,
        const libkineto::Config& config) override {
        return configure(types, config);
    }

private:
    std::string name_ = "nntile";
    std::set<ActivityType> types_{ActivityType::CONCURRENT_KERNEL};
};

NNTILE_REGISTER_PROFILER(Profiler);

// ---- torch.autograd.profiler.profile(use_device="nntile")

using Clock = std::chrono::steady_clock;

class Stubs final : public torch::profiler::impl::ProfilerStubs {
public:
    // Its time is when the work before it has ended, so nothing may wait for more calls. Errors are
    // left for the user.
    void record(c10::DeviceIndex* device, torch::profiler::impl::ProfilerVoidEventStub* event,
                int64_t* cpu_ns) const override {
        synchronize();
        if (device) *device = 0;
        if (cpu_ns) *cpu_ns = c10::getTime();
        *event = std::make_shared<Clock::time_point>(Clock::now());
    }
    float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* begin,
                  const torch::profiler::impl::ProfilerVoidEventStub* end) const override {
        const auto at = [](const auto* e) {
            return *static_cast<const Clock::time_point*>(e->get());
        };
        return std::chrono::duration<float, std::micro>(at(end) - at(begin)).count();
    }
    void mark(const char*) const override {}
    void rangePush(const char*) const override {}
    void rangePop() const override {}
    bool enabled() const override { return true; }
    void onEachDevice(std::function<void(int)> op) const override { op(0); }
    void synchronize() const override {
        nntile_record* const graph = torch_nntile::record();
        if (nntile_record_pending(graph)) (void)nntile_record_submit(graph, nullptr);
        while (tasks_in_flight()) std::this_thread::sleep_for(std::chrono::microseconds(10));
    }
};

const bool registered = [] {
    static Stubs stubs;
    torch::profiler::impl::registerPrivateUse1Methods(&stubs);
    return true;
}();

}  // namespace
}  // namespace torch_nntile
