"""Which jobs must come to an end once it is calm: all but those that nothing could ever help."""

from __future__ import annotations

from makeway.api.quantity import amount
from tests.simulation.checkers import (
    QUEUE_NAME,
    Cell,
    Quotas,
    has,
    name_of,
    pod_requests,
)
from tests.simulation.witness import (
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    QUEUES,
    WORKLOADS,
    Document,
    Truth,
)


def unfinished(truth: Truth) -> list[str]:
    """Jobs that have not ended, though they could be admitted with nobody else around."""
    waiting = [
        job for job in truth.all(JOBS) if not has(job, "Complete") and not has(job, "Failed")
    ]
    if not waiting:
        return []
    hopeless = [job for job in waiting if not could_run(job, truth)]
    blocked = {_queue_name(job, truth) for job in hopeless if _is_strict(job, truth)}
    return [
        name_of(job)
        for job in waiting
        if job not in hopeless and _queue_name(job, truth) not in blocked
    ]


def could_run(job: Document, truth: Truth) -> bool:
    queue = truth.get(QUEUES, ("", _queue_name(job, truth)))
    if queue is None or queue["spec"].get("stopPolicy", "None") != "None":
        return False
    for workload in truth.owned_by(job["metadata"]["uid"], WORKLOADS):
        if workload["spec"].get("active") is False:
            return False
    (group,) = queue["spec"]["resourceGroups"]
    if any(truth.get(FLAVORS, ("", flavor["name"])) is None for flavor in group["flavors"]):
        return False  # such a queue is not active
    asked = pod_requests(job["spec"]["template"]["spec"])
    quotas, node = Quotas(truth), f"queue {queue['metadata']['name']}"
    return any(
        all(
            quotas.available(node, Cell(flavor["name"], resource))
            >= one * job["spec"]["parallelism"]
            for resource, one in asked.items()
        )
        and _has_place(flavor["name"], asked, truth)
        for flavor in group["flavors"]
    )


def _has_place(flavor: str, asked: dict[str, int], truth: Truth) -> bool:
    return any(
        all(
            amount(resource, node["status"]["allocatable"].get(resource, 0)) >= one
            for resource, one in asked.items()
        )
        for node in truth.all(NODES)
        if (node["metadata"].get("labels") or {}).get("flavor") == flavor
    )


def _queue_name(job: Document, truth: Truth) -> str:
    place = (job["metadata"]["namespace"], job["metadata"]["labels"][QUEUE_NAME])
    local = truth.get(LOCAL_QUEUES, place)
    return str(local["spec"]["clusterQueue"]) if local is not None else ""


def _is_strict(job: Document, truth: Truth) -> bool:
    queue = truth.get(QUEUES, ("", _queue_name(job, truth)))
    return queue is not None and queue["spec"].get("queueingStrategy") == "StrictFIFO"
