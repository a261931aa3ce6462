// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/refuse.hh"

#include <cinttypes>

#include "base/error.hh"
#include "kernels/space.hh"

namespace nntile::kernels {

int refuse(const Args& args, const Refused& refused) {
    constexpr int runtime = static_cast<int>(Status::runtime),
                  out_of_range = static_cast<int>(Status::index_error);
    switch (refused.what) {
        case Refusal::none: break;
        case Refusal::zero_divisor: return fail_task(args, runtime, "ZeroDivisionError");
        case Refusal::no_probability:
            return fail_task(args, runtime, "all elements of input should be between 0 and 1");
        case Refusal::index:
            return fail_task(args, out_of_range,
                             "index %" PRId64 " is out of range [0, %" PRId64 ")", refused.place,
                             refused.end);
        case Refusal::target:
            return fail_task(args, out_of_range,
                             "target %" PRId64 " is out of range [0, %" PRId64 ")", refused.place,
                             refused.end);
        case Refusal::pooled:
            return fail_task(args, out_of_range,
                             "max_pool_backward: index %" PRId64 " is out of range [0, %" PRId64
                             ")",
                             refused.place, refused.end);
    }
    return 0;
}

}  // namespace nntile::kernels
