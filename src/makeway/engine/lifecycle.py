"""The phases of a workload and what moves it from one to the next.

The table is the whole truth: a pair that is not in it is a bug and raises. The diagram in the
documentation is drawn from it.
"""

from __future__ import annotations

from enum import Enum

from makeway.engine.entry import Phase


class Step(Enum):
    """What happened to a workload, as far as its phase is concerned."""

    RESERVE = "quota is reserved, checks are open"
    ADMIT = "it may run"
    EVICT = "it has to stop"
    LET_GO = "its pods are gone"
    DEACTIVATE = "it is not wanted to run"
    ACTIVATE = "it is wanted again"
    FINISH = "it has ended"
    FORGET = "the last decision could not be written"


TRANSITIONS: dict[tuple[Phase, Step], Phase] = {
    (Phase.PENDING, Step.RESERVE): Phase.RESERVED,
    (Phase.PENDING, Step.ADMIT): Phase.ADMITTED,
    (Phase.PENDING, Step.DEACTIVATE): Phase.INACTIVE,
    (Phase.PENDING, Step.FINISH): Phase.FINISHED,
    (Phase.RESERVED, Step.ADMIT): Phase.ADMITTED,
    (Phase.RESERVED, Step.EVICT): Phase.EVICTING,
    (Phase.RESERVED, Step.FINISH): Phase.FINISHED,
    (Phase.RESERVED, Step.FORGET): Phase.PENDING,
    (Phase.ADMITTED, Step.EVICT): Phase.EVICTING,
    (Phase.ADMITTED, Step.FINISH): Phase.FINISHED,
    (Phase.ADMITTED, Step.FORGET): Phase.RESERVED,
    (Phase.EVICTING, Step.LET_GO): Phase.PENDING,
    (Phase.EVICTING, Step.DEACTIVATE): Phase.INACTIVE,
    (Phase.EVICTING, Step.FINISH): Phase.FINISHED,
    (Phase.EVICTING, Step.FORGET): Phase.RESERVED,
    (Phase.INACTIVE, Step.ACTIVATE): Phase.PENDING,
    (Phase.INACTIVE, Step.FINISH): Phase.FINISHED,
}


def after(phase: Phase, step: Step) -> Phase:
    following = TRANSITIONS.get((phase, step))
    assert following is not None, f"a workload that is {phase.value} can't {step.name.lower()}"
    return following
