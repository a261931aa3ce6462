# SPDX-License-Identifier: BSD-3-Clause
"""What a part of a program did: `torch_nntile.profile()`."""
