// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/refuse.hh"

#include <cinttypes>

#include "base/error.hh"
#include "kernels/space.hh"

namespace nntile::kernels {

int refuse(const Args& args, const Refused& refused) {
    constexpr int runtime = static_cast<int>(Status::runtime),
                  out_of_range = static_cast<int>(Status::index_error);
    const auto of_a_dim = [&](const char* name, int status) {
        return fail_task(args, status,
                         "%s: index %" PRId64 " is out of bounds for a dim of size %" PRId64, name,
                         refused.place, refused.end);
    };
    switch (refused.what) {
        case Refusal::none: break;
        case Refusal::zero_divisor: return fail_task(args, runtime, "ZeroDivisionError");
        case Refusal::no_probability:
            return fail_task(args, runtime, "all elements of input should be between 0 and 1");
        case Refusal::no_distribution:
            return fail_task(args, runtime,
                             "probability tensor contains either `inf`, `nan` or element < 0");
        case Refusal::no_chance:
            return fail_task(args, runtime,
                             "invalid multinomial distribution (sum of probabilities <= 0)");
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
        // PyTorch's class for a wrong index depends on the op.
        case Refusal::gather: return of_a_dim("gather", runtime);
        case Refusal::indexing: return of_a_dim("index", out_of_range);
        case Refusal::scatter: return of_a_dim("scatter", runtime);
        case Refusal::index_put: return of_a_dim("index_put", out_of_range);
        case Refusal::bag_index:
            return fail_task(args, out_of_range,
                             "embedding_bag: index %" PRId64 " is out of range [0, %" PRId64 ")",
                             refused.place, refused.end);
        case Refusal::offset:
            return fail_task(args, static_cast<int>(Status::invalid_argument),
                             "embedding_bag: offsets[%" PRId64 "] is %" PRId64
                             ", expected %s %" PRId64 " and at most %" PRId64,
                             refused.place, refused.value, refused.place == 0 ? "just" : "at least",
                             refused.least, refused.end);
    }
    return 0;
}

}  // namespace nntile::kernels
