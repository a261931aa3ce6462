// SPDX-License-Identifier: BSD-3-Clause
#include <bit>

#include "runtime/compiled_plan.hh"

namespace nntile::runtime {

namespace {

void add_program(Hash& key, const kernels::Program* program) {
    if (!program) return;
    key.add(program->n_in).add(program->n_out).add(program->n_registers).add(program->code.size());
    for (const kernels::Instruction& i : program->code) {
        key.add(i.primitive).add(static_cast<uint64_t>(i.compute)).add(i.first_param);
        key.add_all(i.in).add_all(i.out).add(static_cast<uint64_t>(i.result));
    }
}

Hash key_of(const tile::Task& task, const std::string& op) {
    Hash key;
    key.add(std::bit_cast<uintptr_t>(task.kernel))
        .add(op)
        .add_all(task.sizes)
        .add_all(task.index_strides);
    key.add(task.operands.size());
    for (const tile::Operand& o : task.operands)
        key.add(static_cast<uint64_t>(o.dtype))
            .add((o.scalar != tile::none) + 2 * (o.tile == tile::none))
            .add_all(o.strides);
    for (const tile::ParamRef& p : task.params)
        key.add(!p.is_fixed()).add(p.is_fixed() ? std::bit_cast<uint64_t>(p.fixed.i) : 0);
    add_program(key, task.program.get());
    return key;
}

TaskKind kind_of(const tile::Task& task, const std::string& op) {
    TaskKind kind;
    kind.kernel = task.kernel;
    kind.codelet = codelet_of(task.kernel ? task.kernel->name : op.empty() ? "host" : "host " + op);
    kind.program = task.program;
    kind.op = op.empty() ? kind.codelet->name : op;
    kind.sizes = task.sizes;
    kind.index_strides = task.index_strides;
    for (const tile::Operand& o : task.operands)
        kind.operands.push_back({o.dtype, o.scalar != tile::none,
                                 o.scalar == tile::none && o.tile == tile::none, o.strides});
    kind.params = task.params;
    // What the cost module calls flops of a table, a visit or a function of the host are elements
    // or bytes.
    const auto work = task.kernel ? task.kernel->work : kernels::Work::table;
    const bool counts = work != kernels::Work::table && work != kernels::Work::visits;
    kind.flops = counts ? static_cast<int64_t>(task.flops) : 0;
    kind.bytes = static_cast<int64_t>(task.bytes);
    return kind;
}

}  // namespace

const TaskKind* TaskKinds::of(const tile::Task& task, const std::string& op,
                              std::vector<uint32_t>& scalars) {
    for (const tile::Operand& o : task.operands)
        if (o.scalar != tile::none) scalars.push_back(o.scalar);
    for (const tile::ParamRef& p : task.params)
        if (!p.is_fixed()) scalars.push_back(p.scalar);
    std::unique_ptr<const TaskKind>& kind = kinds_[key_of(task, op)];
    if (!kind) kind = std::make_unique<const TaskKind>(kind_of(task, op));
    return kind.get();
}

}  // namespace nntile::runtime
