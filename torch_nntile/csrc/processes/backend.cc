// SPDX-License-Identifier: BSD-3-Clause
// The device's backend of torch.distributed. Each collective is a node of the graph; a backend for
// the CPU carries the bytes from and to tiles. Nodes of one group are ordered by tokens,
// one-element tensors that they update: collectives have one, sends and receives one for each peer
// and tag.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <map>
#include <mutex>
#include <tuple>

#include "contract/device.h"
#include "contract/errors.h"
#include "contract/operand.h"
#include "observe/recording.h"
#include "processes/transfer.h"

namespace torch_nntile {
namespace {

using c10d::OpType;
using c10d::ReduceOp;
using Host = c10d::Backend;
using WorkRef = c10::intrusive_ptr<c10d::Work>;

// Also what graph mode holds back: who waits for others must have done its part.
void run_all() {
    call(nntile_record_run, record());
    torch_nntile::synchronize();
}

// wait() orders: what is recorded after it sees the result. Only who reads waits for the bytes.
class Issued final : public c10d::Work {
public:
    using Source = std::shared_ptr<std::atomic<int>>;
    Issued(OpType type, Tensors results, uint64_t sequence, Source source)
        : Work(-1, type),
          results_(std::move(results)),
          sequence_(sequence),
          source_(std::move(source)) {}
    bool isCompleted() override {
        // In graph mode it has not begun, and will not because somebody asks.
        if (nntile_record_mode(record()) == NNTILE_GRAPH && nntile_record_pending(record()))
            return true;
        return waited_ || Work::isCompleted();
    }
    bool wait(std::chrono::milliseconds) override {
        synchronize();
        waited_ = true;
        return true;
    }
    void synchronize() override {
        if (const std::exception_ptr error = exception()) {
            torch_nntile::synchronize();  // what went wrong first says more
            std::rethrow_exception(error);
        }
    }
    Tensors result() override { return results_; }
    uint64_t getSequencenumber() const override { return sequence_; }
    // Known when the bytes are there.
    int sourceRank() const override {
        if (!source_) return Work::sourceRank();
        if (source_->load() < 0) run_all();
        return source_->load();
    }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
        if (future_) return future_;
        future_ = c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{device()});
        future_->markCompleted(at::IValue(results_));
        return future_;
    }
    void end(std::exception_ptr error) { finish(error); }
    // Transfers under way know it weakly: its tensors end with who asked for it.
    void release_resources() override {
        results_.clear();
        future_.reset();
    }

private:
    Tensors results_;
    uint64_t sequence_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    Source source_;  // of one from anywhere: -1 until it is known
    std::atomic<bool> waited_{false};
};

Block typed(const at::Tensor& t) { return {t.sizes().vec(), t.scalar_type()}; }
// Bytes can be moved whatever they stand for; rows: dim 0 stays.
Block bytes(const at::Tensor& t) {
    return {{static_cast<int64_t>(t.numel() * t.itemsize())}, at::kByte};
}
Block rows(const at::Tensor& t) {
    const int64_t n = t.dim() ? t.size(0) : 1;
    const auto all = static_cast<int64_t>(t.numel() * t.itemsize());
    return {{n, n ? all / n : 0}, at::kByte};
}

void wait(const WorkRef& work) { work->wait(); }

// Sums and the like, of which a backend for the CPU knows some.
class Reduction {
public:
    Reduction(const char* name, const ReduceOp& op, at::ScalarType dtype, int64_t size)
        : op_(op), dtype_(dtype), size_(size) {
        const bool floating = c10::isFloatingType(dtype), is_bool = dtype == at::kBool;
        TORCH_CHECK(c10::isIntegralType(dtype, true) || (floating && c10::elementSize(dtype) > 1),
                    "nntile: ", name, " has no reduction of ", dtype, " tensors");
        const auto kind = static_cast<ReduceOp::RedOpType>(op_);
        const bool bits = kind == ReduceOp::BAND || kind == ReduceOp::BOR || kind == ReduceOp::BXOR;
        TORCH_CHECK(!bits || !floating, "nntile: ", name, " cannot do ", names[kind], " of ", dtype,
                    " tensors, whose elements are no integers");
        mean_ = kind == ReduceOp::AVG;
        if (mean_) op_ = ReduceOp(ReduceOp::SUM);
        if (kind == ReduceOp::PREMUL_SUM) {
            const auto* given = static_cast<c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
            factor_ = given->tensor_factor.defined() ? given->tensor_factor.cpu().item()
                                                     : c10::Scalar(given->double_factor);
            op_ = ReduceOp(ReduceOp::SUM);
        }
        // True is one bit: a sum of flags is whether any is set.
        if (is_bool && (mean_ || kind == ReduceOp::SUM)) op_ = ReduceOp(ReduceOp::MAX);
        if (is_bool && kind == ReduceOp::PRODUCT) op_ = ReduceOp(ReduceOp::MIN);
        compute_ = is_bool                     ? at::kByte
                   : dtype == at::kShort       ? at::kInt
                   : floating && size_of() < 4 ? at::kFloat
                                               : dtype;
    }
    ReduceOp op() const { return op_; }
    uint64_t signature() const {
        const uint64_t factor = factor_ ? std::hash<double>()(factor_->to<double>()) | 1 : 0;
        return (static_cast<uint64_t>(op_.op_) * 2 + mean_) ^ factor;
    }
    // Nothing is to be done before and after.
    bool is_the_hosts() const { return compute_ == dtype_ && !factor_ && !mean_; }
    at::Tensor before(const at::Tensor& x) const {
        at::Tensor y = compute_ == dtype_ ? x : x.to(compute_);
        return factor_ ? y.mul(*factor_) : y;
    }
    void after(const at::Tensor& y, at::Tensor& x) const {
        if (mean_ && dtype_ != at::kBool) {
            if (c10::isFloatingType(compute_)) y.div_(size_);
            else y.div_(size_, "trunc");
        }
        if (!y.is_same(x)) x.copy_(y);
    }

private:
    static inline const char* const names[] = {"SUM",  "AVG", "PRODUCT", "MIN",        "MAX",
                                               "BAND", "BOR", "BXOR",    "PREMUL_SUM", "UNUSED"};
    size_t size_of() const { return c10::elementSize(dtype_); }

    ReduceOp op_;
    at::ScalarType dtype_, compute_;
    int64_t size_;
    bool mean_ = false;
    std::optional<c10::Scalar> factor_;
};

class Backend final : public c10d::Backend {
public:
    Backend(const Transport::Carrier& collectives, const Transport::Carrier& peers)
        : c10d::Backend(collectives->getRank(), collectives->getSize()),
          transport_(std::make_shared<Transport>(collectives, peers)),
          number_(++count) {}

    const std::string getBackendName() const override { return "nntile"; }
    bool supportsCoalescing() const override { return true; }
    void setTimeout(std::chrono::milliseconds timeout) override {
        transport_->collectives()->setTimeout(timeout);
        transport_->peers()->setTimeout(timeout);
    }
    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return sequence_; }
    void abort() override { transport_->close("it was aborted"); }
    // What was recorded travels before the connections end.
    void shutdown() override {
        try {
            torch_nntile::synchronize();
        } catch (const std::exception& e) {
            TORCH_WARN("nntile: work of a process group that is destroyed had failed: ", e.what());
        }
    }

    // ---- collectives
    WorkRef broadcast(Tensors& t, const c10d::BroadcastOptions& o) override {
        check_rank("broadcast", "root", o.rootRank);
        Call call{"broadcast", OpType::BROADCAST, t};
        call.signature = static_cast<uint64_t>(o.rootRank);
        if (t.size() == 1)
            return issue(call, bytes, [o](Host& host, Tensors& x, Tensors&, Tensors&) {
                return host.broadcast(x, o);
            });
        return issue(call, bytes, [o](Host& host, Tensors& x, Tensors&, Tensors&) {
            for (at::Tensor& one : x) {
                Tensors list{one};
                wait(host.broadcast(list, o));
            }
        });
    }
    WorkRef allreduce(Tensors& t, const c10d::AllreduceOptions& o) override {
        return all_reduce("all_reduce", OpType::ALLREDUCE, t, o);
    }
    WorkRef allreduce_coalesced(Tensors& t, const c10d::AllreduceCoalescedOptions& o) override {
        return all_reduce("all_reduce_coalesced", OpType::ALLREDUCE_COALESCED, t, o);
    }
    // Only the host knows how many elements there are: it does this one itself, after all before.
    WorkRef allreduce_sparse(Tensors& t, const c10d::AllreduceOptions& o) override {
        run_all();
        Tensors carried;
        for (const at::Tensor& one : t) carried.push_back(one.cpu());
        wait(transport_->collectives()->allreduce(carried, o));
        const at::NoGradGuard no_grad;
        for (size_t k = 0; k < t.size(); ++k) t[k].copy_(carried[k]);
        return done(OpType::_ALLREDUCE_SPARSE, t);
    }
    WorkRef reduce(Tensors& t, const c10d::ReduceOptions& o) override {
        check_rank("reduce", "root", o.rootRank);
        const Reduction reduction("reduce", o.reduceOp, dtype_of_all("reduce", t), size_);
        const bool root = o.rootRank == rank_;
        // Elsewhere the tensor stays as it is: a copy is worn out.
        Call call{"reduce", OpType::REDUCE};
        (root ? call.updated : call.inputs) = t;
        call.results = t;
        call.signature = reduction.signature() * 4096 + static_cast<uint64_t>(o.rootRank);
        return issue(call, typed, [o, reduction](Host& host, Tensors& x, Tensors& in, Tensors&) {
            for (Tensors* list : {&x, &in})
                for (at::Tensor& one : *list) {
                    at::Tensor y = reduction.before(one);
                    if (list == &in && y.is_same(one)) y = one.clone();
                    Tensors carried{y};
                    c10d::ReduceOptions options = o;
                    options.reduceOp = reduction.op();
                    wait(host.reduce(carried, options));
                    if (list == &x) reduction.after(y, one);
                }
        });
    }
    WorkRef allgather(std::vector<Tensors>& out, Tensors& in,
                      const c10d::AllgatherOptions& o) override {
        TORCH_CHECK(out.size() == 1 && in.size() == 1,
                    "nntile: all_gather takes one tensor and one "
                    "list, got ",
                    in.size(), " and ", out.size());
        check_list("all_gather", "output_tensors", out[0], in[0], size_);
        Call call{"all_gather", OpType::ALLGATHER, {}, in, out[0]};
        return issue(call, bytes, [o](Host& host, Tensors&, Tensors& x, Tensors& y) {
            std::vector<Tensors> lists{y};
            return host.allgather(lists, x, o);
        });
    }
    WorkRef allgather_coalesced(std::vector<Tensors>& out, Tensors& in,
                                const c10d::AllgatherOptions& o) override {
        Tensors all;
        for (size_t k = 0; k < in.size(); ++k) {
            Tensors one{in[k]}, parts;
            for (Tensors& of_rank : out) parts.push_back(of_rank.at(k));
            std::vector<Tensors> list{parts};
            allgather(list, one, o);
            all.insert(all.end(), parts.begin(), parts.end());
        }
        return done(OpType::ALLGATHER_COALESCED, all);
    }
    WorkRef _allgather_base(at::Tensor& out, at::Tensor& in,
                            const c10d::AllgatherOptions& o) override {
        check_parts("all_gather_into_tensor", "output", out, "input", in);
        Call call{"all_gather_into_tensor", OpType::_ALLGATHER_BASE, {}, {in}, {out}};
        return issue(call, bytes, [o](Host& host, Tensors&, Tensors& x, Tensors& y) {
            return host._allgather_base(y[0], x[0], o);
        });
    }
    WorkRef allgather_into_tensor_coalesced(Tensors& out, Tensors& in,
                                            const c10d::AllgatherOptions& o) override {
        for (size_t k = 0; k < out.size(); ++k) _allgather_base(out[k], in[k], o);
        return done(OpType::COALESCED, out);
    }
    WorkRef gather(std::vector<Tensors>& out, Tensors& in, const c10d::GatherOptions& o) override {
        check_rank("gather", "root", o.rootRank);
        const bool root = o.rootRank == rank_;
        TORCH_CHECK(in.size() == 1 && out.size() == (root ? 1u : 0u),
                    "nntile: gather takes a list of outputs on rank ", o.rootRank,
                    " and on no other");
        if (root) check_list("gather", "gather_list", out[0], in[0], size_);
        Call call{"gather", OpType::GATHER, {}, in, root ? out[0] : Tensors{}};
        call.signature = static_cast<uint64_t>(o.rootRank);
        return issue(call, bytes, [o](Host& host, Tensors&, Tensors& x, Tensors& y) {
            std::vector<Tensors> lists;
            if (!y.empty()) lists.push_back(y);
            wait(host.gather(lists, x, o));
        });
    }
    WorkRef scatter(Tensors& out, std::vector<Tensors>& in,
                    const c10d::ScatterOptions& o) override {
        check_rank("scatter", "root", o.rootRank);
        const bool root = o.rootRank == rank_;
        TORCH_CHECK(out.size() == 1 && in.size() == (root ? 1u : 0u),
                    "nntile: scatter takes a list of inputs on rank ", o.rootRank,
                    " and on no other");
        if (root) check_list("scatter", "scatter_list", in[0], out[0], size_);
        Call call{"scatter", OpType::SCATTER, {}, root ? in[0] : Tensors{}, out};
        call.signature = static_cast<uint64_t>(o.rootRank);
        return issue(call, bytes, [o](Host& host, Tensors&, Tensors& x, Tensors& y) {
            std::vector<Tensors> lists;
            if (!x.empty()) lists.push_back(x);
            wait(host.scatter(y, lists, o));
        });
    }
    WorkRef reduce_scatter(Tensors& out, std::vector<Tensors>& in,
                           const c10d::ReduceScatterOptions& o) override {
        TORCH_CHECK(out.size() == 1 && in.size() == 1,
                    "nntile: reduce_scatter takes one output and one list");
        // Parts for other processes may have other sizes, as with gloo.
        check_length("reduce_scatter", "input_list", in[0], size_);
        check_alike("reduce_scatter", "input_list", in[0][rank_], out[0]);
        dtype_of_all("reduce_scatter", in[0]);
        int64_t begin = 0;
        for (int k = 0; k < rank_; ++k) begin += in[0][k].numel();
        return reduce_scatter_of("reduce_scatter", OpType::REDUCE_SCATTER, out[0], in[0], begin, o);
    }
    WorkRef _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                                 const c10d::ReduceScatterOptions& o) override {
        check_parts("reduce_scatter_tensor", "input", in, "output", out);
        return reduce_scatter_of("reduce_scatter_tensor", OpType::_REDUCE_SCATTER_BASE, out, {in},
                                 rank_ * out.numel(), o);
    }
    WorkRef reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in,
                                            const c10d::ReduceScatterOptions& o) override {
        for (size_t k = 0; k < out.size(); ++k) _reduce_scatter_base(out[k], in[k], o);
        return done(OpType::COALESCED, out);
    }
    WorkRef alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_sizes,
                          std::vector<int64_t>& in_sizes, const c10d::AllToAllOptions& o) override {
        check_split("output", out, out_sizes);
        check_split("input", in, in_sizes);
        Call call{"all_to_all_single", OpType::ALLTOALL_BASE, {}, {in}, {out}};
        for (int64_t n : out_sizes) call.signature = call.signature * 31 + static_cast<uint64_t>(n);
        for (int64_t n : in_sizes) call.signature = call.signature * 31 + static_cast<uint64_t>(n);
        return issue(
            call, rows,
            [o, out_sizes, in_sizes](Host& host, Tensors&, Tensors& x, Tensors& y) mutable {
                wait(host.alltoall_base(y[0], x[0], out_sizes, in_sizes, o));
            });
    }
    WorkRef alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& o) override {
        TORCH_CHECK(out.size() == size_t(size_) && in.size() == size_t(size_),
                    "nntile: all_to_all takes lists of ", size_, " tensors, got ", in.size(),
                    " and ", out.size());
        Call call{"all_to_all", OpType::ALLTOALL, {}, in, out};
        // A host may have lists of one size only; all have parts of one tensor.
        return issue(call, bytes, [o](Host& host, Tensors&, Tensors& x, Tensors& y) {
            std::vector<int64_t> sent, received;
            for (const at::Tensor& one : x) sent.push_back(one.numel());
            for (const at::Tensor& one : y) received.push_back(one.numel());
            at::Tensor all = at::cat(x), parts = at::cat(y);
            wait(host.alltoall_base(parts, all, received, sent, o));  // may change the sizes
            int64_t begin = 0;
            for (at::Tensor& one : y) {
                one.copy_(parts.narrow(0, begin, one.numel()));
                begin += one.numel();
            }
        });
    }
    // The host waits, for all that this process has sent and received before as well.
    WorkRef barrier(const c10d::BarrierOptions& o) override {
        Call call{"barrier", OpType::BARRIER};
        for (auto& [key, token] : lanes_) call.tokens.push_back(token);
        WorkRef work = issue(
            call, bytes, [o](Host& host, Tensors&, Tensors&, Tensors&) { wait(host.barrier(o)); });
        run_all();
        return work;
    }
    void monitoredBarrier(const c10d::BarrierOptions& o, bool all) override {
        run_all();
        transport_->collectives()->monitoredBarrier(o, all);
    }

    // ---- one process to another. Those of a batch are one node: all are posted before one is
    // waited for.
    void startCoalescing() override { batch_.emplace(); }
    WorkRef endCoalescing() override {
        const std::optional<Batch> batch = std::move(batch_);
        batch_.reset();
        if (!batch || batch->lanes.empty()) return done(OpType::COALESCED, {});
        Call call{"batch_isend_irecv", OpType::COALESCED, {}, batch->sent, batch->received};
        for (const Lane& lane : batch->lanes) add_lanes(call, lane);
        return issue(
            call, bytes,
            [transport = transport_, posts = batch->posts, own = batch->to_itself(call.name)](
                Host& host, Tensors&, Tensors& x, Tensors& y) {
                std::vector<WorkRef> works;
                for (const Post& post : posts) works.push_back(post(host, x, y));
                for (const auto& [from, to] : own) y[to].copy_(x[from]);
                for (const WorkRef& work : works) transport->wait(work);
            });
    }
    WorkRef send(Tensors& t, int to, int tag) override { return with_peer({true, to, tag}, t); }
    WorkRef recv(Tensors& t, int from, int tag) override {
        return with_peer({false, from, tag}, t);
    }
    WorkRef recvAnysource(Tensors& t, int tag) override {
        Call call{"recv", OpType::RECVANYSOURCE, {}, {}, t};
        add_lanes(call, {false, any_source, tag});
        call.source = std::make_shared<std::atomic<int>>(-1);
        return issue(call, bytes,
                     [transport = transport_, tag, source = call.source](Host& host, Tensors&,
                                                                         Tensors&, Tensors& y) {
                         const WorkRef work = host.recvAnysource(y, tag);
                         transport->wait(work);
                         source->store(work->sourceRank());
                     });
    }

private:
    static constexpr int any_source = -1;
    struct Lane {
        bool sends;
        int peer, tag;
        auto key() const { return std::tuple(sends, tag, peer); }
    };
    using Post = std::function<WorkRef(Host&, Tensors& sent, Tensors& received)>;
    struct Batch {
        std::vector<Post> posts;
        std::vector<Lane> lanes;
        Tensors sent, received;
        // What a process sends to itself is a copy: a host has no connection for it. By tag.
        std::map<int, std::pair<std::vector<size_t>, std::vector<size_t>>> own;
        std::vector<std::pair<size_t, size_t>> to_itself(const char* name) const {
            std::vector<std::pair<size_t, size_t>> pairs;
            for (const auto& [tag, of_tag] : own) {
                const auto& [from, to] = of_tag;
                TORCH_CHECK(from.size() == to.size(), "nntile: ", name, ": a process sends ",
                            from.size(), " tensors to itself and receives ", to.size());
                for (size_t k = 0; k < from.size(); ++k) {
                    TORCH_CHECK(sent[from[k]].nbytes() == received[to[k]].nbytes(),
                                "nntile: ", name, ": a process sends ", sent[from[k]].nbytes(),
                                " bytes to itself and receives ", received[to[k]].nbytes());
                    pairs.emplace_back(from[k], to[k]);
                }
            }
            return pairs;
        }
    };
    struct Call {
        const char* name;
        OpType type;
        Tensors updated = {}, inputs = {}, outputs = {}, results = {};
        uint64_t signature = 0;  // of what the function depends on beside its name
        Tensors tokens = {};     // empty: that of collectives
        Issued::Source source = {};
    };

    // Nobody reads what is in it. Made without a call: none starts the runtime.
    static at::Tensor token() {
        return at::empty({1}, at::TensorOptions(device()).dtype(at::kInt));
    }
    // Those of one peer and tag are in order; one from anywhere is behind and before all of its
    // tag.
    void add_lanes(Call& call, const Lane& lane) {
        for (int n : {lane.peer, lane.tag, int{lane.sends}})
            call.signature = call.signature * 1000003 + static_cast<uint64_t>(n);
        std::vector<Lane> all{lane};
        if (!lane.sends && lane.peer == any_source)
            for (int peer = 0; peer < size_; ++peer) all.push_back({false, peer, lane.tag});
        for (const Lane& one : all) {
            at::Tensor& t = lanes_[one.key()];
            if (!t.defined()) t = token();
            const auto same = [&](const at::Tensor& other) { return other.is_same(t); };
            if (std::none_of(call.tokens.begin(), call.tokens.end(), same))
                call.tokens.push_back(t);
        }
    }

    // A host may wait for a process that does not exist.
    void check_rank(const char* name, const char* what, int64_t rank) const {
        TORCH_CHECK(rank >= 0 && rank < size_, "nntile: ", name, ": ", what, " ", rank,
                    " is not in [0, ", size_, ")");
    }
    at::ScalarType dtype_of_all(const char* name, const Tensors& all) const {
        TORCH_CHECK(!all.empty(), "nntile: ", name, " got no tensor");
        for (const at::Tensor& t : all)
            TORCH_CHECK(t.scalar_type() == all[0].scalar_type(), "nntile: ", name,
                        " needs tensors of one dtype, got ", all[0].scalar_type(), " and ",
                        t.scalar_type());
        return all[0].scalar_type();
    }
    static void check_list(const char* name, const char* what, const Tensors& list,
                           const at::Tensor& one, int64_t size) {
        check_length(name, what, list, size);
        for (const at::Tensor& t : list) check_alike(name, what, t, one);
    }
    static void check_length(const char* name, const char* what, const Tensors& list,
                             int64_t size) {
        TORCH_CHECK(static_cast<int64_t>(list.size()) == size, "nntile: ", name, ": ", what,
                    " has ", list.size(), " tensors, the group has ", size, " processes");
    }
    static void check_alike(const char* name, const char* what, const at::Tensor& t,
                            const at::Tensor& one) {
        TORCH_CHECK(t.scalar_type() == one.scalar_type() && t.numel() == one.numel(),
                    "nntile: ", name, ": a tensor of ", what, " has shape ", t.sizes(),
                    " and dtype ", t.scalar_type(), ", expected ", one.sizes(), " and ",
                    one.scalar_type());
    }
    void check_parts(const char* name, const char* whole_name, const at::Tensor& whole,
                     const char* part_name, const at::Tensor& part) const {
        TORCH_CHECK(whole.scalar_type() == part.scalar_type(), "nntile: ", name, ": ", whole_name,
                    " is of ", whole.scalar_type(), ", ", part_name, " of ", part.scalar_type());
        TORCH_CHECK(whole.numel() == part.numel() * size_, "nntile: ", name, ": ", whole_name,
                    " has shape ", whole.sizes(), ", ", part_name, " ", part.sizes(),
                    "; it must have ", size_, " times the elements, one part for each process");
    }
    void check_split(const char* which, const at::Tensor& t,
                     const std::vector<int64_t>& sizes) const {
        const int64_t extent = t.dim() ? t.size(0) : 1;
        if (sizes.empty()) {
            TORCH_CHECK(extent % size_ == 0, "nntile: all_to_all_single: dim 0 of the ", which,
                        " has extent ", extent, ", which ", size_, " processes do not divide");
            return;
        }
        int64_t sum = 0;
        for (int64_t n : sizes) sum += n;
        TORCH_CHECK(static_cast<int64_t>(sizes.size()) == size_ && sum == extent,
                    "nntile: all_to_all_single: ", which, "_split_sizes ", c10::IntArrayRef(sizes),
                    " are not ", size_, " sizes with sum ", extent);
    }

    WorkRef with_peer(const Lane& lane, Tensors& t) {
        const char* const name = lane.sends ? "send" : "recv";
        const OpType type = lane.sends ? OpType::SEND : OpType::RECV;
        check_rank(name, "peer", lane.peer);
        const auto post = [lane](Host& host, Tensors& x) {
            return lane.sends ? host.send(x, lane.peer, lane.tag)
                              : host.recv(x, lane.peer, lane.tag);
        };
        if (!batch_) {
            Call call{name, type};
            (lane.sends ? call.inputs : call.outputs) = t;
            add_lanes(call, lane);
            return issue(
                call, bytes,
                [transport = transport_, post, lane](Host& host, Tensors&, Tensors& x, Tensors& y) {
                    transport->wait(post(host, lane.sends ? x : y));
                });
        }
        Tensors& of_batch = lane.sends ? batch_->sent : batch_->received;
        const size_t k = of_batch.size();
        batch_->lanes.push_back(lane);
        if (lane.peer == rank_) {
            auto& [from, to] = batch_->own[lane.tag];
            (lane.sends ? from : to).push_back(k);
        } else {
            batch_->posts.push_back([post, lane, k](Host& host, Tensors& x, Tensors& y) {
                Tensors one{lane.sends ? x[k] : y[k]};
                return post(host, one);
            });
        }
        of_batch.push_back(t.at(0));
        return done(type, t);
    }
    WorkRef all_reduce(const char* name, OpType type, Tensors& t, const c10d::AllreduceOptions& o) {
        const Reduction reduction(name, o.reduceOp, dtype_of_all(name, t), size_);
        Call call{name, type, t};
        call.signature = reduction.signature();
        if (t.size() == 1 && reduction.is_the_hosts())
            return issue(call, typed, [o, reduction](Host& host, Tensors& x, Tensors&, Tensors&) {
                c10d::AllreduceOptions options = o;
                options.reduceOp = reduction.op();
                return host.allreduce(x, options);
            });
        return issue(call, typed, [o, reduction](Host& host, Tensors& x, Tensors&, Tensors&) {
            for (at::Tensor& one : x) {
                Tensors carried{reduction.before(one)};
                c10d::AllreduceOptions options = o;
                options.reduceOp = reduction.op();
                wait(host.allreduce(carried, options));
                reduction.after(carried[0], one);
            }
        });
    }
    // `begin`: of this process's part in all of `in`.
    WorkRef reduce_scatter_of(const char* name, OpType type, const at::Tensor& out,
                              const Tensors& in, int64_t begin,
                              const c10d::ReduceScatterOptions& o) {
        const Reduction reduction(name, o.reduceOp, out.scalar_type(), size_);
        Call call{name, type, {}, in, {out}};
        call.signature = reduction.signature();
        return issue(call, typed,
                     [o, reduction, begin](Host& host, Tensors&, Tensors& x, Tensors& y) {
                         for (at::Tensor& one : x) one = one.view(-1);
                         at::Tensor all = reduction.before(at::cat(x));
                         Tensors carried{all};
                         c10d::AllreduceOptions options;
                         options.reduceOp = reduction.op();
                         options.timeout = o.timeout;
                         wait(host.allreduce(carried, options));
                         const at::Tensor own = all.narrow(0, begin, y[0].numel());
                         reduction.after(own.view(y[0].sizes()), y[0]);
                     });
    }

    WorkRef done(OpType type, Tensors results) {
        auto work = c10::make_intrusive<Issued>(type, std::move(results), sequence_, nullptr);
        work->end(nullptr);
        return work;
    }

    // Records the transfer. Blocks of its tensors are as `block` says. `run` blocks, or gives a
    // work.
    template <class Run>
    WorkRef issue(Call& call, Block (*block)(const at::Tensor&), Run run) {
        using Result = std::invoke_result_t<Run&, Host&, Tensors&, Tensors&, Tensors&>;
        constexpr bool only_begins = !std::is_void_v<Result>;
        auto transfer = std::make_unique<Transfer>();
        transfer->only_begins = only_begins;
        if constexpr (only_begins) transfer->run = std::move(run);
        else
            transfer->run = [run = std::move(run)](Host& host, Tensors& x, Tensors& in,
                                                   Tensors& out) mutable {
                run(host, x, in, out);
                return WorkRef();
            };
        return issue(call, block, std::move(transfer));
    }
    WorkRef issue(Call& call, Block (*block)(const at::Tensor&),
                  std::unique_ptr<Transfer> transfer) {
        const at::NoGradGuard no_grad;
        Recording recording(call.name);
        (void)transport_->collectives();  // it may be closed
        const std::lock_guard lock(mutex_);
        const bool with_peers = !call.tokens.empty() && call.type != OpType::BARRIER;
        if (!with_peers) call.tokens.push_back(collectives_);
        Tensors results = call.results;
        for (const Tensors* list : {&call.updated, &call.outputs})
            results.insert(results.end(), list->begin(), list->end());
        auto work =
            c10::make_intrusive<Issued>(call.type, std::move(results), ++sequence_, call.source);

        transfer->transport = transport_;
        transfer->with_peers = with_peers;
        transfer->name = call.name;
        transfer->who = who();
        transfer->ended = [weak = c10::weak_intrusive_ptr<Issued>(work)](std::exception_ptr error) {
            if (const auto alive = weak.lock()) alive->end(error);
        };
        transfer->tokens = call.tokens.size();
        Operands operands;
        const auto read = [&](const Tensors& list, std::vector<Block>& blocks, bool written) {
            for (const at::Tensor& t : list) {
                check_tensor(call.name, t, written);
                blocks.push_back(block(t));
                operands.tensor(t.resolve_conj().resolve_neg());
            }
        };
        const auto write = [&](const Tensors& list) {
            for (const at::Tensor& t : list) operands.tensor(t);
        };
        read(call.updated, transfer->updated, true);
        write(call.tokens);
        read(call.inputs, transfer->inputs, false);
        const size_t inputs = operands.size();
        write(call.updated);
        write(call.tokens);
        for (const at::Tensor& t : call.outputs) {
            check_tensor(call.name, t, true);
            transfer->outputs.push_back(block(t));
        }
        write(call.outputs);
        record_transfer(call, std::move(transfer), operands, inputs);
        recording.done();
        return work;
    }

    void record_transfer(const Call& call, std::unique_ptr<Transfer> transfer,
                         const Operands& operands, size_t inputs) {
        nntile_function function{};
        function.struct_size = sizeof(function);
        function.name = call.name;
        function.signature = std::hash<std::string>()(call.name) ^
                             (call.signature * 4096 + number_) * 0x9e3779b97f4a7c15u;
        function.start = &Transfer::start;
        function.destroy = &Transfer::destroy;
        function.n_updated = static_cast<uint32_t>(call.updated.size() + call.tokens.size());
        function.effect = 1;
        const auto recorded = transfer->recorded;
        function.user = transfer.release();
        torch_nntile::call(nntile_record_function, record(), &function, operands.data(), inputs,
                           operands.size() - inputs);
        *recorded = true;
    }

    static void check_tensor(const char* name, const at::Tensor& t, bool written) {
        TORCH_CHECK(t.defined() && ours(t), "nntile: ", name,
                    " needs tensors of one device, got one of ",
                    t.defined() ? t.device().str() : "none", " beside those of ", device());
        TORCH_CHECK(!t.is_sparse() && t.layout() == at::kStrided, "nntile: ", name,
                    " has no tensors of layout ", t.layout());
        if (!written) return;
        TORCH_CHECK(!t.is_conj() && !t.is_neg(), "nntile: ", name,
                    " cannot write into a conjugate or negative view");
        at::assert_no_internal_overlap(t);
    }
    std::string who() const {
        return "on rank " + std::to_string(rank_) + " of " + std::to_string(size_) + " of group '" +
               (getGroupDesc().empty() || getGroupDesc() == "undefined" ? getGroupUid()
                                                                        : getGroupDesc()) +
               "'";
    }

    static inline std::atomic<uint64_t> count{0};
    std::shared_ptr<Transport> transport_;
    uint64_t number_;  // of the group: calls of others are other functions
    uint64_t sequence_ = 0;
    std::mutex mutex_;  // DDP calls from autograd's threads
    const at::Tensor collectives_ = token();
    std::map<std::tuple<bool, int, int>, at::Tensor> lanes_;
    std::optional<Batch> batch_;
};

void add_backend(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                 const c10::intrusive_ptr<c10d::ProcessGroup>& collectives,
                 const c10::intrusive_ptr<c10d::ProcessGroup>& peers) {
    group->setBackend(device_type, c10d::ProcessGroup::BackendType::CUSTOM,
                      c10::make_intrusive<Backend>(collectives->getBackend(c10::DeviceType::CPU),
                                                   peers->getBackend(c10::DeviceType::CPU)));
}

TORCH_LIBRARY_FRAGMENT(nntile, m) {
    m.def(
        "add_backend(__torch__.torch.classes.c10d.ProcessGroup group, "
        "__torch__.torch.classes.c10d.ProcessGroup collectives, "
        "__torch__.torch.classes.c10d.ProcessGroup peers) -> ()",
        &add_backend);
}

}  // namespace
}  // namespace torch_nntile
