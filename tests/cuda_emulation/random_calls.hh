// SPDX-License-Identifier: BSD-3-Clause
// Random dtypes, layouts, shapes and calls, ragged ones and empty ones too.
#pragma once

#include <algorithm>
#include <string_view>

#include "../kernels/programs.hh"
#include "../kernels/tensor.hh"

namespace nntile::test {

inline constexpr int64_t most_elements =
    2000;  // a thread of an emulated device takes a microsecond

inline DType any_of(std::vector<DType> all) {
    return all[static_cast<size_t>(random_int(0, static_cast<int64_t>(all.size()) - 1))];
}
inline DType any_dtype() { return static_cast<DType>(random_int(1, dtype_count - 1)); }
inline DType any_real() { return any_of({DType::f32, DType::f64, DType::f16, DType::bf16}); }
inline Lie any_lie() { return lies[random_int(0, 3)]; }
inline int64_t any_size() {
    const int64_t sizes[] = {0, 1, 2, 3, 7, 16, 31, 33, 64, 65, 127, 130};
    return sizes[random_int(random_int(0, 9) == 0 ? 0 : 1, 11)];
}
inline Index any_sizes(int64_t least, int64_t most) {
    Index sizes;
    int64_t count = 1;
    for (int64_t d = random_int(least, most); d > 0; --d) {
        sizes.push_back(std::min(any_size(), most_elements / count));
        count *= std::max<int64_t>(sizes.back(), 1);
    }
    return sizes;
}

inline std::vector<kernels::Param> params_of(const kernels::MapRow& row) {
    std::vector<kernels::Param> params;
    for (const kernels::MapParam& p : row.params) {
        const bool choice = p.choices && random_int(0, 1);
        params.push_back(p.kind == 'f' ? real(p.initial)
                                       : integer(choice ? 1 : static_cast<int64_t>(p.initial)));
    }
    return params;
}

inline bool takes(kernels::Types types, DType dtype) {
    if (types == kernels::Types::floating) return is_floating(dtype);
    if (types == kernels::Types::integral) return !is_floating(dtype);
    return types != kernels::Types::real || dtype != DType::boolean;
}

// A call of one row of map.def: operands, then results.
struct MapCase {
    DType dtype = DType::none;
    Index sizes, index_strides;
    std::vector<Tensor> tensors;
    kernels::Program program;
    std::vector<kernels::Param> params;

    explicit MapCase(const kernels::MapRow& row) {
        do dtype = any_dtype();
        while (!takes(row.types, dtype));
        sizes = any_sizes(0, 3);
        const auto own = [&](const char* name) {
            return *name == '*' ? DType::boolean : *name == '#' ? DType::i64 : dtype;
        };
        for (const char* input : row.inputs) {
            Index absent;
            if (!sizes.empty() && random_int(0, 3) == 0) absent = {0};
            tensors.emplace_back(own(input), sizes, any_lie(), absent).random(0.1, 3);
            if (std::string_view(input) == "step") tensors.back().fill([] { return 3; });
        }
        for (const char* output : row.outputs)
            tensors.emplace_back(
                row.types == kernels::Types::compare ? DType::boolean : own(output), sizes,
                any_lie());
        program = single(row.name, dtype);
        index_strides.assign(sizes.size(), 1);
        for (size_t d = sizes.size(); d-- > 1;)
            index_strides[d - 1] = index_strides[d] * std::max<int64_t>(sizes[d], 1);
        params = params_of(row);
    }
    std::vector<Tensor*> operands() {
        std::vector<Tensor*> all;
        for (Tensor& t : tensors) all.push_back(&t);
        return all;
    }
};

}  // namespace nntile::test
