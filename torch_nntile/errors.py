# SPDX-License-Identifier: BSD-3-Clause
"""One exception class per status of the C library; each is also a builtin that a caller expects."""

from __future__ import annotations

import torch

__all__ = [
    "DtypeError",
    "IndexRangeError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidStateError",
    "LinAlgError",
    "NntileError",
    "NotFoundError",
    "OutOfMemoryError",
    "TaskError",
    "UnsupportedError",
    "ValueRefusedError",
    "WaitInterruptedError",
    "class_of",
]


class NntileError(Exception):
    """Base class of all errors that torch_nntile raises itself."""


class InvalidArgumentError(NntileError, ValueError):
    """A shape, size, name or value is not valid."""


class InvalidStateError(NntileError, RuntimeError):
    """A valid call at the wrong time: a second context, after shutdown, in a forked child."""


class NotFoundError(NntileError, LookupError, ValueError):
    """There is no op, axis group or buffer of that name."""


class UnsupportedError(NntileError, NotImplementedError):
    """This build has no such function, or the device has no kernel for this call."""


class OutOfMemoryError(NntileError, torch.OutOfMemoryError):
    """Data does not fit in the memory budget."""


class TaskError(NntileError, RuntimeError):
    """StarPU or a kernel failed."""


class InternalError(NntileError, RuntimeError):
    """A bug in torch_nntile: please report it with the output of `python -m torch_nntile.diagnose`."""


class WaitInterruptedError(NntileError, RuntimeError):
    """Something ended a wait. For Python's signals the handler's own exception is raised instead."""


class IndexRangeError(NntileError, IndexError):
    """An index outside its range: a dim, a label."""


class DtypeError(NntileError, TypeError):
    """A dtype that the op does not take, or an argument of another type."""


class ValueRefusedError(NntileError, ValueError):
    """A value that the op does not take, as PyTorch's kernel found in a task."""


class LinAlgError(NntileError, torch.linalg.LinAlgError):  # type: ignore[misc]  # has no type
    """No solution: a singular matrix, or an iteration that does not converge."""


# By number of nntile_status (nntile/base.h); numbers are never reused.
_BY_STATUS: dict[int, type[NntileError]] = {
    1: InvalidArgumentError,
    2: InvalidStateError,
    3: NotFoundError,
    4: UnsupportedError,
    5: OutOfMemoryError,
    6: TaskError,
    7: InternalError,
    8: IndexRangeError,
    9: DtypeError,
    10: WaitInterruptedError,
    11: ValueRefusedError,
    12: LinAlgError,
}


def class_of(status: int) -> type[NntileError]:
    """The exception class of a status other than NNTILE_OK."""
    return _BY_STATUS.get(status, InternalError)
