"""How assignments stand in the status of a Workload: written as clients in Go would write them.

An admission can't be changed once it is set, so what others have written is compared by meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from makeway.api.quantity import amount as amount_of
from makeway.api.quantity import amount_in_object
from makeway.client.client import Document
from makeway.engine.model import Assignment, WorkloadStatus


def assignments_in(assignment: Assignment) -> list[Document]:
    """Without empty maps: clients in Go drop them."""
    return [
        {
            "name": pod_set.name,
            "count": pod_set.count,
            **({"flavors": dict(pod_set.flavors)} if pod_set.flavors else {}),
            **({"resourceUsage": amounts_in(pod_set.usage)} if pod_set.usage else {}),
        }
        for pod_set in assignment.pod_sets
    ]


def amounts_in(amounts: Iterable[tuple[str, int]]) -> Document:
    return {resource: amount_in_object(resource, amount) for resource, amount in amounts}


def is_admission_of(document: Document, status: WorkloadStatus) -> bool:
    """Whether its admission says the same, however whoever wrote it has spelled it."""
    old = (document.get("status") or {}).get("admission")
    if not old or old.get("clusterQueue") != status.queue or status.assignment is None:
        return False
    asked = {ps.get("name", "main"): ps.get("count", 1) for ps in document["spec"]["podSets"]}
    there = [_meaning(assigned, asked) for assigned in old.get("podSetAssignments") or ()]
    return there == [
        (pod_set.name, pod_set.count, dict(pod_set.flavors), dict(pod_set.usage))
        for pod_set in status.assignment.pod_sets
    ]


def _meaning(assigned: Document, asked: Mapping[str, int]) -> tuple[object, ...]:
    """An assignment as the engine has it; `asked` are the counts of pod sets."""
    name, flavors = assigned.get("name", "main"), assigned.get("flavors") or {}
    count, usage = assigned.get("count"), assigned.get("resourceUsage") or {}
    amounts = {r: amount_of(r, quantity) for r, quantity in usage.items() if r in flavors}
    return name, asked.get(name, 0) if count is None else count, flavors, amounts
