"""Workloads and queues on a desk, and the part that decides about them."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.configuration import Configuration
from makeway.client.client import ApiError, Conflict, Document, Unavailable
from makeway.client.resources import (
    CHECKS,
    FLAVORS,
    LOCAL_QUEUES,
    NAMESPACES,
    QUEUES,
    WORKLOAD_CLASSES,
    WORKLOADS,
)
from makeway.controller.admission import EXPLAINED_AFTER_S, PODS_TRUSTED_AFTER_S, Admission
from makeway.engine.model import QueueName, WorkloadKey
from makeway.plane.picture import Picture
from makeway.plane.writes import Key, Patch
from tests.controller.desk import Desk


class Hall(Desk):
    """Two queues of 4 cpu each, a and b, in a cohort; both take back what they lent."""

    def __init__(self, **spec: Any) -> None:
        picture = Picture()
        self.admission = Admission(picture, Configuration())
        super().__init__(picture, self.admission)
        self.put(NAMESPACES, {"metadata": {"name": "lab"}})
        self.put(FLAVORS, {"metadata": {"name": "any"}, "spec": {}})
        for name in "ab":
            self.put(QUEUES, queue(name, **spec))
            self.put(LOCAL_QUEUES, local_queue(name))

    def begin_anew(self) -> None:
        self.admission = Admission(self.picture, Configuration())
        self.restart(self.admission)

    def submit(
        self, name: str, cpu: int, *, queue: str = "a", owned: bool = False, **spec: Any
    ) -> None:
        self.put(WORKLOADS, workload(name, cpu, queue, owned, **spec))

    def status(self, name: str) -> Document:
        return dict(self.get(WORKLOADS, Key("lab", name)).get("status") or {})

    def condition(self, name: str, type: str) -> tuple[str, str]:
        for condition in self.status(name).get("conditions") or ():
            if condition["type"] == type:
                return condition["status"], condition["reason"]
        return "", ""

    def message(self, name: str, type: str) -> str:
        found = [c for c in self.status(name)["conditions"] if c["type"] == type]
        return str(found[0]["message"])

    def admitted(self) -> set[str]:
        names = {key.name for key in self.picture.keys(WORKLOADS)}
        return {name for name in names if self.condition(name, "Admitted")[0] == "True"}

    def tell(self, name: str, **status: Any) -> None:
        """Somebody else writes a part of the status."""
        self.edit(WORKLOADS, Key("lab", name), {"status": status}, "status")

    def add_condition(self, name: str, type: str, status: str, reason: str) -> None:
        old = [c for c in self.status(name).get("conditions") or () if c["type"] != type]
        new = {"type": type, "status": status, "reason": reason, "message": ""}
        new["lastTransitionTime"] = "1970-01-01T00:20:00Z"
        self.tell(name, conditions=[*old, new])

    def let_go(self, name: str) -> None:
        """Whoever runs an evicted workload says that its pods are gone."""
        kept = [c for c in self.status(name)["conditions"] if c["type"] == "Evicted"]
        self.tell(name, admission=None, conditions=kept)


def queue(name: str, **spec: Any) -> Document:
    quota = {"name": "cpu", "nominalQuota": "4"}
    flavors = [{"name": "any", "resources": [quota]}]
    return {
        "metadata": {"name": name},
        "spec": {
            "cohortName": "lab",
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
            **spec,
        },
    }


def local_queue(name: str) -> Document:
    return {"metadata": {"name": name, "namespace": "lab"}, "spec": {"clusterQueue": name}}


def workload(name: str, cpu: int, queue: str, owned: bool, **spec: Any) -> Document:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{name}"}
    return {
        "metadata": {
            "name": name,
            "namespace": "lab",
            "ownerReferences": [{**owner, "controller": True}] if owned else [],
        },
        "spec": {
            "queueName": queue,
            "podSets": [{"name": "main", "template": {"spec": {"containers": [container]}}}],
            **spec,
        },
    }


def test_what_fits_is_admitted_with_its_flavor_in_one_write() -> None:
    hall = Hall()
    hall.submit("train", 3)

    hall.settle()

    assert hall.condition("train", "QuotaReserved") == ("True", "QuotaReserved")
    assert hall.condition("train", "Admitted") == ("True", "Admitted")
    assert hall.status("train")["admission"] == {
        "clusterQueue": "a",
        "podSetAssignments": [
            {"name": "main", "count": 1, "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": "3"}}
        ],
    }
    assert len(hall.sent) == 1


def test_why_one_waits_is_written_when_it_has_waited_a_while() -> None:
    hall = Hall()
    hall.submit("big", 8)
    hall.submit("next", 2)

    hall.settle()
    assert hall.condition("next", "QuotaReserved") == ("", "")

    hall.settle(hall.now + EXPLAINED_AFTER_S)
    assert hall.condition("next", "QuotaReserved") == ("False", "WaitingForQuota")
    assert "insufficient unused quota for cpu in flavor any, 2 more needed" in hall.message(
        "next", "QuotaReserved"
    )


def test_a_victim_without_an_owner_lets_go_at_once() -> None:
    hall = Hall()
    hall.submit("borrower", 6)
    hall.settle()
    hall.submit("owner", 4, queue="b")

    hall.settle()

    assert hall.admitted() == {"owner"}
    assert hall.condition("borrower", "Preempted") == ("True", "InCohortReclamation")
    assert hall.status("borrower")["schedulingStats"]["evictions"][0]["count"] == 1
    assert {"Preempted", "PreemptedWorkload"} <= set(hall.reasons_said())


def test_a_victim_that_somebody_runs_holds_its_quota_until_its_pods_are_gone() -> None:
    hall = Hall()
    hall.submit("borrower", 6, owned=True)
    hall.settle()
    hall.submit("owner", 4, queue="b")
    hall.settle()
    assert hall.condition("borrower", "Evicted") == ("True", "Preempted")
    assert hall.condition("borrower", "QuotaReserved")[0] == "True"
    assert hall.condition("owner", "Preemptor")[0] == "True"

    hall.let_go("borrower")
    hall.settle()

    assert hall.condition("owner", "Admitted")[0] == "True"


def test_quota_is_counted_before_the_write_is_confirmed() -> None:
    hall = Hall(cohortName="")
    hall.submit("first", 3)
    hall.submit("second", 3)
    hall.refusals = [Unavailable("no answer")]

    hall.settle()

    assert hall.admitted() == set()  # the write failed, and is tried again in a while
    hall.settle(hall.now + 5)
    assert hall.admitted() == {"first"}


def test_a_conflict_is_solved_on_the_newer_document() -> None:
    hall = Hall()
    hall.submit("train", 3)
    hall.refusals = [Conflict(409, "Conflict", "changed meanwhile")]

    hall.settle(hall.now + 1)
    hall.settle(hall.now + 1)

    assert hall.admitted() == {"train"}


def test_a_write_that_was_not_answered_is_recognised_when_it_shows() -> None:
    hall = Hall()
    hall.submit("train", 3)
    hall.fates_unknown = 1

    hall.settle()
    hall.settle(hall.now + 5)

    assert hall.admitted() == {"train"}
    assert hall.admission.engine.state.queues[QueueName("a")].used == {("any", "cpu"): 3000}


def test_what_may_have_been_done_is_not_forgotten_when_it_is_refused_the_next_time() -> None:
    hall = Hall(cohortName="", preemption={})
    hall.submit("first", 3)
    hall.refusals = [Unavailable("no answer")]
    hall.settle()
    hall.submit("urgent", 3, priority=9)
    hall.refusals = [ApiError(500, "InternalError", "not now")]

    hall.settle(hall.now + 5)
    hall.settle(hall.now + 5)

    assert hall.admitted() == {"first"}


def test_a_refused_write_is_forgotten_and_blocks_nobody_else() -> None:
    hall = Hall(cohortName="")
    hall.submit("cursed", 3)
    hall.settle(hall.now)
    hall.submit("other", 1)
    hall.refusals = [ApiError(422, "Invalid", "no")]

    hall.settle(hall.now + 1)

    assert "cursed" in hall.admitted()


def test_a_refused_word_about_what_all_can_see_is_sent_again() -> None:
    hall = Hall()
    hall.submit("train", 2, owned=True)
    hall.settle()
    hall.add_condition("train", "Evicted", "True", "PreemptedInPlacement")
    hall.refusals = [ApiError(500, "InternalError", "the disk is full")]

    hall.settle()
    hall.settle(hall.now + 5)

    assert hall.status("train")["requeueState"]["count"] == 1
    assert hall.condition("train", "Evicted")[0] == "True"


def test_that_others_make_way_stays_written_though_its_queue_was_stopped_before() -> None:
    hall = Hall()
    hall.submit("borrower", 6, owned=True)
    hall.settle()
    hall.edit(QUEUES, Key("", "b"), {"spec": {"stopPolicy": "Hold"}})
    hall.submit("owner", 4, queue="b")
    hall.settle()
    hall.settle(hall.now + EXPLAINED_AFTER_S)
    assert hall.condition("owner", "QuotaReserved") == ("False", "Suspended")

    hall.edit(QUEUES, Key("", "b"), {"spec": {"stopPolicy": "None"}})
    hall.settle()
    hall.settle(hall.now + EXPLAINED_AFTER_S)

    assert hall.condition("borrower", "Evicted") == ("True", "Preempted")
    assert hall.condition("owner", "Preemptor")[0] == "True"


def test_flavors_that_are_forgiven_because_pods_are_ready_are_forgiven_in_the_objects() -> None:
    hall = Hall()
    hall.submit("train", 2, owned=True)
    hall.settle()
    tried = {"resourceFlavor": "any", "assignmentTime": "1970-01-01T00:01:00Z"}
    exhausted = {"exhaustedTime": "1970-01-01T00:02:00Z", "reason": "TimeoutForPodsReadyExceeded"}
    hall.tell("train", flavorAssignmentHistory=[{**tried, **exhausted}])
    hall.begin_anew()

    hall.add_condition("train", "PodsReady", "True", "Started")
    hall.settle()
    hall.settle(hall.now + PODS_TRUSTED_AFTER_S)

    [trial] = hall.status("train")["flavorAssignmentHistory"]
    assert "exhaustedTime" not in trial


def test_a_restart_finds_everything_in_the_objects() -> None:
    hall = Hall()
    hall.submit("borrower", 6, owned=True)
    hall.settle()
    hall.submit("owner", 4, queue="b")
    hall.settle()

    hall.begin_anew()
    hall.settle()
    hall.let_go("borrower")
    hall.settle()

    assert hall.admitted() == {"owner"}


def test_pods_that_become_ready_right_after_a_restart_are_not_overlooked() -> None:
    hall = Hall()
    hall.submit("train", 3, owned=True)
    hall.settle()
    hall.begin_anew()
    hall.settle()
    hall.add_condition("train", "PodsReady", "True", "Started")

    hall.settle(hall.now + PODS_TRUSTED_AFTER_S)

    assert hall.admission.engine.view[WorkloadKey("lab/train")].status.pods_ready


def test_what_another_controller_admitted_is_taken_over() -> None:
    hall = Hall(cohortName="")
    hall.submit("theirs", 3)
    hall.settle()
    theirs = hall.status("theirs")
    hall.begin_anew()
    hall.submit("mine", 3)
    hall.tell("mine", conditions=theirs["conditions"], admission=theirs["admission"])

    hall.settle()

    assert hall.admission.engine.state.queues[QueueName("a")].used == {("any", "cpu"): 6000}


def test_a_finished_workload_gives_its_place_to_the_next() -> None:
    hall = Hall(cohortName="")
    hall.submit("first", 4)
    hall.submit("second", 4)
    hall.settle()

    hall.add_condition("first", "Finished", "True", "Succeeded")
    hall.settle()

    assert hall.condition("second", "Admitted")[0] == "True"


def test_pods_that_need_no_place_any_more_free_quota_early() -> None:
    hall = Hall(cohortName="")
    hall.put(WORKLOADS, _many("wide", 4))
    hall.submit("next", 1)
    hall.settle()
    assert hall.admitted() == {"wide"}

    hall.tell("wide", reclaimablePods=[{"name": "main", "count": 2}])
    hall.settle()

    assert hall.admitted() == {"wide", "next"}


def _many(name: str, count: int) -> Document:
    document = workload(name, 1, "a", False)
    document["spec"]["podSets"][0]["count"] = count
    return document


def test_a_workload_starts_when_its_checks_are_ready() -> None:
    hall = Hall(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    hall.put(CHECKS, {"metadata": {"name": "budget"}, "spec": {"controllerName": "x"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    hall.edit(CHECKS, Key("", "budget"), {"status": {"conditions": [active]}}, "status")
    hall.submit("train", 2)
    hall.settle()
    assert hall.condition("train", "QuotaReserved")[0] == "True"
    assert hall.status("train")["admissionChecks"][0]["state"] == "Pending"

    check = {**hall.status("train")["admissionChecks"][0], "state": "Ready"}
    hall.tell("train", admissionChecks=[check])
    hall.settle()

    assert hall.condition("train", "Admitted")[0] == "True"


def test_a_rejected_check_deactivates_the_workload_in_its_spec_first() -> None:
    hall = Hall(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    hall.put(CHECKS, {"metadata": {"name": "budget"}, "spec": {"controllerName": "x"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    hall.edit(CHECKS, Key("", "budget"), {"status": {"conditions": [active]}}, "status")
    hall.submit("train", 2)
    hall.settle()
    check = {**hall.status("train")["admissionChecks"][0], "state": "Rejected"}
    hall.tell("train", admissionChecks=[check])

    hall.settle()

    assert not hall.get(WORKLOADS, Key("lab", "train"))["spec"]["active"]
    assert hall.condition("train", "Evicted") == ("True", "DeactivatedDueToAdmissionCheck")
    writes = [write for write in hall.sent if isinstance(write, Patch)]
    assert [bool(write.subresource) for write in writes] == [True, False, True]


def test_an_eviction_from_outside_is_obeyed_and_gets_its_back_off() -> None:
    hall = Hall()
    hall.submit("train", 2, owned=True)
    hall.settle()

    hall.add_condition("train", "Evicted", "True", "PreemptedInPlacement")
    hall.settle()

    assert hall.status("train")["requeueState"]["count"] == 1
    assert hall.condition("train", "QuotaReserved")[0] == "True"  # until its pods are gone


def test_a_queue_that_is_not_there_is_told_and_the_word_is_taken_back_when_it_comes() -> None:
    hall = Hall(cohortName="")
    hall.submit("big", 4, queue="later")
    hall.settle(hall.now + EXPLAINED_AFTER_S)
    hall.settle(hall.now + EXPLAINED_AFTER_S)
    assert hall.message("big", "QuotaReserved") == "LocalQueue lab/later doesn't exist"

    hall.put(LOCAL_QUEUES, {**local_queue("a"), "metadata": {"name": "later", "namespace": "lab"}})
    hall.settle()

    assert hall.admitted() == {"big"}


def test_a_stopped_queue_admits_nothing_and_says_so() -> None:
    hall = Hall(stopPolicy="Hold")
    hall.submit("train", 2)

    hall.settle(hall.now)
    hall.settle(hall.now + EXPLAINED_AFTER_S)

    assert hall.condition("train", "QuotaReserved") == ("False", "Suspended")


def test_an_annotation_makes_a_workload_harder_to_preempt() -> None:
    hall = Hall(cohortName="")
    hall.put(WORKLOAD_CLASSES, {"metadata": {"name": "nearly-done"}, "value": 500})
    nearly_done = workload("nearly-done", 4, "a", False)
    nearly_done["metadata"]["annotations"] = {
        "makeway.dev/preemption-priority-class": "nearly-done"
    }
    hall.put(WORKLOADS, nearly_done)
    hall.settle()
    hall.submit("important", 4, priority=100)

    hall.settle()
    assert hall.admitted() == {"nearly-done"}

    hall.edit(WORKLOAD_CLASSES, Key("", "nearly-done"), {"value": 50})
    hall.settle()
    assert hall.admitted() == {"important"}


@pytest.mark.parametrize("field", ["priority", "queueName"])
def test_an_edit_of_a_waiting_workload_counts(field: str) -> None:
    hall = Hall(cohortName="")
    hall.submit("holder", 4)
    hall.settle()
    hall.submit("waiting", 4)
    hall.settle()

    change = {"priority": 7} if field == "priority" else {"queueName": "b"}
    hall.edit(WORKLOADS, Key("lab", "waiting"), {"spec": change})
    hall.settle()

    assert "waiting" in hall.admitted()


def test_who_was_given_up_stays_so_though_its_class_changes_meanwhile() -> None:
    hall = Hall(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    hall.put(CHECKS, {"metadata": {"name": "budget"}, "spec": {"controllerName": "x"}})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    hall.edit(CHECKS, Key("", "budget"), {"status": {"conditions": [active]}}, "status")
    hall.put(WORKLOAD_CLASSES, {"metadata": {"name": "dear"}, "value": 5})
    train = workload("train", 2, "a", False)
    train["metadata"]["annotations"] = {"makeway.dev/preemption-priority-class": "dear"}
    hall.put(WORKLOADS, train)
    hall.settle()
    check = {**hall.status("train")["admissionChecks"][0], "state": "Rejected"}
    hall.tell("train", admissionChecks=[check])
    hall.refusals = [Unavailable("no answer")]
    hall.settle()

    hall.edit(WORKLOAD_CLASSES, Key("", "dear"), {"value": 6})
    hall.settle(hall.now + 5)

    assert not hall.get(WORKLOADS, Key("lab", "train"))["spec"]["active"]
