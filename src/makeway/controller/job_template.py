"""What an admission adds to the pods of a Job, and how the Job is brought back to what it was.

The Workload keeps the template as the user wrote it. So a Job is started and restored alike: the
template that it should have is made from that, and the patch is what differs. While a Job is
suspended just these fields of its template may change (KEP-2926).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from makeway.api.batch import Job, Toleration
from makeway.api.codec import encode
from makeway.api.labels import POD_SET, SYNC_COMPLETIONS, WORKLOAD
from makeway.api.queueing import PodSetUpdate, ResourceFlavor, Workload
from makeway.client.client import Document
from makeway.controller.job_workload import POD_SET_NAME, admitted_count, count_of


class Additions(NamedTuple):
    labels: dict[str, str]
    annotations: dict[str, str]
    node_selector: dict[str, str]
    tolerations: list[Toleration]


class Clash(NamedTuple):
    """Two who decide about the same pods want different things of them."""

    message: str


def flavors_of(workload: Workload) -> list[str]:
    if workload.status.admission is None:
        return []
    assignments = workload.status.admission.pod_set_assignments
    return sorted({name for assigned in assignments for name in assigned.flavors.values()})


def additions_of(workload: Workload, flavors: Iterable[ResourceFlavor]) -> Additions | Clash:
    """What flavors and admission checks want of the pods, on top of what the user wrote."""
    template = workload.spec.pod_sets[0].template
    metadata, selector = template.metadata, template.spec.node_selector
    added = Additions({POD_SET: POD_SET_NAME}, {WORKLOAD: workload.metadata.name}, {}, [])
    for who, wanted in _wishes(workload, flavors):
        for field, own, there, more in (
            ("labels", metadata.labels, added.labels, wanted.labels),
            ("annotations", metadata.annotations, added.annotations, wanted.annotations),
            ("nodeSelector", selector, added.node_selector, wanted.node_selector),
        ):
            before = {**own, **there}
            for key, value in sorted(more.items()):
                if before.get(key, value) != value:
                    return Clash(f"{who} asks for {field} {key}={value}, but it is {before[key]}")
            there.update(more)
        added.tolerations.extend(wanted.tolerations)
    return added


def _wishes(
    workload: Workload, flavors: Iterable[ResourceFlavor]
) -> Iterator[tuple[str, PodSetUpdate]]:
    for flavor in flavors:
        labels, tolerations = flavor.spec.node_labels, flavor.spec.tolerations
        wanted = PodSetUpdate(name=POD_SET_NAME, node_selector=labels, tolerations=tolerations)
        yield f"ResourceFlavor {flavor.metadata.name}", wanted
    for check in workload.status.admission_checks:
        for update in check.pod_set_updates:
            yield f"AdmissionCheck {check.name}", update


def has_injected_fields(job: Job, workload: Workload) -> bool:
    """Whether its template carries what an admission has added."""
    now, written = job.spec.template.metadata, workload.spec.pod_sets[0].template.metadata
    # A user may have written these too, copying the template of a Job that ran.
    return any(
        key in there and there[key] != original.get(key)
        for key, there, original in (
            (POD_SET, now.labels, written.labels),
            (WORKLOAD, now.annotations, written.annotations),
        )
    )


def start_changes(job: Job, workload: Workload, additions: Additions) -> Document:
    """What of a Job's spec has to change so that it runs as admitted."""
    changes = _template_changes(job, workload, additions)
    count = admitted_count(workload)
    if workload.spec.pod_sets[0].min_count is not None and count is not None:
        changes |= _size_changes(job, count)
    return changes


def restore_changes(job: Job, workload: Workload) -> Document:
    """What of a Job's spec has to change so that it is again as its user wrote it.

    A size that isn't the one it was started with is its user's, and stays.
    """
    changes = _template_changes(job, workload, Additions({}, {}, {}, []))
    pod_set, started = workload.spec.pod_sets[0], admitted_count(workload)
    if pod_set.min_count is not None and (started is None or started == count_of(job)):
        changes |= _size_changes(job, pod_set.count)
    return changes


def _size_changes(job: Job, count: int) -> Document:
    if count == count_of(job):
        return {}
    changes: Document = {"parallelism": count}
    if job.metadata.annotations.get(SYNC_COMPLETIONS) == "true":
        changes["completions"] = count
    return changes


def _template_changes(job: Job, workload: Workload, additions: Additions) -> Document:
    now, original = job.spec.template, workload.spec.pod_sets[0].template
    there, metadata, spec = now.metadata, original.metadata, original.spec
    tolerations = [*spec.tolerations]
    tolerations += [item for item in additions.tolerations if item not in tolerations]
    of_metadata = _without_empty(
        labels=_map_changes(there.labels, metadata.labels, additions.labels),
        annotations=_map_changes(there.annotations, metadata.annotations, additions.annotations),
    )
    selector = _map_changes(now.spec.node_selector, spec.node_selector, additions.node_selector)
    of_spec = _without_empty(nodeSelector=selector)
    if tolerations != [*now.spec.tolerations]:
        of_spec["tolerations"] = [encode(item) for item in tolerations] or None
    return _without_empty(template=_without_empty(metadata=of_metadata, spec=of_spec))


def _map_changes(
    now: Mapping[str, str], written: Mapping[str, str], added: Mapping[str, str]
) -> Document:
    wanted = {**written, **added}
    changes: Document = {key: value for key, value in wanted.items() if now.get(key) != value}
    return changes | {key: None for key in now if key not in wanted}


def _without_empty(**parts: Document) -> Document:
    return {name: part for name, part in parts.items() if part}
