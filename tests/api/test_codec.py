import json
from fractions import Fraction

import pytest

from makeway.api.batch import Job, Pod
from makeway.api.codec import decode, decode_as, encode
from makeway.api.kinds import UnsupportedKind
from makeway.api.queueing import ClusterQueue, FlavorQuotas, LocalQueue, ResourceQuota, Workload
from tests.api.reading import document, view

QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohortName: lab
  namespaceSelector: {}
  fairSharing: {weight: 500m}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: spot
      resources:
      - {name: cpu, nominalQuota: 1500m, borrowingLimit: 2}
      - {name: memory, nominalQuota: 4Gi, lendingLimit: 0}
"""

WORKLOAD = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: train, namespace: lab, creationTimestamp: "2026-01-15T12:00:00Z"}
spec:
  queueName: vision
  priority: 5
  podSets:
  - count: 3
    template:
      metadata: {annotations: {note: kept}}
      spec:
        containers:
        - {name: c, image: python, command: [python], resources: {requests: {cpu: 500m}}}
        futureField: {of: Kubernetes}
status:
  admission:
    clusterQueue: vision
    podSetAssignments:
    - {name: main, count: 3, flavors: {cpu: spot}, resourceUsage: {cpu: 1500m}}
  conditions:
  - {type: QuotaReserved, status: "True", lastTransitionTime: "2026-01-15T12:00:01Z"}
  flavorAssignmentHistory:
  - {resourceFlavor: spot, assignmentTime: "2026-01-15T12:00:01Z"}
"""


def test_amounts_are_counted_in_the_smallest_unit_of_their_resource() -> None:
    queue = decode_as(ClusterQueue, document(QUEUE)).object

    assert queue is not None
    assert queue.spec.resource_groups[0].flavors == (
        FlavorQuotas(
            name="spot",
            resources=(
                ResourceQuota(name="cpu", nominal_quota=1500, borrowing_limit=2000),
                ResourceQuota(name="memory", nominal_quota=4 * 2**30, lending_limit=0),
            ),
        ),
    )
    assert queue.spec.fair_sharing is not None
    assert queue.spec.fair_sharing.weight == Fraction(1, 2)


def test_an_absent_selector_differs_from_an_empty_one() -> None:
    absent = decode_as(ClusterQueue, document(QUEUE.replace("namespaceSelector: {}", ""))).object
    empty = decode_as(ClusterQueue, document(QUEUE)).object

    assert absent is not None
    assert empty is not None
    assert absent.spec.namespace_selector is None
    assert empty.spec.namespace_selector is not None
    assert encode(empty)["spec"]["namespaceSelector"] == {}


@pytest.mark.parametrize("text", [QUEUE, WORKLOAD], ids=["ClusterQueue", "Workload"])
def test_a_view_survives_writing_and_reading(text: str) -> None:
    first = decode(document(text)).object

    assert first is not None
    assert decode(json.loads(json.dumps(encode(first)))).object == first


def test_a_pod_template_is_written_back_whole() -> None:
    workload = decode_as(Workload, document(WORKLOAD)).object

    assert workload is not None
    template = encode(workload)["spec"]["podSets"][0]["template"]
    assert template["spec"]["futureField"] == {"of": "Kubernetes"}
    assert template["spec"]["containers"][0]["command"] == ["python"]


def test_false_is_written_where_true_is_the_default() -> None:
    workload = view(WORKLOAD.replace("priority: 5", "active: false"))

    assert encode(workload)["spec"]["active"] is False


def test_items_of_a_list_need_no_kind() -> None:
    item = {"metadata": {"name": "q"}, "spec": {"clusterQueue": "vision"}}

    queue = decode_as(LocalQueue, item).object

    assert queue is not None
    assert queue.spec.cluster_queue == "vision"


def test_another_kind_than_asked_for_is_refused() -> None:
    decoded = decode_as(LocalQueue, document(QUEUE))

    assert [str(e) for e in decoded.errors] == [
        'kind: "ClusterQueue" is not expected here; write LocalQueue'
    ]


def test_null_counts_as_absent() -> None:
    pod = decode_as(Pod, {"metadata": {"name": "p", "creationTimestamp": None}, "spec": {}}).object

    assert pod is not None
    assert pod.metadata.creation_timestamp is None


def test_built_in_kinds_are_not_checked_for_unknown_fields() -> None:
    job = decode_as(
        Job,
        {
            "metadata": {"name": "j", "futureField": 1},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "novelty": []}]}}},
        },
    )

    assert job.errors == ()


def test_a_status_may_hold_what_a_newer_controller_wrote() -> None:
    text = WORKLOAD.replace("\nstatus:", "\nstatus:\n  novelty: {a: 1}")

    assert decode(document(text)).errors == ()


def test_a_sidecar_is_an_init_container_that_restarts_always() -> None:
    pod = decode_as(
        Pod,
        {
            "metadata": {"name": "p"},
            "spec": {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]},
        },
    ).object

    assert pod is not None
    assert pod.spec.init_containers[0].is_sidecar


def test_a_kind_known_by_name_only_is_kept_and_reported() -> None:
    text = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Topology, metadata: {name: t}}"

    decoded = decode(document(text))

    assert isinstance(decoded.object, UnsupportedKind)
    assert decoded.object.metadata.name == "t"
    assert [(u.reason, u.what) for u in decoded.unsupported] == [
        ("UnsupportedKind", "Topology: topology-aware scheduling")
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: Job", "apiVersion: is missing; write for example kueue.x-k8s.io/v1beta2"),
        ("apiVersion: v1", "kind: is missing; write for example ClusterQueue"),
        (
            "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQeue}",
            'kind: "ClusterQeue" is not a kind of kueue.x-k8s.io/v1beta2;'
            " did you mean ClusterQueue?",
        ),
        (
            "{apiVersion: kueue.x-k8s.io/v9, kind: ClusterQueue}",
            'apiVersion: "kueue.x-k8s.io/v9" is not a version that Makeway reads;'
            " write kueue.x-k8s.io/v1beta2",
        ),
        (
            "{apiVersion: extensions/v1beta1, kind: Job}",
            'apiVersion: "extensions/v1beta1" has no kind Job; write batch/v1',
        ),
    ],
    ids=["no-version", "no-kind", "kind-misspelt", "version-unknown", "group-wrong"],
)
def test_a_document_of_no_known_kind_is_refused(text: str, complaint: str) -> None:
    assert [str(error) for error in decode(document(text)).errors] == [complaint]


def test_a_totally_unknown_kind_is_refused_with_what_is_known() -> None:
    (error,) = decode({"apiVersion": "example.com/v1", "kind": "Thing"}).errors

    assert (error.path, error.value) == ("kind", "Thing")
    assert "ClusterQueue" in error.hint


def test_all_mistakes_are_told_at_once_in_the_order_of_the_document() -> None:
    text = """
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: ClusterQueue
    metadata: {name: q, labels: {version: 1}}
    spec:
      cohortname: lab
      queueingStrategy: Fifo
      stopPolicy: no
      resourceGroups:
      - coveredResources: cpu
        flavors:
        - name: spot
          resources:
          - {name: cpu, nominalQuota: abc}
          - {name: memory}
    """

    assert [str(error) for error in decode(document(text)).errors] == [
        'metadata.labels.version: 1 is a number, not text; put it in quotes: "1"',
        "spec.cohortname: is not a known field; did you mean cohortName?",
        'spec.queueingStrategy: "Fifo" is not a value of this field;'
        " write StrictFIFO or BestEffortFIFO",
        "spec.stopPolicy: false is not a value of this field; write None, Hold or HoldAndDrain",
        'spec.resourceGroups[0].coveredResources: "cpu" is not a list;'
        " write a list, also for a single item",
        'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: "abc" is not a quantity;'
        ' write a number such as 4, "500m" or "16Gi"',
        "spec.resourceGroups[0].flavors[0].resources[1].nominalQuota: is missing;"
        " write nominalQuota",
    ]


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("priority: high", '"high" is not a whole number; write a number without quotes'),
        (
            "priority: 1.5",
            "1.5 is not a whole number; write a number without a point or exponent",
        ),
        (
            "priority: 3000000000",
            "3000000000 is out of range; write a number between -2147483648 and 2147483647",
        ),
        ('active: "yes"', '"yes" is not a boolean; write true or false, without quotes'),
        ("queueName: [a]", '["a"] is not text; write text'),
        ("podSets: [5]", "5 is not an object; write a mapping with name, template, count …"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(written: str, complaint: str) -> None:
    text = f"{{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, spec: {{{written}}}}}"

    (error,) = decode(document(text)).errors

    assert str(error).partition(": ")[2] == complaint
