"""The laws over time on some of the worlds that `make laws` plays all of."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from tests.laws.examining import examine, examine_asking
from tests.laws.figures import Figures, told
from tests.laws.gates import KEEPERS
from tests.laws.judging import JudgedPlayer
from tests.laws.played_out import SETS, Part, parts_of, play_out
from tests.laws.playing import Law
from tests.laws.random_worlds import STORIES
from tests.laws.story import Story, arrival
from tests.prerequisites import IS_THOROUGH, samples

EVERY = 40 if IS_THOROUGH else 960  # parts of the worlds that are played out


def in_a_forecast(story: Story) -> Story:
    config = replace(
        story.world.config, is_simulated=True, tells_reasons=False, skips_refused_lines=True
    )
    return story.with_config(config)


def check(figures: Figures) -> None:
    failures = [told(failure, failure.story) for failure in figures.failures]
    assert not failures, "\n".join([*figures.lines(), *failures[:2]])


@pytest.mark.parametrize("name", SETS)
def test_small_worlds_keep_the_laws(name: str) -> None:
    figures = Figures()
    for part in parts_of(name)[::EVERY]:
        figures.merge(play_out((), part))
    assert figures.stories > 100
    check(figures)


@pytest.mark.parametrize(("size", "count"), [("small", samples(400)), ("large", samples(12))])
def test_invented_worlds_keep_the_laws(size: str, count: int) -> None:
    figures = Figures()
    for seed in range(count):
        story = STORIES[size](seed)
        last = len(story.steps) - 1
        figures.add(f"seed {seed}", story, examine(JudgedPlayer(story), last.__eq__))
    assert sum(figures.issues.values()) > count // 4, "hardly anybody preempts"
    check(figures)


@pytest.mark.parametrize(("size", "count"), [("small", samples(400)), ("large", samples(12))])
def test_worlds_of_a_forecast_keep_the_laws(size: str, count: int) -> None:
    """There whole lines are passed over for the sake of owners, and another may be first."""
    figures = Figures()
    for seed in range(count):
        story = in_a_forecast(STORIES[size](seed))
        last = len(story.steps) - 1
        figures.add(f"seed {seed}", story, examine(JudgedPlayer(story), last.__eq__))
    check(figures)


@pytest.mark.parametrize(("size", "count"), [("small", samples(80)), ("large", samples(8))])
def test_asking_changes_nothing(size: str, count: int) -> None:
    for seed in range(count):
        assert examine_asking(STORIES[size](seed)) is None


def test_the_command_shares_its_work_among_processes() -> None:
    command = [sys.executable, "-m", "tests.laws", "random", "--seeds", "0:2", "--processes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("2 stories and 0 like them: 0 broken")


def test_without_the_gates_small_worlds_go_in_circles() -> None:
    """Or the checker would prove nothing."""
    beginning = (arrival(1, "a", 3, 10), arrival(2, "b", 3, 10), arrival(3, "a", 3, 10))
    figures = play_out(KEEPERS, Part("X1", 3, beginning))
    assert figures.found[Law.CIRCLE, True] > 5
