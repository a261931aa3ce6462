// SPDX-License-Identifier: BSD-3-Clause
// How many bytes the tasks of each node need at once under some cuts, without lowering the graph:
// tiles of their operands and results, each once. A model, which counts more rather than less: a
// result that takes the memory of an operand is counted beside it.
#pragma once

#include "tile/estimate.hh"

namespace nntile::tile {

class TaskBytes {
public:
    // As few as no graph of the same values can exceed under any cuts; cheap to tell.
    static double most_of(const Related& related);

    TaskBytes(const Related& related, const Axes& axes);

    struct Label {
        int dim;  // of an operand; -1: of one element
        int64_t extent;
        schema::LabelKind kind;
        bool in_place = false;  // of a result that may be made in a copy of its namesake
        bool can_be_cut() const { return dim >= 0 && kind != schema::LabelKind::whole; }
        // A cut makes a task smaller
        bool helps() const { return can_be_cut() || (dim >= 0 && in_place); }
    };
    struct Needs {
        std::vector<double> jobs;  // bytes that are asked for: of the largest task of each
        double largest = 0;        // bytes of the largest task of all
        // By value: stored data that takes the cuts of this graph for good: its tiles make a task
        // too large, or are copied for this graph anyway.
        std::vector<bool> taken_over;
        double excess = 0;  // how far all jobs are above the limit: a sum of logarithms
    };
    // Under the axes' cuts as they are now, where a task should need `most` bytes at most.
    Needs operator()(double most) const;

    size_t job_count() const { return jobs_.size(); }
    std::span<const Label> labels_of(size_t job) const { return jobs_[job].labels; }
    bool is_cut_by_tasks(int axis) const;      // along it a job can be cut; axis: as Axes::find()
    bool are_alike(size_t a, size_t b) const;  // their labels are

private:
    struct Operand {
        uint32_t value, base;
        double element;
        bool output = false, own = false;  // own: of the node, not of its epilogue
        SmallVector<int8_t, 8> labels = {};
        int takes = -1;  // of a result: the operand whose copy it may overwrite
    };
    struct Job {
        bool writes = false;  // of rule write: old data, what is written, result
        bool bits = false;    // of that rule: data, its bytes
        std::vector<Label> labels = {};
        std::vector<Operand> operands = {};
    };
    struct Seen {       // of one operand
        double bytes;   // that the task needs
        double copy;    // that a copy needs which makes that; 0: there is none
        uint32_t tile;  // operands of one such number share it
    };

    void add(const graph::Node& node, const NodeSpace& space);
    Operand operand_of(uint32_t v, bool output) const;
    int taken_by(const graph::Node& node, size_t output, const Job& job) const;
    bool is_cut(uint32_t v) const;
    double tile_of(uint32_t base, const std::vector<bool>& taken_over) const;
    bool is_one_tile(uint32_t base, const std::vector<bool>& taken_over) const;
    const graph::Stored* stored_of(uint32_t base) const;
    bool keeps(uint32_t base, const std::vector<bool>& taken_over) const;
    bool fits(uint32_t base) const;
    double read_from(uint32_t base) const;
    bool is_copied(const Job& job, const Operand& o) const;
    Seen seen(const Job& job, const Operand& o, const std::vector<bool>& taken_over) const;
    double retile(uint32_t base, const std::vector<bool>& taken_over, double most) const;
    double need(const Job& job, const std::vector<bool>& taken_over, double most) const;
    double for_later(const Job& job, const std::vector<bool>& taken_over, double most) const;
    double joins(const Job& job, double result) const;
    Needs needs(double most, std::vector<bool> taken_over) const;

    const Related& related_;
    const Axes& axes_;
    std::vector<Job> jobs_;
    std::vector<double> stored_;  // by value: its largest tile, if it is stored
    std::vector<bool> kept_;      // by value: later graphs read it
};

}  // namespace nntile::tile
