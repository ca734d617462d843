"""An admission is what it means: others spell it their way, and nobody is stuck because of that."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.kinds import FLAVORS, QUEUES, WORKLOADS
from makeway.api.quantity import canonical
from makeway.client.client import Document
from makeway.plane.writes import Key
from tests.harness import documents
from tests.harness.documents import condition, container, template
from tests.harness.queues import QueuePlane

ADMITTED = [condition("QuotaReserved"), condition("Admitted")]
GPU = "example.com/gpu"
IDLE = [{"name": "main", "count": 1, "template": template()}]  # asks for nothing


def with_gpus(count: str) -> list[Document]:
    resources = {"requests": {GPU: count}, "limits": {GPU: count}}
    pods = template(containers=[container(resources=resources)])
    return [{"name": "main", "count": 1, "template": pods}]


def gpu_plane() -> QueuePlane:
    """Queue a has 1000 GPUs, too, and lets the more important preempt."""
    plane = QueuePlane()
    groups = [documents.group("cpu", flavor="any"), documents.group(GPU, nominalQuota="1000")]
    plane.create(FLAVORS, documents.flavor("default"))
    plane.edit(QUEUES, Key("", "a"), {"spec": {"resourceGroups": groups}})
    return plane


def admitted_elsewhere(plane: QueuePlane, pod_sets: list[Document], **assigned: Any) -> None:
    plane.submit("foreign", 0, owned=True, podSets=pod_sets)
    admission = {"clusterQueue": "a", "podSetAssignments": [{"name": "main", **assigned}]}
    plane.tell("foreign", admission=admission, conditions=ADMITTED)
    plane.settle()
    assert plane.admitted() == {"foreign"}


SPELLINGS = {
    "as Go leaves empty maps out": (IDLE, {"count": 1}),
    "without a count": (IDLE, {}),
    "1k": (with_gpus("1k"), {"flavors": {GPU: "default"}, "resourceUsage": {GPU: "1k"}}),
    "1000": (with_gpus("1000"), {"flavors": {GPU: "default"}, "resourceUsage": {GPU: "1000"}}),
}


@pytest.mark.parametrize(("pod_sets", "assigned"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_what_another_admitted_can_be_deactivated(
    pod_sets: list[Document], assigned: Document
) -> None:
    plane = gpu_plane()
    admitted_elsewhere(plane, pod_sets, **assigned)
    before = plane.status("foreign")["admission"]

    plane.edit(WORKLOADS, Key("lab", "foreign"), {"spec": {"active": False}})
    plane.settle()

    assert plane.condition_of("foreign", "Evicted") == ("True", "Deactivated")
    assert plane.status("foreign")["admission"] == before, "its pods hold on"


def test_what_another_admitted_can_be_preempted() -> None:
    plane = gpu_plane()
    pods = with_gpus("1000")
    admitted_elsewhere(plane, pods, flavors={GPU: "default"}, resourceUsage={GPU: "1000"})

    plane.submit("urgent", 0, podSets=with_gpus("1"), priority=10)
    plane.settle()

    assert plane.condition_of("foreign", "Evicted") == ("True", "Preempted")
    plane.let_go("foreign")
    plane.settle()
    assert plane.admitted() == {"urgent"}


def test_an_admission_is_spelled_as_clients_in_go_would_spell_it() -> None:
    plane = gpu_plane()
    plane.submit("idle", 0, podSets=IDLE)
    plane.submit("large", 0, podSets=with_gpus("1000"))
    plane.settle()

    idle, large = (plane.status(name)["admission"] for name in ("idle", "large"))
    assert idle["podSetAssignments"] == [{"name": "main", "count": 1}]
    assert large["podSetAssignments"][0]["resourceUsage"] == {GPU: "1k"}


def rewritten(found: Document) -> Document:
    """As a client in Go writes what it has read: quantities anew, and without empty maps."""
    for assigned in found["status"]["admission"]["podSetAssignments"]:
        for field in ("flavors", "resourceUsage"):
            if not assigned.get(field):
                assigned.pop(field, None)
        for resource, written in assigned.get("resourceUsage", {}).items():
            assigned["resourceUsage"][resource] = canonical(written)
    return found


@pytest.mark.parametrize(("pod_sets", "assigned"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_client_that_reads_and_writes_a_status_is_not_refused(
    pod_sets: list[Document], assigned: Document
) -> None:
    plane = gpu_plane()
    admitted_elsewhere(plane, pod_sets, **assigned)

    found = rewritten(plane.get(WORKLOADS, Key("lab", "foreign")))
    plane.do(plane.client.replace(WORKLOADS, found, subresource="status"))
    plane.settle()

    assert plane.admitted() == {"foreign"}
