// SPDX-License-Identifier: BSD-3-Clause
#include <charconv>

#include "base/text.hh"
#include "graph/program.hh"
#include "graph/text.hh"

namespace nntile::graph {
namespace {

using schema::AttrKind;

// A number beyond is a typing error, not a wish for gigabytes
constexpr uint32_t most_scalars = 1u << 24;

class Parser {
public:
    explicit Parser(std::string_view text) : s_("graph text", text) {}

    Graph graph(NamedCuts* cuts) {
        s_.skip_lines();
        s_.expect("graph");
        s_.expect("{");
        s_.end_line();
        while (!s_.accept("}")) {
            if (s_.accept("return")) outputs();
            else if (s_.accept("cut")) cut(cuts);
            else statement();
            s_.end_line();
        }
        s_.end_line();
        if (!s_.at_end()) s_.fail("there is more text after the graph");
        return std::move(g_);
    }

private:
    struct Result {
        Type type;
        std::vector<std::pair<uint32_t, std::string>> names;  // of dims
    };
    struct Given {                   // a real or seed attribute
        uint32_t scalar = no_value;  // no_value: the next free one
        kernels::Param value{};
    };
    struct Numbered {
        Code code;
        std::vector<Given> scalars;  // of its attributes
    };

    void statement() {
        std::vector<Result> results;
        const auto first = static_cast<uint32_t>(g_.values.size());
        if (s_.at('%')) {
            do {
                s_.expect("%");
                const uint32_t want = first + static_cast<uint32_t>(results.size()),
                               got = s_.number();
                if (got != want)
                    s_.fail("values are numbered in order: expected %", want, ", got %", got);
                s_.expect(":");
                results.push_back(result());
            } while (s_.accept(","));
            s_.expect("=");
        }
        right(results);
        for (size_t k = 0; k < results.size(); ++k) {
            const auto v = static_cast<uint32_t>(first + k);
            const Result& r = results[k];
            if (v >= g_.values.size()) s_.fail("there are more results than %", v - 1);
            if (g_.value(v).dtype != r.type.dtype || g_.value(v).sizes != r.type.sizes)
                s_.fail("%", v, " is ", name_of(g_.value(v).dtype), " ",
                        text_of_dims(g_.value(v).sizes), ", not ", name_of(r.type.dtype), " ",
                        text_of_dims(r.type.sizes));
            for (const auto& [dim, name] : r.names) g_.name_axis(v, dim, name);
        }
        if (g_.values.size() != first + results.size())
            s_.fail("there are ", g_.values.size() - first, " results, not ", results.size());
    }

    Result result() {
        Result r;
        r.type.dtype = dtype();
        s_.expect("[");
        while (!s_.accept("]")) {
            if (s_.at_word() || s_.at('"')) {
                const std::string name = s_.word_or_string();
                if (s_.accept("=")) extents_[name] = s_.integer();
                else if (!extents_.count(name)) s_.fail("axis ", name, " has no extent yet");
                r.names.emplace_back(r.type.sizes.size(), name);
                r.type.sizes.push_back(extents_[name]);
            } else {
                r.type.sizes.push_back(s_.integer());
            }
            if (!s_.at(']')) s_.expect(",");
        }
        return r;
    }

    DType dtype() {
        const std::string name = s_.word();
        const auto type = dtype_of(name);
        if (!type || *type == DType::none) s_.fail("no dtype ", name);
        return *type;
    }

    // A value of an earlier line; "none" is an absent operand.
    uint32_t operand() {
        if (s_.accept("none")) return no_value;
        s_.expect("%");
        const uint32_t v = s_.number();
        if (v >= g_.values.size()) s_.fail("no value %", v, " before this line");
        return v;
    }
    uint32_t value() {
        const uint32_t v = operand();
        if (v == no_value) s_.fail("expected a value, got none");
        return v;
    }

    std::vector<uint32_t> operands() {
        std::vector<uint32_t> out;
        s_.expect("(");
        while (!s_.accept(")")) {
            out.push_back(operand());
            if (!s_.at(')')) s_.expect(",");
        }
        return out;
    }

    void right(const std::vector<Result>& results) {
        const std::string word = s_.word();
        if (word == "host") return host(results);
        if (!s_.at('(')) {
            if (results.size() != 1) s_.fail(word, " gives one value, not ", results.size());
            if (word == "input") return input(results[0].type);
            if (word == "scalar") return scalar(results[0].type);
            if (word == "view") return view();
        }
        if (word == "map") return program(results);
        const OpRow* row = schema::find_op(word);
        if (!row) s_.fail("no op ", word);
        if (row->compose) s_.fail(word, " is a composition: a graph holds its parts");
        op(*row, results);
    }

    void input(const Type& type) {
        const std::string name = s_.at('"') ? s_.string() : "";
        const bool overwritable = s_.accept("overwritable");
        StoredRef data = s_.accept("stored") ? stored(type.dtype) : nullptr;
        const uint32_t v = g_.add_input(type.dtype, type.sizes, name, std::move(data));
        g_.inputs[g_.value(v).source].overwritable = overwritable;
    }

    StoredRef stored(DType dtype) {
        auto data = std::make_shared<Stored>();
        data->dtype = dtype;
        s_.expect("[");
        while (!s_.accept("]")) {
            std::string name;
            if (s_.at_word() || s_.at('"')) {
                name = s_.word_or_string();
                s_.expect("=");
            }
            data->names.push_back(std::move(name));
            Cut factors;
            do factors.push_back(factor());
            while (s_.accept("x"));
            if (s_.accept("hint")) data->hints |= uint64_t{1} << data->sizes.size();
            int64_t extent = 1;
            for (const Factor& f : factors)
                if (__builtin_mul_overflow(extent, f.extent, &extent))
                    s_.fail("an extent is too large");
            data->sizes.push_back(extent);
            data->cuts.push_back(std::move(factors));
            if (!s_.at(']')) s_.expect(",");
        }
        data->undefined = s_.accept("undefined");
        return data;
    }

    Factor factor() {
        Factor f{s_.integer(), {}};
        if (!s_.accept("cut")) return f;
        s_.expect("[");
        while (!s_.accept("]")) {
            f.positions.push_back(s_.integer());
            if (f.positions.back() <= (f.positions.size() > 1 ? f.positions.end()[-2] : 0) ||
                f.positions.back() >= f.extent)
                s_.fail("positions of a cut rise from 1 to ", f.extent - 1);
            if (!s_.at(']')) s_.expect(",");
        }
        return f;
    }

    Given number_with_slot(bool real) {
        Given given;
        if (real) given.value.f = s_.real();
        else given.value.i = s_.integer();
        if (s_.accept("@")) {
            given.scalar = s_.number();
            if (given.scalar >= most_scalars) s_.fail("scalar ", given.scalar, " is too large");
        }
        return given;
    }
    uint32_t place(const Given& given) {
        const uint32_t scalar =
            given.scalar == no_value ? static_cast<uint32_t>(g_.scalars.size()) : given.scalar;
        if (scalar >= g_.scalars.size()) g_.scalars.resize(scalar + 1);
        g_.scalars[scalar] = given.value;
        return scalar;
    }

    void scalar(const Type& type) {
        const Given given = number_with_slot(is_floating(type.dtype));
        const uint32_t v = g_.add_scalar(type.dtype, given.value.f, given.value.i);
        g_.scalars.pop_back();
        g_.values[v].source = place(given);
    }

    void view() {
        Layout layout;
        s_.expect("of");
        const uint32_t base = value();
        s_.expect("sizes");
        layout.sizes = s_.dims();
        s_.expect("strides");
        layout.strides = s_.dims();
        s_.expect("offset");
        layout.offset = s_.integer();
        g_.add_view(base, layout);
    }

    static std::vector<Type> types_of(const std::vector<Result>& results) {
        std::vector<Type> types;
        for (const Result& r : results) types.push_back(r.type);
        return types;
    }

    void host(const std::vector<Result>& results) {
        std::string name = s_.string();
        const std::vector<uint32_t> in = operands();
        HostAxes axes(s_.accept("axes") ? in.size() + results.size() : 0);
        for (Dims& own : axes) own = s_.dims();
        const bool ranges = s_.accept("ranges");
        const auto updated = static_cast<uint32_t>(s_.accept("updates") ? s_.number() : 0);
        const bool effect = s_.accept("effect");
        s_.expect("signature");
        const uint64_t signature = s_.hexadecimal();
        g_.add_host({std::move(name), signature, std::move(axes), ranges, updated, effect}, in,
                    types_of(results), s_.comment());
    }

    void op(const OpRow& row, const std::vector<Result>& results) {
        std::vector<uint32_t> in = operands();
        const DType compute = s_.accept("in")   ? dtype()
                              : results.empty() ? DType::none
                                                : results[0].type.dtype;
        std::vector<Given> scalars(row.attrs.size());
        std::vector<Attr> attrs = attributes(row, scalars);
        const std::vector<Type> types = types_of(results);
        const bool program = s_.at('['), prologue = program && row.prologue >= 0;
        if (program && ((!prologue && !row.epilogue) || types.empty()))
            s_.fail(row.name, " takes no program");
        const size_t n_own = row.inputs.size() - (prologue ? 1 : 0);
        if (row.inputs.empty() || !row.inputs.back().variadic())
            in.resize(std::max(in.size(), n_own), no_value);
        const auto own = std::span<const uint32_t>(in).first(program ? n_own : in.size());
        const auto more = std::span<const uint32_t>(in).subspan(own.size());
        auto [code, given] =
            program ? program_code({more.begin(), more.end()}, prologue ? 0 : 1, types.size() - 1)
                    : Numbered{};
        scalars.insert(scalars.end(), given.begin(), given.end());
        const size_t first_scalar = g_.scalars.size();
        if (prologue)
            g_.add_prologue(row, own, std::move(attrs), std::move(code), compute, types,
                            s_.comment());
        else g_.add(row, own, std::move(attrs), compute, types, s_.comment());
        if (program && !prologue) g_.add_epilogue(std::move(code), std::span(types).subspan(1));
        number_scalars(first_scalar, scalars);
    }

    uint8_t program_register() {
        const std::string word = s_.word();
        int number = 0;
        const auto [end, error] =
            std::from_chars(word.data() + 1, word.data() + word.size(), number);
        if (word[0] != 'r' || error != std::errc() || end != word.data() + word.size() ||
            number < 0 || number >= kernels::max_map_registers)
            s_.fail("no register ", word);
        highest_ = std::max(highest_, number);
        return static_cast<uint8_t>(number);
    }

    // more: registers that are read beside the operands.
    Numbered program_code(std::vector<uint32_t> operands, size_t more, size_t outputs) {
        const auto program = std::make_shared<kernels::Program>();
        const size_t inputs = operands.size() + more;
        Numbered made{{program, std::move(operands), {}}, {}};
        std::vector<Attr>& attrs = made.code.attrs;
        std::vector<Given>& scalars = made.scalars;
        highest_ = -1;
        s_.expect("[");
        do {
            kernels::Instruction code;
            do code.out.push_back(program_register());
            while (s_.accept(","));
            s_.expect("=");
            const std::string name = s_.word();
            const int primitive = kernels::find_map(name);
            if (primitive < 0) s_.fail("no element-wise op ", name);
            code.primitive = static_cast<uint16_t>(primitive);
            s_.expect("(");
            while (!s_.accept(")")) {
                code.in.push_back(program_register());
                if (!s_.at(')')) s_.expect(",");
            }
            s_.expect(":");
            code.result = dtype();
            code.compute = s_.accept("in") ? dtype() : code.result;
            if (compute_class(code.compute) != code.compute)
                s_.fail(name, " is computed in f32, f64 or i64, not in ", name_of(code.compute));
            code.first_param = static_cast<uint16_t>(attrs.size());
            const OpRow& row = row_of(code);
            std::vector<Given> own_scalars(row.attrs.size());
            std::vector<Attr> own = attributes(row, own_scalars);
            own.resize(param_count(row));
            own_scalars.resize(param_count(row));
            attrs.insert(attrs.end(), own.begin(), own.end());
            scalars.insert(scalars.end(), own_scalars.begin(), own_scalars.end());
            program->code.push_back(std::move(code));
        } while (s_.accept(";"));
        s_.expect("]");
        program->n_in = static_cast<uint8_t>(std::min<size_t>(inputs, UINT8_MAX));
        program->n_out = static_cast<uint8_t>(std::min<size_t>(outputs, UINT8_MAX));
        program->n_registers =
            static_cast<uint8_t>(std::max<int>(highest_ + 1, program->n_in + program->n_out));
        return made;
    }

    void program(const std::vector<Result>& results) {
        auto [code, scalars] = program_code(operands(), 0, results.size());
        const size_t first_scalar = g_.scalars.size();
        g_.add_program(std::move(code), types_of(results), s_.comment());
        number_scalars(first_scalar, scalars);
    }

    // Numbered anew: the text may name the scalars.
    void number_scalars(size_t first_scalar, const std::vector<Given>& scalars) {
        g_.scalars.resize(first_scalar);
        std::vector<Attr>& placed = g_.nodes.back().attrs;
        for (size_t k = 0; k < placed.size(); ++k)
            if (placed[k].scalar != no_value) placed[k].scalar = place(scalars[k]);
    }

    std::vector<Attr> attributes(const OpRow& row, std::vector<Given>& scalars) {
        std::vector<Attr> attrs = schema::default_attrs(row);
        for (size_t k = 0; k < attrs.size(); ++k) {
            if (row.attrs[k].kind == AttrKind::real) scalars[k].value.f = attrs[k].f;
            else scalars[k].value.i = attrs[k].i;
        }
        if (!s_.accept("{")) return attrs;
        while (!s_.accept("}")) {
            const std::string name = s_.word();
            size_t k = 0;
            while (k < attrs.size() && row.attrs[k].name != name) ++k;
            if (k == attrs.size()) s_.fail(row.name, " has no attribute ", name);
            s_.expect("=");
            attribute(row, row.attrs[k], attrs[k], scalars[k]);
            if (!s_.at('}')) s_.expect(",");
        }
        return attrs;
    }

    void attribute(const OpRow& row, const schema::AttrRow& attr, Attr& value, Given& scalar) {
        switch (attr.kind) {
            case AttrKind::integer: value.i = s_.integer(); break;
            case AttrKind::integers: value.ints = s_.dims(); break;
            case AttrKind::text:
                value.i = schema::choice_index(row, attr, s_.word_or_string());
                break;
            case AttrKind::real:
            case AttrKind::seed: scalar = number_with_slot(attr.kind == AttrKind::real); break;
        }
    }

    void outputs() {
        do {
            const uint32_t v = value();
            g_.set_output(v, s_.at('"') ? s_.string() : "");
        } while (s_.accept(","));
    }

    void cut(NamedCuts* cuts) {
        const std::string name = s_.word_or_string();
        const Dims sizes = s_.dims();
        AxisCut segments(sizes.begin(), sizes.end());
        g_.check_cut(name, segments);
        if (cuts) (*cuts)[name] = std::move(segments);
    }

    Scanner s_;
    Graph g_;
    std::map<std::string, int64_t> extents_;
    int highest_ = -1;  // register of the program being read
};

}  // namespace

Graph parse(std::string_view text, NamedCuts* cuts) { return Parser(text).graph(cuts); }

}  // namespace nntile::graph
