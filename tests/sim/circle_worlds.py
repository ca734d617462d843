"""Queues and jobs in which jobs displace each other for ever, if nobody minds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from makeway.engine.decisions import VictimRule
from makeway.sim.trace_jobs import TraceJob
from tests.sim.worlds import flavor, job, queue

DAY = 86_400.0
NEWER = "LowerOrNewerEqualPriority"
GATES_OFF = "OwnersFirst: false, PreemptionBackoff: false"


def configuration(*, is_fair: bool = False) -> str:
    """Without what the engine itself does against circles."""
    return f"""\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
featureGates: {{{GATES_OFF}}}
{"fairSharing: {}" if is_fair else ""}
"""


def lab(
    a: int,
    b: int,
    within: str | tuple[str, str] = "LowerPriority",
    borrowing: str = "Never",
    flavors: str = "f",
    *,
    is_fair: bool = False,
) -> tuple[str, ...]:
    """Queues a and b in a cohort, with so much of each flavor; both may reclaim from anybody."""
    own = (within, within) if isinstance(within, str) else within
    policies = [
        f"  preemption: {{withinClusterQueue: {word}, reclaimWithinCohort: Any,"
        f" borrowWithinCohort: {{policy: {borrowing}}}}}\n"
        for word in own
    ]
    return (
        *(configuration(is_fair=is_fair), *map(flavor, flavors)),
        queue("a", cohort="lab", more=policies[0], **dict.fromkeys(flavors, a)),
        queue("b", cohort="lab", more=policies[1], **dict.fromkeys(flavors, b)),
    )


def row(name: str, gpus: int, priority: int = 0, at: float = 0.0, run_s: float = DAY) -> TraceJob:
    """A job of the queue that its name begins with."""
    return job(name, at=at, run=run_s, gpus=gpus, on=name[0], priority=priority)


def in_turn(*jobs: tuple[str, int, int]) -> tuple[TraceJob, ...]:
    """Name, GPUs and priority; ten seconds after each other."""
    return tuple(row(name, gpus, p, at=10.0 * i) for i, (name, gpus, p) in enumerate(jobs))


IN_QUEUE, RECLAIM, FAIR = VictimRule.IN_QUEUE, VictimRule.RECLAIM, VictimRule.FAIR_SHARING
BORROWING = VictimRule.RECLAIM_WHILE_BORROWING

# Two queues of 8 with everyday policies: a-5 takes back what b-1 borrows; what comes free goes to
# small ones of both queues, who are in turn displaced, until b-1 throws out two small ones of its
# own queue and borrows again.
EVERYDAY = (
    *(row("b-1", 4, 10), row("b-2", 1), row("a-3", 8), row("a-4", 4, 10), row("a-5", 1)),
    *(row("b-6", 8), row("b-7", 4), row("b-8", 1), row("b-9", 1, 10), row("a-10", 1)),
    *(row("b-11", 1), row("a-12", 1), row("a-13", 1, run_s=210.0), row("a-14", 2)),
    *(row("a-15", 1, 10), row("a-16", 8, 10), row("b-17", 4, 10)),
)
EVERYDAY_ROUND = [
    ("a-5", "b-1", RECLAIM),
    ("b-8", "a-5", RECLAIM),
    ("b-11", "a-14", RECLAIM),
    ("b-1", "b-2", IN_QUEUE),
    ("b-1", "b-8", IN_QUEUE),
]


class Small(NamedTuple):
    documents: Sequence[str]
    jobs: Sequence[TraceJob]
    one_round: list[tuple[str, str, VictimRule]]
    id: str
    is_prevented: bool = False  # by owners first


SMALLEST = [
    Small(
        lab(4, 4),
        (
            *(row("b-1", 3, 10), row("b-2", 4), row("b-3", 4, 10), row("b-4", 1), row("a-5", 4)),
            *(row("a-6", 1, 10, at=1.0), row("a-7", 4, 10, at=5.0), row("a-8", 2, at=6.0)),
        ),
        [("a-8", "b-3", RECLAIM), ("b-4", "a-7", RECLAIM)],
        id="everyday",
        is_prevented=True,
    ),
    Small(
        lab(1, 2, NEWER, borrowing="LowerPriority"),
        in_turn(("a-1", 3, 10), ("a-2", 3, 10), ("b-3", 3, 0), ("b-4", 1, 0)),
        [("b-4", "a-1", RECLAIM), ("b-3", "b-4", IN_QUEUE), ("a-1", "b-3", BORROWING)],
        id="priorities",
        is_prevented=True,
    ),
    Small(
        lab(1, 2, NEWER, is_fair=True),
        in_turn(("a-1", 3, 10), ("b-2", 3, 10), ("a-3", 1, 10), ("b-4", 1, 10)),
        [("a-3", "b-2", RECLAIM), ("a-1", "a-3", IN_QUEUE), ("b-2", "a-1", FAIR)],
        id="shares",
        is_prevented=True,
    ),
    Small(
        lab(1, 2, ("LowerPriority", NEWER), borrowing="LowerPriority", flavors="fg"),
        in_turn(("a-1", 2, 10), ("b-2", 3, 0), ("b-3", 1, 0), ("b-4", 3, 0), ("b-5", 1, 0)),
        [
            ("b-5", "a-1", RECLAIM),
            ("a-1", "b-2", BORROWING),
            ("b-2", "b-3", IN_QUEUE),
            ("b-2", "b-5", IN_QUEUE),
        ],
        id="two flavors",
    ),
    Small(
        # b-3 clears a place that the more important b-2 takes; b-3 itself never runs.
        lab(4, 2, NEWER, is_fair=True),
        (
            *(row("a-1", 4), row("b-2", 4, 10, at=10.0), row("b-3", 3, at=30.0)),
            *(row("a-4", 2, at=60.0), row("a-5", 4, 10, at=70.0, run_s=5000.0)),
        ),
        [("a-1", "b-2", FAIR), ("b-3", "a-1", FAIR)],
        id="cleared for another",
    ),
    Small(
        lab(2, 2, NEWER, is_fair=True),
        in_turn(("a-1", 3, 0), ("b-2", 4, 0), ("a-3", 4, 10), ("b-4", 3, 0)),
        [("b-4", "a-3", FAIR), ("b-2", "b-4", IN_QUEUE), ("a-1", "b-2", FAIR)],
        id="through both queues",
    ),
]


SHARES, BOTH_QUEUES = (
    next(small for small in SMALLEST if small.id == name)
    for name in ("shares", "through both queues")
)
