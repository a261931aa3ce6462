// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/record.h"

#include "abi/attrs.hh"
#include "abi/guard.hh"
#include "abi/record.hh"
#include "base/settings.hh"
#include "runtime/runtime.hh"

using namespace nntile;
using namespace nntile::abi;

namespace {

DType dtype_of_number(int32_t dtype, const char* function) {
    check(dtype >= 0 && dtype < dtype_count, Status::type_error, function, ": unknown dtype ",
          dtype);
    return static_cast<DType>(dtype);
}

record::Operand operand_of(const nntile_operand& o, const char* function) {
    record::Operand out;
    if (o.kind == NNTILE_OPERAND_ABSENT) return out;
    out.dtype = dtype_of_number(o.dtype, function);
    if (o.kind == NNTILE_OPERAND_SCALAR) {
        out.kind = record::Operand::Kind::scalar;
        out.f = o.f;
        out.i = o.i;
        return out;
    }
    check(o.kind == NNTILE_OPERAND_TENSOR, Status::invalid_argument, function, ": operand of kind ",
          o.kind);
    check(o.ndim >= 0 && (o.ndim == 0 || (o.sizes && o.strides)), Status::invalid_argument,
          function, ": operand with ndim ", o.ndim, " and no sizes or strides");
    out.kind = record::Operand::Kind::tensor;
    out.buffer = buffer_of(o.buffer);
    out.sizes = {o.sizes, static_cast<size_t>(o.ndim)};
    out.strides = {o.strides, static_cast<size_t>(o.ndim)};
    out.offset = o.offset;
    return out;
}

const schema::OpRow& row_of(uint32_t op) {
    check(op < schema::op_rows().size(), Status::not_found, "nntile_record_op: no op number ", op);
    return schema::op_rows()[op];
}

std::string_view view_of(const char* text) { return text ? text : std::string_view{}; }

// From here on the shared pointer owns `user`, whatever fails.
std::shared_ptr<void> own(void* user, void (*destroy)(void* user)) {
    return {user, [destroy](void* p) {
                if (destroy) destroy(p);
            }};
}

// An older caller's struct is shorter: what it lacks is 0.
nntile_function complete(const nntile_function* given, const char* self) {
    need(given, self, "function");
    nntile_function f{};
    check(given->struct_size >= offsetof(nntile_function, axes) + sizeof f.axes,
          Status::invalid_argument, self, ": struct_size is not set");
    std::memcpy(&f, given, std::min(given->struct_size, sizeof f));
    return f;
}

HostFunction function_of(const nntile_function& f, std::shared_ptr<void> user) {
    if (f.start)
        return {{}, [start = f.start, user](void* const* data, void* task) {
                    start(user.get(), data, static_cast<nntile_task*>(task));
                }};
    return {[run = f.run, user](const HostPart& part, void* const* data, char* text) {
                return run(user.get(), part.starts.data(), part.sizes.data(), part.accumulate, data,
                           text);
            },
            {}};
}

graph::HostAxes axes_of(const nntile_function& f, std::span<const record::Operand> operands) {
    if (!f.axes) return {};
    graph::HostAxes axes;
    const int64_t* next = f.axes;
    for (const record::Operand& o : operands) {
        axes.emplace_back(Dims({next, o.sizes.size()}));
        next += o.sizes.size();
    }
    return axes;
}

}  // namespace

Operands abi::operands_of(const nntile_operand* operands, size_t n, const char* function) {
    if (n) need(operands, function, "operands");
    Operands out;
    for (size_t k = 0; k < n; ++k) out.push_back(operand_of(operands[k], function));
    return out;
}

nntile_status nntile_record_create(nntile_record** out, nntile_error** error) {
    return guard(error, [&] {
        need(out, "nntile_record_create", "out");
        auto executor = std::make_unique<PlanExecutor>();
        PlanExecutor* view = executor.get();
        auto recorder = std::make_shared<record::Recorder>(std::move(executor));
        recorder->set_mode(read_settings().graph_mode ? record::Mode::graph : record::Mode::eager);
        *out = new nntile_record{std::move(recorder), view};
    });
}

void nntile_record_destroy(nntile_record* record) {
    if (!record || runtime::forked()) return;
    guard(nullptr, [&] {
        record->recorder->reset();
        if (runtime::active()) runtime::wait();
    });
    delete record;
}

nntile_status nntile_record_op(nntile_record* record, uint32_t op, const nntile_operand* operands,
                               size_t n_inputs, size_t n_outputs, const nntile_attr* attrs,
                               size_t n_attrs, nntile_dtype compute, nntile_error** error) {
    return paced(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_record_op");
        const schema::OpRow& row = row_of(op);
        const auto own = operands_of(operands, n_inputs + n_outputs, row.name.c_str());
        recorder.op(row, own, n_inputs, attrs_of(row, attrs, n_attrs),
                    dtype_of_number(compute, row.name.c_str()), current_place);
    });
}

nntile_status nntile_record_function(nntile_record* record, const nntile_function* function,
                                     const nntile_operand* operands, size_t n_inputs,
                                     size_t n_outputs, nntile_error** error) {
    constexpr const char* self = "nntile_record_function";
    return paced(error, [&] {
        const nntile_function f = complete(function, self);
        const std::shared_ptr<void> user = own(f.user, f.destroy);
        need(f.name, self, "name");
        check(!f.run != !f.start, Status::invalid_argument, self,
              f.run ? ": run and start are both given" : ": neither run nor start is given");
        check(!f.start || !f.axes, Status::invalid_argument, self,
              ": a function that ends later has no axes");
        const auto all = operands_of(operands, n_inputs + n_outputs, f.name);
        record::HostCall call{
            {f.name, f.signature, axes_of(f, all), f.ranges != 0, f.n_updated, f.effect != 0},
            function_of(f, user)};
        recorder_of(record, self).host(std::move(call), all, n_inputs, current_place);
    });
}

void nntile_task_end(nntile_task* task, nntile_status status, const char* text) {
    if (task) runtime::end_task(task, static_cast<Status>(status), text ? text : "");
}

nntile_status nntile_record_write(nntile_record* record, const nntile_operand* target,
                                  const void* host, size_t nbytes, nntile_error** error) {
    return guard(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_record_write");
        need(target, "nntile_record_write", "target");
        if (nbytes) need(host, "nntile_record_write", "host");
        recorder.write(operand_of(*target, "nntile_record_write"), host, nbytes);
    });
}

nntile_status nntile_record_read(nntile_record* record, const nntile_operand* source, void* host,
                                 size_t nbytes, nntile_error** error) {
    return guard(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_record_read");
        need(source, "nntile_record_read", "source");
        if (nbytes) need(host, "nntile_record_read", "host");
        recorder.read(operand_of(*source, "nntile_record_read"), host, nbytes);
    });
}

nntile_status nntile_record_mode_set(nntile_record* record, nntile_mode mode,
                                     nntile_error** error) {
    return guard(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_record_mode_set");
        check(mode == NNTILE_EAGER || mode == NNTILE_GRAPH, Status::invalid_argument,
              "nntile_record_mode_set: unknown mode ", static_cast<int>(mode));
        recorder.set_mode(static_cast<record::Mode>(mode));
    });
}

nntile_mode nntile_record_mode(nntile_record* record) {
    return record ? static_cast<nntile_mode>(record->recorder->mode()) : NNTILE_EAGER;
}

size_t nntile_record_pending(nntile_record* record) {
    return guard_value<size_t>(
        0, [&] { return recorder_of(record, "nntile_record_pending").pending(); });
}

nntile_status nntile_record_compile(nntile_record* record, nntile_error** error) {
    return guard(error, [&] { recorder_of(record, "nntile_record_compile").compile(); });
}

nntile_status nntile_record_run(nntile_record* record, nntile_error** error) {
    return paced(error, [&] { recorder_of(record, "nntile_record_run").run(); });
}

nntile_status nntile_record_submit(nntile_record* record, nntile_error** error) {
    return paced(error, [&] { recorder_of(record, "nntile_record_submit").submit(); });
}

nntile_status nntile_record_step(nntile_record* record, int begin, nntile_error** error) {
    return guard(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_record_step");
        if (begin) return recorder.begin(record::Scope::step);
        check(recorder.end(record::Scope::step), Status::invalid_state,
              "nntile_record_step: no step has begun");
    });
}

nntile_status nntile_record_compose(nntile_record* record, int begin, nntile_error** error) {
    return guard(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_record_compose");
        if (begin) recorder.begin(record::Scope::composition);
        else recorder.end(record::Scope::composition);
    });
}

void nntile_record_reset(nntile_record* record) {
    guard(nullptr, [&] { recorder_of(record, "nntile_record_reset").reset(); });
}

void nntile_record_trim(nntile_record* record) {
    guard(nullptr, [&] {
        recorder_of(record, "nntile_record_trim").trim();
        runtime::trim();
    });
}

nntile_status nntile_record_axis_name(nntile_record* record, const nntile_operand* tensor,
                                      int32_t dim, const char* name, nntile_error** error) {
    return guard(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_record_axis_name");
        need(tensor, "nntile_record_axis_name", "tensor");
        recorder.name_axis(operand_of(*tensor, "nntile_record_axis_name"), dim,
                           std::string(view_of(name)));
    });
}

nntile_status nntile_record_axis_tiling(nntile_record* record, const char* name,
                                        const int64_t* sizes, size_t n, nntile_error** error) {
    return guard(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_record_axis_tiling");
        if (n) need(sizes, "nntile_record_axis_tiling", "sizes");
        recorder.cut_axis(std::string(view_of(name)), {sizes, n});
    });
}

nntile_status nntile_record_axis_text(nntile_record* record, char** text, nntile_error** error) {
    return guard(error, [&] {
        need(text, "nntile_record_axis_text", "text");
        *text = copy_text(recorder_of(record, "nntile_record_axis_text").axis_text());
    });
}

nntile_status nntile_record_cuts_save(nntile_record* record, char** text, nntile_error** error) {
    return guard(error, [&] {
        need(text, "nntile_record_cuts_save", "text");
        *text = copy_text(recorder_of(record, "nntile_record_cuts_save").save_cuts());
    });
}

nntile_status nntile_record_cuts_load(nntile_record* record, const char* text,
                                      nntile_error** error) {
    return guard(error, [&] {
        need(text, "nntile_record_cuts_load", "text");
        recorder_of(record, "nntile_record_cuts_load").load_cuts(text);
    });
}

nntile_status nntile_record_text(nntile_record* record, const char* stage, char** text,
                                 nntile_error** error) {
    return guard(error, [&] {
        need(stage, "nntile_record_text", "stage");
        need(text, "nntile_record_text", "text");
        *text = copy_text(recorder_of(record, "nntile_record_text").text(stage));
    });
}

nntile_status nntile_record_stats_get(nntile_record* record, nntile_record_stats* stats,
                                      nntile_error** error) {
    return guard(error, [&] {
        record::Recorder& recorder = recorder_of(record, "nntile_record_stats_get");
        need(stats, "nntile_record_stats_get", "stats");
        const PlanExecutor& e = *record->executor;
        const nntile_record_stats all{sizeof(nntile_record_stats),
                                      recorder.ops_recorded,
                                      e.graphs,
                                      e.lowerings,
                                      e.plan_hits,
                                      e.plans,
                                      e.tasks,
                                      e.copies,
                                      e.host_calls};
        // An older caller's struct is shorter; a newer one's has fields that we do not know.
        const size_t size = std::min(stats->struct_size, sizeof all);
        check(size >= sizeof(size_t), Status::invalid_argument,
              "nntile_record_stats_get: struct_size is not set");
        const size_t given = stats->struct_size;
        std::memcpy(stats, &all, size);
        stats->struct_size = given;
    });
}
