# SPDX-License-Identifier: BSD-3-Clause
"""What other packages find by entry point. Each module imports its package when it is asked for."""
