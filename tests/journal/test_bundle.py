"""What is given away has nobody's names in it, and decides the same."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

from makeway.engine.engine import Engine
from makeway.engine.model import Phase
from makeway.journal.bundle import codes_of, look_into, write
from makeway.journal.file import Journal
from makeway.journal.replay import replay
from tests.harness.engine import flavor, queue
from tests.journal.stories import Recorded, RecordedScenario, story
from tests.prerequisites import samples


def bundled(path: Path, to: Path) -> Path:
    journal = Journal(path)
    segments = journal.segments()
    write(journal, segments, look_into(journal, segments).codes, to)
    journal.close()
    return to


def texts_in(path: Path) -> str:
    rows = sqlite3.connect(path).execute("SELECT body FROM chunks").fetchall()
    return " ".join(zlib.decompress(body).decode() for (body,) in rows)


def test_bundles_of_random_stories_are_replayed_equal(tmp_path: Path) -> None:
    decisions = 0
    for seed in range(samples(40)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        play = story(seed)
        lab = Recorded(folder, Engine(play.world.config))
        lab.steps(play.steps)
        bundle = Journal(bundled(lab.path, folder / "bundle"))
        (segment,) = bundle.segments()
        found = replay(bundle.records(segment))
        bundle.close()
        assert found.differences == (), f"seed {seed}"
        decisions += found.decisions
    assert decisions > samples(40) * 10


def test_no_name_is_left_and_numbers_are(tmp_path: Path) -> None:
    lab = RecordedScenario(
        tmp_path,
        flavor("acme-spot", zone="secret-zone"),
        queue("vision", gpu={"acme-spot": 7}),
        cohort="lab",
    )
    lab.pending("train-secret", on="vision", gpu=4, priority=1234)
    assert lab.cycles()
    lab.journal().close()
    text = texts_in(bundled(lab.path, tmp_path / "bundle"))
    for name in ("secret", "acme", "vision", "lab", "zone", "default", "train"):
        assert name not in text
    assert "1234" in text
    assert lab.phase("train-secret") is Phase.ADMITTED


def test_reasons_that_name_a_taint_are_the_same_taints(tmp_path: Path) -> None:
    lab = RecordedScenario(
        tmp_path,
        flavor("spot", taint="secret-taint"),
        queue("vision", gpu={"spot": 7}),
        cohort="lab",
    )
    lab.pending("train", on="vision", gpu=4)
    lab.cycles()
    lab.journal().close()
    bundle = Journal(bundled(lab.path, tmp_path / "bundle"))
    (segment,) = bundle.segments()
    assert replay(bundle.records(segment)).differences == ()
    bundle.close()
    assert "secret" not in texts_in(tmp_path / "bundle")


def test_codes_have_the_order_of_the_names() -> None:
    names = ["zeta", "alpha", "cpu", "memory", "dog", "lion", "pods", "nvidia.com/gpu", "oak"]
    codes = codes_of(names)
    shown = [codes.get(name, name) for name in sorted(names)]
    assert shown == sorted(shown)
    assert {"cpu", "memory", "pods", "nvidia.com/gpu"} <= set(shown)
    assert not {"zeta", "alpha", "dog", "lion", "oak"} & set(shown)
