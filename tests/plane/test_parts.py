"""What every part shares that looks at one object after another."""

from __future__ import annotations

from makeway.api.kinds import JOBS
from makeway.client.client import Unavailable
from makeway.plane.parts import (
    BURST_MAX,
    NOTHING,
    PACE_S,
    RETRY_S,
    Done,
    Failed,
    Plan,
    Reconciler,
)
from makeway.plane.writes import Key, ObjectWrite, Patch, Say

JOB = Key("lab", "train")


class Painter(Reconciler):
    """Wants its object red, while it wants anything."""

    def __init__(self) -> None:
        super().__init__()
        self.is_content = False

    def reconcile(self, key: Key, now: float) -> Plan:
        if self.is_content:
            return NOTHING
        said = Say(about={}, reason="Painted", message="It is red")
        patch = Patch(resource=JOBS, key=key, patch={"spec": {"color": "red"}}, then=(said,))
        return Plan((patch,))

    def paint(self, now: float) -> ObjectWrite:
        self.mark(JOB)
        [write] = self.act(now).writes
        assert isinstance(write, Patch)
        return write


LOST = Failed(Unavailable("no answer"))


def test_what_is_to_be_said_of_a_write_is_said_when_it_is_done() -> None:
    painter = Painter()

    assert painter.settled(painter.paint(0.0), LOST, 0.0) == ()
    [saying] = painter.settled(painter.paint(1.0), Done(None), 1.0)

    assert saying.reason == "Painted"


def test_who_fails_again_waits_longer_and_who_wants_nothing_begins_anew() -> None:
    painter = Painter()
    painter.settled(painter.paint(0.0), LOST, 0.0)
    painter.settled(painter.paint(0.0), LOST, 0.0)
    assert painter.act(0.0).next_at == RETRY_S

    painter.is_content = True
    painter.mark(JOB)
    painter.act(10.0)
    painter.is_content = False
    painter.settled(painter.paint(20.0), LOST, 20.0)

    assert painter.act(20.0).next_at == 20.0 + RETRY_S


class Contender(Painter):
    """Somebody else wants the same object blue."""

    contested = (JOBS,)


def test_two_who_undo_what_the_other_did_slow_down() -> None:
    contender = Contender()
    for _ in range(BURST_MAX):
        contender.settled(contender.paint(0.0), Done(None), 0.0)

    contender.mark(JOB)

    assert contender.act(0.0) == Plan([], PACE_S)
    assert len(contender.act(PACE_S).writes) == 1


def test_who_was_too_fast_does_not_wait_for_a_clock_that_was_set_back() -> None:
    contender = Contender()
    for _ in range(BURST_MAX):
        contender.settled(contender.paint(1000.0), Done(None), 1000.0)

    assert contender.paint(500.0)
