"""Workloads waiting in one queue: their order, the head, parking and waking.

Workloads of equal shape are kept together, since they have the same fate: when the head of such
a class can't be helped, the class is parked as a whole, in one step however long it is. Waking is
one step too: a parked class carries the number of the epoch in which it was parked, and waking
begins a new epoch. Both heaps clean up after themselves: an item whose class has a better
member by now, or none, is dropped when it comes to the top. What a waking leaves to be moved from
one heap to the other waits until somebody asks for the head: most lines are parked again before
that, as a whole.

Where usage of the past counts there is a lane for each local queue, and a class stands in one lane.
Inside a lane the order never depends on the time; which lane is first is asked when somebody asks
for the head.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from makeway.engine.compiling import mypyc_attr
from makeway.engine.decisions import (
    ExceedsCapacity,
    FlavorMismatch,
    HeldForPreemptor,
    LostToOthers,
    NotCovered,
    Reason,
    Shortfall,
    WaitsForOwner,
)
from makeway.engine.entry import Entry, Place, QueueOrder, Shape
from makeway.engine.model import LocalQueueKey, WorkloadKey

Lane = LocalQueueKey | None  # None: the only one
Rank = tuple[Any, ...]  # small first, among all lanes at one time
ABOUT_QUOTA = frozenset({NotCovered, FlavorMismatch, ExceedsCapacity, Shortfall})
ABOUT_QUOTA_OR_OWNERS = ABOUT_QUOTA | {WaitsForOwner}
LOST = frozenset({LostToOthers})


class ShapeClass:
    """Waiting workloads of one shape, best first."""

    __slots__ = (
        "epoch_parked",
        "is_known",
        "is_short",
        "lane",
        "members",
        "reasons",
        "serial",
        "shape",
        "size",
        "told",
    )

    def __init__(self, shape: Shape, serial: int, lane: Lane) -> None:
        self.shape = shape
        self.lane = lane
        self.serial = serial
        self.members: list[Place] = []  # heap; may hold items long gone
        self.size = 0  # without those
        self.epoch_parked = -1
        self.reasons: tuple[Reason, ...] = ()  # what its last head that had to wait was told
        self.told: Entry | None = None  # that head, if it was told of quota, and nothing since
        self.is_known = False  # whether those reasons are about quota alone
        self.is_short = False  # quota is short; not refused for the sake of owners

    def best(self) -> Place:
        members = self.members
        while members[0][1].place is not members[0]:
            heappop(members)
        return members[0]

    def __iter__(self) -> Iterator[Entry]:
        for item in self.members:
            if item.entry.place is item:
                yield item.entry


@mypyc_attr(allow_interpreted_subclasses=True)
class PendingQueue:
    def __init__(self) -> None:
        self.classes: dict[Shape, ShapeClass] = {}  # empty: there is no head
        self._lanes: dict[Lane, list[tuple[QueueOrder, int, ShapeClass]]] = {None: []}
        self._parked: list[tuple[QueueOrder, int, ShapeClass]] = []
        self.is_woken = False  # nobody is parked, and `_parked` is to be moved
        self._epoch = 0
        self._serial = 0
        self.aside: dict[WorkloadKey, Entry] = {}  # parked alone, until the next waking
        self._held: dict[WorkloadKey, Entry] = {}  # until an event that is their own
        self.usage_of: Callable[[LocalQueueKey], float] | None = None  # None: there is one lane
        self.counts_time = False  # who is older may preempt more
        self.version = 0  # grows whenever somebody comes, goes, or is held back
        # Grows when another is the first of a shape, is told its reasons, or stopped midway.
        self.firsts_version = 0
        self.shapes_version = 0  # grows when the first of a shape comes, or the last goes
        self.pinned: Entry | None = None  # comes before all others, if it is not parked

    def __len__(self) -> int:
        return sum(c.size for c in self.classes.values()) + len(self.aside) + len(self._held)

    def __contains__(self, entry: Entry) -> bool:
        return entry.place is not None or self.is_set_aside(entry)

    def is_set_aside(self, entry: Entry) -> bool:
        key = entry.workload.key
        return self.aside.get(key) is entry or self._held.get(key) is entry

    def is_parked_alone(self, entry: Entry) -> bool:
        return self.aside.get(entry.workload.key) is entry

    # --- coming and going ---

    def add(self, entry: Entry, order: QueueOrder) -> None:
        """Line up; a newcomer whose class is parked is parked with it.

        Unless it comes before all of them and time counts: then it may preempt more than they.
        """
        assert entry not in self, f"{entry.workload.key} is waiting already"
        shape_class = self.classes.get(entry.shape)
        if shape_class is None:
            self._serial += 1
            lane = None if self.usage_of is None else entry.workload.local_queue
            shape_class = ShapeClass(entry.shape, self._serial, lane)
            self.classes[entry.shape] = shape_class
            self.shapes_version += 1
        self.version += 1
        item = Place(order, entry)
        entry.place = item
        shape_class.size += 1
        heappush(shape_class.members, item)
        if shape_class.members[0] is item:
            self.firsts_version += 1
            if self.counts_time:
                shape_class.epoch_parked = -1
            self._enter(shape_class)

    def discard(self, entry: Entry) -> None:
        self.version += 1
        if self.pinned is entry:
            self.pinned = None
        if entry.place is None:
            self.aside.pop(entry.workload.key, None)
            self._held.pop(entry.workload.key, None)
            return
        shape_class = self.classes[entry.shape]
        was_best = shape_class.best()[1] is entry
        entry.place = None
        shape_class.size -= 1
        self.firsts_version += was_best
        if shape_class.size == 0:
            del self.classes[entry.shape]
            self.shapes_version += 1
        elif was_best:
            self._enter(shape_class)

    def discard_all(self, entries: Iterable[Entry]) -> None:
        """Discard many; each class is put in its place once, not once for each of its members."""
        self.version += 1
        self.firsts_version += 1
        self.shapes_version += 1
        touched: dict[int, ShapeClass] = {}
        for entry in entries:
            if entry.place is None or entry is self.pinned:
                self.discard(entry)
                continue
            shape_class = self.classes[entry.shape]
            entry.place = None
            shape_class.size -= 1
            touched[shape_class.serial] = shape_class
        for shape_class in touched.values():
            if shape_class.size == 0:
                del self.classes[shape_class.shape]
            else:
                self._enter(shape_class)

    def _enter(self, shape_class: ShapeClass) -> None:
        """Put the class where it belongs by its best member."""
        is_parked = self.is_parked(shape_class)
        heap = self._parked if is_parked else self._lanes.setdefault(shape_class.lane, [])
        heappush(heap, (shape_class.best()[0], shape_class.serial, shape_class))

    def begin_lanes(self, usage_of: Callable[[LocalQueueKey], float] | None) -> None:
        """From now on usage of the past counts, or no longer. Nobody is in line meanwhile."""
        assert not self.classes, "somebody is in line"
        self.usage_of = usage_of
        self._lanes, self._parked, self.is_woken = {None: []}, [], False

    def rank(self, order: QueueOrder, entry: Entry) -> Rank:
        """Where somebody stands among all who wait, at this time.

        Of lanes the one comes first that has used least; but whoever has a claim before all.
        """
        if self.usage_of is None:
            return order
        return order[0], self.usage_of(entry.workload.local_queue), order

    # --- the head ---

    def has_head(self) -> bool:
        if self.is_woken:
            return bool(self.classes)
        if self.usage_of is None and not self._lanes[None]:
            return False  # as of most lines, most of the time
        return self.head() is not None

    def head(self) -> Entry | None:
        if self.is_woken:
            self._move_woken()
        pinned = self.pinned
        if pinned is not None and pinned.place is not None:
            shape_class = self.classes[pinned.shape]
            if not self.is_parked(shape_class):
                return pinned
        if self.usage_of is None:  # as in `_first_in`, which is asked less often
            active, epoch = self._lanes[None], self._epoch
            while active:
                order, _, shape_class = active[0]
                if shape_class.size and shape_class.epoch_parked != epoch:
                    best = shape_class.best()
                    if best[0] == order:
                        return best[1]
                heappop(active)
            return None
        firsts = [first for lane in self._lanes.values() if (first := self._first_in(lane))]
        return min(firsts, key=lambda item: self.rank(*item))[1] if firsts else None

    def _first_in(self, lane: list[tuple[QueueOrder, int, ShapeClass]]) -> Place | None:
        while lane:
            order, _, shape_class = lane[0]
            if shape_class.size and not self.is_parked(shape_class):
                best = shape_class.best()
                if best[0] == order:
                    return best
            heappop(lane)
        return None

    def lanes(self) -> list[LocalQueueKey]:
        """The local queues of which somebody is in line and not parked."""
        if self.is_woken:
            self._move_woken()
        return [lane for lane, heap in self._lanes.items() if lane and self._first_in(heap)]

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in line, parked or not."""
        return not self.classes and not self.aside

    def by_shape(self) -> Iterator[tuple[Entry, int]]:
        """One of each shape in line, parked or not, and how many there are; none who is held."""
        for entry in self.aside.values():  # preemptors are among them
            yield entry, 1
        for shape_class in self.classes.values():
            yield shape_class.best()[1], shape_class.size

    def alike(self, entry: Entry) -> Iterable[Entry]:
        """Those in line of the same shape, or itself if it is parked alone."""
        return (entry,) if entry.place is None else self.classes[entry.shape]

    def first_but(self, others: Container[WorkloadKey]) -> Entry | None:
        """Who would be the head without these. Cost: the line, if the head is one of them."""
        head = self.head()
        if head is None or head.workload.key not in others:
            return head
        line = (item for c in self.classes.values() if not self.is_parked(c) for item in c.members)
        waiting = (i for i in line if i[1].place is i and i[1].workload.key not in others)
        best = min(waiting, key=lambda item: self.rank(*item), default=None)
        return None if best is None else best[1]

    # --- parking and waking ---

    def is_parked(self, shape_class: ShapeClass) -> bool:
        return shape_class.epoch_parked == self._epoch

    def park_shape(self, entry: Entry) -> None:
        """Park the entry with all of its shape, those that come later included."""
        if self.is_woken:
            self._move_woken()
        shape_class = self.classes[entry.shape]
        shape_class.epoch_parked = self._epoch
        heappush(self._parked, (shape_class.best()[0], shape_class.serial, shape_class))

    def note_reasons(
        self, entry: Entry, reasons: tuple[Reason, ...], is_simulated: bool = False
    ) -> tuple[Reason, ...]:
        """What keeps the head of a class waiting keeps all of it waiting; returns what to tell it.

        That it lost to others of its cycle keeps nobody waiting longer. So where `is_simulated`,
        what was known of quota before stays known, and is told again.
        """
        if entry.place is None or not entry.shape.is_shared:
            return reasons
        shape_class = self.classes[entry.shape]
        kinds = set(map(type, reasons))
        is_midway = entry.search.scan is not None
        if is_simulated and shape_class.is_known and kinds == LOST:
            self.firsts_version += is_midway
            shape_class.told = None if is_midway else entry
            return shape_class.reasons
        is_short = kinds <= ABOUT_QUOTA
        is_known = is_short or (is_simulated and kinds <= ABOUT_QUOTA_OR_OWNERS)
        is_known = is_known and not is_midway
        told = entry if is_known else None
        was_told = shape_class.is_known is is_known if is_simulated else shape_class.told is told
        if is_midway or not was_told or shape_class.is_short is not is_short:
            self.firsts_version += 1
        shape_class.reasons = reasons
        shape_class.told, shape_class.is_known, shape_class.is_short = told, is_known, is_short
        return reasons

    def firsts(self) -> list[Entry]:
        """The first of each shape."""
        return [shape_class.best()[1] for shape_class in self.classes.values()]

    def was_refused(self, entry: Entry) -> bool:
        """Whether the last of its shape, of whom that is known, heard of an owner, too."""
        return not self.classes[entry.shape].is_short

    def knows_why(self, entry: Entry) -> bool:
        """Whether all that the last of its shape was told is about quota; see `note_reasons`."""
        return entry.place is not None and self.classes[entry.shape].is_known

    def is_told(self, entry: Entry) -> bool:
        """Whether it was told so itself."""
        return entry.place is not None and self.classes[entry.shape].told is entry

    def reasons_for(self, entry: Entry) -> tuple[Reason, ...]:
        shape_class = self.classes.get(entry.shape)
        return () if shape_class is None else shape_class.reasons

    def park_all(self) -> None:
        """Park whoever is in line, shape by shape."""
        epoch = self._epoch
        for shape_class in self.classes.values():
            shape_class.epoch_parked = epoch
        self.is_woken = False
        if len(self._lanes) > 1:
            for lane in self._lanes.values():
                self._parked += lane
            heapify(self._parked)
            self._lanes = {None: []}
        elif active := self._lanes[None]:
            if self._parked:
                active += self._parked
                heapify(active)
            self._parked, self._lanes[None] = active, []

    def park_alone(self, entry: Entry) -> None:
        self.discard(entry)
        self.aside[entry.workload.key] = entry

    def hold(self, entry: Entry) -> None:
        """Keep back until `discard` or `add` says otherwise; waking does not concern it."""
        self.discard(entry)
        self._held[entry.workload.key] = entry

    def held(self) -> list[Entry]:
        return list(self._held.values())

    def wake(self) -> Sequence[Entry]:
        """Make every parked class active again; return those parked alone, to be added anew."""
        if self._parked and not self.is_woken:
            self._epoch += 1
            self.is_woken = True
        if not self.aside:
            return ()
        alone = list(self.aside.values())
        self.aside.clear()
        return alone

    def _move_woken(self) -> None:
        self.is_woken = False
        if self.usage_of is None:
            few, many = self._lanes[None], self._parked
            if len(many) < len(few):
                few, many = many, few
            for item in few:
                heappush(many, item)
            self._lanes[None] = many
        else:
            for item in self._parked:
                heappush(self._lanes.setdefault(item[2].lane, []), item)
        self._parked = []

    def counts(self) -> tuple[int, int]:
        """How many are in line, and how many are parked. Cost: one step per shape."""
        epoch = self._epoch
        active, parked = 0, len(self.aside) + len(self._held)
        for shape_class in self.classes.values():
            if shape_class.epoch_parked == epoch:
                parked += shape_class.size
            else:
                active += shape_class.size
        return active, parked

    # --- for reports; these look at everybody ---

    def coming_back(self) -> Iterator[Entry]:
        """Those parked for whom others make way, or who wait for one of these to have its place."""
        yield from self.aside.values()
        for shape_class in self.classes.values():
            if self.is_parked(shape_class) and _is_held(shape_class.reasons):
                yield from shape_class

    def counts_by_local_queue(self) -> dict[LocalQueueKey, tuple[int, int]]:
        """`counts` of those who came through each local queue."""
        active: dict[LocalQueueKey, int] = {}
        parked: dict[LocalQueueKey, int] = {}
        for shape_class in self.classes.values():
            counts = parked if shape_class.epoch_parked == self._epoch else active
            for item in shape_class.members:
                entry = item[1]
                if entry.place is item:
                    key = entry.workload.local_queue
                    counts[key] = counts.get(key, 0) + 1
        for entry in (*self.aside.values(), *self._held.values()):
            key = entry.workload.local_queue
            parked[key] = parked.get(key, 0) + 1
        return {key: (active.get(key, 0), parked.get(key, 0)) for key in {**active, **parked}}

    def active(self) -> Iterator[Entry]:
        for shape_class in self.classes.values():
            if not self.is_parked(shape_class):
                yield from shape_class

    def parked(self) -> Iterator[Entry]:
        for shape_class in self.classes.values():
            if self.is_parked(shape_class):
                yield from shape_class
        yield from self.aside.values()
        yield from self._held.values()


def _is_held(reasons: tuple[Reason, ...]) -> bool:
    return any(isinstance(reason, HeldForPreemptor) for reason in reasons)
