"""What the journal tells of one workload."""

from __future__ import annotations

from pathlib import Path

from makeway.engine.events import WorkloadFinished, WorkloadRemoved, WorkloadSeen
from makeway.engine.model import WorkloadKey
from makeway.journal.past import life_of
from tests.harness.engine import DEFAULT, queue
from tests.journal.stories import RecordedScenario


def test_who_is_seen_again_after_a_restart_has_not_come_again(tmp_path: Path) -> None:
    lab = RecordedScenario(tmp_path, queue("vision", gpu=8), cohort="lab")
    for _ in range(2):  # the second is another of the same name
        lab.later(60).pending("train", on="vision", gpu=4)
        lab.cycles()
        lab.later(60).see_again("train")
        lab.later(60).finish("train")
        lab.remove("train")
        lab.cycles()

    life = list(life_of(lab.journal(), WorkloadKey(f"{DEFAULT}/train"), 0.0, lab.now))

    came = [one.at for one in life if isinstance(one.what, WorkloadSeen)]
    assert came == [60.0, 240.0]
    ends = [type(one.what) for one in life if not isinstance(one.what, WorkloadSeen)]
    assert ends.count(WorkloadFinished) == ends.count(WorkloadRemoved) == 2
