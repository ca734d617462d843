"""What a page knows of jobs, queues and nodes: one document each.

Times are moments, never spans, so that a row is the same until something happens; the page counts.
Amounts are whole numbers of the smallest unit, with the resource as their key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from makeway.api.batch import Node, Pod, pod_requests
from makeway.api.devices import GPUS, UNAVAILABLE, DeviceId, parse_devices, parse_unavailable
from makeway.api.labels import PRIORITY_CLASS
from makeway.api.queueing import ClusterQueue, Cohort, LocalQueue, ResourceGroup, Workload
from makeway.dashboard.units import Unit
from makeway.translate.job_names import id_of
from makeway.translate.job_rows import brief_reason
from makeway.translate.job_state import JobState, condition, is_true

Row = dict[str, Any]
MESSAGE_MAX = 400  # characters; the page of a job has all of them


def job_row(unit: Unit, state: JobState, queue: str, nodes: Sequence[str]) -> Row:
    """`queue` is the ClusterQueue that its LocalQueue leads to; `nodes` are where its pods are."""
    metadata, workload = state.metadata, state.workload
    return {
        "key": str(unit),
        "kind": unit.kind,
        "namespace": unit.namespace,
        "name": state.target.name,
        "id": id_of(metadata),
        "user": state.submitted_by,
        "localQueue": state.queue,
        "queue": queue,
        "status": state.status,
        "reason": brief_reason(state),
        "message": state.reason[:MESSAGE_MAX],
        "priority": state.priority,
        "priorityClass": metadata.labels.get(PRIORITY_CLASS, ""),
        "created": state.created_at,
        "admitted": state.admitted_at,
        "started": state.started_at,
        "ended": state.ended_at,
        "until": state.until,
        "evictions": state.evictions,
        "preemptedBy": _preempted_by(workload),
        "asks": {} if workload is None else asked(workload),
        "flavors": [] if workload is None else _flavors(workload),
        "workload": "" if workload is None else workload.metadata.name,
        "nodes": [*nodes],
    }


def _preempted_by(workload: Workload | None) -> str:
    """The workload that it makes way for, or made way for last; empty: for none."""
    state = None if workload is None else workload.status.preemption
    return "" if state is None or not is_true(workload, "Evicted") else state.preempted_by


def asked(workload: Workload) -> dict[str, int]:
    """What it holds; before it holds anything, what it asks for."""
    total: dict[str, int] = {}
    admission = workload.status.admission
    if admission is not None:
        for assignment in admission.pod_set_assignments:
            _add(total, assignment.resource_usage, 1)
        return total
    for pod_set in workload.spec.pod_sets:
        _add(total, pod_requests(pod_set.template.spec), pod_set.count)
    return total


def _add(total: dict[str, int], amounts: Mapping[str, int], times: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount * times


def _flavors(workload: Workload) -> list[str]:
    admission = workload.status.admission
    parts = () if admission is None else admission.pod_set_assignments
    return [*dict.fromkeys(flavor for part in parts for flavor in part.flavors.values())]


# --- queues ---


def queue_row(queue: ClusterQueue, local_queues: Iterable[LocalQueue]) -> Row:
    status, active = queue.status, condition(queue, "Active")
    used = {
        (usage.name, entry.name): (entry.total, entry.borrowed)
        for usage in status.flavors_reservation
        for entry in usage.resources
    }
    return {
        "key": queue.metadata.name,
        "cohort": queue.spec.cohort_name,
        "strategy": queue.spec.queueing_strategy,
        "preemption": {
            "within": queue.spec.preemption.within_cluster_queue,
            "reclaim": queue.spec.preemption.reclaim_within_cohort,
            "borrow": queue.spec.preemption.borrow_within_cohort.policy,
        },
        "stop": queue.spec.stop_policy,
        "inactive": "" if active is None or active.status == "True" else active.message,
        "pending": status.pending_workloads,
        "reserving": status.reserving_workloads,
        "admitted": status.admitted_workloads,
        "cells": _cells(queue.spec.resource_groups, used),
        "localQueues": [_local_row(local) for local in local_queues],
    }


def _local_row(local: LocalQueue) -> Row:
    return {
        "namespace": local.metadata.namespace,
        "name": local.metadata.name,
        "stop": local.spec.stop_policy,
        "pending": local.status.pending_workloads,
        "admitted": local.status.admitted_workloads,
    }


def cohort_row(cohort: Cohort) -> Row:
    return {
        "key": cohort.metadata.name,
        "parent": cohort.spec.parent_name,
        "cells": _cells(cohort.spec.resource_groups, {}),
    }


def _cells(
    groups: Sequence[ResourceGroup], used: Mapping[tuple[str, str], tuple[int, int]]
) -> list[Row]:
    return [
        {
            "flavor": flavor.name,
            "resource": quota.name,
            "nominal": quota.nominal_quota,
            "used": used.get((flavor.name, quota.name), (0, 0))[0],
            "borrowed": used.get((flavor.name, quota.name), (0, 0))[1],
            "borrowingLimit": quota.borrowing_limit,
            "lendingLimit": quota.lending_limit,
        }
        for group in groups
        for flavor in group.flavors
        for quota in flavor.resources
    ]


# --- nodes ---


def node_row(node: Node, pods: Sequence[Row]) -> Row:
    """`pods` hold something of the node."""
    ready = condition(node, "Ready")
    return {
        "key": node.metadata.name,
        "allocatable": dict(node.status.allocatable or node.status.capacity),
        "ready": ready is None or ready.status == "True",
        "unschedulable": node.spec.unschedulable,
        "unavailable": {
            str(device): why
            for device, why in parse_unavailable(
                node.metadata.annotations.get(UNAVAILABLE, "")
            ).items()
        },
        "pods": [*pods],
    }


def pod_entry(pod: Pod, unit: Unit | None) -> Row:
    """A pod on its node; `job` is empty where it has nothing to do with queues."""
    return {
        "pod": f"{pod.metadata.namespace}/{pod.metadata.name}",
        "job": "" if unit is None else str(unit),
        "asks": pod_requests(pod.spec),
        "devices": {name: [*held] for name, held in _devices(pod).items()},
    }


def _devices(pod: Pod) -> Mapping[str, tuple[DeviceId, ...]]:
    """Which GPUs it was given, where somebody has noted that."""
    return parse_devices(pod.metadata.annotations.get(GPUS, ""))
