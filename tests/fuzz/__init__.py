# SPDX-License-Identifier: BSD-3-Clause
"""Random programs, run on CPU PyTorch and on the device, compared, and shrunk where they differ."""
