"""A Job named train, its Workload, and all who have to do with them."""

from __future__ import annotations

from typing import Any

from makeway.api.configuration import Configuration
from makeway.api.kinds import FLAVORS, JOBS, PODS, WORKLOADS
from makeway.api.labels import QUEUE_NAME
from makeway.client.client import Document
from makeway.controller.class_values import ClassValues
from makeway.controller.conditions import with_condition
from makeway.controller.jobs import Jobs
from makeway.plane.writes import Key
from tests.harness import documents
from tests.harness.documents import requesting, template
from tests.harness.plane import Plane

TRAIN = Key("lab", "train")


class OneWorkload(Plane):
    """A plane where one Workload waits, with hands for the queues that decide about it."""

    @property
    def workload(self) -> Document:
        [document] = self.all(WORKLOADS)
        return document

    @property
    def has_workload(self) -> bool:
        return bool(self.all(WORKLOADS))

    @property
    def workload_key(self) -> Key:
        return Key("lab", self.workload["metadata"]["name"])

    def condition_of(self, type: str) -> tuple[str, str]:
        found = [(c["status"], c["reason"]) for c in self._conditions if c["type"] == type]
        return found[0] if found else ("", "")

    @property
    def _conditions(self) -> list[Document]:
        return list((self.workload.get("status") or {}).get("conditions") or ())

    @property
    def holds_quota(self) -> bool:
        return self.condition_of("QuotaReserved")[0] == "True"

    def say(self, type: str, status: str, reason: str, message: str = "", **fields: Any) -> None:
        """The queues set a condition, and what goes with it."""
        new = with_condition(self._conditions, type, status, reason, message, self.now)
        self.edit(WORKLOADS, self.workload_key, {"status": {"conditions": new, **fields}}, "status")

    def reserve(self, count: int | None = None, **fields: Any) -> None:
        """Each pod set gets what it asks for, or `count` pods."""
        assigned = [
            {
                "name": pod_set["name"],
                "count": pod_set["count"] if count is None else count,
                "flavors": {"cpu": "spot"},
            }
            for pod_set in self.workload["spec"]["podSets"]
        ]
        if self.condition_of("Evicted")[0] == "True":
            self.say("Evicted", "False", "QuotaReserved")
        admission = {"clusterQueue": "big", "podSetAssignments": assigned}
        self.say("QuotaReserved", "True", "QuotaReserved", admission=admission, **fields)

    def admit(self, count: int | None = None, **fields: Any) -> None:
        self.reserve(count, **fields)
        self.say("Admitted", "True", "Admitted")
        self.settle()

    def evict(self) -> None:
        self.say("Evicted", "True", "Preempted", "Preempted to accommodate a workload (lab/eval)")
        self.settle()


class JobPlane(OneWorkload):
    """A Job named train, and hands for whoever runs Jobs."""

    def __init__(self, configuration: Configuration = Configuration(), **spec: Any) -> None:  # noqa: B008
        super().__init__(
            lambda picture: [Jobs(picture, configuration), ClassValues(picture)],
            configuration=configuration,
        )
        self.create(FLAVORS, flavor("spot", {"pool": "spot"}, tolerates="spot"))
        self.job_to_be = job(**spec)

    def submit(
        self, *, labels: Document | None = None, annotations: Document | None = None
    ) -> None:
        self.job_to_be["metadata"]["labels"].update(labels or {})
        self.job_to_be["metadata"]["annotations"].update(annotations or {})
        self.create(JOBS, self.job_to_be)
        self.settle()

    def submit_elsewhere(self, **metadata: Document) -> None:
        """To a server that neither checks Jobs nor holds them back."""
        stored = self.create(JOBS, self.job_to_be)
        for name, values in metadata.items():
            stored["metadata"].setdefault(name, {}).update(values)
        stored["spec"]["suspend"] = self.job_to_be["spec"]["suspend"]
        self.put(JOBS, stored)
        self.settle()

    @property
    def job(self) -> Document:
        return self.get(JOBS, TRAIN)

    def run_pods(self, *names: str) -> None:
        """Whoever runs Jobs has started pods."""
        for name in names:
            self.create(PODS, pod(name, self.job["metadata"]["uid"]))
        started = {"active": len(names), "startTime": "1970-01-01T00:20:00Z"}
        self.report(**started, conditions=[suspended("False")])

    def report(self, **status: Any) -> None:
        self.edit(JOBS, TRAIN, {"status": status}, "status")
        self.settle()

    def stop_pods(self, *names: str) -> None:
        """Whoever runs Jobs has seen the last pod go."""
        for name in names:
            self.delete(PODS, Key("lab", name), grace_s=0)
        self.report(active=0, ready=0, startTime=None, conditions=[suspended("True")])


def job(parallelism: int = 2, **more: Any) -> Document:
    pods = template(containers=[requesting(1, command=["train"])], nodeSelector={"disk": "ssd"})
    pods["metadata"] = {"labels": {"app": "train"}}
    spec = {"parallelism": parallelism, "suspend": True, "template": pods, **more}
    metadata = {"namespace": "lab", "labels": {QUEUE_NAME: "main"}, "annotations": {}}
    return {**documents.job("train", metadata, **spec), "status": {}}


def flavor(name: str, node_labels: Document, *, tolerates: str = "") -> Document:
    tolerations = [{"key": tolerates, "operator": "Exists"}] if tolerates else []
    return documents.flavor(name, nodeLabels=node_labels, tolerations=tolerations)


def pod(name: str, job_uid: str, phase: str = "Running") -> Document:
    owner = documents.job("train", {"uid": job_uid})
    made = documents.owned(documents.pod(name, {"namespace": "lab"}), owner, controller=True)
    made["spec"]["nodeName"] = "box"
    return {**made, "status": {"phase": phase}}


def suspended(status: str) -> Document:
    return {"type": "Suspended", "status": status}


def workload_class(name: str, value: int) -> Document:
    return {"metadata": {"name": name}, "value": value}


def running(**spec: Any) -> JobPlane:
    plane = JobPlane(**spec)
    plane.submit()
    plane.admit()
    plane.run_pods("train-0", "train-1")
    plane.said.clear()
    return plane
