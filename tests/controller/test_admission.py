"""Workloads and queues, and the part that decides about them."""

from __future__ import annotations

import pytest

from makeway.api.configuration import Configuration, PreemptionPriority, WaitForPodsReady
from makeway.api.kinds import (
    CHECKS,
    LOCAL_QUEUES,
    QUEUES,
    WORKLOAD_CLASSES,
    WORKLOADS,
)
from makeway.client.client import ApiError, Conflict, Document, Unavailable
from makeway.controller.admission import PODS_TRUSTED_AFTER_S
from makeway.controller.telling import EXPLAINED_AFTER_S
from makeway.engine.model import QueueName, WorkloadKey
from makeway.plane.writes import Key, Patch
from tests.harness.documents import requesting, template
from tests.harness.queues import QueuePlane, local_queue, workload


def test_what_fits_is_admitted_with_its_flavor_in_one_write() -> None:
    plane = QueuePlane()
    plane.submit("train", 3)

    plane.settle()

    assert plane.condition_of("train", "QuotaReserved") == ("True", "QuotaReserved")
    assert plane.condition_of("train", "Admitted") == ("True", "Admitted")
    assert plane.status("train")["admission"] == {
        "clusterQueue": "a",
        "podSetAssignments": [
            {"name": "main", "count": 1, "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": "3"}}
        ],
    }
    assert len(plane.sent) == 1


def test_why_one_waits_is_written_when_it_has_waited_a_while() -> None:
    plane = QueuePlane()
    plane.submit("big", 8)
    plane.submit("next", 2)

    plane.settle()
    assert plane.condition_of("next", "QuotaReserved") == ("", "")

    plane.settle(plane.now + EXPLAINED_AFTER_S)
    assert plane.condition_of("next", "QuotaReserved") == ("False", "WaitingForQuota")
    assert "insufficient unused quota for cpu in flavor any, 2 more needed" in plane.message(
        "next", "QuotaReserved"
    )


def test_a_victim_without_an_owner_lets_go_at_once() -> None:
    plane = QueuePlane()
    plane.submit("borrower", 6)
    plane.settle()
    plane.submit("owner", 4, queue="b")

    plane.settle()

    assert plane.admitted() == {"owner"}
    assert plane.condition_of("borrower", "Preempted") == ("True", "InCohortReclamation")
    assert plane.status("borrower")["schedulingStats"]["evictions"][0]["count"] == 1
    assert {"Preempted", "PreemptedWorkload"} <= set(plane.reasons_said())


def test_a_victim_that_somebody_runs_holds_its_quota_until_its_pods_are_gone() -> None:
    plane = QueuePlane()
    plane.submit("borrower", 6, owned=True)
    plane.settle()
    plane.submit("owner", 4, queue="b")
    plane.settle()
    assert plane.condition_of("borrower", "Evicted") == ("True", "Preempted")
    assert plane.condition_of("borrower", "QuotaReserved")[0] == "True"
    assert plane.condition_of("owner", "Preemptor")[0] == "True"

    plane.let_go("borrower")
    plane.settle()

    assert plane.condition_of("owner", "Admitted")[0] == "True"


def test_quota_is_counted_before_the_write_is_confirmed() -> None:
    plane = QueuePlane(cohortName="")
    plane.submit("first", 3)
    plane.submit("second", 3)
    plane.refusals = [Unavailable("no answer")]

    plane.settle()

    assert plane.admitted() == set()  # the write failed, and is tried again in a while
    plane.settle(plane.now + 5)
    assert plane.admitted() == {"first"}


def test_a_conflict_is_solved_on_the_newer_document() -> None:
    plane = QueuePlane()
    plane.submit("train", 3)
    plane.refusals = [Conflict(409, "Conflict", "changed meanwhile")]

    plane.settle(plane.now + 1)
    plane.settle(plane.now + 1)

    assert plane.admitted() == {"train"}


def test_a_write_that_was_not_answered_is_recognised_when_it_shows() -> None:
    plane = QueuePlane()
    plane.submit("train", 3)
    plane.fates_unknown = 1

    plane.settle()
    plane.settle(plane.now + 5)

    assert plane.admitted() == {"train"}
    assert plane.admission.engine.state.queues[QueueName("a")].used == {("any", "cpu"): 3000}


def test_what_may_have_been_done_is_not_forgotten_when_it_is_refused_the_next_time() -> None:
    plane = QueuePlane(cohortName="", preemption={})
    plane.submit("first", 3)
    plane.refusals = [Unavailable("no answer")]
    plane.settle()
    plane.submit("urgent", 3, priority=9)
    plane.refusals = [ApiError(500, "InternalError", "not now")]

    plane.settle(plane.now + 5)
    plane.settle(plane.now + 5)

    assert plane.admitted() == {"first"}


def test_a_refused_write_is_forgotten_and_blocks_nobody_else() -> None:
    plane = QueuePlane(cohortName="")
    plane.submit("cursed", 3)
    plane.settle(plane.now)
    plane.submit("other", 1)
    plane.refusals = [ApiError(422, "Invalid", "no")]

    plane.settle(plane.now + 1)

    assert "cursed" in plane.admitted()


def test_a_refused_word_about_what_all_can_see_is_sent_again() -> None:
    plane = QueuePlane()
    plane.submit("train", 2, owned=True)
    plane.settle()
    plane.add_condition("train", "Evicted", "True", "PreemptedInPlacement")
    plane.refusals = [ApiError(500, "InternalError", "the disk is full")]

    plane.settle()
    plane.settle(plane.now + 5)

    assert plane.status("train")["requeueState"]["count"] == 1
    assert plane.condition_of("train", "Evicted")[0] == "True"


def test_that_others_make_way_stays_written_though_its_queue_was_stopped_before() -> None:
    plane = QueuePlane()
    plane.submit("borrower", 6, owned=True)
    plane.settle()
    plane.edit(QUEUES, Key("", "b"), {"spec": {"stopPolicy": "Hold"}})
    plane.submit("owner", 4, queue="b")
    plane.settle()
    plane.settle(plane.now + EXPLAINED_AFTER_S)
    assert plane.condition_of("owner", "QuotaReserved") == ("False", "Suspended")

    plane.edit(QUEUES, Key("", "b"), {"spec": {"stopPolicy": "None"}})
    plane.settle()
    plane.settle(plane.now + EXPLAINED_AFTER_S)

    assert plane.condition_of("borrower", "Evicted") == ("True", "Preempted")
    assert plane.condition_of("owner", "Preemptor")[0] == "True"


def test_flavors_that_are_forgiven_because_pods_are_ready_are_forgiven_in_the_objects() -> None:
    plane = QueuePlane()
    plane.submit("train", 2, owned=True)
    plane.settle()
    tried = {"resourceFlavor": "any", "assignmentTime": "1970-01-01T00:01:00Z"}
    exhausted = {"exhaustedTime": "1970-01-01T00:02:00Z", "reason": "TimeoutForPodsReadyExceeded"}
    plane.tell("train", flavorAssignmentHistory=[{**tried, **exhausted}])
    plane.restart()

    plane.add_condition("train", "PodsReady", "True", "Started")
    plane.settle()
    plane.settle(plane.now + PODS_TRUSTED_AFTER_S)

    [trial] = plane.status("train")["flavorAssignmentHistory"]
    assert "exhaustedTime" not in trial


def test_a_restart_finds_everything_in_the_objects() -> None:
    plane = QueuePlane()
    plane.submit("borrower", 6, owned=True)
    plane.settle()
    plane.submit("owner", 4, queue="b")
    plane.settle()

    plane.restart()
    plane.settle()
    plane.let_go("borrower")
    plane.settle()

    assert plane.admitted() == {"owner"}


def test_pods_that_become_ready_right_after_a_restart_are_not_overlooked() -> None:
    plane = QueuePlane()
    plane.submit("train", 3, owned=True)
    plane.settle()
    plane.restart()
    plane.settle()
    plane.add_condition("train", "PodsReady", "True", "Started")

    plane.settle(plane.now + PODS_TRUSTED_AFTER_S)

    assert plane.admission.engine.view[WorkloadKey("lab/train")].status.pods_ready


def test_what_another_controller_admitted_is_taken_over() -> None:
    plane = QueuePlane(cohortName="")
    plane.submit("theirs", 3)
    plane.settle()
    theirs = plane.status("theirs")
    plane.restart()
    plane.submit("mine", 3)
    plane.tell("mine", conditions=theirs["conditions"], admission=theirs["admission"])

    plane.settle()

    assert plane.admission.engine.state.queues[QueueName("a")].used == {("any", "cpu"): 6000}


def test_a_finished_workload_gives_its_place_to_the_next() -> None:
    plane = QueuePlane(cohortName="")
    plane.submit("first", 4)
    plane.submit("second", 4)
    plane.settle()

    plane.add_condition("first", "Finished", "True", "Succeeded")
    plane.settle()

    assert plane.condition_of("second", "Admitted")[0] == "True"


def test_pods_that_need_no_place_any_more_free_quota_early() -> None:
    plane = QueuePlane(cohortName="")
    plane.create(WORKLOADS, _many("wide", 4))
    plane.submit("next", 1)
    plane.settle()
    assert plane.admitted() == {"wide"}

    plane.tell("wide", reclaimablePods=[{"name": "main", "count": 2}])
    plane.settle()

    assert plane.admitted() == {"wide", "next"}


def _many(name: str, count: int) -> Document:
    document = workload(name, 1, "a", False)
    document["spec"]["podSets"][0]["count"] = count
    return document


def test_a_workload_starts_when_its_checks_are_ready() -> None:
    plane = QueuePlane(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    plane.create(CHECKS, {"metadata": {"name": "budget"}, "spec": {"controllerName": "x"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    plane.edit(CHECKS, Key("", "budget"), {"status": {"conditions": [active]}}, "status")
    plane.submit("train", 2)
    plane.settle()
    assert plane.condition_of("train", "QuotaReserved")[0] == "True"
    assert plane.status("train")["admissionChecks"][0]["state"] == "Pending"

    check = {**plane.status("train")["admissionChecks"][0], "state": "Ready"}
    plane.tell("train", admissionChecks=[check])
    plane.settle()

    assert plane.condition_of("train", "Admitted")[0] == "True"


def test_a_rejected_check_deactivates_the_workload_in_its_spec_first() -> None:
    plane = QueuePlane(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    plane.create(CHECKS, {"metadata": {"name": "budget"}, "spec": {"controllerName": "x"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    plane.edit(CHECKS, Key("", "budget"), {"status": {"conditions": [active]}}, "status")
    plane.submit("train", 2)
    plane.settle()
    check = {**plane.status("train")["admissionChecks"][0], "state": "Rejected"}
    plane.tell("train", admissionChecks=[check])

    plane.settle()

    assert not plane.get(WORKLOADS, Key("lab", "train"))["spec"]["active"]
    assert plane.condition_of("train", "Evicted") == ("True", "DeactivatedDueToAdmissionCheck")
    writes = [write for write in plane.sent if isinstance(write, Patch)]
    assert [bool(write.subresource) for write in writes] == [True, False, True]


def test_an_eviction_from_outside_is_obeyed_and_gets_its_back_off() -> None:
    plane = QueuePlane()
    plane.submit("train", 2, owned=True)
    plane.settle()

    plane.add_condition("train", "Evicted", "True", "PreemptedInPlacement")
    plane.settle()

    assert plane.status("train")["requeueState"]["count"] == 1
    assert plane.condition_of("train", "QuotaReserved")[0] == "True"  # until its pods are gone


def test_the_back_off_that_another_of_us_has_set_is_obeyed() -> None:
    """Two lead at once: the other evicts, and we hear of it before we know that we lead no more."""
    plane = QueuePlane()
    plane.submit("train", 2, owned=True)
    plane.settle()
    plane.is_late = True
    plane.tell("train", requeueState={"count": 1, "requeueAt": "1970-01-01T00:20:00Z"})
    plane.add_condition("train", "Evicted", "True", "PodsReadyTimeout")
    plane.hear()
    plane.is_late = False
    plane.settle()

    plane.let_go("train")
    plane.settle(1_199.0)
    assert plane.admitted() == set()
    assert plane.status("train")["requeueState"]["count"] == 1
    plane.settle(1_200.0)

    assert plane.admitted() == {"train"}


def test_a_preemptor_that_lost_its_claim_is_none_in_the_objects_either() -> None:
    plane = QueuePlane()
    plane.submit("borrower", 6, owned=True)
    plane.settle()
    plane.submit("owner", 4, queue="b")
    plane.settle()
    assert plane.condition_of("owner", "Preemptor")[0] == "True"

    plane.edit(LOCAL_QUEUES, Key("lab", "b"), {"spec": {"stopPolicy": "Hold"}})
    plane.settle()

    assert plane.condition_of("owner", "Preemptor")[0] == "False"


def test_a_queue_that_is_not_there_is_told_and_the_word_is_taken_back_when_it_comes() -> None:
    plane = QueuePlane(cohortName="")
    plane.submit("big", 4, queue="later")
    plane.settle(plane.now + EXPLAINED_AFTER_S)
    plane.settle(plane.now + EXPLAINED_AFTER_S)
    assert plane.message("big", "QuotaReserved") == "LocalQueue later doesn't exist"

    plane.create(
        LOCAL_QUEUES, {**local_queue("a"), "metadata": {"name": "later", "namespace": "lab"}}
    )
    plane.settle()

    assert plane.admitted() == {"big"}


def test_a_stopped_queue_admits_nothing_and_says_so() -> None:
    plane = QueuePlane(stopPolicy="Hold")
    plane.submit("train", 2)

    plane.settle(plane.now)
    plane.settle(plane.now + EXPLAINED_AFTER_S)

    assert plane.condition_of("train", "QuotaReserved") == ("False", "Suspended")


def test_an_annotation_makes_a_workload_harder_to_preempt() -> None:
    plane = QueuePlane(cohortName="")
    plane.create(WORKLOAD_CLASSES, {"metadata": {"name": "nearly-done"}, "value": 500})
    nearly_done = workload("nearly-done", 4, "a", False)
    nearly_done["metadata"]["annotations"] = {
        "makeway.dev/preemption-priority-class": "nearly-done"
    }
    plane.create(WORKLOADS, nearly_done)
    plane.settle()
    plane.submit("important", 4, priority=100)

    plane.settle()
    assert plane.admitted() == {"nearly-done"}

    plane.change_class("nearly-done", 50)
    plane.settle()
    assert plane.admitted() == {"important"}


@pytest.mark.parametrize(("value", "stays"), [(100, "dear"), (101, "important")])
def test_how_much_harder_can_be_bounded(value: int, stays: str) -> None:
    bound = PreemptionPriority(max_distance=100)
    plane = QueuePlane(configuration=Configuration(preemption_priority=bound), cohortName="")
    plane.create(WORKLOAD_CLASSES, {"metadata": {"name": "dear"}, "value": value})
    dear = workload("dear", 4, "a", False)
    dear["metadata"]["annotations"] = {"makeway.dev/preemption-priority-class": "dear"}
    plane.create(WORKLOADS, dear)
    plane.settle()
    plane.submit("important", 4, priority=50)

    plane.settle()
    assert plane.admitted() == {stays}


@pytest.mark.parametrize("field", ["priority", "queueName"])
def test_an_edit_of_a_waiting_workload_counts(field: str) -> None:
    plane = QueuePlane(cohortName="")
    plane.submit("holder", 4)
    plane.settle()
    plane.submit("waiting", 4)
    plane.settle()

    change = {"priority": 7} if field == "priority" else {"queueName": "b"}
    plane.edit(WORKLOADS, Key("lab", "waiting"), {"spec": change})
    plane.settle()

    assert "waiting" in plane.admitted()


@pytest.mark.parametrize(
    ("change", "admitted_by"),
    [
        ({"queueName": "b"}, "b"),
        ({"podSets": [{"name": "main", "template": template(containers=[requesting(9)])}]}, None),
        ({"active": False}, None),
    ],
    ids=["another queue", "more than there is", "not to run"],
)
def test_an_edit_while_the_admission_is_on_its_way_is_decided_upon_anew(
    change: Document, admitted_by: str | None
) -> None:
    plane = QueuePlane()
    plane.submit("train", 2)
    ((part, admission),) = plane.ask()
    plane.edit(WORKLOADS, Key("lab", "train"), {"spec": change})
    plane.answer(part, admission)  # refused: it builds on the document before the edit

    plane.settle()

    assert (plane.status("train").get("admission") or {}).get("clusterQueue") == admitted_by
    queues = plane.admission.engine.state.queues
    holding = {name for name, queue in queues.items() if any(queue.used.values())}
    assert holding == ({admitted_by} if admitted_by else set())


def test_who_was_given_up_stays_so_though_its_class_changes_meanwhile() -> None:
    plane = QueuePlane(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    plane.create(CHECKS, {"metadata": {"name": "budget"}, "spec": {"controllerName": "x"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    plane.edit(CHECKS, Key("", "budget"), {"status": {"conditions": [active]}}, "status")
    plane.create(WORKLOAD_CLASSES, {"metadata": {"name": "dear"}, "value": 5})
    train = workload("train", 2, "a", False)
    train["metadata"]["annotations"] = {"makeway.dev/preemption-priority-class": "dear"}
    plane.create(WORKLOADS, train)
    plane.settle()
    check = {**plane.status("train")["admissionChecks"][0], "state": "Rejected"}
    plane.tell("train", admissionChecks=[check])
    plane.refusals = [Unavailable("no answer")]
    plane.settle()

    plane.change_class("dear", 6)
    plane.settle(plane.now + 5)

    assert not plane.get(WORKLOADS, Key("lab", "train"))["spec"]["active"]


def test_the_next_is_admitted_when_the_pods_of_the_last_are_ready_where_that_is_asked_for() -> None:
    waiting = WaitForPodsReady(timeout=300.0, block_admission=True)
    plane = QueuePlane(configuration=Configuration(wait_for_pods_ready=waiting))
    plane.submit("first", 1)
    plane.submit("second", 1, queue="b")
    plane.run(EXPLAINED_AFTER_S + 1)
    assert plane.admitted() == {"first"}
    assert plane.condition_of("second", "QuotaReserved") == ("False", "WaitingForPodsReady")
    assert "lab/first are not ready" in plane.message("second", "QuotaReserved")

    plane.add_condition("first", "PodsReady", "True", "Started")
    plane.settle()

    assert plane.admitted() == {"first", "second"}
