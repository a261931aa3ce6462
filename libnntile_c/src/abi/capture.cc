// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/capture.h"

#include <algorithm>

#include "abi/guard.hh"
#include "abi/record.hh"
#include "record/capture.hh"

using namespace nntile;
using namespace nntile::abi;

struct nntile_capture {
    std::unique_ptr<record::Capture> capture;
};

static record::Capture& capture_of(const nntile_capture* capture, const char* function) {
    need(capture, function, "capture");
    runtime::check_not_forked();
    return *capture->capture;
}

nntile_status nntile_capture_begin(nntile_record* record, int64_t seed, int64_t offset,
                                   nntile_error** error) {
    return guard(
        error, [&] { recorder_of(record, "nntile_capture_begin").begin_capture({seed, offset}); });
}

int nntile_capture_is_open(nntile_record* record) {
    return guard_value<int>(
        0, [&] { return recorder_of(record, "nntile_capture_is_open").capturing() ? 1 : 0; });
}

nntile_status nntile_capture_end(nntile_record* record, nntile_capture** out,
                                 nntile_error** error) {
    return guard(error, [&] {
        auto capture = recorder_of(record, "nntile_capture_end").end_capture(out != nullptr);
        if (out) *out = new nntile_capture{std::move(capture)};
    });
}

size_t nntile_capture_pending_numbers(nntile_record* record, size_t from, int64_t* bits, size_t n) {
    return guard_value<size_t>(0, [&] {
        std::vector<kernels::Param> numbers(bits ? n : 0);
        const size_t all =
            recorder_of(record, "nntile_capture_pending_numbers").numbers(from, numbers);
        for (size_t k = 0; k < numbers.size() && from + k < all; ++k) bits[k] = numbers[k].i;
        return all;
    });
}

void nntile_capture_destroy(nntile_capture* capture) {
    if (!capture || runtime::forked()) return;
    delete capture;
}

size_t nntile_capture_slots(const nntile_capture* capture) {
    return guard_value<size_t>(
        0, [&] { return capture_of(capture, "nntile_capture_slots").slots.size(); });
}

nntile_status nntile_capture_slot_get(const nntile_capture* capture, size_t slot,
                                      nntile_capture_slot* out, nntile_error** error) {
    constexpr const char* self = "nntile_capture_slot_get";
    return guard(error, [&] {
        const record::Capture& c = capture_of(capture, self);
        need(out, self, "out");
        check(slot < c.slots.size(), Status::invalid_argument, self, ": slot ", slot, " of ",
              c.slots.size());
        const size_t size = out->struct_size;
        check(size >= sizeof(size_t), Status::invalid_argument, self, ": struct_size is not set");
        const record::Slot& s = c.slots[slot];
        const nntile_capture_slot now{size, handle_of(s.ref->buffer), s.input != graph::no_value,
                                      s.output != graph::no_value, s.made};
        std::memcpy(out, &now, std::min(size, sizeof now));
    });
}

nntile_status nntile_capture_difference(const nntile_capture* earlier,
                                        const nntile_capture* capture, const uint32_t* live,
                                        size_t n_live, char** text, nntile_error** error) {
    constexpr const char* self = "nntile_capture_difference";
    return guard(error, [&] {
        const record::Capture &before = capture_of(earlier, self), &now = capture_of(capture, self);
        if (n_live) need(live, self, "live");
        need(text, self, "text");
        *text = copy_text(record::difference(before, now, {live, n_live}));
    });
}

nntile_status nntile_capture_replay(nntile_capture* capture, const nntile_capture_binding* bindings,
                                    size_t n_bindings, const nntile_capture_number* numbers,
                                    size_t n_numbers, int64_t seed, int64_t offset,
                                    nntile_error** error) {
    constexpr const char* self = "nntile_capture_replay";
    return paced(error, [&] {
        record::Capture& c = capture_of(capture, self);
        if (n_bindings) need(bindings, self, "bindings");
        if (n_numbers) need(numbers, self, "numbers");
        std::vector<record::Replay::Binding> bound;
        for (size_t k = 0; k < n_bindings; ++k)
            bound.push_back({bindings[k].slot, buffer_of(bindings[k].buffer)});
        std::vector<record::Replay::Number> values;
        for (size_t k = 0; k < n_numbers; ++k)
            values.push_back({numbers[k].number, numbers[k].value});
        c.owner->replay(c, {bound, values, {seed, offset}});
    });
}
