"""A Job as its user submitted it, taken from one that was run."""

from __future__ import annotations

from makeway.api.batch import Job
from makeway.api.labels import (
    ARRAY,
    ARRAY_INDEX,
    ARRAY_LIMIT,
    CANCELLED_BY,
    HOLD,
    ID,
    LAST_CHECKPOINT,
    LAST_END,
    NAME,
    NOTIFIED,
    RETRY_OF,
    STARTS,
)
from makeway.api.queueing import Workload
from makeway.cli.creating import suffix
from makeway.client.client import Document
from makeway.translate.job_names import short_text

_LABELS = (ID, ARRAY, ARRAY_INDEX)
_ANNOTATIONS = (CANCELLED_BY, STARTS, LAST_END, LAST_CHECKPOINT, HOLD, ARRAY_LIMIT, NOTIFIED)
_NUMBERED = ("MAKEWAY_JOB_ID", "JOB_COMPLETION_INDEX", "MAKEWAY_ARRAY_")
_OF_THE_SERVER = ("controller-uid", "job-name", "batch.kubernetes.io/", "kueue.x-k8s.io/podset")


def as_submitted(job: Job, workload: Workload | None) -> Document:
    """What to submit to have it done again; its Workload knows what its queue has added since."""
    document: Document = dict(job.document or {})
    metadata, spec = job.metadata, dict(document["spec"])
    for name in ("selector", "manualSelector"):
        spec.pop(name, None)
    template: Document = spec["template"]
    if workload is not None and workload.spec.pod_sets:
        template = dict(workload.spec.pod_sets[0].template.document or template)
    called = metadata.labels.get(NAME) or _stem(metadata.name, metadata.labels.get(ARRAY_INDEX))
    labels = {k: v for k, v in metadata.labels.items() if k not in _LABELS}
    annotations = {
        k: v
        for k, v in metadata.annotations.items()
        if k not in _ANNOTATIONS and not k.startswith("batch.kubernetes.io/")
    }
    annotations[RETRY_OF] = short_text(metadata)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{called}-{suffix()}",
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {**spec, "suspend": True, "template": _template(template)},
    }


def _stem(name: str, index: str | None) -> str:
    """`part` of `part-x7k2p`, and of `part-x7k2p-4`, which is one of an array."""
    if index is not None:
        name = name.removesuffix(f"-{index}")
    stem, _, ending = name.rpartition("-")
    return stem if stem and len(ending) == 5 else name


def _template(template: Document) -> Document:
    metadata, spec = dict(template.get("metadata") or {}), dict(template["spec"])
    labels = metadata.get("labels") or {}
    metadata["labels"] = {k: v for k, v in labels.items() if not k.startswith(_OF_THE_SERVER)}
    notes = metadata.get("annotations") or {}
    metadata["annotations"] = {k: v for k, v in notes.items() if k != "kueue.x-k8s.io/workload"}
    spec["containers"] = [_container(found) for found in spec["containers"]]
    return {"metadata": metadata, "spec": spec}


def _container(container: Document) -> Document:
    variables = container.get("env") or ()
    kept = [found for found in variables if not found["name"].startswith(_NUMBERED)]
    return {**container, "env": kept}
