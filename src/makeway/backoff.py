"""Exponential back-off: the one formula for everybody who tries again.

Imports nothing, because the supervisor of a pod imports it and has to start in no time.
"""

from __future__ import annotations


def backoff_s(failures: int, base_s: float, max_s: float) -> float:
    """The pause after so many failures in a row: `base_s` after the first, then twice the last."""
    if failures < 1:
        return 0.0
    return min(base_s * 2.0 ** min(failures - 1, 64), max_s)
