"""Parts of a control plane: each hears what changed, and answers what to write.

A part is synchronous and never waits: it is told of changes and of what became of its writes, and
is asked from time to time what it wants done. `Loop` does the waiting for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple, Protocol

from makeway.api.kinds import Resource
from makeway.client.client import ApiError, Conflict, Document, NotFound, Unavailable
from makeway.plane.outbox import Outbox
from makeway.plane.picture import Change
from makeway.plane.writes import Key, ObjectWrite, Patch, Say, Write

AT_ONCE_MAX = 200  # objects looked at before others get their turn
RETRY_S = 0.1
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
        self._next_free_at: dict[Key, float] = {}  # each write books PACE_S of future time
        self._tidy_above = AT_ONCE_MAX

    def begin_at(self, key: Key, now: float) -> float:
        """When it may be written again."""
        ahead_s = self._next_free_at.get(key, now) - now
        if ahead_s > (BURST_MAX + 1) * PACE_S:  # the clock was set back
            del self._next_free_at[key]
            return now
        return now + max(0.0, ahead_s - (BURST_MAX - 1) * PACE_S)

    def note(self, key: Key, now: float) -> None:
        """It is written now."""
        self._next_free_at[key] = max(now, self._next_free_at.get(key, now)) + PACE_S
        if len(self._next_free_at) > self._tidy_above:
            self._next_free_at = {
                k: until for k, until in self._next_free_at.items() if until > now
            }
            self._tidy_above = 2 * len(self._next_free_at) + AT_ONCE_MAX


class Reconciler(ABC):
    """A part that looks at one object after another, and again until each is as it should be.

    While writes for an object are on their way it is left alone; after a failure it is looked at
    again, later and later. Nothing is remembered that the objects don't say.
    """

    contested: ClassVar[tuple[Resource, ...]] = ()  # somebody else may want them to be different

    def __init__(self) -> None:
        self._pace = Pace()
        self._outbox: Outbox[Key] = Outbox(RETRY_S)

    @abstractmethod
    def reconcile(self, key: Key, now: float) -> Plan:
        """What brings the object nearer to what it should be; nothing when it is."""

    def refused(self, key: Key, write: ObjectWrite, error: ApiError) -> Sequence[Say]:
        """The server will not have this write, however often it is sent."""
        return ()

    def mark(self, *keys: Key) -> None:
        """Look at these now."""
        for key in keys:
            self._outbox.want_now(key)

    def mark_at(self, key: Key, at: float) -> None:
        self._outbox.want_at(key, at)

    def act(self, now: float) -> Plan:
        writes: list[Write] = []
        for key in self._outbox.take(now, AT_ONCE_MAX):
            if (begin_at := self._pace.begin_at(key, now)) > now:
                self.mark_at(key, begin_at)
                continue
            plan = self.reconcile(key, now)
            if plan.next_at is not None:
                self.mark_at(key, plan.next_at)
            elif not plan.writes:
                self._outbox.calm(key)  # it is as it should be, or gone
            for write in plan.writes:
                if isinstance(write, Say):
                    writes.append(write)
                else:
                    writes.append(replace(write, cause=key))
                    self._outbox.sent(key)
            if any(isinstance(w, Patch) and w.resource in self.contested for w in plan.writes):
                self._pace.note(key, now)
        return Plan(writes, self._outbox.next_at(now))

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        key = write.cause
        assert key is not None, f"{write} is not ours"
        self._outbox.settled(key)
        if isinstance(outcome, Done):
            self._outbox.calm(key)
            return write.then
        self._outbox.failed(key, now)
        error = outcome.error
        if isinstance(error, ApiError) and not isinstance(error, Conflict | NotFound):
            return self.refused(key, write, error)
        return ()
