"""`makeway install` on a real server: it takes every object, and the policies do what they say."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import JOBS, PODS, QUEUES, WORKLOADS, Resource
from makeway.api.manifests import write_yaml
from makeway.cli.uninstall import LET_GO
from makeway.client import ApiError
from makeway.deploy.installation import controller, installation
from tests.kube.installing import SITE, Cluster, job
from tests.kube.plane import BOOKKEEPING, Plane, require_assets
from tests.prerequisites import program

pytestmark = pytest.mark.kube

Document = dict[str, Any]
POLICIES = Resource(
    "admissionregistration.k8s.io/v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    False,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with Makeway's objects in it, whose controller nobody runs."""
    require_assets()
    plane = Plane(tmp_path_factory.mktemp("kube"), BOOKKEEPING, has_crds=False)
    try:
        cluster = Cluster(plane)
        cluster.makeway("install", "--apply")
        cluster.until("policies are in force", lambda: _is_in_force(cluster))
        yield cluster
    finally:
        plane.stop()


def _is_in_force(cluster: Cluster) -> bool:
    """A policy takes a moment to be heard of."""
    made = cluster.create(job("probe"), dry_run=True)
    pod = cluster.create(_pod("probe"), dry_run=True)
    return bool(made["spec"].get("suspend")) and "schedulingGates" in pod["spec"]


def _pod(name: str, **metadata: Any) -> Document:
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    container = {"name": "main", "image": "busybox"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": {"containers": [container]},
    }


def _owner(kind: str) -> list[Document]:
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": "above", "controller": True}
    return [{**owner, "uid": "5e1f6a1c-0d35-4a0e-9d8c-0d6c2f1f0a11"}]


def test_every_object_is_there_afterwards(cluster: Cluster) -> None:
    for document in installation(SITE):
        assert cluster.has(document), document["metadata"]


def test_a_second_time_changes_nothing(cluster: Cluster) -> None:
    before = cluster.do(lambda client: client.get(POLICIES, "makeway-suspend-queued-jobs"))

    cluster.makeway("install", "--apply")

    after = cluster.do(lambda client: client.get(POLICIES, "makeway-suspend-queued-jobs"))
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_what_is_printed_can_be_applied_and_deleted_with_kubectl(
    cluster: Cluster, tmp_path: Path
) -> None:
    kubectl = program("kubectl")
    printed = tmp_path / "makeway.yaml"
    printed.write_text(write_yaml(*installation(SITE)))

    for words in (["apply", "--server-side", "--force-conflicts"], ["delete"]):
        command = [kubectl, "--kubeconfig", str(cluster.plane.kubeconfig), *words]
        command += ["--dry-run=server", "-f", str(printed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_controllers_pod_meets_the_strictest_standard_of_kubernetes(cluster: Cluster) -> None:
    deployment = next(d for d in controller(SITE) if d["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    metadata = {**template["metadata"], "name": "probe", "namespace": SITE.namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    cluster.create(pod, dry_run=True)  # its namespace enforces `restricted`
    del pod["spec"]["securityContext"]
    with pytest.raises(ApiError, match="violates PodSecurity"):
        cluster.create(pod, dry_run=True)


def test_a_job_waits_only_if_it_names_a_queue(cluster: Cluster) -> None:
    for document, waits in [
        (job("queued"), True),
        (job("free", queue=""), False),
        (job("elsewhere", managedBy="example.com/dispatcher"), False),
    ]:
        made = cluster.create(document, dry_run=True)
        assert made["spec"].get("suspend", False) is waits


def test_a_job_of_a_cron_job_waits_and_a_part_of_a_job_does_not(cluster: Cluster) -> None:
    for kind, waits in [("CronJob", True), ("Job", False)]:
        document = job("part")
        document["metadata"]["ownerReferences"] = _owner(kind)
        made = cluster.create(document, dry_run=True)
        assert made["spec"].get("suspend", False) is waits


def test_only_the_controller_starts_a_queued_job(cluster: Cluster) -> None:
    cluster.create(job("held"))
    start = {"spec": {"suspend": False}}

    with pytest.raises(ApiError, match="is started by its queue") as refusal:
        cluster.patch("Job", "held", start)
    assert refusal.value.code == 403
    label = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}}
    with pytest.raises(ApiError, match="is started by its queue"):
        cluster.patch("Job", "held", {**start, **label})
    cluster.patch("Job", "held", {"metadata": {"labels": {"mine": "yes"}}})  # all else is free
    assert cluster.patch("Job", "held", start, token=cluster.token())["spec"]["suspend"] is False
    assert cluster.patch("Job", "held", {"spec": {"suspend": True}})["spec"]["suspend"] is True


def test_a_job_that_has_left_its_queue_is_its_users_again(cluster: Cluster) -> None:
    cluster.create(job("leaver"))

    cluster.patch("Job", "leaver", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}})

    started = cluster.patch("Job", "leaver", {"spec": {"suspend": False}})
    assert started["spec"]["suspend"] is False


def test_a_pod_without_a_job_is_gated_and_stays_so(cluster: Cluster) -> None:
    made = cluster.create(_pod("alone"))

    assert made["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    assert made["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
    assert made["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    with pytest.raises(ApiError, match="released by its queue"):
        cluster.patch("Pod", "alone", {"spec": {"schedulingGates": None}})
    with pytest.raises(ApiError, match="released by its queue"):  # the first step to it
        cluster.patch("Pod", "alone", {"metadata": {"labels": {"kueue.x-k8s.io/managed": None}}})
    cluster.patch("Pod", "alone", {"metadata": {"labels": {"mine": "yes"}}})  # all else is free
    of_a_job = cluster.create(_pod("member", ownerReferences=_owner("Job")), dry_run=True)
    assert "schedulingGates" not in of_a_job["spec"]
    of_a_set = cluster.create(_pod("member", ownerReferences=_owner("ReplicaSet")), dry_run=True)
    assert "schedulingGates" in of_a_set["spec"]


def _queueing(kind: str, name: str, namespace: str = "", **more: Any) -> Document:
    where = {"namespace": namespace} if namespace else {}
    version = "kueue.x-k8s.io/v1beta2"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where}, **more}


def _labels(cluster: Cluster, document: Document) -> Document:
    return cluster.create(document, dry_run=True)["metadata"].get("labels") or {}


def test_queue_and_class_named_default_are_for_who_names_none(cluster: Cluster) -> None:
    queue_name, class_name = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    cluster.create(team)
    cluster.create(_queueing("LocalQueue", "default", "team", spec={"clusterQueue": "q"}))
    cluster.create(_queueing("WorkloadPriorityClass", "default", value=50))
    free = job("free", queue="")
    free["metadata"]["namespace"] = "team"
    alone = _pod("alone", namespace="team", labels={})
    part = _pod("part", namespace="team", labels={}, ownerReferences=_owner("ReplicaSet"))

    for document in (free, alone):
        cluster.until("it is heard of", lambda: class_name in _labels(cluster, document))  # noqa: B023

    made = cluster.create(free, dry_run=True)
    assert made["metadata"]["labels"][queue_name] == "default"
    assert made["spec"]["suspend"] is True
    pod = cluster.create(alone, dry_run=True)
    names = {queue_name: "default", class_name: "default", "kueue.x-k8s.io/managed": "true"}
    assert pod["metadata"]["labels"] == names
    assert "schedulingGates" in pod["spec"]
    assert _labels(cluster, part) == {}
    assert queue_name not in _labels(cluster, job("elsewhere", queue=""))  # another namespace
    assert _labels(cluster, job("named"))[class_name] == "default"  # queued there by its name


def _queue(*groups: Document, **spec: Any) -> Document:
    return _queueing("ClusterQueue", "strict", spec={"resourceGroups": list(groups), **spec})


def _group(resource: str, *flavors: str) -> Document:
    quota = [{"name": resource, "nominalQuota": 1}]
    listed = [{"name": flavor, "resources": quota} for flavor in flavors]
    return {"coveredResources": [resource], "flavors": listed}


def _pod_sets(count: int = 1, **resources: Any) -> Document:
    pods = {"containers": [{"name": "c", "resources": resources}]}
    sets = [{"name": f"s{n}", "count": 1, "template": {"spec": pods}} for n in range(count)]
    return _queueing("Workload", "strict", "default", spec={"podSets": sets})


def _selecting(**expression: Any) -> Document:
    return _queue(namespaceSelector={"matchExpressions": [expression]})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (_queue(_group("cpu", "a"), _group("memory", "a")), "in one group only"),
        (_queue(_group("cpu", "a", "a")), "Duplicate value"),
        (_selecting(key="team", operator="In"), "need values"),
        (_selecting(key="team", operator="Exists", values=["a"]), "need values"),
        (_selecting(key="no key", operator="Exists"), "should match"),
        (_queue(fairSharing={"weight": "1n"}), "more than 1n"),
        (_pod_sets(requests={"cpu": -1}), "must not be negative"),
        (_pod_sets(limits={"memory": "-1Gi"}), "must not be negative"),
        (_pod_sets(requests={"pods": 1}), "nor name pods"),
        (_pod_sets(19), "must have at most 18 items"),
    ],
    ids=[
        *("flavor-in-two-groups", "flavor-twice", "in-without-values", "exists-with-values"),
        *("bad-key", "tiny-weight", "negative-request", "negative-limit", "pods", "19-pod-sets"),
    ],
)
def test_what_is_wrong_is_refused_by_the_server(
    cluster: Cluster, document: Document, words: str
) -> None:
    with pytest.raises(ApiError, match=words):
        cluster.create(document, dry_run=True)


def test_and_what_is_right_is_taken(cluster: Cluster) -> None:
    cluster.create(_queue(_group("cpu", "a", "b"), _group("memory", "c")), dry_run=True)
    cluster.create(_selecting(key="team", operator="In", values=["a"]), dry_run=True)
    cluster.create(_queue(fairSharing={"weight": "0"}), dry_run=True)
    cluster.create(_pod_sets(18, requests={"cpu": "500m"}), dry_run=True)


ALL = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchLabels: {queued: "yes"}}
"""


def test_where_all_jobs_are_managed_none_starts_without_a_queue(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(ALL)
    labels = {"queued": "yes"}
    metadata = {"name": "strict", "labels": labels}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    inside, outside = job("inside", queue=""), job("outside")  # though the latter names a queue
    inside["metadata"]["namespace"] = "strict"
    part = _pod("part", namespace="strict", labels={}, ownerReferences=_owner("ReplicaSet"))
    try:
        cluster.makeway("install", "--apply", "--config", str(tmp_path / "config.yaml"))
        cluster.until("it is in force", lambda: _is_suspended(cluster, inside))
        cluster.until("elsewhere not", lambda: not _is_suspended(cluster, outside))

        cluster.create(inside)
        cluster.until("nobody else starts it", lambda: not _may_start(cluster, "inside"))
        alone = cluster.create(_pod("alone", namespace="strict", labels={}), dry_run=True)
        assert "schedulingGates" in alone["spec"]
        assert "schedulingGates" not in cluster.create(part, dry_run=True)["spec"]
    finally:
        cluster.makeway("install", "--apply")
        cluster.until("the usual holds again", lambda: _is_suspended(cluster, outside))


def _may_start(cluster: Cluster, name: str) -> bool:
    """Tries it, and stops it again if it may: the new policy takes a moment to be heard of."""
    start, stop = ({"spec": {"suspend": is_suspended}} for is_suspended in (False, True))
    try:
        cluster.do(lambda c: c.patch(JOBS, name, "strict", patch=start))
    except ApiError as error:
        if "started by its queue" not in str(error):
            raise
        return False
    cluster.do(lambda c: c.patch(JOBS, name, "strict", patch=stop))
    return True


def _is_suspended(cluster: Cluster, document: Document) -> bool:
    return bool(cluster.create(document, dry_run=True)["spec"].get("suspend"))


def held_workload(cluster: Cluster, name: str) -> None:
    """A Workload that was deleted, and waits for a controller to let it go."""
    template: Document = {"spec": {"containers": []}}
    workload = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": name, "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    cluster.create(workload)
    cluster.delete("Workload", name)
    assert cluster.is_there(WORKLOADS, name)


def held_queue(cluster: Cluster, name: str) -> None:
    """A queue that was deleted, likewise."""
    queue = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {"name": name, "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
        "spec": {},
    }
    cluster.create(queue)
    cluster.delete("ClusterQueue", name)
    assert cluster.is_there(QUEUES, name, "")


def held_pod(cluster: Cluster, name: str) -> None:
    """A queued pod that was deleted, likewise."""
    cluster.create(_pod(name))
    cluster.delete("Pod", name)
    assert cluster.is_there(PODS, name)


def test_the_words_by_which_workloads_and_pods_are_freed_are_true(cluster: Cluster) -> None:
    program("kubectl")
    held_workload(cluster, "waits")
    held_queue(cluster, "waits")
    held_pod(cluster, "waits")
    _, _, script = LET_GO.partition("or:\n")

    variables = {**os.environ, "KUBECONFIG": str(cluster.plane.kubeconfig)}
    subprocess.run(["sh", "-c", script], env=variables, check=True, capture_output=True)

    assert not cluster.is_there(WORKLOADS, "waits")
    assert not cluster.is_there(QUEUES, "waits", "")
    assert not cluster.is_there(PODS, "waits")


def test_uninstalling_lets_everything_go_and_stops_nothing(cluster: Cluster) -> None:
    cluster.create(job("runs"))
    cluster.patch("Job", "runs", {"spec": {"suspend": False}}, token=cluster.token())
    held_workload(cluster, "held")
    held_queue(cluster, "held")
    held_pod(cluster, "held")

    cluster.makeway("uninstall", "--apply")

    assert not cluster.is_there(WORKLOADS, "held")
    assert not cluster.is_there(QUEUES, "held", "")
    assert not cluster.is_there(PODS, "held")
    assert not cluster.is_there(POLICIES, "makeway-suspend-queued-jobs", "")
    runs = cluster.get("Job", "runs")
    assert runs["spec"]["suspend"] is False
    assert "deletionTimestamp" not in runs["metadata"]
    cluster.until(
        "queued jobs are free",
        lambda: not cluster.create(job("probe"), dry_run=True)["spec"].get("suspend"),
    )
    cluster.makeway("uninstall", "--crds", "--apply")
    cluster.until("the kinds are gone", lambda: not _has_kinds(cluster))
    assert cluster.is_there(JOBS, "runs")


def _has_kinds(cluster: Cluster) -> bool:
    try:
        cluster.do(lambda client: client.list(WORKLOADS))
    except ApiError:
        return False
    return True
