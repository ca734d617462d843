"""Used, waited, lost, preempted: counted from a journal as they would be by looking on."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from makeway.engine.engine import Engine
from makeway.engine.events import WorkloadSeen
from makeway.engine.model import HOLDING, Phase, ResourceName
from makeway.journal.file import Journal
from makeway.journal.ledger import Account, Sums, grouped, ledger_of
from makeway.journal.recorder import Recorder
from tests.harness.engine import ANY, queue
from tests.journal.stories import SMALL, WHOLE, Recorded, RecordedScenario, story
from tests.prerequisites import samples

HOUR_S = 3600.0


def booked(path: Path, since: float, until: float) -> dict[Account, Sums]:
    journal = Journal(path)
    try:
        return ledger_of(journal, since, until).sums
    finally:
        journal.close()


class Lookout:
    """Adds up, step by step, what the engine's own state shows."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._at = engine, 0.0
        self.used: defaultdict[tuple[str, ResourceName], float] = defaultdict(float)
        self.waited_s = 0.0

    def pass_to(self, now: float) -> None:
        before, self._at = self._at, now
        passed_s = now - before
        for entry in self._engine.state.entries.values():
            if entry.phase in HOLDING:
                for cell, amount in entry.usage.items():
                    assert entry.queue is not None
                    self.used[entry.queue, cell.resource] += amount * passed_s
            elif entry.phase is Phase.PENDING:
                self.waited_s += now - max(before, entry.workload.created_at)


@pytest.mark.parametrize("limits", [WHOLE, SMALL], ids=["one segment", "many segments"])
def test_it_counts_what_somebody_who_looks_on_counts(tmp_path: Path, limits: object) -> None:
    for seed in range(samples(60)):
        play = story(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        lab = Recorded(folder, Engine(play.world.config), SMALL if limits is SMALL else WHOLE)
        lookout = Lookout(lab.engine)
        for step in play.steps:
            if isinstance(step, float):
                lookout.pass_to(step)
            lab.step(step)
        lookout.pass_to(play.now)
        lab.writer.flush()
        sums = grouped(booked(lab.path, 0.0, play.now), ["queue"])
        used = {(q, r): amount for (q,), s in sums.items() for r, amount in s.used.items()}
        assert {k: v for k, v in used.items() if v} == pytest.approx(
            {k: v for k, v in lookout.used.items() if v}
        ), f"seed {seed}"
        assert sum(s.waited_s for s in sums.values()) == pytest.approx(lookout.waited_s)


def taken_back(tmp_path: Path) -> RecordedScenario:
    """`train` borrows 4 GPUs for two hours, then `vision` takes its own back for an hour."""
    lab = RecordedScenario(
        tmp_path, queue("vision", gpu=8, reclaim=ANY), queue("speech", gpu=8), cohort="lab"
    )
    lab.pending("train", on="speech", gpu=12)
    lab.cycle()
    lab.pods_ready("train")
    lab.later(2 * HOUR_S).pending("eval", on="vision", gpu=8)
    lab.cycle()
    lab.later(60.0).let_go("train")
    lab.cycles()
    lab.later(HOUR_S).finish("eval")
    lab.remove("eval")
    lab.recorded.writer.flush()
    return lab


def test_who_lost_its_place_has_used_waited_and_lost(tmp_path: Path) -> None:
    lab = taken_back(tmp_path)
    sums = grouped(booked(lab.path, 0.0, lab.now), ["queue"])
    speech, vision = sums["speech",], sums["vision",]
    assert (speech.arrived, speech.admitted, speech.preempted) == (1, 1, 1)
    assert speech.used == {"gpu": 12 * (2 * HOUR_S + 60)}
    assert (speech.lost_s, speech.lost) == (2 * HOUR_S, {"gpu": 12 * 2 * HOUR_S})
    assert speech.waited_s == HOUR_S
    assert (vision.admitted, vision.finished, vision.waited_s) == (1, 1, 60.0)
    assert vision.used == {"gpu": 8 * HOUR_S}


def test_only_the_time_asked_for_counts(tmp_path: Path) -> None:
    lab = taken_back(tmp_path)
    sums = grouped(booked(lab.path, HOUR_S, 1.5 * HOUR_S), ["user", "flavor"])
    assert {key: s.used for key, s in sums.items()} == {
        ("default", "default"): {"gpu": 12 * HOUR_S / 2}
    }


def test_who_was_deleted_while_nothing_was_written_ended_with_what_was_written_last(
    tmp_path: Path,
) -> None:
    lab = taken_back(tmp_path)
    Recorder(Engine(), lab.recorded.writer, lambda: 9 * HOUR_S).ended(
        Engine().run_cycle(9 * HOUR_S), 9 * HOUR_S
    )
    lab.recorded.writer.flush()
    sums = grouped(booked(lab.path, 0.0, 10 * HOUR_S), ["queue"])
    assert sums["speech",].waited_s == HOUR_S  # until then it is sure to have waited


def test_who_has_finished_holds_nothing_though_it_is_seen_again_after_a_restart(
    tmp_path: Path,
) -> None:
    lab = RecordedScenario(tmp_path, queue("a", gpu=8), cohort="lab")
    lab.pending("train", on="a", gpu=4)
    lab.cycles()
    entry = lab.entry("train")
    ended = WorkloadSeen(entry.workload, entry.status._replace(finished=True))
    lab.later(HOUR_S).finish("train")
    lab.cycles()
    lab.later(HOUR_S).apply(ended)  # the object keeps the status that it ended with
    lab.journal().close()

    (sums,) = booked(lab.path, 0.0, 10 * HOUR_S).values()

    assert (sums.finished, sums.held_s, sums.used) == (1, HOUR_S, {"gpu": 4 * HOUR_S})


def test_who_runs_while_nothing_else_happens_counts_all_the_same(tmp_path: Path) -> None:
    lab = RecordedScenario(tmp_path, queue("a", gpu=8), cohort="lab")
    lab.pending("train", on="a", gpu=4)
    lab.cycles()
    lab.journal().close()
    sums = grouped(booked(lab.path, 90 * HOUR_S, 100 * HOUR_S), ["queue"])
    assert sums["a",].used == {"gpu": 4 * 10 * HOUR_S}


def test_who_is_gone_is_known_with_its_waits_and_runs(tmp_path: Path) -> None:
    lab = taken_back(tmp_path)
    journal = lab.journal()
    (life,) = ledger_of(journal, 0.0, lab.now).gone
    journal.close()
    assert (life.workload.key, life.ended_at) == ("default/eval", lab.now)
    assert (life.total.waited_s, life.total.held_s) == (60.0, HOUR_S)
