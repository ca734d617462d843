"""What is written in objects, and read in them, of preemption that people accept."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.configuration import AdmissionFairSharing, Configuration
from makeway.api.kinds import JOBS, LOCAL_QUEUES, QUEUES, WORKLOADS
from makeway.api.labels import DISRUPTION_COSTS, LAST_CHECKPOINT, ON_PREEMPTION
from makeway.api.times import parse_time
from makeway.client.client import Document
from makeway.controller.queue_status import EVERY_S, QueueStatus
from makeway.controller.visibility import Visibility
from makeway.engine.model import LocalQueueKey, Phase, QueueName, WorkloadKey
from makeway.plane.writes import Key
from tests.harness import documents
from tests.harness.jobs import TRAIN, JobPlane
from tests.harness.queues import QueuePlane


def preempting(**fields: Any) -> dict[str, Any]:
    return {"preemption": {"withinClusterQueue": "LowerPriority", **fields}, "cohortName": ""}


def lines(plane: QueuePlane, name: str) -> list[str]:
    visibility = Visibility(plane.admission.engine, plane.picture, lambda: plane.now)
    answer = visibility.explain("lab", name)
    assert answer is not None
    return list(answer["lines"])


# --- waiting before preempting, protection ---


def test_the_first_attempt_is_written_down_and_counts_after_a_restart() -> None:
    plane = QueuePlane(**preempting(triggerAfterWorkloadWaitingSeconds=600))
    plane.submit("train", 4, owned=True)
    plane.settle()
    plane.submit("urgent", 4, priority=9)
    plane.settle()
    first = plane.status("urgent")["preemption"]["firstAttemptTime"]
    assert plane.condition_of("urgent", "QuotaReserved") == ("False", "PreemptsLater")
    told = "it may preempt from 1970-01-01T00:26:40Z on"
    assert told in plane.message("urgent", "QuotaReserved")
    assert any(told in line for line in lines(plane, "urgent"))

    plane.restart()
    plane.settle(parse_time(first) + 599)
    assert plane.condition_of("train", "Evicted") == ("", "")
    plane.settle(parse_time(first) + 600)
    assert plane.condition_of("train", "Evicted") == ("True", "Preempted")


def test_explain_says_until_when_somebody_is_protected_and_what_it_would_cost() -> None:
    plane = QueuePlane(**preempting(minRuntimeSeconds=1200))
    plane.submit("train", 4, owned=True)
    plane.settle()
    plane.add_condition("train", "PodsReady", "True", "Started")  # at 00:20:00
    plane.submit("urgent", 4, priority=9)
    plane.settle(1_380.0)

    assert any(
        "protected until 1970-01-01T00:40:00Z (has run 3m of 20m)" in line
        for line in lines(plane, "train")
    )
    told = lines(plane, "urgent")
    assert any("stays: protected until 1970-01-01T00:40:00Z" in line for line in told)
    assert any("it may preempt from 1970-01-01T00:40:00Z on (in 17m)" in line for line in told)
    assert "- a lower preemption.minRuntimeSeconds of ClusterQueue a" in told
    plane.settle(2_400.0)
    assert plane.condition_of("train", "Evicted") == ("True", "Preempted")


def test_a_checkpoint_at_the_workload_is_heard_of() -> None:
    plane = QueuePlane(**preempting(workloadSorting=["ByLeastWorkLost"]))
    for name in ("a", "b"):
        plane.submit(name, 2, owned=True)
        plane.settle()
        plane.add_condition(name, "PodsReady", "True", "Started")
    plane.settle(5_000.0)
    noted = {"metadata": {"annotations": {LAST_CHECKPOINT: "1970-01-01T01:23:00Z"}}}
    plane.edit(WORKLOADS, Key("lab", "a"), noted)
    plane.settle(5_100.0)
    assert "To preempt it now would cost 2m of work, all since its last checkpoint" in lines(
        plane, "a"
    )
    plane.submit("urgent", 2, priority=9)
    plane.settle()
    assert plane.condition_of("a", "Evicted") == ("True", "Preempted")


# --- not queued again ---


def test_a_workload_that_nobody_runs_is_finished_when_it_had_to_make_way() -> None:
    plane = QueuePlane(**preempting())
    plane.submit("notebook", 4, onPreemption="Terminate")
    plane.settle()
    plane.submit("urgent", 4, priority=9)
    plane.settle()
    assert plane.condition_of("notebook", "Finished") == ("True", "TerminatedOnPreemption")
    assert plane.admitted() == {"urgent"}

    plane.add_condition("urgent", "Finished", "True", "Succeeded")
    plane.restart()
    plane.settle()
    assert plane.admission.engine.view[WorkloadKey("lab/notebook")].phase is Phase.FINISHED


def submitted(**annotations: str) -> JobPlane:
    plane = JobPlane()
    plane.submit(annotations=annotations)
    plane.settle()
    return plane


def test_a_job_that_had_to_make_way_ends_as_failed_and_is_not_suspended() -> None:
    plane = submitted(**{ON_PREEMPTION: "Terminate"})
    assert plane.workload["spec"]["onPreemption"] == "Terminate"
    plane.admit()
    plane.evict()

    job = plane.get(JOBS, TRAIN)
    (target,) = [c for c in job["status"]["conditions"] if c["type"] == "FailureTarget"]
    assert (target["status"], target["reason"]) == ("True", "TerminatedOnPreemption")
    assert "lab/eval" in target["message"]
    assert job["spec"]["suspend"] is False

    failed = {**target, "type": "Failed"}
    plane.edit(JOBS, TRAIN, {"status": {"conditions": [target, failed], "active": 0}}, "status")
    plane.settle()
    assert plane.condition_of("Finished")[0] == "True"


def test_any_other_eviction_queues_it_again() -> None:
    plane = submitted(**{ON_PREEMPTION: "Terminate"})
    plane.admit()
    plane.say("Evicted", "True", "PodsReadyTimeout")
    plane.settle()
    job = plane.get(JOBS, TRAIN)
    assert job["spec"]["suspend"] is True
    assert not [
        c for c in job.get("status", {}).get("conditions", ()) if c["type"] == "FailureTarget"
    ]


def test_annotations_of_a_job_become_the_spec_of_its_workload() -> None:
    plane = submitted(**{DISRUPTION_COSTS: "0=0, 60=100,600=0"})
    costs = [(0, 0), (60, 100), (600, 0)]
    assert plane.workload["spec"]["preemption"] == {
        "disruptionCostMilestones": [{"seconds": s, "cost": c} for s, c in costs]
    }
    plane.edit(JOBS, TRAIN, {"metadata": {"annotations": {DISRUPTION_COSTS: None}}})
    plane.settle()
    assert "preemption" not in plane.workload["spec"]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (ON_PREEMPTION, "Die", "write Requeue or Terminate"),
        (DISRUPTION_COSTS, "60=100,60=0", "such as 0=0,60=100,600=0"),
        (DISRUPTION_COSTS, "soon", "such as 0=0,60=100,600=0"),
        (LAST_CHECKPOINT, "yesterday", "write a time such as"),
    ],
)
def test_what_can_not_be_understood_is_told(key: str, value: str, told: str) -> None:
    plane = submitted(**{key: value})
    assert any(told in said for said in messages_said(plane))


def messages_said(plane: JobPlane) -> list[str]:
    return [say.message for say in plane.said]


def test_a_checkpoint_of_a_job_reaches_its_workload_and_one_at_the_workload_stays() -> None:
    at = "1970-01-01T01:00:00Z"
    plane = submitted(**{LAST_CHECKPOINT: at})
    assert plane.workload["metadata"]["annotations"][LAST_CHECKPOINT] == at

    other = submitted()
    noted = {"metadata": {"annotations": {LAST_CHECKPOINT: at}}}
    other.edit(WORKLOADS, other.workload_key, noted)
    other.settle()
    assert other.workload["metadata"]["annotations"][LAST_CHECKPOINT] == at


# --- budget ---


def test_what_counts_against_a_budget_is_written_down_and_found_again() -> None:
    plane = QueuePlane(QueueStatus, **preempting(budget={"evictionsPerHour": 1}))
    for name in ("a", "b"):
        plane.submit(name, 2)
        plane.settle()
    plane.submit("urgent", 2, priority=9)
    plane.settle(plane.now + EVERY_S)
    plane.settle(plane.now + EVERY_S)
    (caused,) = plane.get(QUEUES, Key("", "a"))["status"]["preemption"]["evictions"]
    assert caused["count"] == 1

    plane.restart()
    plane.submit("more", 2, priority=9)
    plane.settle()
    plane.run(2)
    view = plane.admission.engine.view
    assert len(view.caused_evictions(QueueName("a"))) == 1
    assert "The preemptors of its queue may cause 1 eviction(s)" in plane.message(
        "more", "QuotaReserved"
    )


# --- history ---


class Remembering(QueuePlane):
    """Queue a has two local queues, a and other; what they used a day ago counts half."""

    def __init__(self) -> None:
        scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        sharing = AdmissionFairSharing(usage_half_life_time=86_400.0)
        super().__init__(
            QueueStatus,
            configuration=Configuration(admission_fair_sharing=sharing),
            **preempting(),
            admissionScope=scope,
        )
        self.create(LOCAL_QUEUES, documents.local_queue("other", "a", "lab"))

    def past(self, name: str) -> Document:
        status = self.get(LOCAL_QUEUES, Key("lab", name))["status"]
        return dict(status["fairSharing"]["admissionFairSharingStatus"])


def test_usage_is_written_in_the_local_queue_at_every_sampling_and_found_again() -> None:
    plane = Remembering()
    plane.submit("train", 4, owned=True)
    plane.settle(1_000.0)
    plane.settle(1_000.0 + 86_400.0)
    plane.settle(plane.now + EVERY_S)
    past = plane.past("a")
    assert past["consumedResources"] == {"cpu": "2"}  # half of the 4 that it holds

    plane.restart()
    plane.submit("again", 4)
    plane.submit("first-time", 4, queue="other")
    plane.settle()
    engine = plane.admission.engine
    assert engine.waiting_in(QueueName("a")) == ("lab/first-time", "lab/again")
    usage = engine.view.past_usage(LocalQueueKey("lab/a"))
    assert usage is not None
    assert usage.usage == pytest.approx(2.0, abs=0.01)
    assert any("has used 2.0 times its share lately" in line for line in lines(plane, "again"))
    text = plane.metrics.text()
    assert 'kueue_local_queue_admission_fair_sharing_usage{name="a",namespace="lab"' in text


def test_a_local_queue_that_holds_nothing_is_not_written_again_and_again() -> None:
    plane = Remembering()
    plane.settle(plane.now + EVERY_S)
    writes = len(plane.sent)
    plane.run(3600)
    assert len(plane.sent) == writes
