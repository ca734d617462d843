"""How many requests of one account are answered: so many a second, after a first burst."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from makeway.server import errors
from makeway.server.people import ROOT

BURST_S = 10.0  # of requests that may come at once
AT_ONCE_MAX = 100  # of one account's being answered


class Rates:
    def __init__(self, per_s: float, clock: Callable[[], float]) -> None:
        self._per_s, self._clock = per_s, clock
        self._left: dict[int, tuple[float, float]] = {}  # by uid: how many, and as of when
        self._at_work: Counter[int] = Counter()

    @contextmanager
    def counted(self, uid: int) -> Iterator[None]:
        """While a request of this account is answered; ApiError if there are too many."""
        if not self._take(uid) or self._at_work[uid] >= AT_ONCE_MAX:
            raise errors.too_many_requests("too many requests of this account; try again later")
        self._at_work[uid] += 1
        try:
            yield
        finally:
            self._at_work[uid] -= 1
            if not self._at_work[uid]:
                del self._at_work[uid]

    def _take(self, uid: int) -> bool:
        if uid == ROOT:
            return True  # somebody has to get in when others ask too much
        now, burst = self._clock(), self._per_s * BURST_S
        left, since = self._left.get(uid, (burst, now))
        left = min(burst, left + max(0.0, now - since) * self._per_s)
        is_enough = left >= 1.0
        self._left[uid] = (left - 1.0 if is_enough else left, now)
        return is_enough
