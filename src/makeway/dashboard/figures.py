"""Documents of what was: sums over time, and the jobs and preemptions that they are made of.

`Seen` says what of it a reader is told; whoever may not know a job is told that there was one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, NamedTuple

from makeway.engine.model import WorkloadKey
from makeway.journal.ledger import Account, Ledger, Sums, Taken, grouped
from makeway.journal.over_time import Course, Line, Part, Parts, Waits
from makeway.journal.past import job_name

SHOWN_MAX = 500  # jobs, or preemptions


class Seen(NamedTuple):
    """What a reader is told of; None: of all."""

    namespaces: frozenset[str] | None = None  # figures of these
    since: Mapping[str, float] | None = None  # names of jobs of these, if they came after that

    def figures(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces

    def name(self, key: WorkloadKey, created: float) -> bool:
        return self.since is None or created >= self.since.get(_namespace(key), inf)


def namespaces_of(ledger: Ledger) -> set[str]:
    """All that something is told of."""
    found = {_namespace(key) for taken in ledger.taken for key in (taken.preemptor, taken.victim)}
    if isinstance(ledger, Parts):
        return found | {part.user for part in ledger.parts}
    assert isinstance(ledger, Course)
    found |= {account.user for step in ledger.steps for account in step}
    return found | {line.user for step in ledger.waits for line in step}


# --- over time ---


def course_document(course: Course, since: float, until: float, seen: Seen) -> dict[str, Any]:
    steps = [_of(step, seen) for step in course.steps]
    waits = [_by_queue(step, seen) for step in course.waits]
    total: dict[Account, Sums] = {}
    for step in steps:
        for account, sums in step.items():
            total.setdefault(account, Sums()).add(sums)
    by_queue = [grouped(step, ("queue",)) for step in steps]
    queues = sorted(
        {name for step in by_queue for (name,) in step} | {name for step in waits for name in step}
    )
    resources = sorted({str(resource) for sums in total.values() for resource in sums.used})
    pairs = Counter(
        (taken.preemptor_queue, taken.victim_queue) for taken in _told(course.taken, seen)
    )
    return {
        "since": since,
        "until": until,
        "resources": resources,
        "use": {
            resource: {
                queue: [_mean(step.get((queue,)), resource, course.step_s) for step in by_queue]
                for queue in queues
            }
            for resource in resources
        },
        "waiting": {
            queue: [round(_waits(step, queue).waited_s / course.step_s, 3) for step in waits]
            for queue in queues
        },
        "waits": {queue: [_mean_wait(_waits(step, queue)) for step in waits] for queue in queues},
        "accounts": [
            {"user": user, "queue": queue, **_figures(sums)}
            for (user, queue), sums in grouped(total, ("user", "queue")).items()
        ],
        "preemptions": [
            {"preemptor": preemptor, "victim": victim, "jobs": jobs}
            for (preemptor, victim), jobs in sorted(pairs.items())
        ],
    }


def _of(step: Mapping[Account, Sums], seen: Seen) -> dict[Account, Sums]:
    return {account: sums for account, sums in step.items() if seen.figures(account.user)}


def _by_queue(step: Mapping[Line, Waits], seen: Seen) -> dict[str, Waits]:
    found: dict[str, Waits] = {}
    for line, waits in step.items():
        if seen.figures(line.user):
            found.setdefault(line.queue, Waits()).add(waits)
    return found


def _waits(step: Mapping[str, Waits], queue: str) -> Waits:
    return step.get(queue, Waits())


def _mean_wait(waits: Waits) -> float | None:
    """Of those who got their place then; None: nobody did."""
    return round(waits.waited_before_s / waits.admitted, 1) if waits.admitted else None


def _mean(sums: Sums | None, resource: str, step_s: float) -> float:
    """How much of a resource was held on average."""
    used = {} if sums is None else {str(name): amount for name, amount in sums.used.items()}
    return round(used.get(resource, 0.0) / step_s, 3)


def _figures(sums: Sums) -> dict[str, Any]:
    return {
        "arrived": sums.arrived,
        "admitted": sums.admitted,
        "finished": sums.finished,
        "preempted": sums.preempted,
        "evicted": sums.evicted,
        "waited": round(sums.waited_s, 1),
        "lost": round(sums.lost_s, 1),
        "used": {str(resource): round(amount, 1) for resource, amount in sums.used.items()},
    }


# --- what sums are made of ---


def jobs_document(parts: Parts, user: str, queue: str, by: str, seen: Seen) -> dict[str, Any]:
    """The jobs of a user and queue, or of all; those first that make up most of a figure."""
    found = [
        (part, _figures(sums))
        for part, sums in parts.parts.items()
        if user in ("", part.user) and queue in ("", part.queue) and seen.figures(part.user)
    ]
    found.sort(key=lambda entry: (-_amount(entry[1], by), entry[0]))
    resources = sorted({resource for _, figures in found for resource in figures["used"]})
    return {
        "resources": resources,
        "count": len(found),
        "jobs": [_job(part, figures, seen) for part, figures in found[:SHOWN_MAX]],
    }


def _amount(figures: Mapping[str, Any], by: str) -> float:
    return float(figures["used"].get(by, 0.0) if by not in figures else figures[by])


def _job(part: Part, figures: Mapping[str, Any], seen: Seen) -> dict[str, Any]:
    named = _named(part.workload, part.created, seen)
    return {**named, "user": part.user, "queue": part.queue, **figures}


def preemptions_document(parts: Parts, preemptor: str, victim: str, seen: Seen) -> dict[str, Any]:
    """Who made way for whom, by their queues; the latest first."""
    found = [
        taken
        for taken in _told(parts.taken, seen)
        if preemptor in ("", taken.preemptor_queue) and victim in ("", taken.victim_queue)
    ]
    return {
        "count": len(found),
        "preemptions": [
            {
                "at": taken.at,
                "preemptor": _named(taken.preemptor, taken.preemptor_created, seen),
                "preemptorQueue": taken.preemptor_queue,
                "victim": _named(taken.victim, taken.victim_created, seen),
                "victimQueue": taken.victim_queue,
            }
            for taken in reversed(found[-SHOWN_MAX:])
        ],
    }


def _told(taken: Iterable[Taken], seen: Seen) -> Iterable[Taken]:
    """Those in which a reader's own have a part."""
    return (
        one
        for one in taken
        if seen.figures(_namespace(one.preemptor)) or seen.figures(_namespace(one.victim))
    )


def _named(key: WorkloadKey, created: float, seen: Seen) -> dict[str, str]:
    namespace = _namespace(key)
    if seen.name(key, created):
        return {"workload": key, "name": job_name(key)}
    return {"workload": "", "name": f"of {namespace}" if seen.figures(namespace) else "another's"}


def _namespace(key: WorkloadKey) -> str:
    return key.partition("/")[0]
