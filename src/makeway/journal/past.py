"""A moment of the past: the engine as it was then, and what was decided about one workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from re import compile as pattern
from typing import NamedTuple

from makeway.engine import events as ev
from makeway.engine.decisions import Decision, Preempt, Wait
from makeway.engine.engine import Engine
from makeway.engine.model import Workload, WorkloadKey
from makeway.journal.file import Journal, Segment
from makeway.journal.records import Decided, Heard, Record
from makeway.journal.replay import step

_KINDS = ("job", "pod", "workload", "wl")
_MADE_FOR = pattern(r"(?:job|pod)-(.+)-[0-9a-f]{5}")  # the name of a Workload, around that of a job


class NothingKnown(Exception):
    """The journal has nothing of that moment, or of that job; the text is for the user."""


class Moment(NamedTuple):
    """How things stood at a time, and what came before and after."""

    at: float
    engine: Engine
    segment: Segment
    heard_last_at: float  # of the last that was told by then


class Happened(NamedTuple):
    """Something about a workload."""

    at: float
    what: Decision | ev.Event


def segment_at(segments: Iterable[Segment], at: float) -> Segment | None:
    """The last that had begun by then."""
    return max(
        (segment for segment in segments if segment.header.began_at <= at),
        key=lambda segment: segment.number,
        default=None,
    )


def moment(journal: Journal, at: float) -> Moment:
    """Replay what was written until then. Cost: one segment at most."""
    segments = journal.segments()
    segment = segment_at(segments, at)
    if segment is None:
        raise NothingKnown("nothing was written down as early as that")
    engine, last_at = Engine(), segment.header.began_at
    for record in journal.records(segment, until=at):
        step(engine, record)
        last_at = record.at
    return Moment(at, engine, segment, last_at)


class Name(NamedTuple):
    """What a user calls a job."""

    namespace: str
    name: str  # of the job, or of its Workload
    word: str = ""  # what the user wrote, where a server was asked what that means

    def means(self, workload: Workload) -> bool:
        own = workload.key.partition("/")[2]
        is_called = self.name in (own, job_name(workload.key))
        return is_called and workload.namespace == self.namespace


def name_in(word: str, namespace: str) -> Name:
    """`train`, `vision/train`, `job/train`: in this namespace, if none is written."""
    named, slash, name = word.rpartition("/")
    return Name(named if slash and named not in _KINDS else namespace, name)


def find_workload(journal: Journal, then: Moment, name: Name, since: float = 0.0) -> WorkloadKey:
    """Whom a user means by a name: who was there, else who had been; of several, the latest.

    Who was created before `since` is not meant.
    """
    there = (known.workload for known in then.engine.view.workloads())
    found = [workload for workload in there if name.means(workload)]
    found = found or list(_seen_before(journal, then.at, name))
    found = [workload for workload in found if workload.created_at >= since]
    if not found:
        has_number = not name.word and name.name.isdecimal()
        hint = "; a journal has no numbers of jobs, give its name" if has_number else ""
        where = f"in namespace {name.namespace}"
        raise NothingKnown(f"there was no job {name.word or name.name!r} {where} until then{hint}")
    return max(found, key=lambda workload: (workload.created_at, workload.key)).key


def _seen_before(journal: Journal, at: float, name: Name) -> Iterator[Workload]:
    for segment in journal.segments():
        for record in journal.records(segment, at):
            event = record.event if isinstance(record, Heard) else None
            if isinstance(event, ev.WorkloadSeen) and name.means(event.workload):
                yield event.workload


def job_name(key: WorkloadKey) -> str:
    """The job that a Workload was made for; its own name where that doesn't tell."""
    own = key.partition("/")[2]
    made_for = _MADE_FOR.fullmatch(own)
    return own if made_for is None else made_for[1]


def find_latest(journal: Journal, name: Name) -> Workload | None:
    """The last that was seen under a name. Cost: segments from the last back to that one."""
    for segment in reversed(journal.segments()):
        events = (r.event for r in journal.records(segment) if isinstance(r, Heard))
        seen = (event.workload for event in events if isinstance(event, ev.WorkloadSeen))
        if found := [workload for workload in seen if name.means(workload)]:
            return max(found, key=lambda workload: (workload.created_at, workload.key))
    return None


# --- what happened to one workload ---


def life_of(journal: Journal, key: WorkloadKey, since: float, until: float) -> Iterator[Happened]:
    """What was decided about a workload, and what others did to it; waiting is left out.

    After a restart everybody is seen again: that it came is told once.
    """
    seen = ""  # its uid; another of the same name has another
    for segment in journal.segments():
        if segment.header.began_at > until or segment.last_at < since:
            continue
        records = journal.records(segment, until)
        for record in islice(records, segment.header.beginning, None):
            for what in _about(record, key) if record.at >= since else ():
                if not isinstance(what, ev.WorkloadSeen) or what.workload.uid != seen:
                    yield Happened(record.at, what)
                if isinstance(what, ev.WorkloadSeen):
                    seen = what.workload.uid


def _about(record: Record, key: WorkloadKey) -> Iterator[Decision | ev.Event]:
    if isinstance(record, Decided):
        yield from (d for d in record.decisions if not isinstance(d, Wait) and concerns(d, key))
    elif isinstance(record, Heard):
        event = record.event
        if isinstance(event, ev.WorkloadFinished | ev.WorkloadRemoved | ev.PodsGone | ev.Forgotten):
            if event.key == key:
                yield event
        elif isinstance(event, ev.WorkloadSeen) and event.workload.key == key:
            yield event


def concerns(decision: Decision, key: WorkloadKey) -> bool:
    if isinstance(decision, Preempt):
        return decision.preemptor == key or any(v.workload == key for v in decision.victims)
    return decision.workload == key
