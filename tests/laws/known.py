"""Circles that were found on an engine without owners first and without the backstop.

The checker must find each of them there, or it proves nothing.
"""

from __future__ import annotations

from makeway.engine.model import Config, Policy, Preemption, WorkloadKey
from tests.harness.random_worlds import NAMESPACE
from tests.laws.story import (
    Arrive,
    End,
    Step,
    Story,
    Until,
    arrival,
    cpu_queue,
    cpu_world,
)

CLASSICAL, FAIR = Config(), Config(fair_sharing=True)


def _preemption(within: Policy, *, borrows: bool = False) -> Preemption:
    return Preemption(within_queue=within, reclaim=Policy.ANY, borrow_while_reclaiming=borrows)


NEVER = _preemption(Policy.NEVER)
LOWER = _preemption(Policy.LOWER_PRIORITY)
LOWER_BORROWING = _preemption(Policy.LOWER_PRIORITY, borrows=True)
NEWER = _preemption(Policy.LOWER_OR_NEWER_EQUAL)
NEWER_BORROWING = _preemption(Policy.LOWER_OR_NEWER_EQUAL, borrows=True)


def _settled(*arrivals: tuple[str, int, int]) -> tuple[Step, ...]:
    """One after the other: queue, size, priority."""
    return tuple(Step(arrival(n, *one)) for n, one in enumerate(arrivals, start=1))


# Owners first ends these.

SMALLEST_CLASSICAL = Story(
    cpu_world(
        CLASSICAL,
        cpu_queue("a", 1, preemption=NEWER_BORROWING),
        cpu_queue("b", 2, preemption=NEWER_BORROWING),
    ),
    _settled(("a", 3, 10), ("a", 3, 10), ("b", 3, 0), ("b", 1, 0)),
)

SMALLEST_FAIR = Story(
    cpu_world(FAIR, cpu_queue("a", 1, preemption=NEWER), cpu_queue("b", 2, preemption=NEWER)),
    _settled(("a", 3, 10), ("b", 3, 10), ("a", 1, 10), ("b", 1, 10)),
)

JOBS = [  # queue, size, priority; all submitted at once
    *[("b", 4, 10), ("b", 1, 0), ("a", 8, 0), ("a", 4, 10), ("a", 1, 0), ("b", 8, 0)],
    *[("b", 4, 0), ("b", 1, 0), ("b", 1, 10), ("a", 1, 0), ("b", 1, 0), ("a", 1, 0)],
    *[("a", 1, 0), ("a", 2, 0), ("a", 1, 10), ("a", 8, 10), ("b", 4, 10)],
]


def _everyday() -> Story:
    """Two queues of 8 with everyday policies: an important job borrows at the end of a long line.

    The thirteenth job is the first to end, after 210 s.
    """
    submitted: list[Arrive] = [arrival(n, *job) for n, job in enumerate(JOBS, start=1)]
    steps = [Step(deed, Until.HEARD, after_s=0.0) for deed in submitted]
    steps[-1] = steps[-1]._replace(until=Until.REST)
    steps.append(Step(End(WorkloadKey(f"{NAMESPACE}/w13")), after_s=210.0))
    queues = [cpu_queue(name, 8, preemption=LOWER) for name in "ab"]
    return Story(cpu_world(CLASSICAL, *queues), tuple(steps))


EVERYDAY = _everyday()

# Owners first does not end these by itself.

C1 = Story(  # through two flavors
    cpu_world(
        CLASSICAL,
        cpu_queue("a", 1, 1, preemption=LOWER_BORROWING),
        cpu_queue("b", 2, 2, preemption=NEWER_BORROWING),
    ),
    _settled(("a", 2, 10), ("b", 3, 0), ("b", 1, 0), ("b", 3, 0), ("b", 1, 0)),
)

F1 = Story(  # w1 clears a place by fair share, w2 of the same queue takes it, w3 takes it back
    cpu_world(FAIR, cpu_queue("a", 4, preemption=NEVER), cpu_queue("b", 3, preemption=NEWER)),
    _settled(("b", 4, 0), ("b", 6, 10), ("a", 6, 0)),
)

F2 = Story(  # w2 has to make way for w3 (fair), w3 for w1 (own queue), w1 for w4 (fair)
    cpu_world(FAIR, cpu_queue("a", 3, preemption=NEWER), cpu_queue("b", 3, preemption=NEVER)),
    _settled(("a", 5, 10), ("b", 5, 1), ("a", 4, 10), ("b", 4, 0)),
)

ENDED_BY_OWNERS_FIRST = {
    "smallest classical": SMALLEST_CLASSICAL,
    "smallest fair": SMALLEST_FAIR,
    "everyday policies": EVERYDAY,
}
LEFT_TO_THE_BACKSTOP = {"C1": C1, "F1": F1, "F2": F2}
