/* SPDX-License-Identifier: BSD-3-Clause
 * The recorder: calls on (buffer, layout) become nodes of a graph; it keeps which value a buffer
 * holds now. Any thread may call; calls are ordered by an own mutex. The first call that runs
 * something starts a default context if there is none. */
#ifndef NNTILE_RECORD_H
#define NNTILE_RECORD_H

#include "nntile/buffer.h"
#include "nntile/context.h"
#include "nntile/op.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** How recorded ops run. Since 0.1. */
typedef enum nntile_mode {
    NNTILE_EAGER = 0, /**< calls wait briefly for those behind them, then are lowered and submitted
                         as one graph, asynchronously: see nntile_record_submit() */
    NNTILE_GRAPH = 1  /**< nothing runs until nntile_record_run() or a host read */
} nntile_mode;

typedef enum nntile_operand_kind {
    NNTILE_OPERAND_ABSENT = 0, /**< optional operand that is not given */
    NNTILE_OPERAND_TENSOR = 1,
    NNTILE_OPERAND_SCALAR = 2 /**< a number; its value is a run-time scalar of the plan */
} nntile_operand_kind;

/** A tensor as PyTorch sees it: a layout on a buffer; or a number. Pointers are borrowed for the
 * call. Since 0.1. */
typedef struct nntile_operand {
    int32_t kind; /**< nntile_operand_kind */
    int32_t
        dtype; /**< nntile_dtype; of the view, which may differ from that of the data (bit view) */
    int32_t ndim;
    int32_t reserved;
    nntile_buffer* buffer;  /**< TENSOR */
    const int64_t* sizes;   /**< ndim extents */
    const int64_t* strides; /**< ndim strides in elements of dtype, >= 0 */
    int64_t offset;         /**< in elements of dtype */
    double f;               /**< SCALAR of a floating dtype */
    int64_t i;              /**< SCALAR of another dtype */
} nntile_operand;

/** Makes a recorder in eager mode. The caller ends it with nntile_record_destroy(). Since 0.1. */
nntile_status nntile_record_create(nntile_record** out, nntile_error** error);

/** Ends a recorder after its pending work was dropped and running tasks have ended; NULL is
 * allowed. Since 0.1. */
void nntile_record_destroy(nntile_record* record);

/** Records one op.
 *  op        number of the op (nntile_op_find).
 *  operands  n_inputs inputs, then n_outputs outputs, in the order of the row. An output may name
 * the same buffer as an input (in place); writing through a view changes just what the view covers.
 *  attrs     n_attrs values in the order of the row; missing ones take their defaults.
 *  compute   dtype of variable T: inputs of type T are cast to it, outputs of type T cast from it;
 * NNTILE_NONE: the inputs' own dtype, which must then be one. Returns OK; INVALID_ARGUMENT (shape,
 * attribute), TYPE_ERROR (dtype), INVALID_STATE, OUT_OF_MEMORY; nothing was recorded then. In eager
 * mode also the error of an earlier task is not reported here but at the next read. Since 0.1. */
nntile_status nntile_record_op(nntile_record* record, uint32_t op, const nntile_operand* operands,
                               size_t n_inputs, size_t n_outputs, const nntile_attr* attrs,
                               size_t n_attrs, nntile_dtype compute, nntile_error** error);

/** A task that goes on after its function has returned. Since 0.1. */
typedef struct nntile_task nntile_task;

/** A function of the host: an op without a row. Set struct_size, name, and `run` or `start`; the
 * rest may be 0. Functions get dense row-major blocks: data[i] are the operands in order (inputs,
 * outputs), NULL where absent. They must not call the recorder. Since 0.1. */
typedef struct nntile_function {
    size_t struct_size;
    const char* name;   /**< for messages, copied */
    uint64_t signature; /**< of the function, for the plan cache: `user` is of one run only */
    /** Runs as a CPU task, which ends when it returns. Returns 0; or an nntile_status, after
     * writing a text of at most 255 bytes to error_text: it fails the task.
     *  starts      of this part along each axis; only with `ranges`
     *  sizes       likewise its extents
     *  accumulate  not 0: add to the outputs instead of writing them
     *  data        blocks; of a number its 8 bytes */
    int (*run)(void* user, const int64_t* starts, const int64_t* sizes, int accumulate,
               void* const* data, char* error_text);
    /** Instead of run: begins something, as a transfer, and returns at once, on any thread. The
     * task ends, and the blocks stay valid, until nntile_task_end() is called once for it, by any
     * thread. data and task are NULL where something that the op reads was never computed: it does
     * not happen, and there is nothing to end. */
    void (*start)(void* user, void* const* data, nntile_task* task);
    void* user;                  /**< handed to the function */
    void (*destroy)(void* user); /**< called once, from any thread, when no run needs it any more */
    /** For every dim of every tensor in order the number of its axis from 0 on, at most 7, or -1:
     * each task has all of the dim. NULL: -1 everywhere. Dims of one axis have one extent. Where an
     * axis is cut, `run` is called once for every part, for several at once. An axis that all
     * outputs have is parallel: its elements are treated one by one. One that no output has is
     * reduced: outputs are sums over the parts. */
    const int64_t* axes;
    /** The first n_updated outputs may be in the memory of the first n_updated inputs, which have
     * their shapes and dtypes: data[k] and data[n_inputs + k] may be equal. */
    uint32_t n_updated;
    /** Not 0: it runs even if nobody reads what it gives, and soon: others wait for it. */
    int32_t effect;
    /** Not 0: the function needs to know where its part is, as a kernel made for cut data does. A
     * part is then a range along each axis, and all axes are parallel. */
    int32_t ranges;
} nntile_function;

/** Records a function of the host as a node; operands as in nntile_record_op(). Whatever happens,
 * `destroy` is called. Returns OK; INVALID_ARGUMENT for a function with both or none of run and
 * start, for axes whose extents differ or that only some outputs have, updated operands of
 * different shapes; as nntile_record_op(). Since 0.1. */
nntile_status nntile_record_function(nntile_record* record, const nntile_function* function,
                                     const nntile_operand* operands, size_t n_inputs,
                                     size_t n_outputs, nntile_error** error);

/** Ends a task that nntile_function::start began; status and text as a `run` would give them, OK:
 * what it wrote is there. May call `start` of others. Any thread; must not hold a lock that `start`
 * takes. Since 0.1. */
void nntile_task_end(nntile_task* task, nntile_status status, const char* text);

/** Copies host bytes (dense row-major, target's sizes and dtype) into a tensor. The bytes are taken
 * before the call returns. nbytes is checked. Since 0.1. */
nntile_status nntile_record_write(nntile_record* record, const nntile_operand* target,
                                  const void* host, size_t nbytes, nntile_error** error);

/** Runs what is pending, waits for the tensor and copies it (dense row-major) to the host. Hands
 * over the first error of any task since the last report (RUNTIME, INDEX_ERROR); the next call
 * works. Since 0.1. */
nntile_status nntile_record_read(nntile_record* record, const nntile_operand* source, void* host,
                                 size_t nbytes, nntile_error** error);

/** Sets the mode; pending work runs first. Since 0.1. */
nntile_status nntile_record_mode_set(nntile_record* record, nntile_mode mode, nntile_error** error);
nntile_mode nntile_record_mode(nntile_record* record);

/** Number of recorded ops that have not been submitted. Since 0.1. */
size_t nntile_record_pending(nntile_record* record);

/** Lowers the pending graph (or finds its plan) without running it. OK when nothing is pending.
 * Since 0.1. */
nntile_status nntile_record_compile(nntile_record* record, nntile_error** error);

/** Submits the pending graph, compiling it if needed. Does not wait. Since 0.1. */
nntile_status nntile_record_run(nntile_record* record, nntile_error** error);

/** Eager mode holds calls back, so that a product and the element-wise calls behind it are one
 * graph: until the next product or function on the host, 64 calls, results of a 64th of the budget,
 * a read, a change of mode, or 5 ms without a call while nothing runs. This submits what waits, and
 * what did not fit into memory before; in graph mode nothing. Steps and compositions that have
 * begun go on. The calling thread may do up to 100 us of work itself. Since 0.1. */
nntile_status nntile_record_submit(nntile_record* record, nntile_error** error);

/** begin != 0 begins a step, as of an optimizer: 20,000 calls may wait, whatever they give. begin
 * == 0 ends it and submits them; if they do not fit into memory they have not happened. May be
 * nested; the end of the outermost counts, and every begin needs its end. INVALID_STATE for an end
 * without a begin. Since 0.1. */
nntile_status nntile_record_step(nntile_record* record, int begin, nntile_error** error);

/** What is recorded from a call with begin != 0 to the one with begin == 0 makes one result: eager
 * mode does not submit some of it because many calls wait (but a thousand do), so that what they
 * hand to each other is not stored. Products and functions on the host still begin a window. May be
 * nested; every begin needs its end. Since 0.1. */
nntile_status nntile_record_compose(nntile_record* record, int begin, nntile_error** error);

/** Drops stored values and plans (the runtime is going down); buffers become unreadable. Since 0.1.
 */
void nntile_record_reset(nntile_record* record);

/** Gives memory that neither buffers nor tasks in flight hold back to the system, and forgets which
 * small calls came often. Since 0.1. */
void nntile_record_trim(nntile_record* record);

/** Names dim `dim` of a tensor: it and all dims that ops or views relate to it form the axis group
 * `name`. Kept with the data, also across graphs. INVALID_ARGUMENT for a bad dim or name, or for a
 * dim of a view that is no whole dim of its data. Since 0.1. */
nntile_status nntile_record_axis_name(nntile_record* record, const nntile_operand* tensor,
                                      int32_t dim, const char* name, nntile_error** error);

/** Sets the cut of an axis group from the next lowering on: n = 0: automatic; n = 1: segments of
 * sizes[0] (the last may be shorter); n > 1: these segments. A size of the extent or more leaves
 * the axis whole. NOT_FOUND for an unknown name; INVALID_ARGUMENT for a size <= 0 or a list that
 *  does not sum to the extent. Since 0.1. */
nntile_status nntile_record_axis_tiling(nntile_record* record, const char* name,
                                        const int64_t* sizes, size_t n, nntile_error** error);

/** Table of axis groups. *text is the caller's, freed by nntile_text_free(). Since 0.1. */
nntile_status nntile_record_axis_text(nntile_record* record, char** text, nntile_error** error);

/** The cuts of named axes and those that were chosen for graphs with plans, as a text that can be
 * edited. *text as above. Since 0.1. */
nntile_status nntile_record_cuts_save(nntile_record* record, char** text, nntile_error** error);

/** Takes such a text: named axes are cut from the next lowering on, graphs that are recorded again
 * get the cuts that the text has for them instead of chosen ones. Graphs that it does not know are
 * cut as before. INVALID_ARGUMENT, with the line, for a text that is torn or wrong; nothing is
 * taken then. Cuts that do not fit the graph they are for are an error where that graph is lowered.
 * Since 0.1. */
nntile_status nntile_record_cuts_load(nntile_record* record, const char* text,
                                      nntile_error** error);

/** Text of a stage: "pending" graph; "graph", "cuts", "tiles" or "plan" of the last lowering; "why"
 * graphs were lowered anew. It submits nothing: nntile_record_submit() does. *text as above. Since
 * 0.1. */
nntile_status nntile_record_text(nntile_record* record, const char* stage, char** text,
                                 nntile_error** error);
void nntile_text_free(char* text);

/** Counters of a recorder. Since 0.1. */
typedef struct nntile_record_stats {
    size_t struct_size;
    int64_t ops;        /**< recorded */
    int64_t graphs;     /**< submitted */
    int64_t lowerings;  /**< plans made */
    int64_t plan_hits;  /**< graphs that found their plan */
    int64_t plans;      /**< plans in the cache now */
    int64_t tasks;      /**< tasks of all submitted graphs */
    int64_t copies;     /**< of these: copies inserted because cuts or layouts did not line up */
    int64_t host_calls; /**< of these: host functions */
} nntile_record_stats;
nntile_status nntile_record_stats_get(nntile_record* record, nntile_record_stats* stats,
                                      nntile_error** error);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
