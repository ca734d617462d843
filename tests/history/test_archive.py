"""The file that knows what is left of jobs."""

from __future__ import annotations

from pathlib import Path

from makeway.history.archive import Archive, GoneJob, Run

FIRST = Run("pod-1", "job-1", "default", "train", 12, 1, "train-a", "main", 10.0)
SECOND = Run("pod-2", "job-1", "default", "train", 12, 2, "train-b", "main", 20.0)
GONE = GoneJob("job-1", "default", "train", 12, 50.0, b"{}")


def test_attempts_are_told_in_their_order_and_over_restarts(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.note_run(SECOND)
    archive.note_run(FIRST)
    archive.note_run(FIRST._replace(ended_at=15.0, exit_code=143, reason="Preempted", is_gone=True))
    archive.close()

    found = Archive(tmp_path).runs_of("job-1")

    assert [(run.attempt, run.exit_code, run.is_gone) for run in found] == [
        (1, 143, True),
        (2, None, False),
    ]
    assert Archive(tmp_path).ends_of_gone() == {"pod-1": 15.0}


def test_of_a_job_that_is_forgotten_nothing_is_noted_any_more(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.note_run(FIRST)
    archive.forget_job("job-1", now=60.0)

    archive.note_run(FIRST._replace(is_gone=True))  # heard of late
    archive.note_gone(GONE)

    assert not archive.runs_of("job-1")
    assert not archive.gone_jobs()
    assert not archive.has_run("pod-1")


def test_what_went_long_ago_is_told_no_more(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.note_gone(GONE)
    archive.note_gone(GONE._replace(uid="job-2", gone_at=70.0))

    archive.forget_before(60.0)

    assert [job.uid for job in archive.gone_jobs("default")] == ["job-2"]
    assert archive.gone_job("default", "train") == GONE._replace(uid="job-2", gone_at=70.0)
    assert not archive.gone_jobs("vision")


def test_a_damaged_file_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "history.db").write_bytes(b"no database at all, " * 500)

    archive = Archive(tmp_path)
    archive.note_gone(GONE)

    assert archive.gone_jobs() == [GONE]
    assert (tmp_path / "history.damaged").read_bytes().startswith(b"no database")
