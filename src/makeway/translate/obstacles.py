"""Obstacles in brief: why a workload waits, as the engine finds it now, for the line of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from makeway.api.devices import is_gpu
from makeway.api.times import format_span
from makeway.engine import decisions as dec
from makeway.engine import explain as exp
from makeway.translate.brief import (
    NO_FLAVOR_FITS,
    OWNER_FIRST,
    Requests,
    amount_in_brief,
    behind,
    cut,
    never,
    queue_lacks,
    short_of,
    tainted,
)
from makeway.translate.categories import Category, can_never_run, category_of


def obstacles_in_brief(
    obstacles: Sequence[exp.Obstacle], requests: Requests, position: int, now: float
) -> str:
    """The obstacle nearest to being overcome; in a strict line, how many are before it."""
    order = list(Category)
    found = sorted(obstacles, key=lambda one: (order.index(category_of(one)), _rank(one)))
    if can_never_run(found):
        found = [one for one in found if category_of(one).is_final]
    if not found:
        return behind(position)
    if any(isinstance(one, exp.BehindHead) for one in found) and not category_of(found[0]).is_final:
        return behind(position)
    return cut(_obstacle(found[0], requests, position, now))


def _rank(obstacle: exp.Obstacle) -> tuple[bool, int]:
    """Of shortfalls the one of GPUs first, and of these the smallest."""
    if isinstance(obstacle, dec.Shortfall):
        return not is_gpu(obstacle.cell.resource), obstacle.missing
    return isinstance(obstacle, dec.ExceedsCapacity), 0


def _obstacle(obstacle: exp.Obstacle, requests: Requests, position: int, now: float) -> str:
    match obstacle:
        case dec.Shortfall(cell=cell, missing=missing):
            return short_of(cell.resource, requests.get(cell.resource, missing), missing)
        case dec.ExceedsCapacity(cell=cell, least=least):
            if least is not None and not obstacle.is_final:
                return f"needs {amount_in_brief(cell.resource, least)} at least"
            asked = obstacle.earlier + obstacle.requested
            return never(cell.resource, asked, obstacle.capacity)
        case dec.WaitingForVictims(victims):
            return "1 job makes way" if len(victims) == 1 else f"{len(victims)} jobs make way"
        case dec.LostToOthers() | dec.VictimsTaken() | exp.BehindHead():
            return behind(position)
        case dec.HeldForPreemptor():
            return "its place is held for another job"
        case dec.PodsNotReady():
            return "waits until another job's pods run"
        case dec.WaitsForOwner():
            return OWNER_FIRST
        case dec.PreemptionPaused(until=until):
            return f"may preempt again in {_left(until, now)}"
        case dec.PreemptsLater() | dec.VictimsProtected() | dec.BudgetSpent():
            return f"may preempt in {_left(obstacle.until, now)}"
        case dec.NotCovered(resource=resource):
            return queue_lacks(resource)
        case dec.NamespaceNotAdmitted():
            return "its namespace may not use the queue"
        case dec.FlavorMismatch():
            return _mismatch(obstacle)
        case dec.Defective():
            return "can't run as written; see explain"
        case exp.NoLocalQueue(local_queue):
            return f"there is no queue {local_queue.rpartition('/')[2]}"
        case exp.NoQueue(queue):
            return f"there is no ClusterQueue {queue}"
        case exp.LocalQueueStopped() | exp.EvictedByStop():
            return "its queue is held"
        case exp.QueueInactive(why=why):
            return "its queue is held" if why.value == "Stopped" else "its queue is not active"
        case exp.BackingOff(until=until):
            return f"tries again in {_left(until, now)}"
        case exp.ChecksOpen(checks):
            return ", ".join(f"check {name} is {state.value}" for name, state in checks)
        case exp.LettingGo():
            return "its pods are ending"
        case _:
            assert_never(obstacle)


def _mismatch(obstacle: dec.FlavorMismatch) -> str:
    match obstacle.kind:
        case dec.MismatchKind.MISSING:
            return f"there is no flavor {obstacle.flavor}"
        case dec.MismatchKind.TAINT:
            return tainted(obstacle.flavor)
        case dec.MismatchKind.AFFINITY:
            return NO_FLAVOR_FITS
        case dec.MismatchKind.EXHAUSTED:
            return "every flavor has failed so far"
        case _:
            assert_never(obstacle.kind)


def _left(until: float, now: float) -> str:
    return format_span(max(0.0, until - now)).replace(" ", "")
