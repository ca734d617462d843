"""The checker sees what it is there to see: engines made worse are found out."""

from __future__ import annotations

import pytest

from makeway.engine.engine import Engine
from makeway.engine.explain import Explanation
from makeway.engine.model import Claim, Config, Policy, Preemption, WorkloadKey
from makeway.engine.snapshot import Snapshot
from makeway.engine.state import ClusterState
from tests.laws.examining import Verdict, examine, examine_asking
from tests.laws.gates import KEEPERS, without
from tests.laws.judging import JudgedPlayer, judge_claims_midway, judge_nobody_fits, judge_rest
from tests.laws.known import SMALLEST_CLASSICAL, SMALLEST_FAIR
from tests.laws.playing import Broken, Law
from tests.laws.shrinking import shrink
from tests.laws.story import End, Step, Story, Until, arrival, as_test, cpu_queue, cpu_world

pytestmark = pytest.mark.pure

RECLAIMS = Preemption(reclaim=Policy.ANY)
W1, W2 = WorkloadKey("ns/w1"), WorkloadKey("ns/w2")

# w2 waits until w1 ends.
TURNS = Story(
    cpu_world(Config(), cpu_queue("a", 2)),
    (Step(arrival(1, "a", 2)), Step(arrival(2, "a", 1)), Step(End(W1))),
)
# w2 takes back what w1 borrows.
RECLAIM = Story(
    cpu_world(Config(), cpu_queue("a", 1, preemption=RECLAIMS), cpu_queue("b", 1)),
    (Step(arrival(1, "b", 2)), Step(arrival(2, "a", 1), Until.QUIET)),
)


def broken(verdict: Verdict) -> str | None:
    return verdict.finding.law if verdict.finding is not None else None


@pytest.mark.parametrize("story", [TURNS, RECLAIM])
def test_a_good_engine_is_not_blamed(story: Story) -> None:
    assert broken(examine(JudgedPlayer(story))) is None
    assert examine_asking(story) is None


def test_an_engine_that_wakes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterState, "wake", lambda self, *queues: None)
    assert broken(examine(JudgedPlayer(TURNS))) == Law.FITS


def test_an_engine_that_admits_whoever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Snapshot, "fits", lambda self, node, amounts: True)
    monkeypatch.setattr(Snapshot, "available", lambda self, node, cell: 100)
    assert broken(examine(JudgedPlayer(TURNS))) == Law.QUOTA


def test_an_engine_that_answers_differently_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def nosy(self: Engine, key: WorkloadKey) -> Explanation:
        self.state.entries[key].order_time += 10
        return original(self, key)

    original = Engine.explain
    monkeypatch.setattr(Engine, "explain", nosy)
    finding = examine_asking(TURNS)
    assert finding is not None
    assert finding.law == Law.ASKING


def test_a_claim_that_is_left_over() -> None:
    player = JudgedPlayer(TURNS.with_steps(TURNS.steps[:2]))
    player.play()
    player.engine.state.claim(player.engine.state.entries[W2], Claim())
    with pytest.raises(Broken, match=Law.CLAIM):
        judge_rest(player)


def test_a_claim_in_a_queue_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    player = JudgedPlayer(RECLAIM)
    player.play()
    judge_claims_midway(player)
    monkeypatch.setattr(player.engine.state.queues["a"], "inactive", "Stopped")  # type: ignore[index]
    with pytest.raises(Broken, match=Law.USELESS_CLAIM):
        judge_claims_midway(player)


def test_somebody_who_was_forgotten() -> None:
    player = JudgedPlayer(TURNS.with_steps(TURNS.steps[:2]))
    player.play()
    judge_nobody_fits(player)
    player.forest.charge("a", dict.fromkeys(player.held[W1].usage, -2))
    with pytest.raises(Broken, match=Law.FITS):
        judge_nobody_fits(player)


def test_victims_issued_before_their_time() -> None:
    """The gate is off, and the player believes that it is on."""
    player = JudgedPlayer(without(SMALLEST_CLASSICAL, *KEEPERS))
    player.has_backstop = True
    assert broken(examine(player)) == Law.BACKSTOP


def test_a_circle_is_made_small_and_written_down() -> None:
    longer = without(
        SMALLEST_FAIR.with_steps((*SMALLEST_FAIR.steps, Step(arrival(9, "a", 1)))), *KEEPERS
    )

    def goes_round(story: Story) -> bool:
        return broken(examine(JudgedPlayer(story))) == Law.CIRCLE

    small = shrink(longer, goes_round)
    assert len(small.steps) <= 4
    assert goes_round(small)
    assert "lab.pending('w1', on='a', cpu=3" in as_test(small)


def test_the_times_of_the_backstop_are_followed() -> None:
    """Without owners first it goes round, slower and slower."""
    verdict = examine(JudgedPlayer(without(SMALLEST_CLASSICAL, *KEEPERS[:1])))
    assert verdict.finding is None
    assert verdict.backstopped is not None
    assert verdict.backstopped.round[0].at == 5.0  # the first round was at 4 s
