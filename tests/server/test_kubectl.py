"""The unmodified kubectl against a server of its own process: the last judge."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import RESOURCES
from tests.harness.served import Served, embedded_server
from tests.prerequisites import shared_path
from tests.server.harness import Kubectl

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, labels: {app: NAME}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: python, command: [sleep, "1"]}]
"""
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: NAME}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: spot, resources: [{name: cpu, nominalQuota: 4}]}]
"""
POD_SPEC = {"containers": [{"name": "main", "image": "python"}], "restartPolicy": "Never"}
# One object of every kind that is served: group and version, kind, and what it must have.
RBAC = "rbac.authorization.k8s.io/v1"
READS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "every"}
BOB = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
EVERY_KIND: list[tuple[str, str, dict[str, Any]]] = [
    ("v1", "ConfigMap", {"data": {"a": "1"}}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80}]}}),
    ("discovery.k8s.io/v1", "EndpointSlice", {"addressType": "IPv4", "endpoints": []}),
    ("v1", "Secret", {"data": {"a": "MQ=="}}),
    ("v1", "Namespace", {}),
    ("v1", "Node", {}),
    ("v1", "Pod", {"spec": POD_SPEC}),
    ("v1", "Event", {"involvedObject": {"kind": "Job", "namespace": "default"}, "reason": "R"}),
    (
        "batch/v1",
        "CronJob",
        {
            "spec": {
                "schedule": "@yearly",
                "jobTemplate": {"spec": {"template": {"spec": POD_SPEC}}},
            }
        },
    ),
    ("batch/v1", "Job", {"spec": {"template": {"spec": POD_SPEC}}}),
    ("kueue.x-k8s.io/v1beta2", "AdmissionCheck", {"spec": {"controllerName": "example.com/x"}}),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue", {}),
    ("kueue.x-k8s.io/v1beta2", "Cohort", {}),
    ("kueue.x-k8s.io/v1beta2", "LocalQueue", {"spec": {"clusterQueue": "x"}}),
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor", {}),
    (
        "kueue.x-k8s.io/v1beta2",
        "Workload",
        {"spec": {"podSets": [{"name": "main", "template": {"spec": POD_SPEC}}]}},
    ),
    ("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", {"value": 5}),
    ("kueue.x-k8s.io/v1beta2", "Topology", {"spec": {"levels": [{"nodeLabel": "rack"}]}}),
    ("kueue.x-k8s.io/v1beta2", "MultiKueueConfig", {"spec": {"clusters": ["x"]}}),
    ("kueue.x-k8s.io/v1beta2", "MultiKueueCluster", {"spec": {}}),
    ("kueue.x-k8s.io/v1beta2", "ProvisioningRequestConfig", {"spec": {}}),
    ("makeway.dev/v1", "Gang", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 5}),
    (
        "scheduling.k8s.io/v1beta1",
        "PodGroup",
        {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}},
    ),
    (
        "scheduling.k8s.io/v1alpha1",
        "Workload",
        {"spec": {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 2}}}]}},
    ),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1}}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "64"}}]}}),
    ("node.k8s.io/v1", "RuntimeClass", {"handler": "kata", "overhead": {"podFixed": {"cpu": 1}}}),
    ("coordination.k8s.io/v1", "Lease", {"spec": {"holderIdentity": "me"}}),
    (RBAC, "ClusterRole", {"rules": [READS]}),
    (RBAC, "ClusterRoleBinding", {"roleRef": ROLE, "subjects": [BOB]}),
    (RBAC, "Role", {"rules": [READS]}),
    (RBAC, "RoleBinding", {"roleRef": ROLE, "subjects": [BOB]}),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with embedded_server(tmp_path_factory.mktemp("data")) as started:
        yield started


@pytest.fixture(scope="module")
def kubectl(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(server.kubeconfig, tmp_path_factory.mktemp("home"))


def test_it_knows_the_kinds_and_the_user(kubectl: Kubectl) -> None:
    assert "Server Version: v1.37" in kubectl.run("version")
    kinds = kubectl.run("api-resources")
    for kind in ("ClusterQueue", "LocalQueue", "Workload", "Job", "Pod", "Lease", "PodGroup"):
        assert kind in kinds
    assert kubectl.run("auth", "can-i", "create", "jobs") == "yes\n"
    assert "makeway-admin" in kubectl.run("auth", "whoami")
    assert "*.*" in kubectl.run("auth", "can-i", "--list")


ALPHA = """
apiVersion: kueue.x-k8s.io/v1alpha2
kind: ClusterQueue
metadata: {name: alpha}
spec:
  cohort: lab
  namespaceSelector: {}
  preemption: {withinCohort: Always, withinClusterQueue: LowerPriorityOnly}
  resources: [{name: cpu, flavors: [{name: spot, quota: {min: 4, max: 6}}]}]
"""


def test_the_oldest_version_is_served_too(kubectl: Kubectl) -> None:
    kubectl.run("apply", "-f", "-", text=ALPHA)
    kubectl.run("apply", "-f", "-", text=ALPHA)
    kubectl.run("apply", "-f", "-", text=ALPHA.replace("min: 4", "min: 5"))
    group = "jsonpath={.spec.preemption.reclaimWithinCohort} {.spec.resourceGroups[0].flavors[0]}"
    shown = kubectl.run("get", "cq", "alpha", "-o", group)
    assert shown.startswith("Any ")
    assert '"borrowingLimit":"1","name":"cpu","nominalQuota":5' in shown
    kubectl.run("delete", "cq", "alpha")


def test_events_are_the_same_by_either_name(kubectl: Kubectl) -> None:
    about = {"kind": "Job", "namespace": "default", "name": "x"}
    event = {"involvedObject": about, "reason": "Seen", "message": "by two names", "type": "Normal"}
    event |= {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "two-names"}}
    kubectl.run("create", "-f", "-", text=json.dumps(event))
    assert "by two names" in kubectl.run("get", "events")
    new = kubectl.run("get", "events.events.k8s.io", "-o", "jsonpath={.items[*].note}")
    assert new == "by two names"
    assert "FIELD: note <string>" in kubectl.run(
        "explain", "event.note", "--api-version=events.k8s.io/v1"
    )
    kubectl.run("delete", "events.events.k8s.io", "two-names")


def test_the_samples_of_kueue_apply_unchanged(kubectl: Kubectl) -> None:
    files: dict[str, list[str]] = {"apply": [], "create": []}
    for path in sorted(shared_path("samples/kueue").glob("*.yaml")):
        verb = "create" if "generateName" in path.read_text() else "apply"
        files[verb] += ["-f", str(path)]
    for verb, given in files.items():
        kubectl.run(verb, *given)
    assert kubectl.run("get", "cq").splitlines()[0].split()[:2] == ["NAME", "COHORT"]
    assert "user-queue" in kubectl.run("get", "queues")
    assert "sample-job" in kubectl.run("get", "all")


def test_every_kind_goes_through_every_verb(kubectl: Kubectl, tmp_path: Path) -> None:
    items = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "every"}, **rest}
        for version, kind, rest in EVERY_KIND
    ]
    file = tmp_path / "every.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    count, given = len(items), ("-f", str(file))
    assert count == len(RESOURCES)
    assert kubectl.run("create", *given).count(" created") == count
    assert kubectl.run("apply", *given).count(" configured") == count  # now with the annotation
    again = kubectl.run("apply", *given)
    # kubectl sends the list of pod sets again, as it does for any CRD with defaults in a list.
    assert again.count(" unchanged") == count - 1, again
    kubectl.run("diff", *given)
    assert kubectl.run("apply", "--server-side", *given).count(" serverside-applied") == count
    assert kubectl.run("label", "x=y", *given).count(" labeled") == count
    assert kubectl.run("annotate", "x=y", *given).count(" annotated") == count
    assert kubectl.run("patch", "--type=merge", "-p", '{"metadata":{"labels":{"x":"z"}}}', *given)
    assert kubectl.run("get", *given, "-o", "wide").count("every") >= count
    assert kubectl.run("describe", *given).count("every") >= count
    found = kubectl.run("get", *given, "-o", "json")
    assert {item["metadata"]["labels"]["x"] for item in json.loads(found)["items"]} == {"z"}
    assert kubectl.run("replace", "-f", "-", text=found).count(" replaced") == count
    editor = {"EDITOR": "sed -i 's/x: z/x: edited/'"}
    assert kubectl.run("edit", *given, more=editor).count(" edited") == count
    assert kubectl.run("delete", *given).count(" deleted") == count


def test_client_side_apply_creates_keeps_and_changes(kubectl: Kubectl) -> None:
    for text, name in ((JOB, "job.batch/csa"), (QUEUE, "clusterqueue.kueue.x-k8s.io/csa")):
        text = text.replace("NAME", "csa")
        assert kubectl.run("apply", "-f", "-", text=text) == f"{name} created\n"
        assert kubectl.run("apply", "-f", "-", text=text) == f"{name} unchanged\n"
    changed = QUEUE.replace("NAME", "csa").replace("Quota: 4", "Quota: 5")
    assert "configured" in kubectl.run("apply", "-f", "-", text=changed)
    changed = JOB.replace("NAME", "csa").replace("suspend: true", "suspend: false")
    assert "-  suspend: true\n" in kubectl.run("diff", "-f", "-", text=changed, code=1)
    assert "configured" in kubectl.run("apply", "-f", "-", text=changed)
    found = json.loads(kubectl.run("get", "job", "csa", "-o", "json"))
    assert found["spec"]["suspend"] is False
    assert found["metadata"]["generation"] == 2


def test_server_side_apply_notices_other_managers(kubectl: Kubectl) -> None:
    text = JOB.replace("NAME", "ssa")
    apply = ("apply", "--server-side", "-f", "-")
    assert kubectl.run(*apply, text=text) == "job.batch/ssa serverside-applied\n"
    kubectl.run("patch", "job", "ssa", "-p", '{"spec":{"parallelism":3}}')
    theirs = text.replace("suspend: true", "suspend: true\n  parallelism: 5")
    refused = kubectl.run(*apply, text=theirs, code=1)
    assert 'conflict with "kubectl-patch" using batch/v1: .spec.parallelism' in refused
    kubectl.run(*apply, "--force-conflicts", text=theirs)
    assert kubectl.run("get", "job", "ssa", "-o", "jsonpath={.spec.parallelism}") == "5"
    # What is no longer applied goes away, and its default comes back.
    kubectl.run(*apply, text=text)
    assert kubectl.run("get", "job", "ssa", "-o", "jsonpath={.spec.parallelism}") == "1"


def test_an_object_moves_from_client_side_to_server_side_apply(kubectl: Kubectl) -> None:
    text = QUEUE.replace("NAME", "moved")
    kubectl.run("apply", "-f", "-", text=text)
    kubectl.run("apply", "--server-side", "-f", "-", text=text)
    shorter = text.replace("  namespaceSelector: {}\n", "")
    kubectl.run("apply", "--server-side", "-f", "-", text=shorter)
    found = json.loads(kubectl.run("get", "cq", "moved", "-o", "json"))
    assert "namespaceSelector" not in found["spec"]


def test_single_changes(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", text=JOB.replace("NAME", "edits"))
    kubectl.run("label", "job", "edits", "team=vision")
    kubectl.run("annotate", "job", "edits", "note=hello")
    kubectl.run("patch", "job", "edits", "--type=merge", "-p", '{"spec":{"backoffLimit":1}}')
    kubectl.run("patch", "job", "edits", "-p", '{"spec":{"backoffLimit":2}}')
    operation = '[{"op":"replace","path":"/spec/backoffLimit","value":3}]'
    kubectl.run("patch", "job", "edits", "--type=json", "-p", operation)
    status = '{"status":{"active":2}}'
    kubectl.run("patch", "job", "edits", "--subresource=status", "--type=merge", "-p", status)
    editor = {"EDITOR": "sed -i 's/backoffLimit: 3/backoffLimit: 4/'"}
    kubectl.run("edit", "job", "edits", more=editor)
    kubectl.run("wait", "--for=jsonpath={.status.active}=2", "job/edits", "--timeout=10s")
    text = kubectl.run("get", "job", "edits", "-o", "json")
    found = json.loads(text)
    assert found["spec"]["backoffLimit"] == 4
    assert found["metadata"]["labels"] == {"app": "edits", "team": "vision"}
    found["metadata"]["labels"] = {"app": "edits"}
    assert "replaced" in kubectl.run("replace", "-f", "-", text=json.dumps(found))
    assert "Conflict" in kubectl.run("replace", "-f", "-", text=text, code=1)
    kubectl.run("patch", "cq", "csa", "-p", "{}", code=1)  # strategic, on a custom kind


def test_gets_of_all_sorts(kubectl: Kubectl) -> None:
    for name in ("g1", "g2"):
        kubectl.run("apply", "-f", "-", text=JOB.replace("NAME", name))
    assert kubectl.run("get", "job", "-l", "app in (g1,g2)", "-o", "name").split() == [
        "job.batch/g1",
        "job.batch/g2",
    ]
    lines = kubectl.run("get", "jobs", "-A", "--field-selector=metadata.name=g1").splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert lines[1].split()[:2] == ["default", "g1"]
    assert "g2" in kubectl.run("get", "jobs", "--chunk-size=1")
    assert "g2" in kubectl.run("get", "jobs", "--sort-by=.metadata.name", "--show-labels")
    assert "field label not supported" in kubectl.run(
        "get", "jobs", "--field-selector=spec.x=1", code=1
    )
    assert kubectl.run("get", "clusterqueues.v1beta1.kueue.x-k8s.io", "-o", "name")
    assert '"nope" not found' in kubectl.run("get", "job", "nope", code=1)
    assert "Suspend" in kubectl.run("describe", "job", "g1")
    assert "Nominal Quota" in kubectl.run("describe", "cq", "csa")


def test_mistakes_are_refused_with_their_path(kubectl: Kubectl) -> None:
    typo = JOB.replace("NAME", "typo").replace("suspend", "suspnd")
    assert 'unknown field "spec.suspnd"' in kubectl.run("apply", "-f", "-", text=typo, code=1)
    warned = kubectl.run("apply", "--validate=warn", "-f", "-", text=typo)
    assert 'Warning: unknown field "spec.suspnd"' in warned
    bad = QUEUE.replace("NAME", "bad").replace("Quota: 4", "Quota: lots")
    refused = kubectl.run("apply", "-f", "-", text=bad, code=1)
    assert 'nominalQuota: Invalid value: "lots": is not a quantity' in refused
    assert "typo" in kubectl.run("get", "job", "typo")


def test_lists_and_dry_runs(kubectl: Kubectl) -> None:
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in "xy"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    kubectl.run("apply", "--dry-run=server", "-f", "-", text=text)
    assert "NotFound" in kubectl.run("get", "ns", "x", code=1)
    kubectl.run("apply", "-f", "-", text=text)
    kubectl.run("delete", "ns", "x", "y")


def test_deleting(kubectl: Kubectl) -> None:
    for name in ("d1", "d2", "d3"):
        kubectl.run("create", "-f", "-", text=JOB.replace("NAME", name))
    kubectl.run("delete", "job", "d1", "--cascade=foreground")
    kubectl.run("delete", "job", "d2", "--cascade=orphan", "--wait=true")
    kubectl.run("delete", "jobs", "-l", "app=d3")
    assert kubectl.run("get", "jobs", "-o", "name").count("job.batch/d") == 0
    held = '{"metadata":{"finalizers":["example.com/hold"]}}'
    kubectl.run("create", "-f", "-", text=JOB.replace("NAME", "held"))
    kubectl.run("patch", "job", "held", "--type=merge", "-p", held)
    kubectl.run("delete", "job", "held", "--wait=false")
    waiting = subprocess.Popen(
        [kubectl.binary, "wait", "--for=delete", "job/held", "--timeout=20s"],
        env=kubectl.environment,
        stdout=subprocess.DEVNULL,
    )
    kubectl.run("patch", "job", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert waiting.wait(20) == 0


def test_events_and_logs(kubectl: Kubectl, server: Served) -> None:
    kubectl.run("create", "-f", "-", text=JOB.replace("NAME", "told"))
    uid = kubectl.run("get", "job", "told", "-o", "jsonpath={.metadata.uid}")
    event = f"""
apiVersion: v1
kind: Event
metadata: {{name: told.1}}
involvedObject: {{apiVersion: batch/v1, kind: Job, name: told, namespace: default, uid: {uid}}}
type: Normal
reason: Admitted
message: Admitted by ClusterQueue vision
lastTimestamp: "2999-01-01T00:00:00Z"
"""
    kubectl.run("create", "-f", "-", text=event)
    assert "Admitted by ClusterQueue vision" in kubectl.run("describe", "job", "told")
    assert "job/told" in kubectl.run("get", "events").lower()
    assert "Admitted" in kubectl.run("events", "--for=job/told")

    kubectl.run("run", "talks", "--image=python", "--restart=Never")
    assert "waiting to start" in kubectl.run("logs", "talks", code=1)
    pod = json.loads(kubectl.run("get", "pod", "talks", "-o", "json"))
    folder = server.folder / "logs" / pod["metadata"]["uid"]
    folder.mkdir(parents=True)
    (folder / "talks.log").write_text("one\ntwo\nthree\n")
    (folder / "talks.ended").touch()
    assert kubectl.run("logs", "talks") == "one\ntwo\nthree\n"
    assert kubectl.run("logs", "talks", "--tail=1") == "three\n"
    assert kubectl.run("logs", "-f", "talks") == "one\ntwo\nthree\n"


def test_nodes_are_cordoned_drained_and_described(kubectl: Kubectl) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    kubectl.run("create", "-f", "-", text=json.dumps(node))
    kubectl.run("cordon", "n1")
    assert "SchedulingDisabled" in kubectl.run("get", "nodes")
    kubectl.run("taint", "node", "n1", "gpu=broken:NoSchedule")
    assert "gpu=broken:NoSchedule" in kubectl.run("describe", "node", "n1")
    kubectl.run("run", "runs", "--image=python", "--overrides", '{"spec":{"nodeName":"n1"}}')
    kubectl.run("drain", "n1", "--force", "--grace-period=0")
    assert "NotFound" in kubectl.run("get", "pod", "runs", code=1)
    kubectl.run("uncordon", "n1")


def test_explain(kubectl: Kubectl) -> None:
    assert "<integer>" in kubectl.run("explain", "job.spec.backoffLimit")
    assert "queueingStrategy" in kubectl.run("explain", "clusterqueue.spec")
    assert "nodeSelector" in kubectl.run("explain", "wl.spec.podSets.template.spec")
    assert "minCount" in kubectl.run("explain", "podgroups.spec.schedulingPolicy.gang")


def test_watching(kubectl: Kubectl) -> None:
    kubectl.run("create", "-f", "-", text=JOB.replace("NAME", "watched"))
    watching = subprocess.Popen(
        [kubectl.binary, "get", "job", "watched", "-w", "-o", "name"],
        env=kubectl.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    try:
        assert watching.stdout.readline() == "job.batch/watched\n"
        kubectl.run("label", "job", "watched", "x=y")
        assert watching.stdout.readline() == "job.batch/watched\n"
    finally:
        watching.kill()
        watching.wait()
        watching.stdout.close()
