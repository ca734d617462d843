"""Makeway takes Kueue's place on a real server: what was there stays, and what runs goes on."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from makeway.client.client import Document
from makeway.deploy.applying import CRDS
from tests.harness.cli import Capsys
from tests.kube import kueue_house as kueue
from tests.kube.installing import Cluster, conditions_of, job
from tests.kube.plane import Plane, require_assets

pytestmark = pytest.mark.kube


class Moved:
    """Moved in at the second attempt; what there was before, and what was said.

    The first attempt stops at an object that can't be rewritten. An administrator mends that.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.running = cluster.get("Job", "running")
        self.pods = cluster.pods_of("running", 1)
        self.said_first = self._attempt(code=1)
        source = {"spec": {"priorityClassSource": kueue.CLASS_SOURCE}}
        cluster.patch("Workload", kueue.SPOILED, source)
        self.said_then = self._attempt(code=0)

    def _attempt(self, code: int) -> str:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.cluster.makeway("install", "--replace-kueue", "--apply", code=code)
        return said.getvalue()


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster as Kueue leaves it."""
    require_assets()
    plane = Plane(tmp_path_factory.mktemp("kube"), has_crds=False)
    try:
        cluster = Cluster(plane)
        kueue.build(cluster)
        yield cluster
    finally:
        plane.stop()


@pytest.fixture(scope="module")
def moved(left: Cluster) -> Moved:
    return Moved(left)


def definition(cluster: Cluster, plural: str) -> Document:
    return cluster.do(lambda client: client.get(CRDS, f"{plural}.{kueue.GROUP}"))


def test_replacing_kueue_says_first_what_it_will_do_and_does_nothing(
    left: Cluster, capsys: Capsys
) -> None:
    left.makeway("install", "--replace-kueue")

    told, warned = capsys.readouterr()
    assert f"scale deployment/{kueue.MANAGER} in kueue-system to 0" in told
    assert f"delete validatingwebhookconfiguration/{kueue.HOOK}" in told
    assert f"delete apiservice/{kueue.VISIBILITY}" in told
    assert "workloads.kueue.x-k8s.io to Makeway's" in told
    assert "objects in v1beta1 rewritten first" in told
    assert kueue.STRANGE_HOOK not in told
    assert "Nothing was done" in told
    assert "don't remove Kueue by its manifests" in warned
    assert "topologies.kueue.x-k8s.io" in warned
    assert definition(left, "workloads")["spec"]["conversion"]["strategy"] == "Webhook"
    assert left.is_there(kueue.HOOKS, kueue.HOOK, "")


def test_a_plain_install_does_not_touch_kueues_kinds(left: Cluster, capsys: Capsys) -> None:
    left.makeway("install", "--apply", code=1)

    assert "this cluster has Kueue in it" in capsys.readouterr().err
    assert definition(left, "workloads")["spec"]["conversion"]["strategy"] == "Webhook"


def test_kueues_programs_are_out_of_the_way_and_others_are_not(moved: Moved) -> None:
    cluster = moved.cluster

    deployment = cluster.do(lambda c: c.get(kueue.DEPLOYMENTS, kueue.MANAGER, kueue.NAMESPACE))
    assert deployment["spec"]["replicas"] == 0
    assert not cluster.is_there(kueue.HOOKS, kueue.HOOK, "")
    assert cluster.is_there(kueue.HOOKS, kueue.STRANGE_HOOK, "")
    assert not cluster.is_there(kueue.API_SERVICES, kueue.VISIBILITY, "")


def test_one_version_is_left_and_everything_is_stored_in_it(moved: Moved) -> None:
    for plural in ("workloads", "clusterqueues", "resourceflavors", "localqueues"):
        found = definition(moved.cluster, plural)
        assert found["spec"]["conversion"] == {"strategy": "None"}
        assert [version["name"] for version in found["spec"]["versions"]] == ["v1beta2"]
        assert found["status"]["storedVersions"] == ["v1beta2"]
        assert "annotations" not in found["metadata"]


def test_what_was_stored_in_old_words_has_lost_nothing(moved: Moved) -> None:
    speech = moved.cluster.get("ClusterQueue", "speech")
    assert speech["spec"]["cohortName"] == "lab"

    workload = moved.cluster.get("Workload", "stored-in-old-words")
    assert workload["spec"]["priorityClassRef"] == {
        "group": "kueue.x-k8s.io",
        "kind": "WorkloadPriorityClass",
        "name": "urgent",
    }
    assert workload["spec"]["priority"] == 7


def test_what_cannot_be_rewritten_stops_the_move_until_it_is_mended(moved: Moved) -> None:
    assert "workload/spoiled can't be rewritten: spec.priorityClassSource" in moved.said_first
    assert "it can be repeated" in moved.said_first

    mended = moved.cluster.get("Workload", kueue.SPOILED)
    assert mended["spec"]["priorityClassRef"]["name"] == "urgent"


def test_it_says_what_nobody_will_look_after(moved: Moved) -> None:
    assert "Makeway doesn't start or stop a JobSet" in moved.said_then


def test_what_may_be_in_use_stays_held(moved: Moved) -> None:
    held = [("ClusterQueue", "vision"), ("ClusterQueue", "speech"), ("Workload", kueue.RUNNING)]
    for kind, name in held:
        assert moved.cluster.get(kind, name)["metadata"]["finalizers"] == [kueue.IN_USE]


def test_new_jobs_wait_although_no_webhook_makes_them(moved: Moved) -> None:
    assert moved.cluster.create(job("newcomer"), dry_run=True)["spec"]["suspend"] is True


def test_to_replace_kueue_twice_changes_nothing(moved: Moved) -> None:
    before = definition(moved.cluster, "workloads")

    moved.cluster.makeway("install", "--replace-kueue", "--apply")
    moved.cluster.makeway("install", "--apply")  # as from now on

    after = definition(moved.cluster, "workloads")
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


def test_what_runs_goes_on_and_its_quota_counts(moved: Moved, tmp_path: Path) -> None:
    cluster = moved.cluster
    admitted = cluster.get("Workload", kueue.RUNNING)["status"]["admission"]
    with cluster.controller(tmp_path):
        cluster.until("the queue counts both", lambda: _counts(cluster) == (1, 1))

        assert cluster.get("Workload", kueue.RUNNING)["status"]["admission"] == admitted
        assert conditions_of(cluster.get("Workload", kueue.RUNNING))["Admitted"] == "True"
        assert cluster.get("Job", "running")["spec"] == moved.running["spec"]
        assert cluster.pods_of("running", 1) == moved.pods
        assert cluster.get("Job", "pending")["spec"]["suspend"] is True

        cluster.finish("running")
        cluster.until_condition(kueue.RUNNING, "Finished")
        cluster.until_condition(kueue.PENDING, "Admitted")
        (pod,) = cluster.pods_of("pending", 1)
        assert cluster.get("Pod", pod)["spec"]["nodeSelector"] == {"kind": "a100"}
        cluster.finish("pending")
        cluster.until_condition(kueue.PENDING, "Finished")


def test_pods_that_run_in_queues_go_on_and_may_be_replaced(moved: Moved, tmp_path: Path) -> None:
    cluster, names = moved.cluster, ("solo", "pair-a", "pair-b", "served")
    before = {name: cluster.get("Pod", name)["metadata"]["resourceVersion"] for name in names}
    with cluster.controller(tmp_path):
        cluster.until("the queue counts them", lambda: _counts(cluster, "pods") == (2, 0))
        cluster.create(kueue.pod("newcomer"))
        newcomer = cluster.workload_of("newcomer")  # by now all others were looked at
        cluster.until("the queue counts it too", lambda: _counts(cluster, "pods") == (2, 1))

        after = {name: cluster.get("Pod", name)["metadata"]["resourceVersion"] for name in names}
        assert after == before
        for workload in (kueue.SOLO, kueue.PAIR):
            conditions = conditions_of(cluster.get("Workload", workload))
            assert conditions["Admitted"] == conditions["PodsReady"] == "True"
            assert "WaitingForReplacementPods" not in conditions

        failed = {"status": {"phase": "Failed"}}
        cluster.patch("Pod", "pair-a", failed, subresource="status")
        cluster.until_condition(kueue.PAIR, "WaitingForReplacementPods")
        cluster.create(kueue.pod("pair-c", pod_group_name=kueue.PAIR))
        cluster.until("it starts", lambda: "schedulingGates" not in _spec(cluster, "pair-c"))
        assert _spec(cluster, "pair-c")["nodeSelector"] == {"kind": "a100"}
        cluster.patch("Pod", "solo", {"status": {"phase": "Succeeded"}}, subresource="status")
        cluster.until_condition(kueue.SOLO, "Finished")
        cluster.until_condition(newcomer, "Admitted")


def _spec(cluster: Cluster, pod: str) -> Document:
    spec: Document = cluster.get("Pod", pod)["spec"]
    return spec


def _counts(cluster: Cluster, queue: str = "vision") -> tuple[int, int]:
    """Admitted and pending workloads, as the queue tells."""
    status = cluster.get("ClusterQueue", queue).get("status") or {}
    return status.get("admittedWorkloads", 0), status.get("pendingWorkloads", 0)
