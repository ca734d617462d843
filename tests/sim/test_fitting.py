"""Jobs that can never fit are left out at once and hold up nobody; jobs that have to wait, wait."""

from __future__ import annotations

from csv import DictReader
from pathlib import Path

import pytest

from makeway.cli.main import main
from makeway.sim.listing import job_lines
from makeway.sim.record import JobOutcome
from makeway.sim.report import as_data
from makeway.sim.result import Result
from makeway.sim.trace_jobs import CPUS, GPUS
from tests.sim.worlds import HOUR, MINUTE, flavor, job, play, queue, run, settings, told

STRICT = "  queueingStrategy: StrictFIFO\n"
FOUR = (flavor("a"), queue("q", a=4, more=STRICT))
BOTH = f"""\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: q}}
spec:
  namespaceSelector: {{}}
{STRICT}\
  resourceGroups:
  - coveredResources: [nvidia.com/gpu, cpu]
    flavors:
    - name: a
      resources: [{{name: nvidia.com/gpu, nominalQuota: 4}}, {{name: cpu, nominalQuota: 8}}]
"""


def outcomes(result: Result) -> dict[str, JobOutcome]:
    return {one.job.name: one.outcome for one in result.runs}


def test_the_place_behind_a_job_that_never_fits_is_taken_as_soon_as_it_is_free() -> None:
    result = play(
        FOUR,
        job("a", at=0.0, run=10.0, gpus=4),
        job("b", at=1.0, run=100_000.0, gpus=3),
        job("big", at=2.0, run=5.0, gpus=8),
        job("c", at=3.0, run=10.0, gpus=1),
    )

    assert [run(result, name).first_run_at for name in "abc"] == [0.0, 10.0, 10.0]
    assert run(result, "big").outcome is JobOutcome.NEVER_FITS
    assert run(result, "big").ended_at == 2.0


def test_behind_jobs_that_never_fit_alone_a_job_starts_at_once() -> None:
    result = play(FOUR, job("big", gpus=8), job("big-too", gpus=8), job("c", run=MINUTE))

    assert run(result, "c").first_run_at == 0.0
    assert result.makespan.seconds == MINUTE
    assert outcomes(result) == {
        "big": JobOutcome.NEVER_FITS,
        "big-too": JobOutcome.NEVER_FITS,
        "c": JobOutcome.FINISHED,
    }


def test_all_who_never_fit_are_counted_listed_and_told_why() -> None:
    result = play(FOUR, job("big", gpus=8), job("big-too", gpus=8, at=1.0), job("c"))
    data = as_data(result)

    assert data["jobs"]["neverFits"] == 2
    assert data["counts"]["jobs that can never fit"] == 2
    assert [(one["job"], one["reasons"][0]["type"]) for one in data["neverFits"]] == [
        ("default/big", "ExceedsCapacity"),
        ("default/big-too", "ExceedsCapacity"),
    ]
    assert [row["fate"] for row in DictReader(job_lines(result))] == [
        *("never fits", "finished", "never fits")
    ]
    story = run(result, "big-too").story
    assert story is not None
    assert story[-1].what.workload == "default/big-too"  # type: ignore[union-attr]
    assert told(result, "big-too") == ["submitted", "Explanation"]


def test_too_much_of_one_resource_is_seen_while_another_is_in_use() -> None:
    wants = {"first": (4, 1), "never": (1, 9), "next": (1, 1)}
    jobs = [
        job(name, at=float(i), run=HOUR)._replace(amounts=((GPUS, gpus), (CPUS, 1000 * cpus)))
        for i, (name, (gpus, cpus)) in enumerate(wants.items())
    ]

    result = play((flavor("a"), BOTH), *jobs)

    assert run(result, "never").outcome is JobOutcome.NEVER_FITS
    assert run(result, "never").ended_at == 1.0  # not when the GPUs are free
    assert run(result, "next").first_run_at == HOUR


def test_what_no_flavor_alone_could_hold_never_fits_and_what_one_could_waits() -> None:
    world = (flavor("a"), flavor("b"), queue("q", a=4, b=6, more=STRICT))

    result = play(world, job("x", gpus=6, run=HOUR), job("y", gpus=6, at=1.0), job("z", gpus=7))

    assert run(result, "y").first_run_at == HOUR
    assert run(result, "z").outcome is JobOutcome.NEVER_FITS


@pytest.mark.parametrize(("limit", "fits"), [("", True), (", borrowingLimit: 2", False)])
def test_the_most_that_can_be_borrowed_decides(limit: str, fits: bool) -> None:
    borrower = queue("guest", cohort="lab", a=4).replace(
        "nominalQuota: 4", f"nominalQuota: 4{limit}"
    )
    world = (flavor("a"), queue("owner", cohort="lab", a=4), borrower)

    result = play(
        world, job("own", on="owner", run=HOUR, gpus=1), job("big", on="guest", at=1.0, gpus=7)
    )

    assert run(result, "big").outcome is (JobOutcome.FINISHED if fits else JobOutcome.NEVER_FITS)


def test_a_job_that_can_begin_with_fewer_pods_fits() -> None:
    flexible = job("x", gpus=16)._replace(pods=16, pods_min=4)
    stiff = job("y", gpus=16)._replace(pods=16, pods_min=5)

    result = play(FOUR, flexible, stiff)

    assert outcomes(result) == {"x": JobOutcome.FINISHED, "y": JobOutcome.NEVER_FITS}


def test_a_job_without_machines_waits_for_the_end_of_the_stockout() -> None:
    dry = settings("stockouts: [{flavor: a, from: 0s, for: 2h}]")

    result = play((*FOUR, dry), job("x", gpus=4), job("big", gpus=5, at=1.0))

    assert run(result, "x").first_run_at == 2 * HOUR
    assert run(result, "big").outcome is JobOutcome.NEVER_FITS


def test_a_job_of_a_stopped_queue_waits_until_the_end() -> None:
    stopped = queue("closed", a=4, more="  stopPolicy: Hold\n")

    result = play((*FOUR, stopped), job("x", on="closed"), job("y", on="q", run=HOUR))

    assert outcomes(result) == {"x": JobOutcome.WAITING, "y": JobOutcome.FINISHED}
    assert result.is_complete
    assert result.waits_for_ever == 1


def test_a_job_that_waits_for_ever_is_no_quiet_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(
        "---\n".join((flavor("a"), queue("q", a=4, more="  stopPolicy: Hold\n")))
    )
    (tmp_path / "jobs.csv").write_text("name,queue,submit,run,gpus\nx,q,0,10,1\n")

    assert main(["simulate", "-f", "q.yaml", "--trace", "jobs.csv"]) == 0

    assert "1 job waits though nothing more will happen" in capsys.readouterr().out
