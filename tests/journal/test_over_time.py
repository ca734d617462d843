"""The course of use in steps of time: each step alone, and all of them together, are right."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from makeway.engine.engine import Engine
from makeway.journal.file import Journal
from makeway.journal.ledger import Account, Sums, grouped, ledger_of
from makeway.journal.over_time import Line, course_of, parts_of
from makeway.journal.past import job_name
from tests.journal.stories import SMALL, Recorded, story
from tests.journal.test_ledger import HOUR_S, taken_back
from tests.prerequisites import samples


def are_equal(found: Sums, wanted: Sums) -> bool:
    """But for the order in which they were added up."""
    return all(
        getattr(found, field.name) == pytest.approx(getattr(wanted, field.name))
        for field in fields(Sums)
    )


def test_steps_and_jobs_add_up_to_the_whole(tmp_path: Path) -> None:
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
        parts = parts_of(journal, 0.0, play.now)
        journal.close()
        by_queue: dict[Line, Sums] = {}
        for part, sums in parts.parts.items():
            by_queue.setdefault(Line(part.user, part.queue), Sums()).add(sums)
        for (user, queue), sums in grouped(whole, ("user", "queue")).items():
            assert are_equal(by_queue[Line(user, queue)], sums), f"seed {seed}"
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
    (taken,) = course.taken
    assert (taken.preemptor_queue, taken.victim_queue) == ("vision", "speech")
    assert (job_name(taken.preemptor), job_name(taken.victim)) == ("eval", "train")


def test_waits_are_told_by_the_step_in_which_they_passed(tmp_path: Path) -> None:
    """vision's eval waits a minute for its place; then train waits for an hour, and gets none."""
    lab = taken_back(tmp_path)
    until = lab.now
    course = course_of(lab.journal(), until - 3 * HOUR_S, until, 3)

    steps = [{line.queue: waits for line, waits in step.items()} for step in course.waits]
    waited = [{queue: waits.waited_s for queue, waits in step.items()} for step in steps]
    assert sum(step.get("vision", 0.0) for step in waited) == pytest.approx(60.0)
    assert waited[2]["speech"] == pytest.approx(HOUR_S)
    (begun,) = [step["vision"] for step in steps if "vision" in step and step["vision"].admitted]
    assert begun.admitted == 1
    assert begun.waited_before_s == pytest.approx(60.0)
