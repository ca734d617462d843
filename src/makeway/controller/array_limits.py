"""How many jobs of an array may be under way at once: `submit --array 1-100%8`.

The others wait outside the queues, without a Workload, the lowest index first; when one that was
let in has ended, the next one is. What is known is made of the objects when an array is first asked
about, and then kept up with, so that an array of ten thousand isn't looked through again and again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import NamedTuple

from makeway.api.kinds import JOBS
from makeway.api.labels import ARRAY, ARRAY_INDEX, ARRAY_LIMIT
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key

_OVER = ("Complete", "Failed")


class Member(NamedTuple):
    """A job of an array that has a limit."""

    place: int  # its index
    key: Key  # namespace and uid
    limit: int
    is_over: bool


class _Array:
    def __init__(self) -> None:
        self.let_in: set[Key] = set()
        self.waiting: list[tuple[int, Key]] = []  # a heap, also of some who are over
        self.over: set[Key] = set()

    def take(self, member: Member, *, has_begun: bool) -> None:
        if has_begun:
            self.let_in.add(member.key)
        else:
            heapq.heappush(self.waiting, (member.place, member.key))

    def fill(self, limit: int) -> None:
        """Let in the lowest of those who wait, as many as there is room for."""
        while self.waiting and len(self.let_in) < limit:
            _, first = heapq.heappop(self.waiting)
            if first not in self.over:
                self.let_in.add(first)


class ArrayLimits:
    def __init__(self, picture: Picture, has_begun: Callable[[Key], bool]) -> None:
        self._has_begun = has_begun
        self._members = picture.index(JOBS, _member_of)
        self._arrays: dict[Key, _Array] = {}  # those that were asked about, by namespace and name

    def changed(self, change: Change) -> Iterable[Key]:
        """Keep up with a Job; answers who may have his turn now."""
        before, after = self._members.entry(change.old), self._members.entry(change.new)
        entry = before or after
        array = None if entry is None else self._arrays.get(entry[0])
        if entry is None or array is None:
            return ()
        group, member = entry
        if before is None and not member.is_over:
            array.take(member, has_begun=self._has_begun(member.key))
        is_over = after is None or after[1].is_over
        if not is_over or member.key in array.over:
            return ()
        array.over.add(member.key)
        array.let_in.discard(member.key)
        if not self._members.has(group):
            del self._arrays[group]
        return [key for _, key in heapq.nsmallest(member.limit, array.waiting)]

    def lets_in(self, job: Object) -> bool:
        """Whether a Job may have a Workload now; who may counts from then on."""
        entry = self._members.entry(job)
        if entry is None:
            return True
        group, member = entry
        array = self._arrays.get(group)
        if array is None:
            array = self._arrays[group] = _Array()
            for found in self._members.values(group):
                if not found.is_over:
                    array.take(found, has_begun=self._has_begun(found.key))
        array.fill(member.limit)
        return member.key in array.let_in


def _member_of(job: Object) -> tuple[Key, Member] | None:
    metadata = job.document["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    limit, index = annotations.get(ARRAY_LIMIT, ""), labels.get(ARRAY_INDEX, "")
    if not limit.isdecimal() or not index.isdecimal() or ARRAY not in labels:
        return None
    conditions = (job.document.get("status") or {}).get("conditions") or ()
    is_over = any(c.get("type") in _OVER and c.get("status") == "True" for c in conditions)
    namespace = job.key.namespace
    member = Member(int(index), Key(namespace, job.uid), int(limit), is_over)
    return Key(namespace, labels[ARRAY]), member
