"""Quota and nodes together: admission and placing at work on the same Workloads and pods."""

from __future__ import annotations

from makeway.api.configuration import Configuration
from makeway.api.kinds import FLAVORS, LOCAL_QUEUES, QUEUES, WORKLOADS
from makeway.controller.admission import Admission
from makeway.controller.placing import Placing
from tests.harness.placing import PlacingPlane
from tests.harness.queues import local_queue, queue, workload

BACKOFF_S = 60  # what Configuration says if nobody says otherwise


class QueuedPlane(PlacingPlane):
    """One queue with more quota than the nodes have room for; every pod wants 4 cpu."""

    def __init__(self, **nodes: int) -> None:
        super().__init__(lambda picture: Admission(picture, Configuration()), Placing, **nodes)
        self.create(FLAVORS, {"metadata": {"name": "any"}, "spec": {}})
        quota = {"name": "any", "resources": [{"name": "cpu", "nominalQuota": "100"}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        self.create(QUEUES, queue("a", resourceGroups=groups))
        self.create(LOCAL_QUEUES, local_queue("a"))

    def submit(self, name: str, pods: int, *, priority: int, mode: str = "Pod") -> None:
        document = workload(name, 4, "a", True, priority=priority)
        document["metadata"]["annotations"] = {"makeway.dev/preemption-mode": mode}
        document["spec"]["podSets"][0]["count"] = pods
        self.create(WORKLOADS, document)
        self.run()
        assert self.is_admitted(name)
        self.start(name)

    def start(self, name: str) -> None:
        """Whoever runs admitted workloads creates its pods."""
        spec = self.get(WORKLOADS, name)["spec"]
        for index in range(spec["podSets"][0]["count"]):
            self.pod(f"{name}-{index}", workload=name, priority=spec["priority"])
        self.run()

    def stop(self, name: str, *pods: str) -> None:
        """The pods of an evicted workload are gone, and whoever runs it says so."""
        self.ended(*pods)
        evicted = self.condition(WORKLOADS, name, "Evicted")
        status = {"admission": None, "conditions": [evicted]}
        self.edit(WORKLOADS, name, {"status": status}, "status")
        self.run()

    def finish(self, name: str, *pods: str) -> None:
        self.ended(*pods)
        finished = {
            "type": "Finished",
            "status": "True",
            "reason": "Succeeded",
            "message": "",
            "lastTransitionTime": "1970-01-01T00:20:00Z",
        }
        conditions = [*self.get(WORKLOADS, name)["status"]["conditions"], finished]
        self.edit(WORKLOADS, name, {"status": {"conditions": conditions}}, "status")
        self.run()

    def is_admitted(self, name: str) -> bool:
        return self.condition(WORKLOADS, name, "Admitted").get("status") == "True"


def test_a_job_preempted_on_its_nodes_comes_back_after_a_pause() -> None:
    plane = QueuedPlane(n1=4, n2=4)
    plane.submit("low", pods=2, priority=10, mode="PodGroup")
    assert plane.nodes_of("low-0", "low-1") == ["n1", "n2"]

    plane.submit("high", pods=2, priority=50)
    assert plane.leaving() == ["low-0", "low-1"]
    assert plane.condition(WORKLOADS, "low", "Evicted")["reason"] == "PreemptedInPlacement"
    plane.stop("low", "low-0", "low-1")
    assert plane.nodes_of("high-0", "high-1") == ["n1", "n2"]
    plane.run(BACKOFF_S / 2)
    assert not plane.is_admitted("low")  # back-off, though there is quota

    plane.finish("high", "high-0", "high-1")
    plane.run(BACKOFF_S)
    assert plane.is_admitted("low")
    plane.start("low")
    assert plane.nodes_of("low-0", "low-1") == ["n1", "n2"]


def test_a_job_that_loses_only_a_pod_keeps_its_quota() -> None:
    plane = QueuedPlane(n1=4, n2=4)
    plane.submit("low", pods=2, priority=10)
    plane.submit("high", pods=1, priority=50)

    (victim,) = plane.leaving()
    assert plane.is_admitted("low")
    assert not plane.condition(WORKLOADS, "low", "Evicted")
    plane.ended(victim)
    plane.run()
    assert plane.nodes_of("high-0") != [""]
