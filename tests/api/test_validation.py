"""One story per way of being wrong: where it is told, and what would be right."""

import pytest

from makeway.api.codec import decode
from makeway.api.kinds import View
from makeway.api.manifests import read_manifests
from makeway.api.validation import validate, validate_set
from tests.api.reading import complaints, unsupported, view

QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohortName: lab
  namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [vision]}]}
  preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority}}
  flavorFungibility:
    whenCanBorrow: TryNextFlavor
    fallbackStrategy:
      rules:
      - {name: spot, trigger: TimeoutForPodsReadyExceeded, timeout: 10m}
      - {name: reserved}
      - {name: "*", trigger: AdmissionCheckRejected}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: spot
      resources:
      - {name: cpu, nominalQuota: 9, borrowingLimit: 4}
      - {name: memory, nominalQuota: 36Gi, lendingLimit: 4Gi}
    - name: reserved
      resources:
      - {name: cpu, nominalQuota: 0}
      - {name: memory, nominalQuota: 0}
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - {name: a100, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}
"""
CPU = "spec.resourceGroups[0].flavors[0].resources[0]"
MEMORY = "spec.resourceGroups[0].flavors[0].resources[1]"
RULES = "spec.flavorFungibility.fallbackStrategy.rules"


def test_a_queue_that_keeps_to_the_rules_passes() -> None:
    assert complaints(QUEUE) == []


@pytest.mark.parametrize(
    ("written", "instead", "expected"),
    [
        (
            "nominalQuota: 9,",
            "nominalQuota: -9,",
            [f"{CPU}.nominalQuota: -9 is negative; write 0 or more"],
        ),
        (
            "borrowingLimit: 4}",
            "borrowingLimit: -4}",
            [f"{CPU}.borrowingLimit: -4 is negative; write 0 or more"],
        ),
        (
            "cohortName: lab",
            "",
            [
                f"{CPU}.borrowingLimit: 4 means nothing without cohortName;"
                " write spec.cohortName, or remove borrowingLimit",
                f'{MEMORY}.lendingLimit: "4Gi" means nothing without cohortName;'
                " write spec.cohortName, or remove lendingLimit",
            ],
        ),
        (
            "lendingLimit: 4Gi",
            "lendingLimit: 40960Mi",
            [
                f'{MEMORY}.lendingLimit: "40960Mi" is more than nominalQuota (36Gi);'
                " write at most 36Gi, or remove lendingLimit to lend everything"
            ],
        ),
        (
            "coveredResources: [nvidia.com/gpu]",
            "coveredResources: [cpu]",
            [
                "spec.resourceGroups[1].flavors[0].resources: "
                '[{"name": "nvidia.com/gpu", "nominalQuota": 8}] differs from coveredResources;'
                " list cpu in this order",
                'spec.resourceGroups[1].coveredResources[0]: "cpu" is already in resourceGroups[0];'
                " keep the resource in one group",
            ],
        ),
        (
            "name: a100",
            "name: spot",
            [
                'spec.resourceGroups[1].flavors[0].name: "spot" is already in resourceGroups[0];'
                " keep the flavor in one group"
            ],
        ),
        (
            "name: reserved\n      resources",
            "name: spot\n      resources",
            [
                f'{RULES}[1].name: "reserved" is not a flavor of this queue;'
                " write spot, spot, a100 or *",
                'spec.resourceGroups[0].flavors[1].name: "spot" is listed twice in this group;'
                " list each flavor once",
            ],
        ),
        (
            "cohortName: lab",
            "cohortName: The Lab",
            [
                'spec.cohortName: "The Lab" is not a name; write lower-case letters, digits,'
                " - and ., starting and ending with a letter or digit"
            ],
        ),
        (
            "reclaimWithinCohort: Any",
            "reclaimWithinCohort: Never",
            [
                'spec.preemption.borrowWithinCohort.policy: "LowerPriority" needs'
                " reclaimWithinCohort; write LowerPriority or Any for reclaimWithinCohort,"
                " or Never here"
            ],
        ),
        (
            "policy: LowerPriority",
            "policy: Never, maxPriorityThreshold: 5",
            [
                "spec.preemption.borrowWithinCohort.maxPriorityThreshold: 5 means nothing with"
                " policy Never; write policy LowerPriority, or remove it"
            ],
        ),
        (
            "whenCanBorrow: TryNextFlavor",
            "preference: PreemptionOverBorrowing",
            [
                'spec.flavorFungibility.preference: "PreemptionOverBorrowing" counts only when'
                " the search goes on; write TryNextFlavor for whenCanBorrow and whenCanPreempt,"
                " or remove preference"
            ],
        ),
        (
            "values: [vision]",
            "values: []",
            [
                "spec.namespaceSelector.matchExpressions[0].values: is needed by In;"
                " list a value"
            ],
        ),
        (
            "timeout: 10m",
            "timeout: 0s",
            [f'{RULES}[0].timeout: "0s" is not positive; write for example "10m"'],
        ),
        (
            "timeout: 10m",
            "timeoutMinutes: -1",
            [f'{RULES}[0].timeoutMinutes: -1 is not positive; write for example "10m"'],
        ),
        (
            ", timeout: 10m",
            "",
            [
                f"{RULES}[0].timeout: is needed by TimeoutForPodsReadyExceeded;"
                ' write for example "10m"'
            ],
        ),
        (
            "AdmissionCheckRejected",
            "AdmissionCheckRejected, timeout: 5m",
            [f'{RULES}[2].timeout: "5m" means nothing with AdmissionCheckRejected; remove it'],
        ),
        (
            "name: reserved}",
            "name: sopt, timeout: 5m}",
            [
                f'{RULES}[1].name: "sopt" is not a flavor of this queue;'
                " write spot, reserved, a100 or *"
            ],
        ),
        (
            "name: reserved}",
            "name: spot, timeout: 5m}",
            [
                f'{RULES}[1].name: "spot" has a rule for the same trigger already (rules[0]);'
                " keep one of them"
            ],
        ),
        (
            "cohortName: lab",
            "cohortName: lab\n  fairSharing: {weight: -1}",
            ["spec.fairSharing.weight: -1 is negative; write 0 or more"],
        ),
    ],
    ids=[
        "negative-quota", "negative-limit", "limit-without-cohort", "lends-more-than-it-has",
        "resource-in-two-groups", "flavor-in-two-groups", "flavor-twice", "cohort-name",
        "borrow-without-reclaim", "threshold-without-policy", "preference-without-search",
        "selector-without-values", "timeout-zero", "timeout-minutes-negative", "timeout-missing",
        "timeout-on-check", "rule-for-unknown-flavor", "rule-twice", "weight-negative",
    ],
)  # fmt: skip
def test_a_queue_that_breaks_a_rule(written: str, instead: str, expected: list[str]) -> None:
    assert written in QUEUE

    assert sorted(complaints(QUEUE.replace(written, instead, 1))) == sorted(expected)


def test_a_rule_with_a_timeout_fires_on_it_and_a_bare_one_never() -> None:
    rules = view(QUEUE.replace("trigger: TimeoutForPodsReadyExceeded, ", "")).spec
    triggers = [rule.fires_on for rule in rules.flavor_fungibility.fallback_strategy.rules]

    assert triggers == ["TimeoutForPodsReadyExceeded", None, "AdmissionCheckRejected"]


def test_too_many_groups() -> None:
    flavor = "{name: f%d, resources: [{name: r%d, nominalQuota: 1}]}"
    group = "{coveredResources: [r%d], flavors: [" + flavor + "]}"
    groups = ", ".join(group % (i, i, i) for i in range(17))
    text = f"""
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: Cohort
    metadata: {{name: lab}}
    spec: {{resourceGroups: [{groups}]}}
    """

    assert complaints(text) == ["spec.resourceGroups: has 17 groups, more than 16; keep at most 16"]


def test_a_cohort_may_lend_more_than_its_own_quota_but_not_without_a_parent() -> None:
    text = """
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: Cohort
    metadata: {name: lab}
    spec:
      parentName: campus
      resourceGroups:
      - coveredResources: [cpu]
        flavors: [{name: spot, resources: [{name: cpu, nominalQuota: 1, lendingLimit: 5}]}]
    """

    assert complaints(text) == []
    assert complaints(text.replace("parentName: campus", "")) == [
        f"{CPU}.lendingLimit: 5 means nothing without parentName;"
        " write spec.parentName, or remove lendingLimit"
    ]


# Workloads

WORKLOAD = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: train, namespace: lab}
spec:
  queueName: vision
  podSets:
  - name: driver
    template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
  - name: worker
    count: 8
    minCount: 4
    template: {spec: {containers: [{name: c, resources: {requests: {cpu: 2}, limits: {cpu: 4}}}]}}
"""


@pytest.mark.parametrize(
    ("written", "instead", "expected"),
    [
        (
            "count: 8",
            "count: 3",
            "spec.podSets[1].minCount: 4 is not between 1 and count;"
            " write a number between 1 and count (3)",
        ),
        (
            "name: driver",
            "name: driver\n    minCount: 1",
            "spec.podSets[1].minCount: 4 stands in a second pod set (also in podSets[0]);"
            " keep minCount in one pod set",
        ),
        (
            "name: driver",
            "name: worker",
            'spec.podSets[1].name: "worker" names the same pod set twice; keep one of them',
        ),
        (
            "name: driver",
            "count: -1",
            "spec.podSets[0].count: -1 is negative; write 0 or more",
        ),
        (
            "requests: {cpu: 2}",
            "requests: {cpu: 4500m}",
            "spec.podSets[1].template.spec.containers[0].resources.requests.cpu:"
            ' "4500m" is more than its limit (4); write at most 4, or raise the limit',
        ),
        (
            "requests: {cpu: 1}",
            "requests: {cpu: -1}",
            "spec.podSets[0].template.spec.containers[0].resources.requests.cpu:"
            " -1 is negative; write 0 or more",
        ),
        (
            "queueName: vision",
            "queueName: vision\n  maximumExecutionTimeSeconds: 0",
            "spec.maximumExecutionTimeSeconds: 0 is not positive; write 1 or more",
        ),
        (
            "queueName: vision",
            "priority: 1\n"
            "  priorityClassRef: {group: kueue.x-k8s.io, kind: PriorityClass, name: x}",
            'spec.priorityClassRef.kind: "PriorityClass" is not a kind of kueue.x-k8s.io;'
            " write WorkloadPriorityClass",
        ),
    ],
    ids=[
        "min-count-above-count", "two-min-counts", "name-twice", "count-negative",
        "request-above-limit", "request-negative", "time-limit-zero", "class-of-wrong-kind",
    ],
)  # fmt: skip
def test_a_workload_that_breaks_a_rule(written: str, instead: str, expected: str) -> None:
    assert complaints(WORKLOAD) == []
    assert complaints(WORKLOAD.replace(written, instead, 1)) == [expected]


def test_a_workload_has_between_one_and_eighteen_pod_sets() -> None:
    pod_set = "{name: p%d, template: {spec: {containers: [{name: c}]}}}"
    head = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: w},"
    head += " spec: {podSets: [%s]}}"
    many = ", ".join(pod_set % number for number in range(19))

    assert complaints(head % "") == ["spec.podSets: has 0 pod sets; list at least 1"]
    expected = "spec.podSets: has 19 pod sets, more than 18; keep at most 18"
    assert complaints(head % many) == [expected]


def test_nobody_asks_for_pods_by_the_number() -> None:
    head = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: w}, spec: "
    head += "{podSets: [{template: {spec: {containers: [{name: c, resources: {limits: {pods: 1}}}]"
    place = "spec.podSets[0].template.spec"

    assert complaints(head + ", resources: {requests: {pods: 1}}}}}]}}") == [
        f"{place}.containers[0].resources.limits.pods: is not to be requested;"
        " remove it; pods are counted anyway",
        f"{place}.resources.requests.pods: is not to be requested;"
        " remove it; pods are counted anyway",
    ]


def test_a_weight_is_none_or_large_enough_to_count() -> None:
    text = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: c},"
    text += " spec: {fairSharing: {weight: %s}}}"

    assert complaints(text % "0") == complaints(text % "2n") == []
    assert complaints(text % "1n") == [
        'spec.fairSharing.weight: "1n" is too small to be told from 0; write 0, or more than 1n'
    ]


# Flavors, Jobs and what else there is


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            "nodeTaints: [{key: spot, effect: Sometimes}]",
            'spec.nodeTaints[0].effect: "Sometimes" is not a value of this field;'
            " write NoSchedule, PreferNoSchedule or NoExecute",
        ),
        (
            "nodeTaints: [{key: 'a b', effect: NoSchedule}]",
            'spec.nodeTaints[0].key: "a b" is not a key;'
            " write a name such as gpu or example.com/gpu",
        ),
        (
            "tolerations: [{value: x}]",
            'spec.tolerations[0].operator: "Equal" needs a key;'
            " write a key, or operator Exists to tolerate everything",
        ),
        (
            "tolerations: [{key: spot, operator: Exists, value: x}]",
            'spec.tolerations[0].value: "x" means nothing with Exists; remove it',
        ),
        (
            "nodeLabels: {zone: 'a b'}",
            'spec.nodeLabels.zone: "a b" is not a label value;'
            " write up to 63 letters, digits, -, _ and .",
        ),
    ],
    ids=["taint-effect", "taint-key", "toleration-key", "toleration-value", "label-value"],
)
def test_a_flavor_that_breaks_a_rule(spec: str, expected: str) -> None:
    text = f"""
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: ResourceFlavor
    metadata: {{name: spot}}
    spec: {{{spec}}}
    """

    assert complaints(text) == [expected]


JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {kueue.x-k8s.io/queue-name: vision}
  annotations: {kueue.x-k8s.io/job-min-parallelism: "2"}
spec:
  parallelism: 4
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: python}]}}
"""


@pytest.mark.parametrize(
    ("written", "instead", "expected"),
    [
        (
            "parallelism: 4",
            "parallelism: -4",
            [
                'metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: "2" is not a number of'
                ' pods of this Job; write a number in quotes, between "1" and parallelism ("-4")',
                "spec.parallelism: -4 is negative; write 0 or more",
            ],
        ),
        (
            '"2"',
            '"many"',
            [
                'metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: "many" is not a number'
                ' of pods of this Job; write a number in quotes, between "1" and parallelism ("4")'
            ],
        ),
        (
            "restartPolicy: Never, ",
            "",
            [
                'spec.template.spec.restartPolicy: "Always" does not go with a Job,'
                " which has to end; write Never or OnFailure"
            ],
        ),
        (
            "containers: [{name: c, image: python}]",
            "containers: []",
            ["spec.template.spec.containers: is empty; list at least one container"],
        ),
        ("name: train", "", ["metadata.name: is missing; write a name"]),
    ],
    ids=["parallelism-negative", "min-parallelism", "restart-policy", "no-container", "no-name"],
)
def test_a_job_that_breaks_a_rule(written: str, instead: str, expected: list[str]) -> None:
    assert complaints(JOB) == []
    assert complaints(JOB.replace(written, instead, 1)) == expected


def test_what_asks_for_missing_abilities_is_accepted_and_reported() -> None:
    flavor = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f},"
    elastic = JOB.replace("annotations: {", 'annotations: {kueue.x-k8s.io/elastic-job: "true", ')

    assert unsupported(flavor + " spec: {topologyName: default}}") == ["spec.topologyName"]
    assert unsupported(elastic) == ["metadata.annotations[kueue.x-k8s.io/elastic-job]"]
    assert unsupported(JOB) == []


def test_a_budget_says_either_how_many_stay_or_how_many_go() -> None:
    text = """
    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: b}
    spec: {minAvailable: half, maxUnavailable: 1}
    """

    assert complaints(text) == [
        'spec.minAvailable: "half" is not a share; write for example "50%"',
        "spec.maxUnavailable: 1 stands beside minAvailable; keep one of them",
    ]


# Changes


def changed(text: str, written: str, instead: str) -> list[str]:
    assert written in text
    old, new = view(text), view(text.replace(written, instead, 1))
    return [str(error) for error in validate(new, old)]


RESERVED = (
    WORKLOAD
    + """
status:
  admission: {clusterQueue: vision, podSetAssignments: [{name: driver}, {name: worker}]}
  conditions: [{type: QuotaReserved, status: "True"}]
"""
)


def test_a_pending_workload_may_change_its_shape_and_queue() -> None:
    assert changed(WORKLOAD, "count: 8", "count: 6") == []
    assert changed(WORKLOAD, "queueName: vision", "queueName: speech") == []


def test_a_reserved_workload_keeps_its_shape_queue_and_admission() -> None:
    assert changed(RESERVED, "count: 8", "count: 6") == [
        "spec.podSets: cannot be changed while quota is reserved;"
        " wait until the workload has given its quota back"
    ]
    assert changed(RESERVED, "[{name: c, res", "[{name: c, image: other, res") == [
        "spec.podSets: cannot be changed while quota is reserved;"
        " wait until the workload has given its quota back"
    ]
    assert changed(RESERVED, "queueName: vision", "queueName: speech") == [
        'spec.queueName: "speech" cannot be changed while quota is reserved; leave it at vision'
    ]
    assert changed(RESERVED, "clusterQueue: vision", "clusterQueue: speech") == [
        "status.admission: cannot be changed once set; take the admission away first"
    ]


@pytest.mark.parametrize(
    ("text", "written", "instead", "path"),
    [
        (
            "{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: c},"
            " spec: {controllerName: one}}",
            "one", "two", "spec.controllerName",
        ),
        (
            "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass,"
            " metadata: {name: c}, value: 1}",
            "value: 1", "value: 2", "value",
        ),
        (
            "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue,"
            " metadata: {name: c}, spec: {clusterQueue: one}}",
            "one", "two", "spec.clusterQueue",
        ),
    ],
    ids=["AdmissionCheck", "PriorityClass", "LocalQueue"],
)  # fmt: skip
def test_some_fields_never_change(text: str, written: str, instead: str, path: str) -> None:
    (complaint,) = changed(text, written, instead)

    assert complaint.startswith(f"{path}: ")
    assert "cannot be changed" in complaint


# Objects with each other


def views(text: str) -> list[View]:
    decoded = [decode(manifest.document) for manifest in read_manifests(text).manifests]
    return [found.object for found in decoded if found.object is not None]


def test_cohorts_in_a_circle_are_told_each() -> None:
    cohort = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort,"
    cohort += " metadata: {name: %s}, spec: {parentName: %s}}"
    text = "\n---\n".join(
        [cohort % ("a", "b"), cohort % ("b", "c"), cohort % ("c", "a"), cohort % ("d", "a")]
    )

    errors = validate_set(views(text))

    assert [(found.index, str(found.error)) for found in errors] == [
        (
            index,
            f'spec.parentName: "{parent}" makes a cycle ({way});'
            " give one of these cohorts another parent, or none",
        )
        for index, parent, way in [
            (0, "b", "a > b > c > a"),
            (1, "c", "b > c > a > b"),
            (2, "a", "c > a > b > c"),
        ]
    ]


def test_a_cohort_is_not_its_own_parent() -> None:
    text = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort,"
    text += " metadata: {name: a}, spec: {parentName: a}}"

    assert complaints(text) == [
        'spec.parentName: "a" is the cohort itself; name another cohort, or none'
    ]


CLASSES = """
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 10}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}
---
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {makeway.dev/preemption-priority-class: PREEMPTION}}
spec: {priorityClassName: SCHEDULING, containers: [{name: c}]}
"""


@pytest.mark.parametrize(
    ("scheduling", "preemption", "expected"),
    [
        ("low", "high", []),
        ("high", "high", []),
        (
            "high",
            "low",
            [
                'metadata.annotations[makeway.dev/preemption-priority-class]: "low" (10) is below'
                " the scheduling priority (100); name a class with a value of at least 100"
            ],
        ),
        ("high", "not-there-yet", []),
    ],
)
def test_preemption_priority_is_not_below_scheduling_priority(
    scheduling: str, preemption: str, expected: list[str]
) -> None:
    text = CLASSES.replace("SCHEDULING", scheduling).replace("PREEMPTION", preemption)

    assert [str(found.error) for found in validate_set(views(text))] == expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (
            "requests: {nvidia.com/gpu: 0.5}",
            "requests[nvidia.com/gpu]: 0.5 is not a whole number; write how many, such as 1",
        ),
        (
            "requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}",
            "requests[nvidia.com/gpu]: 1 is not its limit (2);"
            " write the same number twice, or only the limit",
        ),
    ],
)
def test_devices_come_whole_and_are_not_shared(resources: str, expected: str) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\n"
    pod += "spec: {containers: [{name: main, image: x, resources: {%s}}]}"

    assert complaints(pod % "limits: {nvidia.com/gpu: 2000m}, requests: {cpu: 0.5}") == []
    assert complaints(pod % resources) == [f"spec.containers[0].resources.{expected}"]
