"""The phases of a workload and what moves it from one to the next.

The table is the whole truth: a pair that is not in it is a bug and raises. The diagram in the
documentation is drawn from it.
"""

from __future__ import annotations

from enum import Enum

from makeway.engine.model import Phase


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


STEPS: dict[tuple[Phase, Phase], Step] = {
    (Phase.PENDING, Phase.RESERVED): Step.RESERVE,
    (Phase.PENDING, Phase.ADMITTED): Step.ADMIT,
    (Phase.PENDING, Phase.INACTIVE): Step.DEACTIVATE,
    (Phase.PENDING, Phase.FINISHED): Step.FINISH,
    (Phase.RESERVED, Phase.ADMITTED): Step.ADMIT,
    (Phase.RESERVED, Phase.EVICTING): Step.EVICT,
    (Phase.RESERVED, Phase.FINISHED): Step.FINISH,
    (Phase.RESERVED, Phase.PENDING): Step.FORGET,
    (Phase.ADMITTED, Phase.EVICTING): Step.EVICT,
    (Phase.ADMITTED, Phase.FINISHED): Step.FINISH,
    (Phase.ADMITTED, Phase.RESERVED): Step.FORGET,
    (Phase.ADMITTED, Phase.PENDING): Step.FORGET,
    (Phase.EVICTING, Phase.PENDING): Step.LET_GO,
    (Phase.EVICTING, Phase.INACTIVE): Step.DEACTIVATE,
    (Phase.EVICTING, Phase.FINISHED): Step.FINISH,
    (Phase.EVICTING, Phase.RESERVED): Step.FORGET,
    (Phase.EVICTING, Phase.ADMITTED): Step.FORGET,
    (Phase.INACTIVE, Phase.PENDING): Step.ACTIVATE,
    (Phase.INACTIVE, Phase.FINISHED): Step.FINISH,
}


def check_step(before: Phase, after: Phase) -> None:
    assert (before, after) in STEPS, f"a workload that is {before.value} can't become {after.value}"


def can_be_forgotten(phase: Phase, before: Phase) -> bool:
    """Whether a decision that led from one phase to another can be taken back."""
    step = STEPS.get((phase, before))
    return step is Step.FORGET or step is Step.ACTIVATE
