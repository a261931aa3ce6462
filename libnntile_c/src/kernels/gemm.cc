// SPDX-License-Identifier: BSD-3-Clause
// The gemm kernel: batches of products. Each goes straight to BLAS if BLAS can read its layouts,
// otherwise in panels (f16, bf16, odd strides) or, for integers, through a plain loop. A program
// runs when the whole result is there: what BLAS gives for a row depends on how many rows it is
// asked for.
#include "kernels/gemm.hh"
#include "kernels/functions.hh"
#include "kernels/space.hh"

namespace nntile::kernels {
namespace {

constexpr size_t own_inputs = 3, own_params = 3;

// Folds batch dims into m where b does not depend on them and a, c, y walk on evenly: one large
// product is faster than many small ones. Returns how many batch dims are left.
int fold_batches(Product& p, const Args& args, const Block& y, int batches) {
    const Block& b = args.blocks[1];
    Matrix* const walking[] = {&p.a, &p.c, &p.y};
    const Block* const blocks[] = {&args.blocks[0], &args.blocks[2], &y};
    while (batches > 0 && p.m > 0) {
        const int d = batches - 1;
        if (args.sizes[d] != 1) {
            if (b.strides[d] != 0) break;
            bool even = true;
            for (int k = 0; k < 3; ++k)
                if (blocks[k]->data)
                    even &= p.m == 1 || blocks[k]->strides[d] == p.m * walking[k]->row;
            if (!even) break;
            for (int k = 0; k < 3; ++k)
                if (p.m == 1 && blocks[k]->data) walking[k]->row = blocks[k]->strides[d];
            p.m *= args.sizes[d];
        }
        --batches;
    }
    return batches;
}

Matrix matrix_of(const Block& block, int row, int column) {
    if (!block.data) return {nullptr, DType::none, 0, 0};
    return {block.data, block.dtype, block.strides[row], block.strides[column]};
}

int products(const Args& args) {
    const int m = static_cast<int>(args.sizes.size()) - 3, n = m + 1, k = m + 2;
    const Block *a = &args.blocks[0], *b = &args.blocks[1], *c = &args.blocks[2],
                *y = &args.blocks[own_inputs + (args.program ? args.program->n_in - 1 : 0)];
    Product p{args.sizes[m],       args.sizes[n],        args.sizes[k],       matrix_of(*a, m, k),
              matrix_of(*b, k, n), matrix_of(*c, m, n),  matrix_of(*y, m, n), args.params[0].f,
              args.params[1].f,    args.params[2].i != 0};
    if (args.sizes[m] == 0 || args.sizes[n] == 0) return 0;
    if (p.beta == 0) p.c.data = nullptr;
    const int batches = fold_batches(p, args, *y, m);

    Args outer = args;
    outer.sizes = args.sizes.first(batches);
    const int64_t* strides[] = {a->strides, b->strides, p.c.data ? c->strides : nullptr,
                                y->strides};
    Space space;
    if (int status = space.make(outer, strides, {3})) return status;
    if (space.empty()) return 0;
    const auto product_at = [&](const Walk& walk) {
        Product one = p;
        one.a.data += walk.offset[0] * size_of(a->dtype);
        one.b.data += walk.offset[1] * size_of(b->dtype);
        if (p.c.data) one.c.data += walk.offset[2] * size_of(c->dtype);
        one.y.data += walk.offset[3] * size_of(y->dtype);
        return one;
    };
    const int last = space.dims - 1;
    if (is_short_float(a->dtype) && last >= 0 && space.sizes[last] > 1 &&
        (!p.c.data || space.strides[2][last] == 0)) {
        p.count = space.sizes[last];
        p.step_a = space.strides[0][last];
        p.step_b = space.strides[1][last];
        p.step_y = space.strides[3][last];
        Walk walk(space, last);
        bool done = true;
        do done = multiply_short(product_at(walk));
        while (done && walk.next());
        if (done) return 0;  // else none is: they have one shape
        p.count = 1;
    }
    Walk walk(space, space.dims);
    do multiply(product_at(walk));
    while (walk.next());
    return 0;
}

}  // namespace

int gemm(const Args& args) {
    const int status = products(args);
    if (status != 0 || !args.program) return status;
    Args then = args;
    then.sizes = args.sizes.first(args.sizes.size() - 1);
    then.blocks = args.blocks.subspan(own_inputs);
    then.params = args.params.subspan(own_params);
    return map(then);
}

}  // namespace nntile::kernels
