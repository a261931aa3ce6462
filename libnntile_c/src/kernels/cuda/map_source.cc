// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/cuda/map_source.hh"

#include <algorithm>

#include "base/error.hh"

namespace nntile::kernels::cuda {

namespace {

constexpr nntile::cuda::Header headers[] = {
#include "kernel_headers.inc"
};

// The function of one element of each row that has a loop; nullptr: the row is an expression.
constexpr const char* loop_of[] = {
#define MAP(...) nullptr,
#define MAP_LOOP(name, types, flops, doc, in, out, params, uses_index, body) #body "_of",
#include "kernels/map.def"
#undef MAP
#undef MAP_LOOP
};

constexpr const char* type_of[compute_count] = {"float", "double", "int64_t"};
const char* enumerator(DType d) { return d == DType::boolean ? "boolean" : name_of(d); }
const char* text(bool b) { return b ? "true" : "false"; }

bool repeated(const MapJob& job, int k) {
    return job.quads && job.blocks.blocks[k].strides[job.blocks.dims - 1] == 0;
}
// The first param of some rows is a word, for each of which there is code of its own.
bool has_choice(const Step& step) {
    if (step.primitive >= map_row_count) return false;
    const MapRow& row = map_rows()[step.primitive];
    return !row.params.empty() && row.params[0].choices;
}
bool choice(const MapJob& job, const Step& step) {
    return has_choice(step) && job.params[step.first_param].i != 0;
}

// An expression of its operands for what a step computes; `in`: names of registers.
std::string call_of(const MapJob& job, const Step& step, const std::vector<std::string>& in) {
    const MapRow& row = map_rows()[step.primitive];
    const char* type = type_of[step.compute];
    std::string made;
    if (const char* loop = loop_of[step.primitive])
        made = text_of("at.loop<Loop_", row.name, ">([](const auto& e) { ", loop, "<", type,
                       ">(e); }, ", step.first_param, ", DType::", enumerator(step.result));
    else
        made = text_of("at.apply<Row_", row.name, "<", type, ">, ", text(choice(job, step)), ">(",
                       step.first_param);
    for (const std::string& name : in) made += ", " + name;
    return made + ")";
}

// Which register a slot holds, by its name in the code.
struct Registers {
    std::string of[256];
    int count = 0;
    const std::string& define(uint8_t slot) { return of[slot] = text_of("r", count++); }
};

std::string check_of(const Step& step, const std::string& x) {
    const char* check = step.check == MapCheck::divisor ? "divisor" : "probability";
    return text_of("        if (at.refuses<MapCheck::", check, ">(", x, ")) return;\n");
}

std::string step_code(const MapJob& job, const Step& step, Registers& registers, int number) {
    std::vector<std::string> in;
    for (int k = 0; k < step.n_in; ++k) in.push_back(registers.of[step.in[k]]);
    const auto line = [](const std::string& name, const std::string& value) {
        return text_of("        const auto ", name, " = ", value, ";\n");
    };
    if (step.primitive == convert_step || step.primitive == narrow_step) {
        const std::string from = registers.of[step.in[0]];
        if (step.primitive == convert_step)
            return line(registers.define(step.out[0]),
                        text_of("converted<", type_of[step.compute], ">(", from, ")"));
        return line(registers.define(step.in[0]),
                    text_of("narrowed<DType::", enumerator(step.result), ">(", from, ")"));
    }
    std::string code;
    if (step.check != MapCheck::none) code += check_of(step, in[step.checked]);
    const std::string all = text_of("all", number);
    code += line(all, call_of(job, step, in));
    for (int k = 0; k < step.n_out; ++k)
        code += text_of("        const auto& ", registers.define(step.out[k]), " = ", all, ".of[",
                        k, "];\n");
    return code;
}

std::string read_code(const MapJob& job, int k) {
    const JobBlock& b = job.blocks.blocks[k];
    const char* type = type_of[job.kinds[k]];
    if (b.is_number) return text_of("at.number<", type, ", ", text(b.is_real), ">(", k, ")");
    return text_of("at.read<", type, ", DType::", enumerator(b.dtype), ", ", text(repeated(job, k)),
                   ">(", k, ")");
}

// FNV-1a
uint64_t hash_of(const std::string& bytes) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    return hash;
}

// What a profiler shows: the rows, and a number.
std::string name_of(const MapJob& job, const std::string& key) {
    constexpr size_t longest = 80;
    std::string name = "map";
    for (int i = 0; i < job.n_steps; ++i)
        if (job.steps[i].primitive < map_row_count && name.size() < longest)
            name += text_of("_", map_rows()[job.steps[i].primitive].name);
    char number[20];
    std::snprintf(number, sizeof number, "_%016llx", static_cast<unsigned long long>(hash_of(key)));
    return name + number;
}

}  // namespace

int pieces_of(const MapJob& job) {
    // A GPU has some 2^18 threads at a time.
    constexpr int64_t enough = int64_t{1} << 18;
    constexpr int most_work = 60;  // flops of a row that a thread does for four elements, not more
    if (job.blocks.count < 2 * enough) return 1;
    return std::all_of(job.steps, job.steps + job.n_steps,
                       [](const Step& step) {
                           return step.primitive >= map_row_count ||
                                  map_rows()[step.primitive].flops < most_work;
                       })
               ? 2
               : 1;
}

std::string map_key(const MapJob& job) {
    std::string key;
    const auto add = [&](auto value) { key += static_cast<char>(value); };
    add(job.blocks.dims);
    add(pieces_of(job));
    add(job.quads);
    add(job.n_in);
    add(job.n_out);
    for (int k = 0; k < job.n_in + job.n_out; ++k) {
        const JobBlock& b = job.blocks.blocks[k];
        add(b.is_number ? 64 + b.is_real : static_cast<int>(b.dtype));
        add(job.slots[k]);
        add(job.kinds[k]);
        add(repeated(job, k));
    }
    key.append(reinterpret_cast<const char*>(job.steps),
               sizeof(Step) * static_cast<size_t>(job.n_steps));
    for (int i = 0; i < job.n_steps; ++i)
        if (has_choice(job.steps[i])) add(choice(job, job.steps[i]));
    return key;
}

nntile::cuda::Source map_source(const MapJob& job, const std::string& key) {
    Registers registers;
    std::string code;
    for (int k = 0; k < job.n_in; ++k)
        code += text_of("        const auto ", registers.define(job.slots[k]), " = ",
                        read_code(job, k), ";\n");
    for (int i = 0; i < job.n_steps; ++i) code += step_code(job, job.steps[i], registers, i);
    for (int k = job.n_in; k < job.n_in + job.n_out; ++k)
        code += text_of("        at.write<DType::", enumerator(job.blocks.blocks[k].dtype), ">(", k,
                        ", ", registers.of[job.slots[k]], ");\n");
    const std::string name = name_of(job, key);
    std::string all =
        "#include \"kernels/cuda/map_code.hh\"\n\nnamespace nntile::kernels::cuda {\n\n";
    all += text_of("using At = Here<", job.blocks.dims, ", ", job.quads ? lanes : 1, ", ",
                   pieces_of(job), ">;\n\n");
    all +=
        text_of("extern \"C\" __global__ void __launch_bounds__(code_threads) ", name,
                "(const __grid_constant__ MapCall call) {\n    each<At>(call, [](const At& at) {\n",
                code, "    });\n}\n\n}  // namespace nntile::kernels::cuda\n");
    return {name, all, headers};
}

MapCall map_call(const MapJob& job) {
    static_assert(call_dims == job_dims);
    MapCall call{};
    const auto& space = job.blocks;
    call.count = space.count;
    std::copy_n(space.sizes, job_dims, call.sizes);
    call.index_offset = job.index_offset;
    call.index_step = job.index_step;
    std::copy_n(job.index_strides, job_dims, call.index_strides);
    call.refused = job.refused;
    for (int k = 0; k < job.n_in + job.n_out; ++k) {
        call.operands[k].data = space.blocks[k].data;
        call.operands[k].number = space.blocks[k].number;
        std::copy_n(space.blocks[k].strides, job_dims, call.operands[k].strides);
    }
    std::copy_n(job.params, most_params, call.params);
    return call;
}

}  // namespace nntile::kernels::cuda
