"""A Job named train and all who have to do with it, on a desk."""

from __future__ import annotations

from typing import Any

from makeway.api.labels import QUEUE_NAME
from makeway.client.client import Document
from makeway.client.resources import FLAVORS, JOBS, PODS
from makeway.controller.jobs import Jobs
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from tests.controller.queued_desk import QueuedDesk

TRAIN = Key("lab", "train")


class Lab(QueuedDesk):
    """A desk with a Job named train, and hands for whoever runs Jobs."""

    def __init__(self, **spec: Any) -> None:
        picture = Picture()
        super().__init__(picture, Jobs(picture))
        self.put(FLAVORS, flavor("spot", {"pool": "spot"}, tolerates="spot"))
        self.job_to_be = job(**spec)

    def submit(
        self, *, labels: Document | None = None, annotations: Document | None = None
    ) -> None:
        self.job_to_be["metadata"]["labels"].update(labels or {})
        self.job_to_be["metadata"]["annotations"].update(annotations or {})
        self.put(JOBS, self.job_to_be)
        self.settle()

    @property
    def job(self) -> Document:
        return self.get(JOBS, TRAIN)

    def run_pods(self, *names: str) -> None:
        """Whoever runs Jobs has started pods."""
        for name in names:
            self.put(PODS, pod(name, self.job["metadata"]["uid"]))
        started = {"active": len(names), "startTime": "1970-01-01T00:20:00Z"}
        self.report(**started, conditions=[suspended("False")])

    def report(self, **status: Any) -> None:
        self.edit(JOBS, TRAIN, {"status": status}, "status")
        self.settle()

    def stop_pods(self, *names: str) -> None:
        """Whoever runs Jobs has seen the last pod go."""
        for name in names:
            self.delete(PODS, Key("lab", name))
        self.report(active=0, ready=0, startTime=None, conditions=[suspended("True")])


def job(parallelism: int = 2, **more: Any) -> Document:
    container = {"name": "main", "command": ["train"], "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"labels": {"app": "train"}},
        "spec": {"containers": [container], "nodeSelector": {"disk": "ssd"}},
    }
    spec = {"parallelism": parallelism, "suspend": True, "template": template, **more}
    metadata = {"name": "train", "namespace": "lab", "labels": {QUEUE_NAME: "main"}}
    return {"metadata": {**metadata, "annotations": {}}, "spec": spec, "status": {}}


def flavor(name: str, node_labels: Document, *, tolerates: str = "") -> Document:
    spec: Document = {"nodeLabels": node_labels}
    if tolerates:
        spec["tolerations"] = [{"key": tolerates, "operator": "Exists"}]
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, job_uid: str, phase: str = "Running") -> Document:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job_uid}
    metadata = {"name": name, "namespace": "lab"}
    return {
        "metadata": {**metadata, "ownerReferences": [{**owner, "controller": True}]},
        "status": {"phase": phase},
    }


def suspended(status: str) -> Document:
    return {"type": "Suspended", "status": status}


def workload_class(name: str, value: int) -> Document:
    return {"metadata": {"name": name}, "value": value}


def running(**spec: Any) -> Lab:
    lab = Lab(**spec)
    lab.submit()
    lab.admit()
    lab.run_pods("train-0", "train-1")
    lab.said.clear()
    return lab
