# SPDX-License-Identifier: BSD-3-Clause
"""What of PyTorch's own table of ops, op_db, the device runs, and how: python -m torch_nntile.conformance

>>> python -m torch_nntile.conformance --ops add,mm          # print it for two entries
>>> python -m torch_nntile.conformance --write FILE          # all of them, as a page
>>> python -m torch_nntile.conformance --check FILE          # an error if an entry is worse than FILE says

Samples and comparison with the CPU are those of the tests. It needs expecttest, as op_db does.
"""

from __future__ import annotations
