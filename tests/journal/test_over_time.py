"""The course of use in steps of time: each step alone, and all of them together, are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from makeway.engine.engine import Engine
from makeway.journal.file import Journal
from makeway.journal.ledger import Account, Sums, ledger_of
from makeway.journal.over_time import Pair, course_of
from tests.journal.stories import SMALL, Recorded, story
from tests.journal.test_ledger import HOUR_S, taken_back
from tests.prerequisites import samples


def test_steps_add_up_to_the_whole(tmp_path: Path) -> None:
    for seed in range(samples(20)):
        play = story(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        lab = Recorded(folder, Engine(play.world.config), SMALL)
        lab.steps(play.steps)
        lab.writer.flush()
        journal = Journal(lab.path)
        whole = ledger_of(journal, 0.0, play.now).sums
        course = course_of(journal, 0.0, play.now, 7)
        journal.close()
        total: dict[Account, Sums] = {}
        for step in course.steps:
            for account, sums in step.items():
                total.setdefault(account, Sums()).add(sums)
        for account, sums in whole.items():
            found = total.get(account, Sums())
            assert found.used == pytest.approx(sums.used), f"seed {seed}"
            assert found.held_s == pytest.approx(sums.held_s)
            assert (found.admitted, found.preempted) == (sums.admitted, sums.preempted)


def test_a_preemption_shows_in_the_step_when_it_happened(tmp_path: Path) -> None:
    """speech holds 12 GPUs for two hours; vision takes its 8 back for the third."""
    lab = taken_back(tmp_path)
    until = lab.now
    course = course_of(lab.journal(), until - 3 * HOUR_S, until, 3)

    held = [{account.queue: sums.held_s for account, sums in step.items()} for step in course.steps]

    assert held[0].get("vision", 0.0) == 0.0
    assert held[1]["speech"] == pytest.approx(HOUR_S)
    assert held[2]["vision"] == pytest.approx(HOUR_S)
    assert course.preemptions == {Pair("vision", "speech"): 1}


def test_waits_are_told_by_the_step_in_which_they_passed(tmp_path: Path) -> None:
    """vision's eval waits a minute for its place; then train waits for an hour, and gets none."""
    lab = taken_back(tmp_path)
    until = lab.now
    course = course_of(lab.journal(), until - 3 * HOUR_S, until, 3)

    waited = [{queue: waits.waited_s for queue, waits in step.items()} for step in course.waits]
    assert sum(step.get("vision", 0.0) for step in waited) == pytest.approx(60.0)
    assert waited[2]["speech"] == pytest.approx(HOUR_S)
    (begun,) = [
        step["vision"] for step in course.waits if "vision" in step and step["vision"].admitted
    ]
    assert begun.admitted == 1
    assert begun.waited_before_s == pytest.approx(60.0)
