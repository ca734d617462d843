"""What must come to an end once it is calm: everything but what nothing could ever help."""

from __future__ import annotations

from collections import defaultdict

from makeway.api.quantity import amount
from tests.simulation.checkers import (
    MANAGED,
    QUEUE_NAME,
    Cell,
    flavors_of,
    has,
    is_open,
    is_over,
    name_of,
    pod_requests,
    pods_of,
    quotas_of,
)
from tests.simulation.observer import (
    GANG_WORKLOADS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    WORKLOADS,
    Document,
    Truth,
)
from tests.simulation.worlds import NAMESPACE


def unfinished(truth: Truth) -> list[str]:
    """Jobs and pods that have not ended, though they could with nobody else around."""
    return [*_unfinished_jobs(truth), *_unfinished_pods(truth), *_unplaced_gangs(truth)]


def _unfinished_jobs(truth: Truth) -> list[str]:
    waiting = [
        job
        for job in truth.all(JOBS)
        if not has(job, "Complete") and not has(job, "Failed") and not _is_off(job, truth)
    ]
    if not waiting:
        return []
    hopeless = [job for job in waiting if not could_run(job, truth)]
    queues = [queue for job in hopeless if (queue := _queue(job, truth)) is not None]
    blocked = [q for q in queues if q["spec"].get("queueingStrategy") == "StrictFIFO"]
    return [
        name_of(job) for job in waiting if job not in hopeless and _queue(job, truth) not in blocked
    ]


def _unfinished_pods(truth: Truth) -> list[str]:
    """Those who wait in a queue by themselves; what is no longer whole may wait for ever."""
    left = []
    for workload in truth.all(WORKLOADS):
        pods = [pod for pod in pods_of(workload, truth) if _is_loose(pod)]
        wanted = sum(pods["count"] for pods in workload["spec"]["podSets"])
        is_whole = len(pods) == wanted and not any(_has_failed(pod) for pod in pods)
        queue = _queue(pods[0], truth) if is_whole else None
        is_wanted = workload["spec"].get("active", True)
        if queue is not None and is_wanted and is_open(queue, truth):
            left += [name_of(pod) for pod in pods if not is_over(pod)]
    return left


def _unplaced_gangs(truth: Truth) -> list[str]:
    """Pods of whole gangs that have no node, though by now all machines are free."""
    gangs: dict[str, list[Document]] = defaultdict(list)
    for pod in truth.all(PODS):
        spec = pod["spec"]
        name = (spec.get("workloadRef") or {}).get("name") or (
            spec.get("schedulingGroup") or {}
        ).get("podGroupName")
        if name and not is_over(pod) and "deletionTimestamp" not in pod["metadata"]:
            gangs[name].append(pod)
    return [
        name_of(pod)
        for name, pods in gangs.items()
        if len(pods) >= _least(name, truth)
        for pod in pods
        if not pod["spec"].get("nodeName")
    ]


def _least(gang: str, truth: Truth) -> int:
    if group := truth.get(POD_GROUPS, (NAMESPACE, gang)):
        return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])
    workload = truth.get(GANG_WORKLOADS, (NAMESPACE, gang))
    assert workload is not None, gang
    return int(workload["spec"]["podGroups"][0]["policy"]["gang"]["minCount"])


def _is_off(job: Document, truth: Truth) -> bool:
    workloads = truth.owned_by(job["metadata"]["uid"], WORKLOADS)
    return any(workload["spec"].get("active") is False for workload in workloads)


def _is_loose(pod: Document) -> bool:
    return MANAGED in (pod["metadata"].get("labels") or {})


def _has_failed(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") == "Failed"


def could_run(job: Document, truth: Truth) -> bool:
    queue = _queue(job, truth)
    if queue is None or not is_open(queue, truth):
        return False
    asked = pod_requests(job["spec"]["template"]["spec"])
    quotas, node = quotas_of(truth), f"queue:{queue['metadata']['name']}"
    return any(
        all(
            quotas.available(node, Cell(flavor, resource)) >= one * job["spec"]["parallelism"]
            for resource, one in asked.items()
        )
        and _has_place(flavor, asked, truth)
        for flavor in flavors_of(queue)
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


def _queue(job: Document, truth: Truth) -> Document | None:
    """The queue behind the door that a Job or pod names."""
    place = (job["metadata"]["namespace"], job["metadata"]["labels"][QUEUE_NAME])
    local = truth.get(LOCAL_QUEUES, place)
    return None if local is None else truth.get(QUEUES, ("", local["spec"]["clusterQueue"]))
