"""Pods without a Job in queues of a real server: held back by a policy, released by the controller.

Nodes and kubelets are played by the test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from makeway.api.kinds import EVENTS, PODS, WORKLOADS, Resource
from makeway.client import ApiError
from makeway.client.client import Document
from tests.harness.cli import Capsys
from tests.kube.installing import Cluster, conditions_of
from tests.kube.plane import BOOKKEEPING, Plane, require_assets

pytestmark = pytest.mark.kube

GROUP = "kueue.x-k8s.io"
GATE = [{"name": f"{GROUP}/admission"}]
CLASSES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a100}
spec: {nodeLabels: {kind: a100}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
"""
ROOM = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: a100, resources: [{{name: cpu, nominalQuota: 2}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}}}
spec: {{clusterQueue: {name}}}
"""
BINDINGS = Resource(
    "admissionregistration.k8s.io/v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    False,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_assets()
    plane = Plane(tmp_path_factory.mktemp("kube"), BOOKKEEPING, has_crds=False)
    try:
        cluster = Cluster(plane)
        cluster.makeway("install", "--apply")
        cluster.create_all(CLASSES)
        cluster.until("pods are gated", lambda: is_gated(cluster.create(PROBE, dry_run=True)))
        with cluster.controller(tmp_path_factory.mktemp("controller")):
            yield cluster
    finally:
        plane.stop()


def pod(name: str, queue: str, cpu: int = 1, **labels: str) -> Document:
    """`pod_group_name` and the like are labels of Kueue's."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}
    named = {"queue_name": queue, **labels}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {f"{GROUP}/{key.replace('_', '-')}": text for key, text in named.items()},
        },
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


PROBE = pod("probe", "none")


def member(name: str, queue: str, group: str) -> Document:
    """One of two pods of a group."""
    made = pod(name, queue, pod_group_name=group)
    made["metadata"]["annotations"] = {f"{GROUP}/pod-group-total-count": "2"}
    return made


def is_gated(document: Document) -> bool:
    return bool(document["spec"].get("schedulingGates") == GATE)


def start(cluster: Cluster, *names: str) -> None:
    """Their nodes run them, once they are released."""
    for name in names:
        until_released(cluster, name)
        _bind(cluster, name)
        cluster.patch("Pod", name, {"status": {"phase": "Running"}}, subresource="status")


def _bind(cluster: Cluster, name: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "played"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    cluster.do(lambda client: client.post(PODS, ("default", name), "binding", binding))


def until_released(cluster: Cluster, name: str) -> None:
    cluster.until(f"{name} is released", lambda: not is_gated(cluster.get("Pod", name)))


def succeed(cluster: Cluster, name: str) -> None:
    cluster.patch("Pod", name, {"status": {"phase": "Succeeded"}}, subresource="status")


def until_stopped(cluster: Cluster, name: str) -> None:
    """Its node ends it, once the queue wants that."""
    cluster.until(
        f"{name} is to stop", lambda: "deletionTimestamp" in cluster.get("Pod", name)["metadata"]
    )
    assert conditions_of(cluster.get("Pod", name))["TerminationTarget"] == "True"
    until_gone(cluster, name)


def until_gone(cluster: Cluster, name: str) -> None:
    """A pod that is deleted ends."""
    cluster.do(lambda client: client.delete(PODS, name, "default", grace_s=0))
    cluster.until(f"{name} is gone", lambda: not cluster.is_there(PODS, name))


def test_pods_run_one_after_the_other_where_their_flavor_is(cluster: Cluster) -> None:
    cluster.create_all(ROOM.format(name="narrow"))
    for name in ("first", "second"):
        assert is_gated(cluster.create(pod(name, "narrow", cpu=2)))
        cluster.workload_of(name)

    start(cluster, "first")

    first = cluster.get("Pod", "first")
    assert first["spec"]["nodeSelector"] == {"kind": "a100"}
    assert first["metadata"]["finalizers"] == [f"{GROUP}/managed"]
    assert is_gated(cluster.get("Pod", "second"))
    succeed(cluster, "first")
    cluster.until_condition(cluster.workload_of("first"), "Finished")
    until_released(cluster, "second")
    cluster.until(
        "nothing holds the first",
        lambda: "finalizers" not in cluster.get("Pod", "first")["metadata"],
    )


def test_a_group_starts_when_it_is_whole_and_ends_as_one(cluster: Cluster) -> None:
    cluster.create_all(ROOM.format(name="pairs"))
    cluster.create(member("leader", "pairs", "pair"))

    def says_that_it_waits() -> bool:
        return any(event["reason"] == "WaitingForPods" for event in cluster.list(EVENTS))

    cluster.until("it waits for the other", says_that_it_waits)
    assert not cluster.is_there(WORKLOADS, "pair")
    assert is_gated(cluster.get("Pod", "leader"))
    cluster.create(member("worker", "pairs", "pair"))
    start(cluster, "leader", "worker")
    succeed(cluster, "leader")
    cluster.until("its part is given back", lambda: _reclaimable(cluster, "pair") == 1)
    assert cluster.get("Pod", "leader")["metadata"]["finalizers"] == [f"{GROUP}/managed"]
    succeed(cluster, "worker")
    cluster.until_condition("pair", "Finished")


def _reclaimable(cluster: Cluster, workload: str) -> int:
    status = cluster.get("Workload", workload)["status"]
    return sum(entry["count"] for entry in status.get("reclaimablePods") or ())


def test_a_pod_is_stopped_for_a_more_important_one(cluster: Cluster) -> None:
    cluster.create_all(ROOM.format(name="contested"))
    cluster.create(pod("humble", "contested", cpu=2))
    start(cluster, "humble")

    cluster.create(pod("proud", "contested", cpu=2, priority_class="urgent"))

    until_stopped(cluster, "humble")
    until_released(cluster, "proud")


def test_a_group_that_was_stopped_waits_for_other_pods_in_their_place(cluster: Cluster) -> None:
    cluster.create_all(ROOM.format(name="refuge"))
    for name in ("a", "b"):
        cluster.create(member(f"old-{name}", "refuge", "twins"))
    start(cluster, "old-a", "old-b")
    cluster.create(pod("intruder", "refuge", cpu=2, priority_class="urgent"))
    for name in ("a", "b"):
        until_stopped(cluster, f"old-{name}")
    start(cluster, "intruder")
    cluster.until_condition("twins", "WaitingForReplacementPods")
    succeed(cluster, "intruder")

    def says_what_it_lacks() -> bool:
        conditions = cluster.get("Workload", "twins")["status"]["conditions"]
        reserved = next(c for c in conditions if c["type"] == "QuotaReserved")
        return bool(reserved["reason"] == "WaitingForReplacementPods")

    cluster.until("it says what it lacks", says_what_it_lacks)
    for name in ("a", "b"):
        cluster.create(member(f"new-{name}", "refuge", "twins"))
    start(cluster, "new-a", "new-b")


def test_a_user_sees_explains_and_cancels_them(cluster: Cluster, capsys: Capsys) -> None:
    cluster.create_all(ROOM.format(name="desk"))
    for name in ("duo-a", "duo-b"):
        cluster.create(member(name, "desk", "duo"))
    start(cluster, "duo-a", "duo-b")
    cluster.create(pod("third", "desk"))
    third = cluster.workload_of("third")
    cluster.until("it is told", lambda: bool(conditions_of(cluster.get("Workload", third))))

    cluster.makeway("status", "-q", "desk")
    told = capsys.readouterr().out
    cluster.makeway("explain", "third")
    told += capsys.readouterr().out
    cluster.makeway("cancel", "duo", "-y")

    assert [line.split()[1] for line in told.splitlines()[1:3]] == ["duo", "third"]
    assert "insufficient unused quota for cpu in flavor a100, 1 more needed" in told
    for name in ("duo-a", "duo-b"):
        until_gone(cluster, name)
    cluster.until("its Workload is gone", lambda: not cluster.is_there(WORKLOADS, "duo"))
    until_released(cluster, "third")


def test_nobody_but_its_queue_releases_a_pod(cluster: Cluster) -> None:
    cluster.create(pod("eager", "of-nobody"))

    for attempt in (
        {"spec": {"schedulingGates": None}},
        {"metadata": {"labels": {f"{GROUP}/managed": None}}},
        {"metadata": {"labels": {f"{GROUP}/managed": "false"}}},
        {"metadata": {"labels": None}, "spec": {"schedulingGates": None}},
    ):
        with pytest.raises(ApiError, match="released by its queue"):
            cluster.patch("Pod", "eager", attempt)
    cluster.delete("Pod", "eager")  # that is everybody's right
    cluster.until("it is gone", lambda: not cluster.is_there(PODS, "eager"))


def test_a_pod_that_no_policy_has_gated_is_left_alone_and_told_so(cluster: Cluster) -> None:
    """As on servers that don't have such policies yet."""
    cluster.create_all(ROOM.format(name="late"))
    cluster.do(lambda client: client.delete(BINDINGS, "makeway-gate-queued-pods"))
    cluster.until("pods come free", lambda: not is_gated(cluster.create(PROBE, dry_run=True)))

    before = cluster.create(pod("free", "late"))

    def is_told() -> bool:
        return any(
            event["reason"] == "NotQueued" and event["involvedObject"]["name"] == "free"
            for event in cluster.list(EVENTS)
        )

    cluster.until("it is told", is_told)
    assert (
        cluster.get("Pod", "free")["metadata"]["resourceVersion"]
        == (before["metadata"]["resourceVersion"])
    )
