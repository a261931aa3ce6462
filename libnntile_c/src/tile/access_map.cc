// SPDX-License-Identifier: BSD-3-Clause
#include "tile/access_map.hh"

#include <numeric>
#include <tuple>

#include "base/error.hh"

namespace nntile::tile {

namespace {

void verify(std::span<const int64_t> shape, const Layout& layout) {
    check(layout.sizes.size() == layout.strides.size(), Status::invalid_argument, "layout has ",
          layout.sizes.size(), " sizes but ", layout.strides.size(), " strides");
    check(shape.size() <= max_rank, Status::unsupported, "a value of ", shape.size(),
          " dims; at most ", max_rank, " are supported");
    bool negative = layout.offset < 0;
    for (int64_t n : layout.sizes) negative |= n < 0;
    for (int64_t t : layout.strides) negative |= t < 0;
    check(!negative, Status::invalid_argument,
          "sizes, strides and offset of a layout must not be negative");
}

// Writes an address in the radix of the base, outer dim first.
void append_radix(const Dims& shape, const Dims& own, int64_t address, SmallVector<Step, 16>& out) {
    for (size_t i = 0; address > 0 && i < shape.size(); ++i) {
        if (shape[i] == 1 || address < own[i]) continue;
        // Most strides are a stride of the base; a division costs more than all the rest.
        int64_t steps = address == own[i] ? 1 : address / own[i];
        out.push_back({steps, static_cast<uint32_t>(i)});
        address -= steps * own[i];
    }
}

// Digits of one view dim of n elements with a stride. Returns the base dim that carries, or -1.
int append_digits(AccessMap& m, const Dims& own, uint32_t dim, int64_t n, int64_t stride) {
    size_t first_digit = m.digits.size();
    int carry = -1;
    for (int64_t weight = 1; n > 1;) {
        size_t first = m.steps.size();
        append_radix(m.shape, own, stride, m.steps);
        size_t count = m.steps.size() - first;
        for (size_t a = first; a < m.steps.size(); ++a)
            if (m.steps[a].step * (n - 1) >= m.shape[m.steps[a].base])
                carry = static_cast<int>(m.steps[a].base);
        auto append = [&](int64_t size) {
            m.digits.push_back(
                {weight, size, dim, static_cast<uint16_t>(first), static_cast<uint16_t>(count)});
        };
        if (carry < 0) {
            append(n);
            break;
        }
        // Fill the innermost base dim exactly and go on in the dim before.
        Step inner = m.steps.back();
        int64_t size = m.shape[inner.base] / inner.step;
        if (count > 1 || m.shape[inner.base] % inner.step || n % size) {
            m.steps.resize(first);
            break;
        }
        carry = -1;
        append(size);
        weight *= size;
        n /= size;
        stride *= size;
    }
    std::reverse(m.digits.begin() + first_digit, m.digits.end());
    return carry;
}

}  // namespace

Layout normal_layout(const Layout& layout) {
    Layout out = layout;
    bool empty = layout.numel() == 0;
    if (empty) out.offset = 0;
    for (size_t k = 0; k < out.sizes.size(); ++k)
        if (empty || out.sizes[k] == 1) out.strides[k] = 0;
    return out;
}

AccessMap access_map(std::span<const int64_t> shape, const Layout& layout) {
    verify(shape, layout);
    AccessMap m;
    m.shape = Dims(shape);
    m.layout = normal_layout(layout);
    m.start.assign(shape.size(), 0);
    if (layout.numel() == 0) return m;
    if (!in_bounds(m.layout, product(shape)))
        [[unlikely]]  // check() would make the texts every time
        fail(Status::invalid_argument, "a layout of sizes ", text_of_dims(layout.sizes),
             ", strides ", text_of_dims(layout.strides), ", offset ", layout.offset,
             " ends beyond the value of shape ", text_of_dims(shape));

    if (layout.sizes == m.shape && is_dense(layout)) {
        for (uint32_t i = 0; i < shape.size(); ++i) {
            if (shape[i] == 1) continue;
            m.digits.push_back({1, shape[i], i, static_cast<uint16_t>(m.steps.size()), 1});
            m.steps.push_back({1, i});
        }
        return m;
    }

    Dims own = dense_strides(shape);
    append_radix(m.shape, own, layout.offset, m.steps);
    for (const Step& s : m.steps) m.start[s.base] = s.step;
    m.steps.clear();
    for (uint32_t k = 0; k < layout.sizes.size(); ++k) {
        int over = append_digits(m, own, k, layout.sizes[k], layout.strides[k]);
        if (over >= 0) m.carry |= bit(over);
    }
    Dims top = m.start;
    for (const Digit& d : m.digits)
        for (const Step& s : m.steps_of(d)) top[s.base] += s.step * (d.size - 1);
    for (size_t i = 0; i < shape.size(); ++i)
        if (top[i] >= shape[i]) m.carry |= bit(i);
    return m;
}

namespace {

struct Mover {  // a digit that moves the base dim at hand
    int64_t step;
    int64_t size;
    size_t digit;
};

// Refines one base dim of extent n: peels the outermost digit off a block, again and again.
void refine_dim(const AccessMap& m, size_t i, std::vector<Mover>& movers, Form& form) {
    std::sort(movers.begin(), movers.end(), [](const Mover& a, const Mover& b) {
        return std::tie(a.step, a.size, a.digit) > std::tie(b.step, b.size, b.digit);
    });
    int32_t base = static_cast<int32_t>(i);
    int64_t block = m.shape[i], start = m.start[i];
    Dims radix;
    Window window{0, 1, m.shape[i]};
    for (size_t a = 0; a < movers.size(); ++a) {
        bool last = a + 1 == movers.size();
        int64_t inner = last ? 1 : std::gcd(movers[a].step, block);
        int64_t reach = start % inner;
        for (size_t b = a + 1; b < movers.size(); ++b)
            reach += movers[b].step * (movers[b].size - 1);
        if (!last && reach >= inner) break;  // the inner digits leave their block
        form.digits[movers[a].digit] = {base, static_cast<int32_t>(a), block / inner, start / inner,
                                        movers[a].step / inner};
        radix.push_back(block / inner);
        block = inner;
        start %= inner;
    }
    if (radix.size() < movers.size()) {
        // Either the digits overlap, or they are a split of a slice that starts inside a block.
        bool tight = true;
        for (size_t a = 0; a + 1 < movers.size(); ++a)
            tight &= movers[a].step == movers[a + 1].step * movers[a + 1].size;
        radix.clear();
        for (size_t a = 0; a < movers.size(); ++a) {
            RefinedDim at;
            if (tight) {
                at = {base, static_cast<int32_t>(a), movers[a].size, 0, 1};
                radix.push_back(movers[a].size);
            }
            form.digits[movers[a].digit] = at;
        }
        if (tight) window = {m.start[i], movers.back().step, product(radix)};
        else form.opaque |= bit(i);
    }
    if (radix.empty()) radix.push_back(m.shape[i]);
    form.radix.push_back(radix);
    form.windows.push_back(window);
}

}  // namespace

Form refine(const AccessMap& m) {
    check(m.carry == 0, Status::internal, "refine of an irregular map");
    Form form;
    form.digits.resize(m.digits.size());
    for (const Digit& d : m.digits)
        if (d.n_steps > 1)
            for (const Step& s : m.steps_of(d)) form.opaque |= bit(s.base);
    for (size_t i = 0; i < m.shape.size(); ++i) {
        std::vector<Mover> movers;
        for (size_t j = 0; j < m.digits.size(); ++j) {
            std::span<const Step> steps = m.steps_of(m.digits[j]);
            if (!steps.empty() && steps[0].base == i && !(form.opaque & bit(i)))
                movers.push_back({steps[0].step, m.digits[j].size, j});
        }
        refine_dim(m, i, movers, form);
    }
    return form;
}

}  // namespace nntile::tile
