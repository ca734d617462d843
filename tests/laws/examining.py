"""One story examined under all laws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from makeway.engine.decisions import Cycle, Decision
from makeway.engine.model import WorkloadKey
from tests.laws.judging import JudgedPlayer, judge_fresh, judge_rest, judge_seeing_again
from tests.laws.playing import Broken, Issue, Law
from tests.laws.story import Story, Until


class Finding(NamedTuple):
    law: str
    what: str
    round: tuple[Issue, ...] = ()  # of a circle: who displaces whom, once around


class Verdict(NamedTuple):
    finding: Finding | None
    backstopped: Finding | None  # a circle that only the backstop stops
    issues: Counter[WorkloadKey]  # how often each has issued victims
    rests: int
    steps: int  # as many as were played


def everywhere(number: int) -> bool:
    return True


def examine(
    player: JudgedPlayer,
    is_thorough: Callable[[int], bool] = everywhere,
    is_judged: Callable[[int], bool] = everywhere,
) -> Verdict:
    """Play, and judge the rests after steps with these numbers; if thoroughly, by fresh engines."""
    steps = player.story.steps
    finding, rests, number = None, 0, -1
    try:
        for number, step in enumerate(steps):
            player.judges_midway = is_thorough(number)
            player.step(step)
            if player.circle is not None:
                break
            if step.until is Until.REST and is_judged(number):
                rests += 1
                judge_rest(player)
                if is_thorough(number):
                    _judge_thoroughly(player, is_last=number == len(steps) - 1)
    except Broken as broken:
        finding = Finding(broken.law, broken.what)
    backstopped = None
    if player.circle is not None and finding is None:
        finding = _circle(player.circle)
        if player.has_backstop:
            finding, backstopped = None, finding
    return Verdict(finding, backstopped, player.issue_counts, rests, number + 1)


def _judge_thoroughly(player: JudgedPlayer, is_last: bool) -> None:
    judge_fresh(player)
    if is_last:
        judge_seeing_again(player, player.seen_again_at_the_end())


def _circle(found: list[Issue]) -> Finding:
    rules = sorted({rule.value for issue in found for _, rule in issue.victims})
    return Finding(Law.CIRCLE, f"{len(found)} issues a round, by {', '.join(rules)}", tuple(found))


# --- law 3 ---


class NotedPlayer(JudgedPlayer):
    """Notes all decisions; `asks` puts questions before every cycle."""

    def __init__(self, story: Story, asks: bool) -> None:
        super().__init__(story)
        self.asks = asks
        self.decisions: list[Decision] = []

    def on_pause(self) -> None:
        pass

    def cycle(self) -> Cycle:
        if self.asks:
            ask_everything(self)
        cycle = super().cycle()
        self.decisions += cycle.decisions
        return cycle


def ask_everything(player: JudgedPlayer) -> None:
    engine = player.engine
    for key in engine.state.entries:
        engine.explain(key)
    for queue in list(engine.view.queues()):
        engine.waiting_in(queue.spec.name)
    list(engine.view.cohorts())


def examine_asking(story: Story) -> Finding | None:
    """Does it make a difference that somebody asks all the time?"""
    players = [NotedPlayer(story, asks) for asks in (False, True)]
    for player in players:
        with suppress(Broken):  # judged elsewhere
            player.play()
    silent, asked = (player.decisions for player in players)
    for number, (one, other) in enumerate(zip(silent, asked, strict=False)):
        if one != other:
            return Finding(Law.ASKING, f"decision {number} is {other}, not {one}")
    if len(silent) != len(asked):
        return Finding(Law.ASKING, f"{len(asked)} decisions, not {len(silent)}")
    return None
