"""Parts of a control plane: each hears what changed, and answers what to write.

A part is synchronous and never waits: it is told of changes and of what became of its writes, and
is asked from time to time what it wants done. `Loop` does the waiting for all of them.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar, NamedTuple, Protocol

from makeway.backoff import backoff_s
from makeway.client.client import ApiError, Conflict, Document, NotFound, Resource, Unavailable
from makeway.plane.picture import Change
from makeway.plane.writes import Key, ObjectWrite, Patch, Say, Write

AT_ONCE_MAX = 200  # objects looked at before others get their turn
RETRY_S = 0.1
RETRY_MAX_S = 30.0
BURST_MAX = 10  # rounds of patches for one object at once, where it is contested
PACE_S = 1.0  # and from one to the next after that


class Done(NamedTuple):
    document: Document | None  # as it is now, where the server showed it


class Failed(NamedTuple):
    error: ApiError | Unavailable

    @property
    def is_unknown(self) -> bool:
        """Whether the write may have happened all the same."""
        return isinstance(self.error, Unavailable)


Outcome = Done | Failed


class Plan(NamedTuple):
    writes: Sequence[Write] = ()
    next_at: float | None = None  # ask again at this time, though nothing happen before


NOTHING = Plan()


class Part(Protocol):
    resources: tuple[Resource, ...]  # the kinds of which it hears

    def changed(self, change: Change) -> None:
        """An object is new, different or gone."""

    def act(self, now: float) -> Plan:
        """What to do now. Not asked before everything of its kinds was listed once."""

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        """What became of a write; if it changed an object, `changed` has told so before.

        Answers what there is to say about it.
        """


class Pace:
    """Lets an object be written a few times at once, and then slowly.

    Two who see different things undo each other's writes as fast as they hear of them, until both
    see the same: somebody else's controller, or ours that does not know yet that it is followed.
    """

    def __init__(self) -> None:
        self._spent_until: dict[Key, float] = {}  # each round takes a while of the time to come
        self._tidy_above = AT_ONCE_MAX

    def begin_at(self, key: Key, now: float) -> float:
        """When it may be written again."""
        ahead_s = self._spent_until.get(key, now) - now
        if ahead_s > (BURST_MAX + 1) * PACE_S:  # the clock was set back
            del self._spent_until[key]
            return now
        return now + max(0.0, ahead_s - (BURST_MAX - 1) * PACE_S)

    def note(self, key: Key, now: float) -> None:
        """It is written now."""
        self._spent_until[key] = max(now, self._spent_until.get(key, now)) + PACE_S
        if len(self._spent_until) > self._tidy_above:
            self._spent_until = {k: until for k, until in self._spent_until.items() if until > now}
            self._tidy_above = 2 * len(self._spent_until) + AT_ONCE_MAX


class Reconciler(ABC):
    """A part that looks at one object after another, and again until each is as it should be.

    While writes for an object are on their way it is left alone; after a failure it is looked at
    again, later and later. Nothing is remembered that the objects don't say.
    """

    contested: ClassVar[tuple[Resource, ...]] = ()  # somebody else may want them to be different

    def __init__(self) -> None:
        self._pace = Pace()
        self._due: dict[Key, None] = {}
        self._busy: dict[Key, int] = {}  # writes on their way
        self._sent: dict[int, Key] = {}  # id of a write on its way -> for whom
        self._failures: dict[Key, int] = {}  # in a row
        self._timers: list[tuple[float, Key]] = []  # heap; may hold times long overtaken
        self._due_at: dict[Key, float] = {}  # the next one of each that counts

    @abstractmethod
    def reconcile(self, key: Key, now: float) -> Plan:
        """What brings the object nearer to what it should be; nothing when it is."""

    def refused(self, key: Key, write: ObjectWrite, error: ApiError) -> Sequence[Say]:
        """The server will not have this write, however often it is sent."""
        return ()

    def mark(self, key: Key) -> None:
        self._due[key] = None

    def mark_at(self, key: Key, at: float) -> None:
        if self._due_at.get(key, float("inf")) > at:
            self._due_at[key] = at
            heapq.heappush(self._timers, (at, key))

    def _ring(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            at, key = heapq.heappop(self._timers)
            if self._due_at.get(key) == at:
                del self._due_at[key]
                self.mark(key)

    def act(self, now: float) -> Plan:
        self._ring(now)
        writes: list[Write] = []
        ready = (key for key in self._due if key not in self._busy)
        for key in list(islice(ready, AT_ONCE_MAX)):
            del self._due[key]
            if (begin_at := self._pace.begin_at(key, now)) > now:
                self.mark_at(key, begin_at)
                continue
            plan = self.reconcile(key, now)
            if plan.next_at is not None:
                self.mark_at(key, plan.next_at)
            elif not plan.writes:
                self._failures.pop(key, None)  # it is as it should be, or gone
            for write in plan.writes:
                if not isinstance(write, Say):
                    self._busy[key] = self._busy.get(key, 0) + 1
                    self._sent[id(write)] = key
            if any(isinstance(w, Patch) and w.resource in self.contested for w in plan.writes):
                self._pace.note(key, now)
            writes += plan.writes
        if any(key not in self._busy for key in self._due):
            return Plan(writes, now)
        return Plan(writes, self._timers[0][0] if self._timers else None)

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        key = self._sent.pop(id(write))
        left = self._busy.pop(key) - 1
        if left:
            self._busy[key] = left
        if isinstance(outcome, Done):
            self._failures.pop(key, None)
            return write.then
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.mark_at(key, now + backoff_s(failures, RETRY_S, RETRY_MAX_S))
        error = outcome.error
        if isinstance(error, ApiError) and not isinstance(error, Conflict | NotFound):
            return self.refused(key, write, error)
        return ()
