"""The same engine on the same journal decides the same, segment by segment."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from makeway.engine.decisions import Wait
from makeway.engine.engine import Engine
from makeway.journal.file import Journal
from makeway.journal.records import Decided, Heard
from makeway.journal.replay import replay
from tests.engine.test_properties import facts
from tests.journal.stories import SMALL, WHOLE, Recorded, story
from tests.prerequisites import samples


@pytest.mark.parametrize("many_segments", [False, True], ids=["one segment", "many segments"])
def test_random_stories_are_replayed_equal(tmp_path: Path, many_segments: bool) -> None:
    decisions = 0
    for seed in range(samples(60)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        decisions += replayed_decisions(folder, seed, many_segments=many_segments)
    assert decisions > samples(60) * 10


def replayed_decisions(folder: Path, seed: int, *, many_segments: bool, length: int = 80) -> int:
    """Tell a story, replay it, and expect no difference; how many decisions that were."""
    play = story(seed, length)
    lab = Recorded(folder, Engine(play.world.config), SMALL if many_segments else WHOLE)
    lab.steps(play.steps)
    found = lab.replayed()
    lab.writer.close()
    assert [replayed.differences for replayed in found] == [()] * len(found), f"seed {seed}"
    return sum(replayed.decisions for replayed in found)


def test_a_long_story_where_an_owner_is_turned_away_while_others_are_asked(tmp_path: Path) -> None:
    """The first of a StrictFIFO line, of a namespace that its queue does not admit."""
    assert replayed_decisions(tmp_path, 880, many_segments=False, length=400) > 100


def test_an_engine_that_begins_anew_knows_what_it_knew() -> None:
    for seed in range(samples(100)):
        play = story(seed)
        before, revision = facts(play.state), play.engine.view.revision
        events = play.engine.begin_anew(play.now)
        assert facts(play.state) == before, f"seed {seed}"
        assert play.engine.view.revision > revision
        assert play.engine.beginning(play.now) == events


def test_a_changed_decision_is_named(tmp_path: Path) -> None:
    play = story(3)
    lab = Recorded(tmp_path, Engine(play.world.config))
    lab.steps(play.steps)
    lab.writer.close()
    journal = Journal(lab.path)
    (segment,) = journal.segments()
    records = list(journal.records(segment))
    journal.close()
    number, cycle = next(
        (number, record)
        for number, record in enumerate(records)
        if isinstance(record, Decided)
        and any(not isinstance(decision, Wait) for decision in record.decisions)
    )
    records[number] = Decided(cycle.at, ())
    (difference,) = replay(records).differences
    assert (difference.at, difference.written) == (cycle.at, ())
    assert difference.replayed == cycle.decisions


def test_what_is_read_is_what_was_told(tmp_path: Path) -> None:
    play = story(5)
    lab = Recorded(tmp_path, Engine(play.world.config))
    lab.steps(play.steps)
    lab.writer.close()
    journal = Journal(lab.path)
    (segment,) = journal.segments()
    records = list(journal.records(segment))[segment.header.beginning :]
    told = [r.event if isinstance(r, Heard) else r.at for r in records]
    assert told == play.steps
    journal.close()


def main(wanted: int) -> None:
    """Replay random stories until so many decisions were equal."""
    decisions = seed = 0
    while decisions < wanted:
        print(f"\rseed {seed}, {decisions} decisions", end="", flush=True)
        with tempfile.TemporaryDirectory(prefix="makeway-replay-") as name:
            is_odd = bool(seed % 2)
            decisions += replayed_decisions(Path(name), seed, many_segments=is_odd, length=400)
        seed += 1
    print(f"\r{decisions} decisions of {seed} stories were replayed equal")


if __name__ == "__main__":
    main(int(sys.argv[1]))
