"""Which keys want to be written: from when on, what is on its way, and how often it has failed.

A key stands for whatever somebody keeps in step. While a write for it is on its way it is left
alone; after a failure it comes again, later and later. The outbox knows neither what is written
nor why: whoever owns it is handed the keys whose turn it is, and makes the writes from what there
is to say by then.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Generic, TypeVar

from makeway.backoff import backoff_s

RETRY_MAX_S = 30.0

K = TypeVar("K")


class Outbox(Generic[K]):
    def __init__(self, retry_s: float, retry_max_s: float = RETRY_MAX_S) -> None:
        self._retry_s, self._retry_max_s = retry_s, retry_max_s
        self._wanted: dict[K, None] = {}  # in the order in which they came
        self._in_flight: dict[K, int] = {}  # writes on their way
        self._failures: dict[K, int] = {}  # in a row
        self._timers: list[tuple[float, K]] = []  # heap; may hold times long overtaken
        self._due_at: dict[K, float] = {}  # the next timer of each key that counts

    @property
    def wanted(self) -> int:
        """How many keys wait for their turn, those in a pause not counted."""
        return len(self._wanted)

    @property
    def in_flight(self) -> int:
        """How many keys have a write on its way."""
        return len(self._in_flight)

    def want(self, key: K) -> None:
        """There is something to write; in a pause after a failure, when that is over."""
        if key not in self._due_at:
            self._wanted[key] = None

    def want_now(self, key: K) -> None:
        """The same, pause or not: what led to the failure may have changed."""
        self._wanted[key] = None

    def want_at(self, key: K, at: float) -> None:
        """There will be something to write; the earliest of several times counts."""
        if self._due_at.get(key, float("inf")) > at:
            self._due_at[key] = at
            heapq.heappush(self._timers, (at, key))

    def drop(self, key: K) -> None:
        """Nothing is wanted any more; what is on its way is left to its fate."""
        self._wanted.pop(key, None)

    def forget(self, key: K) -> None:
        """The same, and as if nothing had ever failed."""
        self.drop(key)
        self._due_at.pop(key, None)
        self.calm(key)

    def calm(self, key: K) -> None:
        """Forget failures: the last write has worked, or nothing is to be written."""
        self._failures.pop(key, None)

    def take(self, now: float, most: int) -> list[K]:
        """The keys whose turn it is; each of them is no longer wanted."""
        for _ in range(most):
            if not self._timers or self._timers[0][0] > now:
                break
            at, key = heapq.heappop(self._timers)
            if self._due_at.get(key) == at:
                del self._due_at[key]
                self._wanted[key] = None
        if not self._wanted:  # as of most parts at most times
            return []
        taken = list(islice((key for key in self._wanted if key not in self._in_flight), most))
        for key in taken:
            del self._wanted[key]
        return taken

    def next_at(self, now: float) -> float | None:
        """When to take again, though nothing happen before; what is on its way is waited for."""
        if self._wanted and any(key not in self._in_flight for key in self._wanted):
            return now
        return self._timers[0][0] if self._timers else None

    def sent(self, key: K) -> None:
        """A write for it is on its way."""
        self._in_flight[key] = self._in_flight.get(key, 0) + 1

    def settled(self, key: K) -> None:
        """A write for it has come to its end, whichever; `calm` or `failed` says which."""
        left = self._in_flight.pop(key) - 1
        if left:
            self._in_flight[key] = left

    def failed(self, key: K, now: float) -> None:
        """A write for it didn't work: it is wanted again, after a pause that grows.

        What is wanted since it was sent is wanted still: that is another write.
        """
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.want_at(key, now + backoff_s(failures, self._retry_s, self._retry_max_s))
