// SPDX-License-Identifier: BSD-3-Clause
#include "device/rng.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <c10/core/GeneratorImpl.h>

#include <atomic>
#include <cstring>

#include "contract/device.h"

namespace torch_nntile {
namespace {

class Generator final : public c10::GeneratorImpl {
public:
    Generator() : GeneratorImpl(torch_nntile::device(), device_keys) {}

    void set_current_seed(uint64_t seed) override { state = {seed, 0}; }
    uint64_t current_seed() const override { return state.seed; }
    void set_offset(uint64_t offset) override { state.offset = offset; }
    uint64_t get_offset() const override { return state.offset; }
    uint64_t seed() override {
        set_current_seed(c10::detail::getNonDeterministicRandom());
        return state.seed;
    }
    void set_state(const c10::TensorImpl& bytes) override {
        at::detail::check_rng_state(bytes);
        TORCH_CHECK(bytes.numel() == sizeof(Draw), "nntile: an RNG state has ", sizeof(Draw),
                    " bytes, got ", bytes.numel());
        std::memcpy(&state, bytes.data(), sizeof(Draw));
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        at::Tensor bytes = at::empty({sizeof(Draw)}, at::TensorOptions(at::kCPU).dtype(at::kByte));
        std::memcpy(bytes.mutable_data_ptr(), &state, sizeof(Draw));
        return bytes.getIntrusivePtr();
    }
    static c10::DeviceType device_type() { return torch_nntile::device_type; }

    Draw state{c10::default_rng_seed_val, 0};

private:
    Generator* clone_impl() const override {
        auto* copy = new Generator;
        copy->state = state;
        return copy;
    }
};

}  // namespace

at::Generator new_generator() { return at::make_generator<Generator>(); }

const at::Generator& default_generator() {
    static const auto* generator = new at::Generator(new_generator());
    return *generator;
}

static std::atomic<int64_t> outside{0};

int64_t draws_outside() { return outside; }

Draw draw_for_host(const std::optional<at::Generator>& given, int64_t numel) {
    ++outside;
    return draw(given, numel);
}

at::Generator host_generator(const Draw& draw) {
    return at::detail::createCPUGenerator(draw.seed ^ (draw.offset * 0x9e3779b97f4a7c15u));
}

Draw draw(const std::optional<at::Generator>& given, int64_t numel) {
    if (given && given->defined() && *given != default_generator()) ++outside;
    auto* generator = at::get_generator_or_default<Generator>(given, default_generator());
    std::lock_guard lock(generator->mutex_);
    const Draw result = generator->state;
    // Philox makes four words at a time.
    generator->state.offset +=
        (static_cast<uint64_t>(std::max<int64_t>(numel, 1)) + 3) & ~uint64_t{3};
    return result;
}

Draw default_state() {
    auto* generator = at::check_generator<Generator>(default_generator());
    std::lock_guard lock(generator->mutex_);
    return generator->state;
}

void set_default_state(Draw state) {
    auto* generator = at::check_generator<Generator>(default_generator());
    std::lock_guard lock(generator->mutex_);
    generator->state = state;
}

}  // namespace torch_nntile
