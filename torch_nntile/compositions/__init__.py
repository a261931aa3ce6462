# SPDX-License-Identifier: BSD-3-Clause
"""Overloads that are compositions of others: what a row of aten.py cannot say.

A function here has the signature of its aten overload; its decorator (registry.py) says which one, and
whether it runs above autograd. forms.py makes its in-place and `out=` forms.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
