// SPDX-License-Identifier: BSD-3-Clause
// The time of a whole graph under some cuts, without lowering it. Nodes that nothing orders stand
// in one level, as soon as their operands allow; a level takes as long as its work on so many
// workers, or as its longest chain.
#pragma once

#include <array>

#include "tile/axes.hh"
#include "tile/cost.hh"
#include "tile/relation.hh"

namespace nntile::tile {

// A graph as Tiler has related it.
struct Related {
    const graph::Graph& graph;
    const graph::Live& live;
    std::vector<AxisDims> dims;  // by value
    // By node, or of its prologue; without labels where it is dead or only moves
    std::vector<NodeSpace> spaces;
    std::vector<int> links;  // by value: the link of a view to its base in Axes; -1: none
};

struct Estimate {
    // On 1, 2, 4 .. workers, up to Machine::workers.
    std::array<double, 16> seconds{};
    // What a choice makes small: the seconds of all workers, busy or idle, summed over these
    // machines. A sum of the times would be that of few workers, as they take longest.
    double weight = 0;
    double copied = 0;  // bytes
    int64_t tasks = 0;
};

class Estimator {
public:
    Estimator(const Related& related, const Axes& axes, const Cost& cost);
    // Under the axes' cuts as they are now.
    Estimate operator()() const;
    double seconds_whole() const { return whole_; }    // of all nodes, uncut, one after the other
    int workers() const { return 1 << (sizes_ - 1); }  // of the largest machine that is looked at
    double seconds(const Estimate& e) const { return e.seconds[sizes_ - 1]; }  // there

    // Uncut axes with work along them, by extent, most work first: axes of one extent often play
    // one part, as the rows of all layers do. In each the one with the most work comes first.
    std::vector<std::vector<int>> candidates() const;
    // The first dim of the first result, of those whose parts lie apart.
    int leading() const;
    bool is_within_lines(int dim) const;

private:
    struct Label {
        int axis;  // into axes_; -1: an extent of 1
        double extent;
        schema::LabelKind kind;
    };
    struct Operand {
        double element = 0;             // bytes of an element; 0: absent or a number
        double bytes = 0;               // of all of it
        SmallVector<int8_t, 8> labels;  // of its dims
        SmallVector<int, 4> axes;       // of its dims, into axes_; -1: an extent of 1
        Dims strides;                   // of its dims, if it is in_one
        int link = -1;
        int64_t stored = -1;  // the input that it is (a view of), if that is stored cut
        bool in_one = false;  // (a view of) an input that is stored as one tile
        bool output = false;
        bool epilogue = false;  // read or written by a program after the product
    };
    enum class Kind : uint8_t { product, flops, reorders, visits, pass, host, move };
    struct Job {
        Kind kind = Kind::pass;
        DType dtype = DType::f32;
        bool sparse = false;
        double flops = 0;  // of a point; the weight of a host function
        bool (*as_they_lie)(std::span<const int64_t>) = nullptr;  // of the kernel
        double epilogue = 0;  // flops of a point of the result, by a program after the product
        double seconds = 0;   // uncut
        size_t level = 0;
        SmallVector<Label, 6> labels;
        std::vector<Operand> operands;  // inputs, then outputs
    };
    struct AxisState {
        int64_t segments;
        double length;  // of a segment, on average
    };
    struct Now {
        std::vector<AxisState> axes;
        std::vector<bool> lines_up;  // by link
    };
    struct Sum {  // of a level
        double work = 0, longest = 0;
        bool spread = false;
    };

    // node: of this number, or its prologue
    void add(uint32_t number, const graph::Node& node, size_t level);
    Operand operand_of(uint32_t v, bool output);
    int axis_of(int dim);
    std::vector<AxisState> whole_axes() const;
    // Bytes of a task's block of an operand.
    double block(const Job& job, const Operand& operand, const std::vector<AxisState>& axes) const;
    // Likewise, and for each run of elements what could be read while it begins; of so many bytes
    // of an operand.
    double with_runs(const Operand& operand, double bytes,
                     const std::vector<AxisState>& axes) const;
    double block_and_runs(const Job& job, const Operand& operand,
                          const std::vector<AxisState>& axes) const;
    // Without its price
    double task_seconds(const Job& job, const std::vector<AxisState>& axes) const;
    // With the last part of a sum
    double epilogue_seconds(const Job& job, const std::vector<AxisState>& axes) const;
    // Of a task's part
    static bool reads_as_they_lie(const Job& job, const std::vector<AxisState>& axes);
    static double length(const Label& label, const std::vector<AxisState>& axes);
    void estimate_job(const Job& job, const Now& now, std::vector<Sum>& levels,
                      Estimate& all) const;
    bool fits(uint32_t input) const;  // as it is stored, tasks can read blocks of its tiles

    const Related& related_;
    const Axes& all_;
    const Cost& cost_;
    std::vector<int> axes_;  // dims that stand for them
    std::vector<int> axis_of_dim_;
    std::vector<Job> jobs_;
    size_t levels_ = 0, sizes_ = 1;
    double whole_ = 0;
};

}  // namespace nntile::tile
