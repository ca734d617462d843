"""Partial admission: the largest number of pods that can be admitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from makeway.engine.model import PodSet

Found = TypeVar("Found")


def search_counts(
    pod_sets: tuple[PodSet, ...], attempt: Callable[[tuple[int, ...]], Found | None]
) -> Found | None:
    """Return what `attempt` gives for the smallest reduction it can work with; None if for none.

    One binary search, which takes for granted that fewer pods are never harder to place.
    """
    spare = [ps.count - (ps.count if ps.min_count is None else ps.min_count) for ps in pod_sets]
    most = sum(spare)
    if most <= 0:
        return None
    best: Found | None = None
    low, high = 0, most + 1
    while low < high:
        reduction = (low + high) // 2
        counts = tuple(
            ps.count - part * reduction // most for ps, part in zip(pod_sets, spare, strict=True)
        )
        found = attempt(counts)
        if found is None:
            low = reduction + 1
        else:
            best, high = found, reduction
    return best
