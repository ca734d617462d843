"""Jobs that wait for the end of others: `submit --after`, by annotations that anybody may write.

    makeway.dev/after: prepare, array/12      when they have succeeded
    makeway.dev/after-any: prepare            when they are over, however they ended
    makeway.dev/after-failed: train           when they have failed, or were cancelled

Names are of Jobs in the same namespace, `array/12` is all of an array. Until then a job stays
outside the queues, without a Workload. What can't come true any more ends it
(`DependencyNeverSatisfied`). What became of a job that was deleted, the history tells where there
is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from makeway.api.kinds import JOBS
from makeway.api.labels import AFTER, AFTER_ANY, AFTER_FAILED, ARRAY
from makeway.client.client import Document
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key

OF_ARRAY = "array/"


class Outcome(Enum):
    OPEN = "has not ended"
    SUCCEEDED = "has succeeded"
    FAILED = "has failed"
    UNKNOWN = "is not known"


LastOutcome = Callable[[Key], Outcome]  # of a Job that is gone


def nobody_knows(_: Key) -> Outcome:
    return Outcome.UNKNOWN


class Waits(NamedTuple):
    """Not yet."""


class Never(NamedTuple):
    """It can't come true any more."""

    message: str


class Dependencies:
    def __init__(self, picture: Picture, last_outcome: LastOutcome) -> None:
        self._picture, self._last_outcome = picture, last_outcome
        self._arrays = picture.index(JOBS, _array_of)
        # Who waits for a Job or an array, by namespace and reference.
        self._waiting: dict[Key, set[Key]] = {}

    def changed(self, change: Change) -> Iterable[Key]:
        """Who may have waited for this change of a Job."""
        if not self._waiting or not _is_end(change):
            return ()
        named = self._waiting.pop(change.key, set())
        entry = self._arrays.entry(change.new or change.old)
        grouped = set() if entry is None else self._waiting.pop(entry[0], set())
        return named | grouped

    def obstacle(self, key: Key, namespace: str, wishes: Mapping[str, str]) -> Waits | Never | None:
        """What keeps a Job with these annotations from its queue; None: nothing (any more)."""
        waits: Waits | None = None
        for rule, reference in _references(wishes):
            outcomes = {self._outcome(found) for found in self._jobs_of(namespace, reference)}
            if never := _never(rule, reference, outcomes):
                return Never(never)
            if Outcome.OPEN in outcomes:
                self._waiting.setdefault(Key(namespace, reference), set()).add(key)
                waits = Waits()
        return waits

    def _jobs_of(self, namespace: str, reference: str) -> list[Key]:
        if reference.startswith(OF_ARRAY):
            return self._arrays.keys(Key(namespace, reference))
        return [Key(namespace, reference)]

    def _outcome(self, key: Key) -> Outcome:
        found = self._picture.get(JOBS, key)
        return self._last_outcome(key) if found is None else outcome_of(found)


def outcome_of(job: Document) -> Outcome:
    conditions = (job.get("status") or {}).get("conditions") or ()
    ended = {found["type"] for found in conditions if found.get("status") == "True"}
    if "Complete" in ended:
        return Outcome.SUCCEEDED
    return Outcome.FAILED if "Failed" in ended else Outcome.OPEN


def _references(wishes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for rule in (AFTER, AFTER_ANY, AFTER_FAILED):
        for word in wishes.get(rule, "").split(","):
            if reference := word.strip():
                yield rule, reference


def _never(rule: str, reference: str, outcomes: set[Outcome]) -> str:
    """Why it can't come true; empty if it may."""
    if Outcome.UNKNOWN in outcomes or not outcomes:
        return "" if rule == AFTER_ANY and outcomes else f"there is no job {reference} to wait for"
    if rule == AFTER and Outcome.FAILED in outcomes:
        return f"{reference} has not succeeded"
    if rule == AFTER_FAILED and outcomes == {Outcome.SUCCEEDED}:
        return f"{reference} has not failed"
    return ""


def _is_end(change: Change) -> bool:
    if change.new is None:
        return True
    before = None if change.old is None else outcome_of(change.old.document)
    return before != outcome_of(change.new.document)


def _array_of(job: Object) -> tuple[Key, None] | None:
    array = (job.document["metadata"].get("labels") or {}).get(ARRAY)
    return None if array is None else (Key(job.key.namespace, f"{OF_ARRAY}{array}"), None)
