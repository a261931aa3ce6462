/* SPDX-License-Identifier: BSD-3-Clause
 * The C face of the PyTorch stub. It has no Python in it and never takes the GIL; no function lets
 * a C++ exception out. Loading it registers the device, its minimal ops and the fallback. */
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
    NNTILE_STUB_FOREACH = 1, /**< lists are walked in parallel: one node for each element */
    NNTILE_STUB_RANDOM = 2,  /**< attributes `seed` and `offset` are drawn from the generator */
    NNTILE_STUB_UNIFORM = 4  /**< operands are of one dtype: others are refused as on the CPU */
} nntile_stub_row_flag;

/** Version of PyTorch that the stub was built for, "2.13.0". */
const char *nntile_stub_torch_version(void);

/** The recorder of all tensors of the device; lives as long as the process. */
nntile_record *nntile_stub_record(void);

/** The buffer that holds an address of a storage (`untyped_storage().data_ptr()`), and how far into
 *  it the address is. Borrowed: valid while the storage lives. NULL: no live storage is there. */
nntile_buffer *nntile_stub_buffer(uint64_t storage_address, int64_t *byte_offset);

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
nntile_status nntile_stub_register_row(const char *aten_name, const char *overload, const char *op,
                                       const char *arguments, int flags, nntile_error **error);

/** The end of registration: structured ops that nobody registered become kernels on the host. */
nntile_status nntile_stub_register_others(nntile_error **error);

/** Sets what happens at an op without a row. */
void nntile_stub_fallback_mode(int mode);

/** Ops that ran on the host: lines of "overload calls bytes milliseconds". Returns the bytes needed
 *  with the final zero; writes as many as fit into out (NULL is allowed when size is 0). */
size_t nntile_stub_fallback_report(char *out, size_t size);
void nntile_stub_fallback_reset(void);

/** Number of times that a Meta kernel was asked for shapes (the rest came from caches). */
int64_t nntile_stub_meta_calls(void);

/** Runs what is pending in eager mode and waits; hands over the first error of a task. */
nntile_status nntile_stub_synchronize(nntile_error **error);

/** The default generator: torch.Generator(device="nntile") always makes a new one. Its state is the
 *  seed and the offset, both 8 bytes, in this order. reseed draws a seed from the system. */
void nntile_stub_rng_get(uint64_t *seed, uint64_t *offset);
void nntile_stub_rng_set(uint64_t seed, uint64_t offset);
uint64_t nntile_stub_rng_reseed(void);

/** Draws up to now that no replay can repeat: by functions on the host, from generators of one's own. */
int64_t nntile_stub_rng_outside(void);

/** What interrupted waits of this thread raise: a class of Python that lives on (its id()), and the
 *  text, copied. */
void nntile_stub_interruption(void *python_type, const char *text);

/** To be called when the interpreter ends: lets the autograd workers drop their last Python
 *  objects, which would abort the process otherwise. */
void nntile_stub_drain(void);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
