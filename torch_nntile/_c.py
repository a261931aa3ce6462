# SPDX-License-Identifier: BSD-3-Clause
"""The only door to C: other modules name a function and get Python values or an exception back.

Import it after torch: the stub needs PyTorch's C++ libraries loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from torch_nntile import stubs
from torch_nntile.errors import InvalidArgumentError, class_of

_capi = stubs.core()
_stubapi = stubs.load(torch.__version__)

ffi = _capi.ffi

DTYPES: dict[torch.dtype, int] = {
    torch.float32: _capi.lib.NNTILE_F32,
    torch.float64: _capi.lib.NNTILE_F64,
    torch.float16: _capi.lib.NNTILE_F16,
    torch.bfloat16: _capi.lib.NNTILE_BF16,
    torch.int64: _capi.lib.NNTILE_I64,
    torch.int32: _capi.lib.NNTILE_I32,
    torch.int16: _capi.lib.NNTILE_I16,
    torch.int8: _capi.lib.NNTILE_I8,
    torch.uint8: _capi.lib.NNTILE_U8,
    torch.bool: _capi.lib.NNTILE_BOOL,
}

# What the pointers inside a struct point to must live as long as the struct.
_alive: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


_raised: list[BaseException] = []  # by the handler of a signal, while a wait lasted


def _keep(kind: Any, error: BaseException, traceback: Any) -> None:
    _raised[:] = [error.with_traceback(None)]
    _stubapi.lib.nntile_stub_interruption(ffi.cast("void *", id(kind)), str(error).encode())


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator]
def nntile_python_interrupted() -> int:
    """Asked in waits of the main thread. The interpreter runs handlers of signals before it."""
    return 0


def let_signals_interrupt(wanted: bool) -> None:
    """Whether the handler of a signal that raises, as Ctrl-C does, ends a wait of this thread."""
    asked = _capi.lib.nntile_python_interrupted if wanted else ffi.NULL
    _capi.lib.nntile_wait_interrupted(asked)
    _capi.lib.nntile_python_lock(wanted)


def function(name: str) -> Any:
    """The C function of that name, from whichever library has it."""
    return getattr(_stubapi.lib if name.startswith("nntile_stub_") else _capi.lib, name)


def get(name: str, *args: Any) -> Any:
    """Call a C function that cannot fail."""
    return function(name)(*args)


def call(name: str, *args: Any) -> None:
    """Call a C function whose last parameter is `nntile_error **`; raise what it reports."""
    slot = ffi.new("nntile_error **")
    status = function(name)(*args, slot)
    if status:
        error = class_of(status)(_message(slot))
        if status == _capi.lib.NNTILE_INTERRUPTED and _raised:
            raise _raised.pop()
        raise error


def try_call(name: str, *args: Any) -> None:
    """As `call`, where nobody is left to hear an error: at exit."""
    function(name)(*args, ffi.NULL)


def _message(slot: Any) -> str:
    error = ffi.gc(slot[0], _capi.lib.nntile_error_destroy)
    return text(_capi.lib.nntile_error_message(error))


def text(pointer: Any) -> str:
    """A borrowed C string."""
    raw: bytes = ffi.string(pointer)
    return raw.decode()


def owned_text(name: str, *args: Any) -> str:
    """The text that a fallible function hands over through `char **` before the error slot."""
    slot = ffi.new("char **")
    call(name, *args, slot)
    return text(ffi.gc(slot[0], _capi.lib.nntile_text_free))


def new_struct(name: str) -> Any:
    """A zeroed struct that begins with struct_size, set."""
    struct = ffi.new(f"{name} *")
    struct.struct_size = ffi.sizeof(name)
    return struct


def new(declaration: str) -> Any:
    """Room for a result: `new("int64_t *")`."""
    return _stubapi.ffi.new(declaration)  # it knows the types of both


def run_kernel(
    address: int, numbers: Sequence[int], extents: Sequence[int], data: Sequence[int]
) -> tuple[int, str]:
    """Call an nntile_stub_kernel on whole operands: what it returns, and its text."""
    function = _stubapi.ffi.cast("nntile_stub_kernel", address)
    starts, text = ffi.new("int64_t[]", len(extents) + 1), ffi.new("char[256]")
    pointers = ffi.new("void *[]", [ffi.cast("void *", address) for address in data])
    sizes = ffi.new("int64_t[]", [*extents, 0])
    status = function(ffi.new("int64_t[]", [*numbers, 0]), starts, sizes, pointers, text)
    return status, ffi.string(text).decode(errors="replace")


def settings() -> Any:
    """The environment's settings (struct nntile_settings), read anew.

    Raises:
        ValueError: a variable has a value that it cannot have.
    """
    call("nntile_context_check_settings")
    found = new_struct("nntile_settings")
    call("nntile_context_settings_get", found)
    return found


def record() -> Any:
    """The recorder of the device; made by the stub, which owns it."""
    recorder = _stubapi.lib.nntile_stub_record()
    if recorder == ffi.NULL:  # a setting of the environment is wrong: this says which
        call("nntile_context_check_settings")
    return recorder


def operand(tensor: torch.Tensor) -> Any:
    """A tensor on the device as an nntile_operand; it borrows the tensor's buffer."""
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        raise InvalidArgumentError(f"device 'nntile' has no {tensor.dtype}")
    byte_offset = ffi.new("int64_t *")
    buffer = _stubapi.lib.nntile_stub_buffer(tensor.untyped_storage().data_ptr(), byte_offset)
    if buffer == ffi.NULL:
        raise InvalidArgumentError("the tensor's storage is not of device 'nntile'")
    sizes = ffi.new("int64_t[]", tuple(tensor.shape))
    strides = ffi.new("int64_t[]", tuple(tensor.stride()))
    result = ffi.new("nntile_operand *")
    result.kind, result.dtype, result.ndim = _capi.lib.NNTILE_OPERAND_TENSOR, dtype, tensor.dim()
    result.buffer, result.sizes, result.strides = buffer, sizes, strides
    result.offset = tensor.storage_offset() + byte_offset[0] // tensor.element_size()
    _alive[result] = (sizes, strides, tensor)
    return result
