"""What a server has now becomes a beginning: by its objects alone, with zero for now."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest

from makeway.api.configuration import Configuration
from makeway.api.times import format_time
from makeway.beside import Beside
from makeway.cli.expectations import lines
from makeway.forecast.forecaster import Forecaster, answer, memory_max
from makeway.forecast.forecasting import Question, Verdict, forecast
from makeway.forecast.live import LiveState, live_state
from makeway.forecast.playing import draw, play
from makeway.forecast.recorded_past import EndedJob
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.knobs import parse_turn
from makeway.sim.measuring import parse_measure
from makeway.sim.record import JobOutcome
from makeway.sim.simulate import changed_cluster
from makeway.sim.trace_jobs import SimulationError
from tests.forecast.lab import key
from tests.harness.documents import (
    condition,
    flavor,
    local_queue,
    queue,
    requesting,
    template,
    workload,
)
from tests.harness.engine import queue as engine_queue
from tests.journal.stories import RecordedScenario
from tests.sim.worlds import HOUR, MINUTE

NOW, DAY = 1_800_000_000.0, 24 * HOUR
CONFIGURATION = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
Document = dict[str, Any]


def at(ago_s: float) -> str:
    return format_time(NOW - ago_s)


def is_true(type_: str, ago_s: float) -> Document:
    return condition(type_, reason="x", lastTransitionTime=at(ago_s))


def sent(name: str, ago_s: float, **more: Any) -> Document:
    """A Workload of one CPU."""
    pods = {"name": "main", "count": 1, "template": template(containers=[requesting(1)])}
    found = workload(name, queueName="team", podSets=[pods], **more.pop("spec", {}))
    found["metadata"] |= {
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": at(ago_s),
        "annotations": {"makeway.dev/submitted-by": "ann"},
    }
    return {**found, **more}


def held(name: str, ago_s: float, *conditions: Document) -> Document:
    """Since its creation it has a CPU of flavor default."""
    assigned = {
        "name": "main",
        "flavors": {"cpu": "default"},
        "resourceUsage": {"cpu": "1"},
        "count": 1,
    }
    status = {
        "admission": {"clusterQueue": "vision", "podSetAssignments": [assigned]},
        "conditions": [is_true("QuotaReserved", ago_s), is_true("Admitted", ago_s), *conditions],
    }
    return sent(name, ago_s, status=status)


QUEUES = [
    flavor("default"),
    queue("vision", 1),
    local_queue("team", "vision"),
    local_queue("lost", "nowhere"),  # on a server that is no error
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
]
PAST = [
    held(f"old-{n}", n * HOUR + run_s, is_true("Finished", n * HOUR))
    for n, run_s in ((2, 3000.0), (3, 3600.0), (4, 4200.0), (5, 3300.0))
]
RUNNING = held("old-7", 30 * MINUTE, is_true("PodsReady", 30 * MINUTE))
PRESENT = [*QUEUES, *PAST, RUNNING, sent("old-8", 10 * MINUTE)]


def state(*more: Document) -> LiveState:
    return live_state([*PRESENT, *more], NOW, Configuration())


def test_objects_become_a_beginning_at_zero() -> None:
    found = state()

    running, waiting = found.beginning.jobs
    assert found.beginning.at == 0
    assert running.run_from == running.status.admitted_at == -30 * MINUTE
    assert waiting.workload.created_at == -10 * MINUTE
    assert waiting.status.assignment is None
    assert waiting.job.user == "ann"
    assert [one.job.job.run_s for one in found.ended] == [3300.0, 4200.0, 3600.0, 3000.0]


def test_who_waits_starts_when_who_runs_ends() -> None:
    found = state()

    answer = forecast(found.situation(found.cluster()), Question(asked=[key("old-8")]))

    start = answer.jobs[key("old-8")].start
    assert start is not None
    # Of 50 to 70 minutes 30 are over.
    assert 1199 <= start.p10 <= start.p50 <= start.p90 <= 2401


def test_a_limit_of_the_workload_bounds_it() -> None:
    found = state(sent("capped", 60.0, spec={"maximumExecutionTimeSeconds": 600}))

    assert found.beginning.jobs[-1].job.requested_s == 600.0


def test_the_other_process_answers_in_json() -> None:
    huge = sent("huge", 60.0)
    huge["spec"]["podSets"][0]["count"] = 2

    found = answer({"now": NOW, "configuration": CONFIGURATION, "documents": [*PRESENT, huge]})

    assert found["runs"] == 20
    assert found["items"]["default/old-8"]["verdict"] == Verdict.EXPECTED.value
    assert at(-20 * MINUTE) <= found["items"]["default/old-8"]["start"]["p50"] <= at(-40 * MINUTE)
    assert found["items"]["default/huge"]["verdict"] == Verdict.NEVER.value
    assert "maximum capacity" in found["items"]["default/huge"]["message"]


def test_who_is_held_is_told_so() -> None:
    waiting = sent("held", 60.0, spec={"active": False})

    found = answer({"now": NOW, "configuration": CONFIGURATION, "documents": [*PRESENT, waiting]})

    assert found["items"]["default/held"] == {
        "verdict": Verdict.UNKNOWN.value,
        "message": "it is held, or was given up: it waits for somebody to let it go on",
    }


def test_a_server_without_queues_has_nothing_to_expect() -> None:

    found = answer({"now": NOW, "configuration": CONFIGURATION, "documents": []})

    assert found["items"] == {}


def test_who_holds_what_its_queue_no_longer_has_runs_on() -> None:
    """Its flavor was taken out of the queue while it ran."""
    documents = [flavor("other"), queue("vision", 1, flavor="other"), *PRESENT[2:]]
    found = live_state(documents, NOW, Configuration())

    answer = forecast(found.situation(found.cluster()), Question(asked=[key("old-7")]))

    end = answer.jobs[key("old-7")].end
    assert end is not None
    assert 1199 <= end.p50 <= 2401


def test_what_if_i_apply_this_now() -> None:
    """With two CPUs the waiting one starts at once; the running one goes on where it is."""
    found = state()
    cluster = found.cluster()
    drawn = draw(found, found.situation(cluster), 24 * HOUR, seed=1)

    as_is = play(found, cluster, drawn)
    from_now = play(found, _with_two(cluster), drawn)

    assert as_is.job("old-8").first_run_at == as_is.job("old-7").ended_at
    assert from_now.job("old-8").first_run_at == 0
    assert from_now.job("old-7").ended_at == as_is.job("old-7").ended_at
    assert from_now.outcomes[JobOutcome.FINISHED] == 2
    assert from_now.outcomes[JobOutcome.TO_COME] == 0
    assert as_is.wait().longest > from_now.wait().longest == 10 * MINUTE


def test_what_was_done_before_now_is_no_part_of_what_follows() -> None:
    """One CPU, one job after the other: from now on it is in use all the time."""
    found = state()
    cluster = found.cluster()
    drawn = draw(found, found.situation(cluster), 24 * HOUR, seed=1)

    result = play(found, cluster, drawn)

    last = result.job("old-8").ended_at
    assert result.makespan.seconds == last == result.end
    assert result.makespan.work_s == pytest.approx(last)
    assert result.makespan.unused_s == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(SimulationError, match="all are there from the beginning"):
        play(found, cluster, drawn, measure=parse_measure("steady"))


def test_who_is_there_may_preempt_who_is_there() -> None:
    urgent = sent("urgent", 60.0, spec={"priority": 10})
    in_queue = queue("vision", 1, preemption={"withinClusterQueue": "LowerPriority"})
    documents = [QUEUES[0], in_queue, *PRESENT[2:], urgent]
    found = live_state(documents, NOW, Configuration())
    cluster = found.cluster()

    played = play(found, cluster, draw(found, found.situation(cluster), DAY, seed=1))

    ((queues, preempted),) = played.preemptions_by_queues.items()
    assert (queues, preempted.jobs) == (("vision", "vision"), 1)
    assert played.job("urgent").first_run_at == 0


def _with_two(cluster: SimulatedCluster) -> SimulatedCluster:
    return changed_cluster(cluster, (), [parse_turn("quota of queue vision=2")])[0]


def test_jobs_that_are_deleted_teach_by_the_journal(tmp_path: Path) -> None:
    """Three days ago four of its name ran for an hour each, and nothing is left of them."""
    lab = RecordedScenario(
        tmp_path, engine_queue("team", cpu=1000), cohort="lab", now=NOW - 3 * DAY
    )
    for n in range(4):
        lab.pending(f"job-train-{n}-0a1b{n}", on="team", cpu=1000)
        lab.cycle()
        lab.later(HOUR).finish(f"job-train-{n}-0a1b{n}")
        lab.remove(f"job-train-{n}-0a1b{n}")
    journal = lab.journal()
    written = [
        [base64.b64encode(part).decode() for part in (segment.header, *segment.chunks)]
        for segment in journal.newest(1_000_000)
    ]
    journal.close()
    documents = [*QUEUES, held("train-8", 30 * MINUTE), sent("train-9", 10 * MINUTE)]
    question = {"now": NOW, "configuration": CONFIGURATION, "documents": documents}

    known, blank = answer({**question, "journal": written}), answer(question)

    assert blank["items"]["default/train-9"]["verdict"] == Verdict.UNKNOWN.value
    assert blank["past"]["jobs"] == 0
    expected = known["items"]["default/train-9"]
    assert expected["basis"] == "jobs of the same queue, name and shape (5)"  # with who runs
    assert expected["start"]["p10"] == expected["start"]["p90"] == at(-30 * MINUTE)
    assert expected["end"]["p50"] == at(-90 * MINUTE)
    assert known["past"] == {"jobs": 4, "deletedJobs": 4, "since": at(3 * DAY)}
    assert known["assumptions"] == []  # days of the past are known, so others come


def test_an_object_that_is_there_tells_more_than_the_journal() -> None:
    """Its user, for one; so it is learnt from the object, and once."""
    old = EndedJob("old-2", state().ended[-1].job.workload, 99.0, NOW - 2 * HOUR)

    found = live_state(PRESENT, NOW, Configuration(), [old])

    assert [one.job.job.run_s for one in found.ended] == [3300.0, 4200.0, 3600.0, 3000.0]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ValueError("MemoryError"), "too little memory is left to reckon it"),
        (subprocess.TimeoutExpired("python", 600.0), "to reckon it takes more than 600 s"),
        (ValueError("no queue of bob/secret"), "it can't be reckoned; the server's log says why"),
    ],
)
def test_a_forecast_that_fails_is_not_coming_for_ever(
    error: Exception, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where there was one, once that is old."""

    def ask(*_: Any) -> Document:
        if not answers:
            raise error
        return answers.pop()

    async def story() -> list[Document]:
        now = [NOW]
        forecaster = Forecaster(lambda: (), lambda: now[0], Configuration(), lambda: now[0])
        told = []
        for _ in range(3):
            told.append(forecaster.one("default", "train"))
            await forecaster.stop()  # once it is made
            now[0] += 61
        return told

    expected = {"verdict": "Expected"}
    answers = [{"items": {"default/train": expected}, "runs": 20, "assumptions": []}]
    monkeypatch.setattr(Beside, "ask", ask)
    for rest in ("REST_LEAST_S", "REST_FACTOR"):
        monkeypatch.setattr(f"makeway.forecast.forecaster.{rest}", 0.0)
    first, made, failed = asyncio.run(story())

    assert (first["verdict"], made["verdict"]) == ("Coming", "Expected")
    assert (failed["verdict"], failed["failure"]) == ("Unknown", why)
    assert lines(failed, has_started=False) == [f"When it starts: unknown; {why}"]


def test_a_forecast_takes_no_more_memory_than_a_container_has_left(tmp_path: Path) -> None:
    assert memory_max(tmp_path) == 4 << 30
    (tmp_path / "memory.current").write_text(f"{3 << 30}\n")
    pages = f"anon {1 << 30}\ninactive_file {2 << 30}\n"  # of files: the kernel takes them back
    (tmp_path / "memory.stat").write_text(pages)
    for limit, most in (("max", 4 << 30), (f"{2 << 30}", 768 << 20), (f"{1 << 29}", 0)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert memory_max(tmp_path) == most
