/* SPDX-License-Identifier: BSD-3-Clause
 * The C face of the PyTorch stub. It is not linked with Python, and takes the GIL only at a line
 * that it has not seen; no function lets a C++ exception out. Loading it registers the device, its
 * minimal ops and the fallback. */
#ifndef NNTILE_STUB_H
#define NNTILE_STUB_H

#ifndef NNTILE_CDEF
#include "nntile/nntile.h"
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** What happens at an aten op without a row. */
typedef enum nntile_stub_mode {
    NNTILE_STUB_ERROR = 0, /**< NotImplementedError that names the overload */
    NNTILE_STUB_WARN = 1,  /**< runs on the host; warns once for each overload (default) */
    NNTILE_STUB_ALLOW = 2  /**< runs on the host */
} nntile_stub_mode;

/** Flags of a row. */
typedef enum nntile_stub_row_flag {
    NNTILE_STUB_FOREACH = 1,    /**< lists are walked in parallel: one node for each element */
    NNTILE_STUB_RANDOM = 2,     /**< attributes `seed` and `offset` are drawn from the generator */
    NNTILE_STUB_UNIFORM = 4,    /**< operands are of one dtype: others are refused as on the CPU */
    NNTILE_STUB_ANY_ORDER = 8,  /**< of one operand, whose dims may be taken in the order in which
                                   they lie: its attributes of integers are dims */
    NNTILE_STUB_SATURATES = 16, /**< an integer for input `lo` or `hi` that the dtype does not hold
                                   becomes the nearest one, and is refused where nothing would be
                                   within it; else it is wrapped */
    NNTILE_STUB_WIDE = 32       /**< floats of 16 bits are refused as on the CPU */
} nntile_stub_row_flag;

/** Strides of results. */
typedef enum nntile_stub_layout {
    NNTILE_STUB_META =
        0, /**< what PyTorch's Meta kernel says; of a composition, those of its last part */
    NNTILE_STUB_ELEMENTWISE = 1, /**< as of a product of all operands */
    NNTILE_STUB_CONTIGUOUS = 2,
    NNTILE_STUB_LIKE_FIRST = 3,  /**< as empty_like() of the first argument */
    NNTILE_STUB_CONVOLUTION = 4, /**< of the memory format that PyTorch chooses for a convolution */
    NNTILE_STUB_LAYER_NORM =
        5 /**< contiguous; dtypes of statistics too: Meta says what CUDA does */
} nntile_stub_layout;

/** What else an overload does that no schema says. */
typedef enum nntile_stub_habit_flag {
    NNTILE_STUB_ON_HOST = 1, /**< runs on the host, though PyTorch has a kernel for all devices */
    NNTILE_STUB_AT_ONCE =
        2, /**< so too, and Meta's shapes are not the CPU's: it waits for the result */
    NNTILE_STUB_BY_MASK = 4, /**< the shape depends on data where an index is a mask */
    NNTILE_STUB_HIDES_WRITES =
        8,                  /**< writes running_mean and running_var, which its schema only reads */
    NNTILE_STUB_FILLS = 16, /**< writes one number, also where elements share memory */
    NNTILE_STUB_MAY_OVERLAP = 32, /**< may write where elements share memory */
    NNTILE_STUB_EXACT_OUT =
        64, /**< an out= argument has the dtype of the result: nothing is cast */
    NNTILE_STUB_ANY_DTYPE = 128, /**< takes dtypes that the CPU refuses */
    NNTILE_STUB_INTEGERS_ON_HOST =
        256 /**< a composition for floats; of integers the CPU's kernel computes */
} nntile_stub_habit_flag;

/** What is known of "aten::elu_backward" or "aten::aminmax.out": nntile_stub_layout + 16 * flags.
 * Flags of the functional form hold for all; a layout for forms that make a result. */
int nntile_stub_habit(const char* name, const char* overload);

/** The recorder of all tensors of the device; lives as long as the process. */
nntile_record* nntile_stub_record(void);

/** The buffer that holds an address of a storage (`untyped_storage().data_ptr()`), and how far into
 *  it the address is. Borrowed: valid while the storage lives. NULL: no live storage is there. */
nntile_buffer* nntile_stub_buffer(uint64_t storage_address, int64_t* byte_offset);

/** Makes an aten overload an op of libnntile_c. All names are resolved here, once.
 *  aten_name  "aten::add", overload "Tensor" or "".   op  name of the op row.
 *  arguments  words apart by spaces: `self:x` gives argument self to input or attribute x of the
 *             op, `alpha` is short for alpha:alpha, `x:-` ignores x, `op_attr=0` is a constant. An
 *             argument may stand twice. `self:y` with y an output of the op says which written
 *             argument it is; an output called as the input of a written argument is that one;
 *             the others follow the schema: returns, then written arguments, in order.
 *             A list given to an integer attribute stands for its length; an integer given to a
 *             text attribute is the number of the word. dtype, layout, device, pin_memory,
 *             memory_format, non_blocking and generator need no word. An attribute `sizes` without
 *             a word takes the result's sizes.
 *  flags      nntile_stub_row_flag.
 *  Returns NNTILE_INVALID_ARGUMENT with the row and the argument for a name that is unknown. */
nntile_status nntile_stub_register_row(const char* aten_name, const char* overload, const char* op,
                                       const char* arguments, int flags, nntile_error** error);

/** Makes an overload of aten a composition: its kernel at the key PrivateUse3, in Python, is made
 * of calls of other ops, and those are repeated for calls of the same signature. Names as above.
 *  on_host  it also gets a kernel that runs it on the host, as an op without a row: at the key
 *           PrivateUse2, for calls that the composition is not for. */
nntile_status nntile_stub_register_composition(const char* aten_name, const char* overload,
                                               int on_host, nntile_error** error);

/** The end of registration: structured ops that nobody registered become kernels on the host. */
nntile_status nntile_stub_register_others(nntile_error** error);

/** A kernel on one part of its operands: numbers of the call, then as nntile_function::run with
 * `ranges`. Numbers of a tensor's dtype come as 8 bytes, as f64 or i64. */
typedef int (*nntile_stub_kernel)(const int64_t* numbers, const int64_t* starts,
                                  const int64_t* sizes, void* const* data, char* error_text);

/** Makes an op that is defined an op of the device.
 *  name   "namespace::op". Its overload "plan", with the same arguments, gives a list of integers
 * for a call: an nntile_stub_kernel, its signature; its numbers and nntile_function::axes, each
 *         list with its length first; then dtype and sizes of each result, again with their length.
 *         It raises what is wrong with the arguments. Operands are: arguments that are written,
 *         other tensors, numbers; then the written ones, which begin with the bytes of the former,
 *         and the results.
 *  keyed  bits of the arguments that are integers on which the list depends; besides these it may
 *         depend on dtypes and shapes only, for it is kept. */
nntile_status nntile_stub_register_kernel(const char* name, uint64_t keyed, nntile_error** error);

/** Sets what happens at an op without a row. */
void nntile_stub_fallback_mode(int mode);

/* The step of an optimizer: its calls are one graph. PyTorch's hooks begin and end it; one that
 * raises has no hook, and ends with it where steps are watched. */
nntile_status nntile_stub_step_begin(nntile_error** error);
nntile_status nntile_stub_step_end(nntile_error** error);
void nntile_stub_watch_steps(void);

/** Ops that ran on the host: lines of "overload calls bytes milliseconds". Returns the bytes needed
 *  with the final zero; writes as many as fit into out (NULL is allowed when size is 0). */
size_t nntile_stub_fallback_report(char* out, size_t size);
void nntile_stub_fallback_reset(void);

/** What the answer to a call depends on besides its arguments: a word that belongs into the key of
 * whatever is kept by call. Default dtype, deterministic algorithms, autocast, grad and inference
 * mode of this thread. */
int64_t nntile_stub_call_state(void);

/** Number of times that a Meta kernel was asked for shapes (the rest came from caches). */
int64_t nntile_stub_meta_calls(void);

/** Runs what is pending in eager mode and waits; hands over the first error of a task. */
nntile_status nntile_stub_synchronize(nntile_error** error);

/** The default generator: torch.Generator(device="nntile") always makes a new one. Its state is the
 *  seed and the offset, both 8 bytes, in this order. reseed draws a seed from the system. */
void nntile_stub_rng_get(uint64_t* seed, uint64_t* offset);
void nntile_stub_rng_set(uint64_t seed, uint64_t offset);
uint64_t nntile_stub_rng_reseed(void);

/** Draws up to now that no replay can repeat: by functions on the host, from generators of one's
 * own. */
int64_t nntile_stub_rng_outside(void);

/** What interrupted waits of this thread raise: a class of Python that lives on (its id()), and the
 *  text, copied. */
void nntile_stub_interruption(void* python_type, const char* text);

/** How lines of Python are found that record ops. fast: by the layout of frames, without Python's
 * lock, in the version of Python that has it: 1 if this one does, else nothing is found. 0: by
 * Python's functions; -1: nothing is found from now on. folders: lines; files whose names begin so
 * are not the user's, but for those whose names begin with a line after its '+'; what follows a '='
 * is left out of the names that are shown. */
int nntile_stub_places(const char* folders, int fast);

/** Texts of a place: "model.py:14", and the module, "layers.3.attn"; as
 * nntile_stub_fallback_report(). */
size_t nntile_stub_place_line(uint64_t place, char* out, size_t size);
size_t nntile_stub_place_module(uint64_t place, char* out, size_t size);

/** The number of a module's name, and which module this thread is in from now on; 0: none. */
uint32_t nntile_stub_module_number(const char* name);
void nntile_stub_module(uint32_t module);

/** 1: each call waits for its tasks and raises their error. */
void nntile_stub_blocking(int on);

/** What a profile has seen. */
typedef struct nntile_stub_event {
    /** The worker that ran the task; -1: a call was recorded; -2: the host waited; -3: a task that
     * no worker ran, as of a collective; -4: a storage was made, or (negative `bytes`) freed. Those
     * that were there before are the first ones. */
    int32_t row;
    int32_t thread;     /**< of the host, by number, for -1 and -2 */
    const char* name;   /**< of the op */
    const char* kernel; /**< of a task, "host" for a function of the host; else "" */
    uint64_t place;
    int64_t begin_ns, end_ns;
    /** As in nntile_trace_task; -1, -1, -1, 0, 0 for the host. Of a storage `task` is its address.
     */
    int64_t run, node, task, bytes, flops;
    /** Number of the recorded call: its own for -1, that it is a part of for a task; 0: none. */
    int64_t call;
} nntile_stub_event;

/** Starts a profile; 0: one is on already. */
int nntile_stub_profile_begin(void);
void nntile_stub_profile_end(void);
/** All events of the last profile, once it has ended; borrowed until the next one begins. */
size_t nntile_stub_profile_events(const nntile_stub_event** events);

/** To be called when the interpreter ends: lets the autograd workers drop their last Python
 *  objects, which would abort the process otherwise. */
void nntile_stub_drain(void);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
