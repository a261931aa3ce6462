// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/kernel.h"

#include <cstring>

#include "abi/guard.hh"
#include "abi/record.hh"

using namespace nntile;
using namespace nntile::abi;

namespace {

// An operand that is given twice: what the kernel changes starts with what is there.
struct Changed {
    int64_t bytes;  // of an element, times the dims without an axis
    Dims axes;      // of the others
};

Changed changed(const record::Operand& o, const Dims& axes) {
    Changed out{size_of(o.dtype), {}};
    for (size_t d = 0; d < axes.size(); ++d) {
        if (axes[d] < 0) out.bytes *= o.sizes[d];
        else out.axes.push_back(axes[d]);
    }
    return out;
}

void check_changed(std::string_view name, std::span<const record::Operand> operands,
                   size_t n_inputs, size_t n_changed) {
    check(n_changed <= n_inputs && n_inputs + n_changed <= operands.size(),
          Status::invalid_argument, name, ": ", n_changed, " changed operands of ", n_inputs,
          " inputs and ", operands.size() - n_inputs, " outputs");
    for (size_t k = 0; k < n_changed; ++k) {
        const record::Operand &in = operands[k], &out = operands[n_inputs + k];
        const bool same =
            in.kind == out.kind && in.dtype == out.dtype &&
            std::equal(in.sizes.begin(), in.sizes.end(), out.sizes.begin(), out.sizes.end());
        check(same, Status::invalid_argument, name, ": changed operand ", k,
              " has another shape or dtype as an output");
    }
}

}  // namespace

nntile_status nntile_record_kernel(nntile_record* record, const char* name, uint64_t signature,
                                   nntile_kernel_function function, const int64_t* numbers,
                                   size_t n_numbers, const nntile_operand* operands,
                                   size_t n_inputs, size_t n_outputs, size_t n_changed,
                                   const int64_t* axes, const char* where, nntile_error** error) {
    constexpr const char* self = "nntile_record_kernel";
    return paced(error, [&] {
        need(name, self, "name");
        check(function, Status::invalid_argument, self, ": function is NULL");
        if (n_numbers) need(numbers, self, "numbers");
        const auto all = operands_of(operands, n_inputs + n_outputs, name);
        check_changed(name, all, n_inputs, n_changed);
        record::HostCall call{{name, signature}, {}};
        for (const record::Operand& o : all) {
            Dims& own = call.host.axes.emplace_back();
            for (size_t d = 0; d < o.sizes.size(); ++d) own.push_back(axes ? *axes++ : -1);
        }
        std::vector<Changed> copies;
        for (size_t k = 0; k < n_changed; ++k) copies.push_back(changed(all[k], call.host.axes[k]));
        call.function.run = [function, n_inputs, copies = std::move(copies),
                             own = Dims({numbers, n_numbers})](const HostPart& part,
                                                               void* const* data, char* text) {
            for (size_t k = 0; k < copies.size(); ++k) {
                int64_t bytes = copies[k].bytes;
                for (int64_t axis : copies[k].axes) bytes *= part.sizes[axis];
                if (data[k] != data[n_inputs + k]) std::memcpy(data[n_inputs + k], data[k], bytes);
            }
            return function(own.data(), part.starts.data(), part.sizes.data(), data, text);
        };
        recorder_of(record, self).host(std::move(call), all, n_inputs, place_given(where));
    });
}
