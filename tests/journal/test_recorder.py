"""What is written down stays written down, and what can't be written holds nobody up."""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from secrets import token_hex

import pytest

from makeway.engine import events as ev
from makeway.engine.engine import Engine
from makeway.journal.file import NAME, Journal, JournalError, JournalFile, Segment
from makeway.journal.recorder import DAY_S, Limits, Recorder, Writer
from makeway.journal.records import Heard, new_header
from tests.journal.stories import SMALL, Recorded, story

NAMESPACE = ev.NamespaceChanged("lab", {"team": "a"})


def segments(path: Path) -> list[Segment]:
    journal = Journal(path)
    try:
        return journal.segments()
    finally:
        journal.close()


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    Recorded(tmp_path, Engine()).writer.close()
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_a_segment_that_is_full_is_followed_by_one_that_begins_with_everything(
    tmp_path: Path,
) -> None:
    play = story(1)
    lab = Recorded(tmp_path, Engine(play.world.config), SMALL)
    lab.steps(play.steps)
    first, second, *_ = segments(lab.path)
    assert first.header.beginning == 1  # a new engine knows its configuration and nothing else
    assert second.header.beginning > len(play.world.queues)
    assert all(replayed.differences == () for replayed in lab.replayed())


def test_a_new_term_begins_a_segment(tmp_path: Path) -> None:
    lab = Recorded(tmp_path, Engine())
    lab.step(NAMESPACE)
    Recorder(Engine(), lab.writer, lambda: 60.0)
    lab.writer.flush()
    assert [segment.header.began_at for segment in segments(lab.path)] == [0.0, 60.0]


def test_it_is_read_while_it_is_written(tmp_path: Path) -> None:
    lab = Recorded(tmp_path, Engine())
    journal = Journal(lab.path)
    for number in range(3):
        lab.step(NAMESPACE)
        lab.step(float(number))
        (segment,) = journal.segments()
        assert len(list(journal.records(segment))) == 1 + 2 * (number + 1)


def test_whole_segments_are_dropped_the_oldest_first(tmp_path: Path) -> None:
    file = JournalFile(tmp_path / NAME)
    for day in range(5):
        number = file.begin(new_header(day * DAY_S, "1", 0))
        file.add(number, day * DAY_S, (day + 0.5) * DAY_S, b"x" * 1000)
    file.keep(1.6 * DAY_S, 1_000_000)  # the first two end before that
    assert [segment.number for segment in segments(file.path)] == [3, 4, 5]
    file.keep(0, 1500)
    assert [segment.number for segment in segments(file.path)] == [5]
    file.keep(100 * DAY_S, 0)  # the last one is being written
    assert [segment.number for segment in segments(file.path)] == [5]


def test_what_is_dropped_gives_its_room_back(tmp_path: Path) -> None:
    file = JournalFile(tmp_path / NAME)
    for day in range(2):
        number = file.begin(new_header(day * DAY_S, "1", 0))
        file.add(number, day * DAY_S, day * DAY_S, os.urandom(3_000_000))
    file.keep(0.5 * DAY_S, 10_000_000)
    file.close()
    assert (tmp_path / NAME).stat().st_size < 4_000_000


def test_a_full_disk_is_said_once_and_a_new_segment_begins_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    play = story(2)
    lab = Recorded(tmp_path, Engine(play.world.config))
    half = len(play.steps) // 2
    lab.file.limit_pages(1)
    with caplog.at_level(logging.WARNING, "makeway.journal"):
        lab.steps(play.steps[:half])
        lab.steps(ev.NamespaceChanged(token_hex(3000), {}) for _ in range(5))
        lab.writer.flush()
        lab.writer.try_again()  # in vain
        assert not lab.writer.is_full
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        lab.file.limit_pages(1_000_000)
        lab.writer.try_again()
        lab.steps(play.steps[half:])
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    lost, written = segments(lab.path)
    assert lost.header.began_at <= written.header.began_at
    assert all(replayed.differences == () for replayed in lab.replayed())
    assert lab.replayed()[1].cycles > 0


def test_where_room_is_short_it_leaves_the_rest_to_the_objects(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Recorded(tmp_path, Engine())
    lab.step(NAMESPACE)
    lab.writer.flush()
    lab.shortage = "3 MiB left"
    lab.step(NAMESPACE)
    lab.writer.flush()
    assert "3 MiB left" in caplog.text
    assert lab.replayed()[0].events == 2


def test_a_file_that_is_no_journal_is_refused_with_a_word(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"something else entirely" * 100)
    with pytest.raises(JournalError, match="damaged"):
        JournalFile(tmp_path / NAME)


KILLED = """
import sys
from pathlib import Path
from makeway.engine import events as ev
from makeway.engine.engine import Engine
from makeway.journal.file import JournalFile
from makeway.journal.recorder import Recorder, Writer

engine = Engine()
writer = Writer(JournalFile(Path(sys.argv[1])))
recorder = Recorder(engine, writer, lambda: 1.0)
for number in range(1_000_000):
    event = ev.NamespaceChanged(f"lab-{number}", {})
    recorder.heard(event, engine.apply(event))
    writer.flush()
    print(number, flush=True)
"""


def test_kill_9_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    path = tmp_path / NAME
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    told += map(int, process.stdout.read().split())
    process.wait()
    journal = Journal(path)
    (segment,) = journal.segments()
    events = [record.event for record in journal.records(segment) if isinstance(record, Heard)]
    journal.close()
    found = [event.name for event in events if isinstance(event, ev.NamespaceChanged)]
    assert len(found) >= len(told)
    assert found == [f"lab-{number}" for number in range(len(found))]


def test_a_thread_writes_what_is_put_in_line(tmp_path: Path) -> None:
    writer = Writer(JournalFile(tmp_path / NAME), Limits())
    writer.start()
    engine = Engine()
    recorder = Recorder(engine, writer, lambda: 1.0)
    recorder.heard(NAMESPACE, engine.apply(NAMESPACE))
    writer.close()
    (segment,) = segments(tmp_path / NAME)
    assert segment.size > 0


def test_a_line_that_gets_too_long_loses_the_segment_and_no_record_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("makeway.journal.recorder.WAITING_MAX", 3)
    lab = Recorded(tmp_path, Engine())
    lab.writer.flush()
    for _ in range(5):
        lab.recorder.heard(NAMESPACE, lab.engine.apply(NAMESPACE))
    lab.writer.flush()
    assert lab.replayed()[0].events == 1  # how it began
    lab.writer.try_again()
    lab.step(1.0)
    assert [replayed.differences for replayed in lab.replayed()] == [(), ()]


def test_a_segment_that_begins_with_much_is_not_full_at_once(tmp_path: Path) -> None:
    play = story(1)
    lab = Recorded(tmp_path, Engine(play.world.config), SMALL._replace(segment_bytes=1))
    lab.steps(play.steps)
    assert len(segments(lab.path)) < sum(isinstance(step, float) for step in play.steps) / 2


def test_who_reads_makes_no_journal_of_what_is_none(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    with pytest.raises(JournalError, match="no journal of Makeway"):
        Journal(tmp_path / NAME)
    with pytest.raises(JournalError, match="is not there"):
        Journal(tmp_path / "nowhere")
