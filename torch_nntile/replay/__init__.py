# SPDX-License-Identifier: BSD-3-Clause
"""Capture and replay: a step's graph is recorded once and run again without its Python code.

numbers.py     numbers that each replay makes anew, as a small function
guard.py       what places in Python objects held at one time, and hold now
state.py       such places in reach of the code of a function
watch.py       what a step uses besides its arguments, seen while it is recorded
recording.py   one recorded graph, and what its slots stand for
captured.py    torch_nntile.capture: signatures, guards
"""
