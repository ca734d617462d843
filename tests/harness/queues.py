"""Workloads in two queues, and the part that decides about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from makeway.api.configuration import Configuration
from makeway.api.kinds import FLAVORS, LOCAL_QUEUES, QUEUES, WORKLOAD_CLASSES, WORKLOADS
from makeway.client.client import Document
from makeway.controller.admission import Admission
from makeway.controller.metrics import Metrics
from makeway.engine.engine import Engine
from makeway.plane.parts import Part
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from tests.harness import documents
from tests.harness.documents import requesting, template
from tests.harness.plane import Plane


class QueuePlane(Plane):
    """Two queues of 4 cpu each, a and b, in a cohort; both take back what they lent.

    Admission decides about their Workloads, and metrics are counted of what it does; `others` are
    made for the same picture and engine.
    """

    admission: Admission
    metrics: Metrics

    def __init__(
        self,
        *others: Callable[[Picture, Engine], Part],
        configuration: Configuration = Configuration(),  # noqa: B008
        **spec: Any,
    ) -> None:
        self._others = others
        super().__init__(self._admission_and_others, configuration=configuration)
        self.create(FLAVORS, {"metadata": {"name": "any"}, "spec": {}})
        for name in "ab":
            self.create(QUEUES, queue(name, **spec))
            self.create(LOCAL_QUEUES, local_queue(name))

    def _admission_and_others(self, picture: Picture) -> list[Part]:
        self.admission = Admission(picture, self.configuration)
        engine = self.admission.engine
        self.metrics = Metrics(engine, picture, lambda: self.now)
        self.admission.observers.append(self.metrics)
        return [self.admission, *(make(picture, engine) for make in self._others)]

    def submit(
        self, name: str, cpu: int, *, queue: str = "a", owned: bool = False, **spec: Any
    ) -> None:
        self.create(WORKLOADS, workload(name, cpu, queue, owned, **spec))

    def status(self, name: str) -> Document:
        return dict(self.get(WORKLOADS, Key("lab", name)).get("status") or {})

    def condition_of(self, name: str, type: str) -> tuple[str, str]:
        found = self.condition(WORKLOADS, Key("lab", name), type)
        return found.get("status", ""), found.get("reason", "")

    def told(self, name: str, type: str) -> Document:
        """The whole condition."""
        return next(dict(c) for c in self.status(name)["conditions"] if c["type"] == type)

    def message(self, name: str, type: str) -> str:
        return str(self.told(name, type)["message"])

    def admitted(self) -> set[str]:
        names = {workload["metadata"]["name"] for workload in self.all(WORKLOADS)}
        return {name for name in names if self.condition_of(name, "Admitted")[0] == "True"}

    def tell(self, name: str, **status: Any) -> None:
        """Somebody else writes a part of the status."""
        self.edit(WORKLOADS, Key("lab", name), {"status": status}, "status")

    def add_condition(self, name: str, type: str, status: str, reason: str) -> None:
        old = [c for c in self.status(name).get("conditions") or () if c["type"] != type]
        new = {"type": type, "status": status, "reason": reason, "message": ""}
        new["lastTransitionTime"] = "1970-01-01T00:20:00Z"
        self.tell(name, conditions=[*old, new])

    def change_class(self, name: str, value: int) -> None:
        """The value of a class never changes: somebody makes another of the same name."""
        self.delete(WORKLOAD_CLASSES, Key("", name))
        self.create(WORKLOAD_CLASSES, {"metadata": {"name": name}, "value": value})

    def let_go(self, name: str, keeping: tuple[str, ...] = ("Evicted",)) -> None:
        """Whoever runs an evicted workload says that its pods are gone."""
        kept = [c for c in self.status(name)["conditions"] if c["type"] in keeping]
        self.tell(name, admission=None, conditions=kept)


def queue(name: str, **spec: Any) -> Document:
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    spec = {"cohortName": "lab", "preemption": preemption, **spec}
    return documents.queue(name, 4, flavor="any", **spec)


def local_queue(name: str) -> Document:
    return documents.local_queue(name, name, "lab")


def workload(name: str, cpu: int, queue: str, owned: bool, **spec: Any) -> Document:
    pod_sets = [{"name": "main", "template": template(containers=[requesting(cpu)])}]
    made = documents.workload(name, **{"queueName": queue, "podSets": pod_sets, **spec})
    made["metadata"]["namespace"] = "lab"
    if not owned:
        return made
    # Of a kind that the server doesn't know, so it doesn't look whether the owner is there.
    owner: Document = {"apiVersion": "ray.io/v1", "kind": "RayJob"}
    owner |= {"metadata": {"name": name, "uid": f"job-{name}"}}
    return documents.owned(made, owner, controller=True)
