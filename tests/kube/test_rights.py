"""The controller has every right that it needs and none that it doesn't; the server's own log of
requests tells."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from makeway.api.kinds import (
    BUDGETS,
    COHORTS,
    EVENTS,
    GANGS,
    NODES,
    POD_GROUPS,
    PODS,
    WORKLOADS,
    Resource,
)
from makeway.client import ApiError
from makeway.client.client import Document
from makeway.deploy.installation import LEASE, NAME
from makeway.deploy.rights import CLUSTER_RULES, PLACING_RULES, lease_rules
from tests.kube.installing import SITE, Cluster, conditions_of, job
from tests.kube.plane import ALL_CONTROLLERS, Plane, require_assets

pytestmark = pytest.mark.kube

CLUSTER_ROLES = Resource("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", False)
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [SITE.account]}, {"level": "None"}],
}
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: plain}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: plain, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: house}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: vision}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
"""


FAIR: Document = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "fairSharing": {},
}


class Right(NamedTuple):
    group: str
    resource: str  # with its subresource
    verb: str


# The old shape of gangs: who has it gives this right by hand, and else is taken to have none.
NOT_GIVEN = Right("scheduling.k8s.io", "workloads", "list")
# Not requests of their own: asked by the server when a Workload names the Job or pod that waits for
# it.
ASKED_WITHIN = {
    Right("batch", "jobs/finalizers", "update"),
    Right("", "pods/finalizers", "update"),
}


class Request(NamedTuple):
    right: Right
    is_forbidden: bool


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_assets()
    folder = tmp_path_factory.mktemp("kube")
    (folder / "audit.yaml").write_text(yaml.safe_dump(AUDIT_POLICY))
    flags = (
        "--audit-policy-file=audit.yaml",
        "--audit-log-path=audit.log",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        "--feature-gates=GenericWorkload=true",
        "--runtime-config=scheduling.k8s.io/v1beta1=true",
    )
    # The last one makes `view` and `edit` of their parts.
    controllers = (*ALL_CONTROLLERS, "clusterrole-aggregation-controller")
    plane = Plane(folder, controllers, flags=flags, has_crds=False)
    try:
        yield Cluster(plane)
    finally:
        plane.stop()


@pytest.fixture(scope="module")
def requests(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> list[Request]:
    """What the controller has asked for while the stories below were played.

    Those of queues with the rights of a controller that places nobody.
    """
    cluster.makeway("install", "--no-placing", "--apply")
    cluster.create_all(QUEUES)
    queueing = replace(SITE, is_placing=False)
    with cluster.controller(tmp_path_factory.mktemp("queueing"), queueing, FAIR):
        play_shares(cluster)
        play_preemption_and_return(cluster)
        play_termination(cluster)
        play_leaving_the_queue(cluster)
        play_queued_pods(cluster)
    cluster.makeway("install", "--apply")
    with cluster.controller(tmp_path_factory.mktemp("placing")):
        play_placing(cluster, "bare", is_covered=False)
        play_placing(cluster, "covered", is_covered=True)
        play_gang(cluster, POD_GROUPS, "wide")
        play_gang(cluster, GANGS, "broad")
    return read_requests(cluster.plane.kubeconfig.parent / "audit.log")


def read_requests(path: Path) -> list[Request]:
    found: list[Request] = []
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        about = entry.get("objectRef")
        if about is None:
            continue  # discovery, which is open to all
        parts = (about["resource"], about.get("subresource"))
        resource = "/".join(filter(None, parts))
        right = Right(about.get("apiGroup", ""), resource, entry["verb"])
        decision = entry["annotations"]["authorization.k8s.io/decision"]
        found.append(Request(right, decision == "forbid"))
    return found


def rights_of(rules: Iterable[Document]) -> set[Right]:
    return {
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


# Stories


def play_preemption_and_return(cluster: Cluster) -> None:
    """A Job is admitted, makes way for an urgent one, and comes back."""
    cluster.create(job("patient"))
    patient = cluster.workload_of("patient")
    cluster.until_condition(patient, "Admitted")
    urgent = job("urgent")
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent"
    cluster.create(urgent)
    cluster.until_condition(patient, "Evicted")
    cluster.until_condition(cluster.workload_of("urgent"), "Admitted")
    cluster.finish("urgent")
    cluster.until_condition(patient, "Admitted")
    cluster.finish("patient")
    cluster.until_condition(patient, "Finished")
    cluster.until("its second start was told", lambda: _most_told(cluster, "Started") == 2)


def play_termination(cluster: Cluster) -> None:
    """A Job that is not to be queued again makes way, and has failed with it."""
    session = job("session")
    session["metadata"]["annotations"] = {"makeway.dev/on-preemption": "Terminate"}
    cluster.create(session)
    workload = cluster.workload_of("session")
    cluster.until_condition(workload, "Admitted")
    rush = job("rush")
    rush["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent"
    cluster.create(rush)
    cluster.until_condition(workload, "Finished")
    cluster.until_condition(cluster.workload_of("rush"), "Admitted")
    cluster.until(
        "its Job has failed", lambda: "Failed" in conditions_of(cluster.get("Job", "session"))
    )
    cluster.finish("rush")


def _most_told(cluster: Cluster, reason: str) -> int:
    counts = [e["count"] for e in cluster.list(EVENTS) if e["reason"] == reason]
    return max(counts, default=0)


def play_shares(cluster: Cluster) -> None:
    def is_told() -> bool:
        house = cluster.do(lambda client: client.get(COHORTS, "house"))
        return "fairSharing" in (house.get("status") or {})

    cluster.until("the cohort tells its share", is_told)


def play_leaving_the_queue(cluster: Cluster) -> None:
    cluster.create(job("leaver", cpu=9))
    workload = cluster.workload_of("leaver")
    cluster.patch("Job", "leaver", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}})
    cluster.until("its Workload is gone", lambda: not cluster.is_there(WORKLOADS, workload))


def play_placing(cluster: Cluster, node: str, *, is_covered: bool) -> None:
    """A pod gets the node that another one has to leave for it."""
    add_node(cluster, node, cpu=1)
    cluster.create(pod("first", node))
    cluster.until("it has its node", lambda: _node_of(cluster, f"{node}-first") == node)
    if is_covered:
        cover(cluster, node)
    cluster.create(pod("second", node, priorityClassName="urgent"))
    cluster.until("the first leaves", lambda: _is_leaving(cluster, f"{node}-first"))
    cluster.do(lambda client: client.delete(PODS, f"{node}-first", "default", grace_s=0))
    cluster.until("the second has its node", lambda: _node_of(cluster, f"{node}-second") == node)


def play_gang(cluster: Cluster, kind: Resource, node: str) -> None:
    add_node(cluster, node, cpu=2)
    policy = {"gang": {"minCount": 2}}
    group = {"apiVersion": kind.api_version, "kind": kind.kind}
    cluster.create({**group, "metadata": {"name": "pair"}, "spec": {"schedulingPolicy": policy}})
    for name in ("a", "b"):
        member = pod(name, node)
        if kind == GANGS:
            member["metadata"]["labels"]["makeway.dev/gang"] = "pair"
        else:
            member["spec"]["schedulingGroup"] = {"podGroupName": "pair"}
        cluster.create(member)
    members = (f"{node}-a", f"{node}-b")
    cluster.until("both have their node", lambda: {_node_of(cluster, n) for n in members} == {node})

    def is_told() -> bool:
        found = cluster.do(lambda client: client.get(kind, "pair", "default"))
        return bool(conditions_of(found))

    cluster.until("the gang tells how it fares", is_told)


def play_queued_pods(cluster: Cluster) -> None:
    """A pod that is queued for itself runs, makes way for an urgent one, and is gone."""
    for name in ("humble", "urgent"):
        queued = pod(name, "queued", schedulerName="nobody")
        queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
        if name == "urgent":
            queued["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent"
        cluster.create(queued)
        cluster.until_condition(cluster.workload_of(f"queued-{name}"), "Admitted")
        _until_released(cluster, f"queued-{name}")
    assert not cluster.is_there(PODS, "queued-humble")


def _until_released(cluster: Cluster, name: str) -> None:
    cluster.until(
        f"{name} is released", lambda: "schedulingGates" not in cluster.get("Pod", name)["spec"]
    )


def add_node(cluster: Cluster, name: str, cpu: int) -> None:
    metadata = {"name": name, "labels": {"place": name}}
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    amounts = {"cpu": str(cpu), "pods": "10"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    patch = {"status": status}
    cluster.do(lambda client: client.patch(NODES, name, patch=patch, subresource="status"))
    # Every node begins as not ready; nobody here takes that back but us.
    cluster.do(lambda client: client.patch(NODES, name, patch={"spec": {"taints": None}}))


def pod(name: str, node: str, **spec: object) -> Document:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{node}-{name}", "labels": {"app": f"{node}-{name}"}},
        "spec": {
            "schedulerName": "makeway",
            "nodeSelector": {"place": node},
            "containers": [container],
            **spec,
        },
    }


def cover(cluster: Cluster, node: str) -> None:
    """A budget that allows the first pod's end, and a pod well enough to count."""
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "conditions": [ready]}
    cluster.patch("Pod", f"{node}-first", {"status": status}, subresource="status")
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": f"{node}-first"}}}
    document = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec}
    cluster.create({**document, "metadata": {"name": node}})

    def allows_one() -> bool:
        found = cluster.do(lambda client: client.get(BUDGETS, node, "default"))
        return bool((found.get("status") or {}).get("disruptionsAllowed"))

    cluster.until("its budget allows it", allows_one)


def _node_of(cluster: Cluster, name: str) -> str | None:
    found: str | None = cluster.get("Pod", name)["spec"].get("nodeName")
    return found


def _is_leaving(cluster: Cluster, name: str) -> bool:
    return "deletionTimestamp" in cluster.get("Pod", name)["metadata"]


# What the audit log says


def test_nothing_that_the_controller_does_is_forbidden(requests: list[Request]) -> None:
    forbidden = {request.right for request in requests if request.is_forbidden}

    assert forbidden <= {NOT_GIVEN}


def test_no_right_is_there_that_is_never_used(requests: list[Request]) -> None:
    given = rights_of((*CLUSTER_RULES, *PLACING_RULES)) | rights_of(lease_rules(LEASE))
    used = {request.right for request in requests if not request.is_forbidden}

    assert given - used == ASKED_WITHIN


@pytest.mark.parametrize("right", sorted(ASKED_WITHIN))
def test_without_the_right_to_hold_owners_some_servers_refuse_workloads(
    cluster: Cluster, requests: list[Request], right: Right
) -> None:
    owner = job("owner", queue="") if right.group else pod("pod", "owner")
    made = cluster.create(owner)
    reference = {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
    reference |= {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
    reference |= {"controller": True, "blockOwnerDeletion": True}
    workload = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": "owned", "ownerReferences": [reference]},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": {"spec": {}}}]},
    }
    token = cluster.token()
    cluster.create(workload, token=token, dry_run=True)
    all_rules = (*CLUSTER_RULES, *PLACING_RULES)
    rules = [rule for rule in all_rules if rule["resources"] != [right.resource]]

    cluster.do(lambda client: client.patch(CLUSTER_ROLES, NAME, patch={"rules": rules}))

    def is_refused() -> bool:
        try:
            cluster.create(workload, token=token, dry_run=True)
        except ApiError as error:
            return "blockOwnerDeletion" in error.message
        return False

    cluster.until("it is refused", is_refused)


@pytest.mark.parametrize(
    ("role", "verb", "is_allowed"),
    [("view", "list", True), ("view", "create", False), ("edit", "create", True)],
)
def test_kubernetes_own_roles_take_in_what_users_may_do_with_gangs(
    cluster: Cluster, requests: list[Request], role: str, verb: str, is_allowed: bool
) -> None:
    group = "rbac.authorization.k8s.io"
    bound: Document = {"kind": "RoleBinding", "metadata": {"name": f"{role}-{verb}"}}
    bound["roleRef"] = {"apiGroup": group, "kind": "ClusterRole", "name": role}
    subject = {"kind": "User", "apiGroup": group, "name": f"a-user-who-may-{role}"}
    cluster.create({"apiVersion": f"{group}/v1", **bound, "subjects": [subject]})
    asked = {"namespace": "default", "group": GANGS.group, "resource": GANGS.plural, "verb": verb}
    review: Document = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    review |= {"metadata": {}, "spec": {"user": subject["name"], "resourceAttributes": asked}}

    def is_so() -> bool:
        kind = Resource(review["apiVersion"], "subjectaccessreviews", review["kind"], False)
        answer = cluster.do(lambda client: client.create(kind, review))
        return bool(answer["status"].get("allowed", False)) is is_allowed

    cluster.until(f"{role} may {'' if is_allowed else 'not '}{verb}", is_so)
