"""A journal as a trace: who came, how long it ran, who gave up."""

from __future__ import annotations

from pathlib import Path

import pytest

from makeway.sim.recorded import recorded_trace
from makeway.sim.trace_jobs import SimulationError, Trace
from tests.harness.engine import ANY, queue
from tests.journal.stories import RecordedScenario


def trace_of(lab: RecordedScenario, until: float = 0.0) -> Trace:
    journal = lab.journal()
    try:
        return recorded_trace(journal, journal.segments(), until)
    finally:
        journal.close()


def test_the_run_time_of_a_job_is_that_of_its_last_attempt(tmp_path: Path) -> None:
    lab = RecordedScenario(
        tmp_path, queue("vision", gpu=8, reclaim=ANY), queue("speech", gpu=8), cohort="lab"
    )
    lab.pending("train", on="speech", gpu=12, priority=5)
    lab.cycle()
    lab.later(100).pending("eval", on="vision", gpu=8)
    lab.cycle()
    lab.let_go("train")
    lab.cycles()
    lab.later(50).finish("eval")
    lab.cycles()
    lab.later(300).finish("train")
    eval_, train = sorted(trace_of(lab).jobs)
    assert (train.queue, train.submit_s, train.run_s, train.priority) == ("speech", 0, 300, "5")
    assert train.amounts == (("gpu", 12),)
    assert (eval_.queue, eval_.submit_s, eval_.run_s) == ("vision", 100, 50)


def test_who_gave_up_is_cancelled_and_who_has_not_run_is_left_out(tmp_path: Path) -> None:
    lab = RecordedScenario(tmp_path, queue("a", gpu=1), cohort="lab")
    lab.later(10)
    for name in ("runs", "gives-up", "waits"):
        lab.pending(name, on="a", gpu=1)
    lab.cycles()
    lab.later(60).remove("gives-up")
    lab.cycles()
    trace = trace_of(lab)
    assert {job.name: (job.run_s, job.cancel_s) for job in trace.jobs} == {
        "runs": (60, None),
        "gives-up": (0, 60),
    }
    assert [(oddity.count, oddity.is_left_out) for oddity in trace.oddities] == [
        (1, False),
        (1, True),
    ]


def test_who_still_runs_has_run_until_now_though_nothing_else_has_happened(tmp_path: Path) -> None:
    lab = RecordedScenario(tmp_path, queue("a", gpu=1), cohort="lab")
    lab.pending("runs", on="a", gpu=1)
    lab.cycles()

    assert [job.run_s for job in trace_of(lab, until=7200.0).jobs] == [7200.0]


def test_a_journal_without_jobs_is_no_trace(tmp_path: Path) -> None:
    lab = RecordedScenario(tmp_path, queue("a", gpu=1), cohort="lab")
    with pytest.raises(SimulationError, match="no job came"):
        trace_of(lab)
