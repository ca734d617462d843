"""Who used how much, waited how long, lost what: counted from a journal alone.

Nothing is decided again here: what counts is what was decided then, by whatever version. Each
workload has a life that goes from change to change; the time in between is booked to whoever it
belonged to, as waiting or as holding. Where nothing was written down (Makeway was not running), a
life goes on as it was until it is seen again; one that is not seen any more ended with the segment
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from makeway.engine import decisions as dec
from makeway.engine import events as ev
from makeway.engine.model import (
    Assignment,
    EvictionReason,
    LocalQueueKey,
    PodSetName,
    QueueName,
    ResourceName,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.journal.file import Journal
from makeway.journal.past import segment_at
from makeway.journal.records import Heard, Record

NOBODY = "-"  # the flavor of who has not got one yet


class Account(NamedTuple):
    """To whom something is booked."""

    user: str  # the namespace
    queue: str  # the ClusterQueue
    flavor: str  # several are joined by +


class Taken(NamedTuple):
    """A workload had to make way for another."""

    at: float
    preemptor: WorkloadKey
    preemptor_queue: str
    preemptor_created: float  # 0: nothing else is known of it
    victim: WorkloadKey
    victim_queue: str
    victim_created: float


@dataclass
class Sums:
    arrived: int = 0  # workloads
    admitted: int = 0  # times
    finished: int = 0  # workloads
    preempted: int = 0  # times
    evicted: int = 0  # times, for other causes
    waited_s: float = 0.0
    held_s: float = 0.0
    lost_s: float = 0.0  # of run time
    used: dict[ResourceName, float] = field(default_factory=dict)  # times seconds
    lost: dict[ResourceName, float] = field(default_factory=dict)

    def add(self, other: Sums) -> None:
        for name in ("arrived", "admitted", "finished", "preempted", "evicted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("waited_s", "held_s", "lost_s"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, others in ((self.used, other.used), (self.lost, other.lost)):
            for resource, amount in others.items():
                mine[resource] = mine.get(resource, 0.0) + amount


class Hold(NamedTuple):
    """What a workload has of a queue."""

    assignment: Assignment | None = None  # None: nothing
    queue: QueueName | None = None
    is_leaving: bool = False
    ready_at: float | None = None  # since when its pods run
    is_given_up: bool = False  # it is not to be active any more, which others have still to say


NO_HOLD = Hold()


class Life:
    """A workload as far as it was told of."""

    def __init__(self, workload: Workload, at: float) -> None:
        self.workload = workload
        self.at = at  # until when it is booked
        self.hold = NO_HOLD
        self._before: Hold | None = None  # the last decision; None: it can't be forgotten any more
        self.given_back: Mapping[PodSetName, int] = {}  # pods that have succeeded
        self.is_over = False
        self.ended_at: float | None = None  # None: it has not finished
        self.waited = Sums()  # until it is known which flavor it waited for
        self.total = Sums()  # of all that is counted in times, whatever flavor it had

    @property
    def waits(self) -> bool:
        is_wanted = self.workload.active and not self.hold.is_given_up and not self.is_over
        return is_wanted and self.hold.assignment is None

    def decide(self, hold: Hold) -> None:
        """This may have to be forgotten."""
        self._before, self.hold = self.hold, hold

    def become(self, hold: Hold) -> None:
        self._before, self.hold = None, hold

    def forget(self) -> None:
        if self._before is not None:
            self.become(self._before)

    def amounts(self) -> dict[ResourceName, float]:
        """What it holds, less the share of the pods that it has given back."""
        counts = {ps.name: ps.count for ps in self.workload.pod_sets}
        found: dict[ResourceName, float] = {}
        for part in () if self.hold.assignment is None else self.hold.assignment.pod_sets:
            left = counts.get(part.name, part.count) - self.given_back.get(part.name, 0)
            share = min(1.0, max(0, left) / part.count) if part.count else 0.0
            for resource, amount in part.usage:
                found[resource] = found.get(resource, 0.0) + amount * share
        return found


class Ledger:
    """Takes the records of a journal in, first to last, and books what lies between two times."""

    def __init__(self, since: float, until: float) -> None:
        self._since, self._until = since, until
        self.sums: dict[Account, Sums] = {}
        self._lives: dict[WorkloadKey, Life] = {}
        self._queues: dict[LocalQueueKey, QueueName] = {}
        self._seen: set[WorkloadKey] | None = None  # since the segment began; None: it runs
        self._told_at = 0.0  # the last of all
        self._segment_before_ended_at = 0.0
        self.gone: list[Life] = []  # who was deleted, in the order of that
        self.taken: list[Taken] = []  # in the order of time

    def read(self, journal: Journal) -> None:
        """Take everything in that was written about the time asked for."""
        segments = journal.segments()
        first = segment_at(segments, self._since)  # it may be that nothing was told since
        for segment in segments:
            if first is None or segment.number >= first.number:
                self.begin_segment()
                for record in journal.records(segment, self._until):
                    self.take(record)
        self.close()

    def begin_segment(self) -> None:
        self._seen, self._segment_before_ended_at = set(), self._told_at

    def take(self, record: Record) -> None:
        self._told_at = record.at
        if isinstance(record, Heard):
            self._hear(record.event, record.at)
        else:
            self._end_of_listing()
            for decision in record.decisions:
                self._decide(decision, record.at)

    def close(self) -> None:
        """Book what goes on until the end of the time asked for."""
        for life in self._lives.values():
            self._book(life, self._until)
            self._settle_wait(life)

    def forget_lives(self) -> None:
        """Nothing more is taken in, and nobody asks about single workloads: sums stay."""
        self._lives.clear()
        self.gone.clear()

    def _end_of_listing(self) -> None:
        """Who was not seen again when a segment began is gone."""
        if self._seen is not None:
            for key in self._lives.keys() - self._seen:
                self._end(key, self._segment_before_ended_at)
            self._seen = None

    # --- hearing ---

    def _hear(self, event: ev.Event, at: float) -> None:
        match event:
            case ev.LocalQueueChanged():
                self._queues[event.local_queue.key] = event.local_queue.queue
            case ev.WorkloadSeen():
                self._see(event.workload, event.status, at)
            case ev.WorkloadEdited() if life := self._lives.get(event.workload.key):
                self._book(life, at)
                life.workload = event.workload
                life.hold = life.hold._replace(is_given_up=False)
            case ev.WorkloadRemoved():
                self._end(event.key, at)
            case ev.WorkloadFinished() if life := self._lives.get(event.key):
                self._finish(life, at)
            case ev.PodsChanged() if life := self._lives.get(event.key):
                known = life.hold.ready_at
                since = event.at if known is None else known
                life.hold = life.hold._replace(ready_at=since if event.are_ready else None)
            case ev.PodsReclaimed() if life := self._lives.get(event.key):
                self._book(life, at)
                life.given_back = event.counts
            case ev.PodsGone() if (life := self._lives.get(event.key)) and life.hold.is_leaving:
                self._book(life, at)
                life.become(Hold(is_given_up=life.hold.is_given_up))
            case ev.Forgotten() if life := self._lives.get(event.key):
                self._book(life, at)
                life.forget()
            case ev.Evicted() if life := self._lives.get(event.key):
                self._stop(life, at, is_preempted=event.reason in _PREEMPTIONS)
            case _:
                pass

    def _see(self, workload: Workload, status: WorkloadStatus, at: float) -> None:
        """As it is now, whatever was known of it."""
        key = workload.key
        if self._seen is not None:
            self._seen.add(key)
        life = self._lives.get(key)
        if life is None:
            if status.finished:
                return  # over before anything was written of it
            life = self._lives[key] = Life(workload, _begin_of(workload, status, at))
            if workload.created_at >= self._since:
                life.waited.arrived = 1
        was_over = life.is_over
        self._book(life, at)
        is_leaving = status.eviction is not None
        life.workload, life.given_back = workload, status.reclaimable
        if status.finished and not was_over and self._is_asked_for(at):
            self._count(life).finished += 1
        hold = Hold(status.assignment, status.queue, is_leaving, status.ready_at)
        life.become(NO_HOLD if status.finished else hold)  # its status still names what it had
        life.is_over = status.finished
        life.ended_at = at if status.finished and not was_over else life.ended_at

    def _finish(self, life: Life, at: float) -> None:
        self._book(life, at)
        if not life.is_over and self._is_asked_for(at):
            self._count(life).finished += 1
        life.ended_at = life.ended_at if life.is_over else at
        life.is_over = True
        life.become(NO_HOLD)

    def _end(self, key: WorkloadKey, at: float) -> None:
        life = self._lives.pop(key, None)
        if life is not None:
            self._book(life, at)
            self._settle_wait(life)
            self.gone.append(life)

    # --- decisions ---

    def _decide(self, decision: dec.Decision, at: float) -> None:
        match decision:
            case dec.Admit() | dec.Reserve():
                if (life := self._lives.get(decision.workload)) is not None:
                    self._admit(life, decision, at)
            case dec.Preempt():
                for victim in decision.victims:
                    if victim.is_new and (life := self._lives.get(victim.workload)):
                        self._note_taken(decision.preemptor, life, at)
                        self._stop(life, at, is_preempted=True)
            case dec.Evict() | dec.Deactivate():
                if (life := self._lives.get(decision.workload)) is not None:
                    is_given_up = isinstance(decision, dec.Deactivate)
                    self._stop(life, at, is_preempted=False, is_given_up=is_given_up)

    def _note_taken(self, preemptor: WorkloadKey, victim: Life, at: float) -> None:
        if self._is_asked_for(at):
            life, lost = self._lives.get(preemptor), victim.workload
            queue = NOBODY if life is None else self._account(life).queue
            created = 0.0 if life is None else life.workload.created_at
            loser = self._account(victim).queue
            self.taken.append(
                Taken(at, preemptor, queue, created, lost.key, loser, lost.created_at)
            )

    def _admit(self, life: Life, decision: dec.Admit | dec.Reserve, at: float) -> None:
        self._book(life, at)
        life.decide(Hold(decision.assignment, decision.queue))
        self._settle_wait(life)
        if isinstance(decision, dec.Admit) and self._is_asked_for(at):
            self._count(life).admitted += 1
            life.total.admitted += 1

    def _stop(
        self, life: Life, at: float, *, is_preempted: bool, is_given_up: bool = False
    ) -> None:
        self._book(life, at)
        hold = life.hold._replace(is_given_up=is_given_up or life.hold.is_given_up)
        if hold.is_leaving or hold.assignment is None:
            if is_given_up:
                life.decide(hold)
            return
        life.decide(hold._replace(is_leaving=True))
        if not self._is_asked_for(at):
            return
        sums = self._count(life)
        for counted in (sums, life.total):
            if is_preempted:
                counted.preempted += 1
            else:
                counted.evicted += 1
        since = at if hold.ready_at is None else hold.ready_at
        saved_at = max(since, life.workload.checkpoint_at or 0.0)
        lost_s = max(0.0, at - saved_at)
        sums.lost_s += lost_s
        _charge(sums.lost, life.amounts(), lost_s)

    # --- booking ---

    def _is_asked_for(self, at: float) -> bool:
        return self._since <= at <= self._until

    def _book(self, life: Life, until: float) -> None:
        """What it has done since it was last looked at."""
        passed_s = min(until, self._until) - max(life.at, self._since)
        life.at = max(life.at, until)
        if passed_s <= 0:
            return
        if life.hold.assignment is not None:
            sums = self._count(life)
            sums.held_s += passed_s
            life.total.held_s += passed_s
            _charge(sums.used, life.amounts(), passed_s)
        elif life.waits:
            life.waited.waited_s += passed_s
            life.total.waited_s += passed_s

    def _count(self, life: Life) -> Sums:
        return self.sums.setdefault(self._account(life), Sums())

    def _account(self, life: Life) -> Account:
        workload, hold = life.workload, life.hold
        queue = hold.queue or self._queues.get(workload.local_queue, QueueName(NOBODY))
        flavors = () if hold.assignment is None else hold.assignment.flavors()
        return Account(workload.namespace, queue, "+".join(flavors) or NOBODY)

    def _settle_wait(self, life: Life) -> None:
        if life.waited != Sums():
            self._count(life).add(life.waited)
            life.waited = Sums()


_PREEMPTIONS = (EvictionReason.PREEMPTED, EvictionReason.PREEMPTED_IN_PLACEMENT)


def _begin_of(workload: Workload, status: WorkloadStatus, at: float) -> float:
    """Since when what its status shows has been so."""
    if status.assignment is not None:
        return at if status.reserved_at is None else status.reserved_at
    return workload.created_at if status.eviction is None else status.eviction.at


def _charge(
    sums: dict[ResourceName, float], amounts: Mapping[ResourceName, float], seconds: float
) -> None:
    for resource, amount in amounts.items():
        sums[resource] = sums.get(resource, 0.0) + amount * seconds


def ledger_of(journal: Journal, since: float, until: float) -> Ledger:
    """What happened between two times. Cost: the segments of that time, read once."""
    ledger = Ledger(since, until)
    ledger.read(journal)
    return ledger


def grouped(sums: Mapping[Account, Sums], by: Iterable[str]) -> dict[tuple[str, ...], Sums]:
    """Added up by some of user, queue and flavor, sorted."""
    fields, found = tuple(by), dict[tuple[str, ...], Sums]()
    for account, booked in sums.items():
        key = tuple(getattr(account, name) for name in fields)
        found.setdefault(key, Sums()).add(booked)
    return dict(sorted(found.items()))
