# SPDX-License-Identifier: BSD-3-Clause
"""What differs between the versions of PyTorch, for Python: a line each, and who asks for it.

What the stub's C++ must know stands in csrc/contract/versions.h.
"""

from __future__ import annotations

import torch

__all__ = [
    "ATTENTION_OF_THREE_DIMS",
    "BOUNDS_SATURATE",
    "CAUSAL_TAKES_A_MASK",
    "PYTHON_KNOWS_CHANNELS_LAST",
    "SHORT_RANGES_IN_FLOAT",
    "SOLVE_MAY_TRANSPOSE",
]

_MAJOR, _MINOR = (int(part) for part in torch.__version__.split(".")[:2])


def _since(minor: int) -> bool:
    return (_MAJOR, _MINOR) >= (2, minor)


# clamp of integers by a bound that their dtype does not hold: by the nearest one that it holds, and
# refused where nothing is within it, as clamp_min(300) of uint8. Up to 2.14 the CPU wraps the bound:
# clamp_max(300) of uint8 is clamp_max(44). (aten.py)
BOUNDS_SATURATE = _since(15)

# scaled_dot_product_attention() of three dims is that of a batch of one, so the CPU's kernel serves
# it. Up to 2.13 the formula does. (compositions/attention.py)
ATTENTION_OF_THREE_DIMS = _since(14)

# Up to 2.13 the CPU's kernel of attention takes a mask with is_causal, which its formula refuses.
# (compositions/attention.py)
CAUSAL_TAKES_A_MASK = not _since(14)

# Up to 2.10 linalg.solve() factorises the transpose where A is contiguous, and its gradient asks A
# again which it was. Later ones factorise A. (compositions/linalg.py)
SOLVE_MAY_TRANSPOSE = not _since(11)

# suggest_memory_format() in Python is what the CPU's kernels have in C++. In that of 2.10 a dim with
# stride 1 takes no room. (compositions/formats.py)
PYTHON_KNOWS_CHANNELS_LAST = _since(11)

# linspace of short floats has its step and its numbers in float32, and rounds them once. Up to 2.14 the
# step, each product and each sum are short. (compositions/ranges.py)
SHORT_RANGES_IN_FLOAT = _since(15)
