"""What sort of obstacle keeps a workload waiting: the word for it, and whether there is hope.

Everything that has to tell one obstacle from another in a word asks here: conditions, logs, the
advice of `lint`, and the simulator. A new reason has to be given its category, or mypy says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import assert_never

from makeway.engine import decisions as dec
from makeway.engine import explain as exp
from makeway.translate.workloads import LACKS_PODS, PODS_GONE


class Category(Enum):
    """From the one nearest to being overcome to the one farthest from it."""

    PREEMPTION = "WaitingForPreemptedWorkloads", False
    PAUSE = "PreemptionPaused", False
    LATER = "PreemptsLater", False
    OWNER = "WaitingForOwner", False
    STOPPED = "Suspended", False
    READINESS = "WaitingForPodsReady", False
    QUOTA = "WaitingForQuota", False
    CAPACITY = "ExceedsMaxQuota", True
    EXHAUSTED = "NoMatchingFlavor", False
    FLAVOR = "NoMatchingFlavor", True
    PODS = LACKS_PODS, False
    QUEUE = "Misconfigured", False
    MISCONFIGURED = "Misconfigured", True
    TURN = "PendingEvaluation", False

    def __init__(self, word: str, is_final: bool) -> None:
        self.word = word  # the reason of the condition QuotaReserved; most are Kueue's
        self.is_final = is_final  # neither time nor the end of another workload would change it


def category_of(obstacle: exp.Obstacle) -> Category:
    match obstacle:
        case dec.WaitingForVictims():
            return Category.PREEMPTION
        case dec.Shortfall() | dec.LostToOthers() | dec.VictimsTaken() | dec.HeldForPreemptor():
            return Category.QUOTA
        case dec.PodsNotReady():
            return Category.READINESS
        case dec.PreemptionPaused():
            return Category.PAUSE
        case dec.PreemptsLater() | dec.VictimsProtected() | dec.BudgetSpent():
            return Category.LATER
        case dec.WaitsForOwner():
            return Category.OWNER
        case dec.ExceedsCapacity():
            return Category.CAPACITY if obstacle.is_final else Category.QUOTA
        case dec.FlavorMismatch():
            is_exhausted = obstacle.kind is dec.MismatchKind.EXHAUSTED
            return Category.EXHAUSTED if is_exhausted else Category.FLAVOR
        case dec.Defective():
            is_short = obstacle.problem == PODS_GONE
            return Category.PODS if is_short else Category.MISCONFIGURED
        case dec.NotCovered() | dec.NamespaceNotAdmitted():
            return Category.MISCONFIGURED
        case exp.LocalQueueStopped() | exp.EvictedByStop() | exp.QueueInactive():
            return Category.STOPPED
        case exp.NoLocalQueue() | exp.NoQueue():
            return Category.QUEUE
        case exp.BackingOff() | exp.BehindHead() | exp.ChecksOpen() | exp.LettingGo():
            return Category.TURN
        case _:
            assert_never(obstacle)


def waiting_word(obstacles: Iterable[exp.Obstacle]) -> str:
    """One word for many obstacles: that of the one nearest to being overcome, if they can be."""
    known = tuple(obstacles)
    found = {category_of(obstacle) for obstacle in known}
    if known and can_never_run(known):
        found = {category for category in found if category.is_final}
    return next((category.word for category in Category if category in found), Category.TURN.word)


def can_never_run(obstacles: Iterable[exp.Obstacle]) -> bool:
    """Whether nothing else can happen than that it goes on waiting.

    A flavor is out of the question by one final obstacle, whatever else is short there for now.
    """
    found = [(category_of(obstacle), _where(obstacle)) for obstacle in obstacles]
    if any(category is Category.MISCONFIGURED for category, _ in found):
        return True  # no flavor would help
    hopeless = {where for category, where in found if category.is_final}
    return all(where in hopeless for _, where in found)


def _where(obstacle: exp.Obstacle) -> object:
    """The flavor that it stands before, and for which pods; itself, if it is not about a flavor."""
    match obstacle:
        case dec.Shortfall() | dec.ExceedsCapacity():
            return obstacle.pod_set, obstacle.cell.flavor
        case dec.FlavorMismatch():
            return obstacle.pod_set, obstacle.flavor
        case _:
            return obstacle
