"""What a restart finds again in the objects, and that it goes on as if there had been none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from makeway.api import queueing
from makeway.api.codec import decode_as
from makeway.api.kinds import FLAVORS, LOCAL_QUEUES, QUEUES, WORKLOADS
from makeway.controller.status_patches import status_patch
from makeway.controller.statuses import Condition, StatusUpdate
from makeway.engine.model import (
    Assignment,
    Claim,
    Eviction,
    EvictionReason,
    FlavorName,
    FlavorResource,
    FlavorTrial,
    PodSetAssignment,
    PodSetName,
    Preemptions,
    QueueName,
    ResourceName,
    Trigger,
    WorkloadKey,
    WorkloadStatus,
    phase_of,
)
from makeway.plane.parts import Outcome
from makeway.plane.writes import Key, ObjectWrite, Patch
from makeway.translate.workloads import status_of
from tests.harness import documents
from tests.harness.queues import QueuePlane, local_queue

CPU, MEMORY = ResourceName("cpu"), ResourceName("memory")
SPOT, RESERVED = FlavorName("spot"), FlavorName("reserved")
PLACE = Assignment(
    (
        PodSetAssignment(
            name=PodSetName("main"),
            count=2,
            flavors=((CPU, SPOT), (MEMORY, RESERVED)),
            usage=((CPU, 1500), (MEMORY, 3 * 2**30)),
        ),
    )
)
HELD_BEFORE = {
    FlavorResource(RESERVED, MEMORY): 2**30,
    FlavorResource(SPOT, CPU): 500,
    FlavorResource(SPOT, MEMORY): 2**30,
}
MADE_WAY = Eviction(EvictionReason.PREEMPTED, 1_000.0, WorkloadKey("lab/big"))
TRIALS = (
    FlavorTrial(SPOT, 900.0, 950.0, Trigger.TIMEOUT),
    FlavorTrial(RESERVED, 960.0),
)


# --- what is written is read again ---


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(WorkloadStatus(claim=Claim()), id="a mere claim"),
        pytest.param(WorkloadStatus(claim=Claim(PLACE)), id="a claim on a place"),
        pytest.param(
            WorkloadStatus(claim=Claim(PLACE, HELD_BEFORE)), id="what its queue held before"
        ),
        pytest.param(WorkloadStatus(preemptions=Preemptions(3, 990.25)), id="preemptions"),
        pytest.param(WorkloadStatus(first_attempt_at=990.25), id="the first attempt"),
        pytest.param(WorkloadStatus(requeue_count=2, requeue_at=1_060.5), id="a back-off"),
        pytest.param(WorkloadStatus(history=TRIALS), id="flavors tried"),
        pytest.param(
            WorkloadStatus(assignment=PLACE, queue=QueueName("a"), eviction=MADE_WAY),
            id="a victim that holds on",
        ),
    ],
)
def test_what_only_we_know_of_a_workload_is_found_again(status: WorkloadStatus) -> None:
    plane = QueuePlane()
    plane.submit("train", 1)

    write(plane, status)
    found = read(plane)

    assert found._replace(reserved_at=None, admitted_at=None) == status


def test_what_is_over_is_taken_out_of_the_object() -> None:
    plane = QueuePlane()
    plane.submit("train", 1)
    write(plane, WorkloadStatus(claim=Claim(PLACE, HELD_BEFORE), preemptions=Preemptions(1, 990.0)))
    assert len(plane.status("train")["preemption"]["claim"]["heldBefore"]) == 2  # flavors
    write(plane, WorkloadStatus(claim=Claim(PLACE), preemptions=Preemptions(1, 990.0)))
    assert "heldBefore" not in plane.status("train")["preemption"]["claim"]
    assert read(plane).claim == Claim(PLACE)

    write(plane, WorkloadStatus(preemptions=Preemptions(1, 990.0)))
    assert plane.status("train")["preemption"] == {"count": 1, "lastTime": "1970-01-01T00:16:30Z"}
    write(plane, WorkloadStatus())

    assert "preemption" not in plane.status("train")


def write(plane: QueuePlane, status: WorkloadStatus) -> None:
    """As the controller would."""
    told = []
    if status.assignment is not None:
        told.append(Condition("QuotaReserved", "True", "QuotaReserved", ""))
    if status.eviction is not None:
        told.append(Condition("Evicted", "True", status.eviction.reason.value, ""))
    document = plane.get(WORKLOADS, Key("lab", "train"))
    update = StatusUpdate(tuple(told))
    known = plane.admission.engine.view[WorkloadKey("lab/train")]
    known = known._replace(status=status, phase=phase_of(True, status))
    patch = status_patch(document, known, update, 1_000.0, lets_go=False)
    plane.tell("train", **patch["status"])


def read(plane: QueuePlane) -> WorkloadStatus:
    view = decode_as(queueing.Workload, plane.get(WORKLOADS, Key("lab", "train"))).object
    assert view is not None
    return status_of(view)


# --- in the middle of a preemption ---


class TwoFlavors(QueuePlane):
    """A queue `c` of 4 cpu reserved and 4 cpu spot; it preempts where it can, the first first."""

    def __init__(self) -> None:
        super().__init__()
        for flavor in ("reserved", "spot"):
            self.create(FLAVORS, {"metadata": {"name": flavor}, "spec": {}})
        groups = documents.group("cpu", flavor="reserved")
        groups["flavors"] += documents.group("cpu", flavor="spot")["flavors"]
        self.create(
            QUEUES,
            documents.cluster_queue(
                "c",
                resourceGroups=[groups],
                preemption={"withinClusterQueue": "LowerPriority"},
                flavorFungibility={"whenCanPreempt": "MayStopSearch"},
            ),
        )
        self.create(LOCAL_QUEUES, local_queue("c"))

    def flavor_of(self, name: str) -> str:
        (assigned,) = self.status(name)["admission"]["podSetAssignments"]
        return str(assigned["flavors"]["cpu"])


def preempting(plane: TwoFlavors) -> TwoFlavors:
    """`big` has made `low` give way on spot; then `quick` came by on reserved."""
    for name, priority in (("urgent", 9), ("low", 0)):
        plane.submit(name, 4, queue="c", owned=True, priority=priority)
        plane.settle()
    plane.submit("big", 4, queue="c", priority=5)
    plane.settle()
    plane.add_condition("urgent", "Finished", "True", "Succeeded")
    plane.submit("quick", 4, queue="c", owned=True)
    plane.settle()
    assert (plane.flavor_of("low"), plane.flavor_of("quick")) == ("spot", "reserved")
    assert plane.condition_of("low", "Evicted") == ("True", "Preempted")
    return plane


def test_a_restart_chooses_the_same_flavor_and_no_further_victim() -> None:
    plane = preempting(TwoFlavors())

    plane.restart()
    plane.settle()
    assert plane.condition_of("quick", "Evicted") == ("", "")
    plane.let_go("low")
    plane.settle()

    assert plane.flavor_of("big") == "spot"
    assert plane.admitted() >= {"big", "quick"}


def test_who_looks_at_a_workload_sees_whom_it_waits_for_and_for_whom_it_made_way() -> None:
    plane = preempting(TwoFlavors())

    assert plane.status("low")["preemption"] == {"preemptedBy": "lab/big"}
    (claimed,) = plane.status("big")["preemption"]["claim"]["podSetAssignments"]
    assert claimed["flavors"] == {"cpu": "spot"}
    assert claimed["resourceUsage"] == {"cpu": "4"}

    plane.let_go("low")
    plane.settle()
    assert "claim" not in plane.status("big").get("preemption", {})
    plane.add_condition("quick", "Finished", "True", "Succeeded")
    plane.settle()

    assert plane.flavor_of("low") == "reserved"
    assert "preemptedBy" not in plane.status("low").get("preemption", {})


class Forgetful(TwoFlavors):
    """On a server with the kinds of somebody else, who does not know that field."""

    def carry_out(self, write: ObjectWrite) -> Outcome:
        if isinstance(write, Patch):
            status = {k: v for k, v in write.patch.get("status", {}).items() if k != "preemption"}
            write = replace(write, patch={**write.patch, "status": status})
        return super().carry_out(write)


def test_a_server_that_does_not_keep_a_claim_keeps_that_there_is_one() -> None:
    plane = preempting(Forgetful())
    writes = len(plane.sent)

    plane.run(60)
    assert len(plane.sent) - writes <= 2  # reasons for waiting at most
    plane.let_go("low")
    plane.settle()
    assert plane.flavor_of("big") == "spot"


def test_a_restart_goes_on_counting_preemptions() -> None:
    plane = QueuePlane()
    plane.submit("train", 1, queue="later")
    plane.tell("train", preemption={"count": 3, "lastTime": "1970-01-01T00:16:00Z"})

    plane.restart()

    known = plane.admission.engine.view[WorkloadKey("lab/train")].status
    assert known.preemptions == Preemptions(3, 960.0)
