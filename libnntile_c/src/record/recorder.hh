// SPDX-License-Identifier: BSD-3-Clause
// The recorder: calls on (buffer, layout) become nodes of the open graph. It knows which value a
// buffer holds now, so in-place writes and writes through views become new SSA values. Thread-safe
// by one mutex.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_times.hh"
#include "base/wait.hh"
#include "record/executor.hh"
#include "record/known_calls.hh"
#include "record/scopes.hh"
#include "record/unrun.hh"

namespace nntile::record {

enum class Mode { eager = 0, graph = 1 };

// Of the numbers that random ops draw.
struct GeneratorState {
    int64_t seed = 0, offset = 0;
};

struct Capture;
struct Replay;

class Recorder : public std::enable_shared_from_this<Recorder> {
public:
    explicit Recorder(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}
    ~Recorder() { end_watch(); }

    Buffer* create_buffer(int64_t bytes);
    void destroy_buffer(Buffer* buffer);  // never blocks on the recorder's mutex

    // operands: n_inputs inputs, then outputs, in the order of the row.
    void op(const graph::OpRow& row, std::span<const Operand> operands, size_t n_inputs,
            std::vector<graph::Attr> attrs, DType compute, Place place);
    void host(HostCall call, std::span<const Operand> operands, size_t n_inputs, Place place);
    void write(const Operand& target, const void* host, size_t bytes);
    void read(const Operand& source, void* host, size_t bytes);

    void set_mode(Mode mode);
    Mode mode() const { return scopes_.has(Scope::graph) ? Mode::graph : Mode::eager; }
    size_t pending();
    void compile();
    void run();
    // What eager mode holds back, and what did not fit before; scopes go on. Throws what nobody has
    // heard of yet. submit.cc.
    void submit();
    // A step is one graph, which happens as a whole or not at all. In a composition no graph ends
    // where what its calls hand to each other would be stored. windows.cc.
    void begin(Scope scope);
    bool end(Scope scope);  // false: none was open
    // Between begin and end everything is recorded into one graph, whatever the mode, and nothing
    // may be read. The end runs it; keep: and gives it, to be run again on other data and numbers.
    // capture.cc.
    void begin_capture(GeneratorState generator);
    bool capturing() const { return scopes_.has(Scope::capture); }
    std::unique_ptr<Capture> end_capture(bool keep);
    // Recorded up to now; returns how many there are
    size_t numbers(size_t from, std::span<kernels::Param> to);
    // not_found: the data that is given, or was recorded, does not fit; nothing has changed.
    void replay(Capture& capture, const Replay& given);
    void reset();
    void forget_dead();  // drops what destroyed buffers held; else the next call does
    void trim();         // likewise, and plans of small calls

    void name_axis(const Operand& tensor, int64_t dim, std::string name);
    void cut_axis(const std::string& name, std::span<const int64_t> sizes);
    std::string axis_text();
    std::string save_cuts();
    void load_cuts(std::string_view text);
    std::string text(std::string_view stage);

    std::atomic<int64_t> buffers{0}, buffer_bytes{0}, buffer_peak{0};
    std::atomic<int64_t> ops_recorded{0};
    Executor& executor() { return *executor_; }

private:
    struct Holder {
        Buffer* buffer;                      // nullptr: ended
        uint32_t leaf = graph::no_value;     // value of its stored data in this graph
        uint32_t current = graph::no_value;  // value that it holds now
        uint32_t input = graph::no_value;    // index into graph.inputs, if leaf is one
        uint32_t first = graph::no_value;    // value that it was given first
    };
    enum class Failure {  // what becomes of a graph that the executor does not take
        kept,             // it is set aside, and the caller hears of it
        later,            // likewise, but whoever needs a result does
        of_call,          // but for the call that is being recorded: that has not happened
        whole,            // none of it has happened
        forget,           // it was for the caller alone
    };
    Holder& hold(Buffer& buffer);
    // The dense value that the buffer holds, as elements of dtype. `like`: the operand that asks;
    // data of another dtype or shape than it has (torch.load, deepcopy: bytes) is seen anew where
    // that costs nothing.
    uint32_t current_value(Buffer& buffer, DType dtype, const Operand* like = nullptr);
    void check_operands(std::string_view op, std::span<const Operand> operands, Place place) const;
    void see_as(Buffer& buffer, const Operand& like);
    void see_for_naming(const Operand& tensor, size_t dim);
    bool is_pending(const Buffer& buffer) const;
    bool copy_bytes(std::string_view op, std::span<const Operand> operands);
    uint32_t read_operand(const Operand& operand);
    void write_operand(const Operand& operand, uint32_t data);
    void set_current(Buffer& buffer, uint32_t value);
    bool is_same(const graph::OpRow& row, std::span<const uint32_t> inputs,
                 std::span<const graph::Type> wanted) const;
    void bury();  // takes the ended buffers into account
    // submit.cc. awaited: as of Executor::run().
    std::exception_ptr try_flush(Failure failure, bool awaited = false);
    void flush(Failure failure = Failure::kept, bool awaited = false);
    void take_back();
    void take_all_back();
    void set_aside(std::exception_ptr reason, bool told);
    std::exception_ptr try_again(const std::shared_ptr<Unrun>& unrun);
    void need_data(Buffer& buffer);  // computes what a graph that was set aside should have
    void forget_unrun();
    void compute_before_overwriting(const graph::Graph& graph);
    void lose_all(const char* why);
    // Calls run soon after they are recorded
    bool at_once() const { return scopes_.now() < Scope::graph; }
    void check_no_capture(const char* what) const;
    void mark_outputs(graph::Graph& graph) const;
    graph::Graph as_if_it_ended() const;  // a copy of the open graph, for who looks at it
    void begin_call(std::optional<Event> event = {});
    void finish_call(int64_t result_bytes, int64_t input_bytes, bool effect = false);
    bool ends_at(Event event);
    // small_calls.cc
    bool knows_calls(std::span<const Operand> operands);
    // False: it takes a graph.
    bool run_known(const KnownCall& known, const CallView& call, const Numbers& numbers,
                   Place place);
    bool has_data(const CallView& call, bool once_it_ran = false) const;
    bool is_little() const;  // the open graph is no more than a small call
    bool waits_for_little(const CallView& call) const;
    KnownCall learned(const CallView& call, const Numbers& numbers);
    bool learn(const Hash& signature, const CallView& call, const Numbers& numbers, Place place);
    void watch();
    void end_watch();
    void drop_graph();
    // Whose call is recorded next.
    void stand_at(Place place) {
        graph_.place = place;
        graph_.caller = current_mark;
    }

    LongMutex mutex_;
    std::unique_ptr<Executor> executor_;
    Scopes scopes_;
    graph::Graph graph_;
    std::vector<HostCall> calls_;
    std::vector<Holder> holders_;
    Waiting waiting_;
    // Of the last call: holder, and its value before
    std::vector<std::pair<int32_t, uint32_t>> last_writes_;
    std::vector<std::weak_ptr<Unrun>> unrun_;  // results hold them
    std::atomic<uint64_t> captures_{0};        // begun up to now
    // Graphs up to now, and those that had ended as far as the program knows, since it has read
    // what they give, or waited.
    uint64_t submitted_ = 0, settled_ = 0;
    GeneratorState capture_start_;
    // Of a capture: inputs that came from the host
    std::vector<std::pair<uint32_t, Hash>> host_data_;
    KnownCalls known_calls_;
    graph::AxisCuts cuts_;
    std::map<std::string, std::set<int64_t>> extents_;  // of named axes

    // A thread that looks after windows; watch_mutex_ is a leaf lock.
    std::thread watcher_;
    std::mutex watch_mutex_;
    std::condition_variable watch_changed_;
    std::atomic<bool> watched_{false};  // calls wait, or did a moment ago
    bool ends_ = false;
    std::atomic<Pause::Time> last_call_{};  // when
    std::atomic<ThreadId> caller_{};        // who

    std::mutex dead_mutex_;  // leaf lock: a garbage collector may hold anything else
    std::vector<Buffer*> dead_;
    std::atomic<bool> any_dead_{false};  // so that most calls need no lock
};

}  // namespace nntile::record
