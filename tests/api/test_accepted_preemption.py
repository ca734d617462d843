"""Fields of preemption that people accept, and of fairness by history: read, and refused."""

import pytest

from makeway.engine.events import UsageRecalled
from makeway.engine.model import Aging, Milestone, Sorting
from makeway.translate.queues import config_of, local_queue_of, queue_of, recalled
from makeway.translate.workloads import workload_of
from tests.api.reading import complaints, unsupported, view

QUEUE = """
apiVersion: kueue.x-k8s.io/{version}
kind: ClusterQueue
metadata: {{name: lab}}
spec:
  namespaceSelector: {{}}
  admissionScope: {{admissionMode: UsageBasedAdmissionFairSharing}}
  aging: {{everySeconds: 600, priority: 2, maximum: 20}}
  preemption:
    withinClusterQueue: LowerPriority
    triggerAfterWorkloadWaitingSeconds: 300
    minRuntimeSeconds: 1200
    workloadSorting: [ByLowestPriority, ByLeastWorkLost]
    budget: {{evictionsPerHour: 20}}
"""
LOCAL_QUEUE = """
apiVersion: kueue.x-k8s.io/{version}
kind: LocalQueue
metadata: {{name: ann, namespace: lab}}
spec:
  clusterQueue: lab
  fairSharing: {{weight: "2"}}
  preemption: {{disruptionCostMilestones: [{{seconds: 60, cost: 100}}, {{seconds: 600, cost: 0}}]}}
status:
  fairSharing:
    weightedShare: 0
    admissionFairSharingStatus:
      consumedResources: {{cpu: 1500m, nvidia.com/gpu: 250m}}
      lastUpdate: "2026-01-05T09:03:00Z"
"""
WORKLOAD = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: train
  namespace: lab
  annotations: {makeway.dev/last-checkpoint: "1970-01-01T01:00:00Z"}
spec:
  queueName: ann
  onPreemption: Terminate
  preemption: {disruptionCostMilestones: [{seconds: 60, cost: 100}]}
  podSets: [{name: main, template: {spec: {containers: [{name: c, image: i}]}}}]
"""
CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/{version}
kind: Configuration
admissionFairSharing:
  usageHalfLifeTime: 168h
  usageSamplingInterval: 5m
  resourceWeights: {{cpu: 2.0, memory: 0.5}}
"""


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
def test_objects_as_kueue_has_them_and_ours_are_read_and_acted_upon(version: str) -> None:
    for text in (QUEUE, LOCAL_QUEUE, CONFIGURATION):
        assert unsupported(text.format(version=version)) == []
    queue = queue_of(view(QUEUE.format(version=version)))
    assert (queue.counts_history, queue.aging) == (True, Aging(600, 2, 20))
    preemption = queue.preemption
    assert (preemption.after_waiting_s, preemption.min_runtime_s) == (300, 1200)
    assert preemption.sorting == (Sorting.LOWEST_PRIORITY, Sorting.LEAST_WORK_LOST)
    assert preemption.evictions_per_hour == 20
    local_queue = view(LOCAL_QUEUE.format(version=version))
    assert local_queue_of(local_queue).weight == 2
    assert local_queue_of(local_queue).milestones == (Milestone(60, 100), Milestone(600, 0))
    (past,) = recalled(local_queue)
    assert isinstance(past, UsageRecalled)
    assert past.used == {"cpu": 1500, "nvidia.com/gpu": 0.25}
    history = config_of(view(CONFIGURATION.format(version=version))).history
    assert history is not None
    assert (history.half_life_s, history.sampling_s) == (604_800, 300)
    assert history.weights == {"cpu": 2.0, "memory": 0.5}


def test_a_workload_says_what_becomes_of_it_and_what_it_would_cost() -> None:
    workload = workload_of(view(WORKLOAD))
    assert workload.ends_when_preempted
    assert workload.milestones == (Milestone(60, 100),)
    assert workload.checkpoint_at == 3600


PREEMPTION = "spec.preemption"
MILESTONES = f"{PREEMPTION}.disruptionCostMilestones"


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        (
            "WaitingSeconds: 300",
            "WaitingSeconds: -1",
            f"{PREEMPTION}.triggerAfterWorkloadWaitingSeconds: -1 is negative;"
            " write a number of seconds, 0 or more",
        ),
        (
            "minRuntimeSeconds: 1200",
            "minRuntimeSeconds: 20m",
            f'{PREEMPTION}.minRuntimeSeconds: "20m" is not a whole number',
        ),
        (
            "[ByLowestPriority, ByLeastWorkLost]",
            "[ByAge]",
            f'{PREEMPTION}.workloadSorting[0]: "ByAge" is not a value of this field;'
            " write ByLowestPriority, ByLowestRuntime, ByLongestRuntime or ByLeastWorkLost",
        ),
        (
            "[ByLowestPriority, ByLeastWorkLost]",
            "[ByLeastWorkLost, ByLowestPriority]",
            f'{PREEMPTION}.workloadSorting[1]: "ByLowestPriority" can\'t come after another'
            " order; put it first, or leave it out: priority comes before the rest in any case",
        ),
        (
            "[ByLowestPriority, ByLeastWorkLost]",
            "[ByLowestRuntime, ByLongestRuntime]",
            f'{PREEMPTION}.workloadSorting: ["ByLowestRuntime", "ByLongestRuntime"] has two'
            " orders by run time; keep one of them",
        ),
        (
            "evictionsPerHour: 20",
            "evictionsPerHour: 0",
            f"{PREEMPTION}.budget.evictionsPerHour: 0 is no number of evictions; write 1 to 1000",
        ),
        (
            "everySeconds: 600",
            "everySeconds: 0",
            "spec.aging.everySeconds: 0 is not positive; write 1 or more",
        ),
        (
            "maximum: 20",
            "maximum: 1",
            "spec.aging.maximum: 1 is less than a single step;"
            " write at least 2, what a single step counts as",
        ),
    ],
)
def test_a_queue_that_breaks_a_rule_is_told(written: str, instead: str, told: str) -> None:
    text = QUEUE.format(version="v1beta2")
    assert written in text
    (complaint,) = complaints(text.replace(written, instead))
    assert complaint.startswith(told)


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        (
            "seconds: 600",
            "seconds: 60",
            f"{MILESTONES}[1].seconds: 60 is not after the milestone before it; write 61 or more",
        ),
        ("cost: 0", "cost: -5", f"{MILESTONES}[1].cost: -5 is negative; write 0 or more"),
        ('weight: "2"', "weight: -1", "spec.fairSharing.weight: -1 is negative; write 0 or more"),
    ],
)
def test_a_local_queue_that_breaks_a_rule_is_told(written: str, instead: str, told: str) -> None:
    text = LOCAL_QUEUE.format(version="v1beta2")
    assert complaints(text.replace(written, instead)) == [told]


def test_a_configuration_that_breaks_a_rule_is_told() -> None:
    text = CONFIGURATION.format(version="v1beta2")
    assert complaints(text.replace("168h", "0s").replace("cpu: 2.0", "cpu: -1")) == [
        'admissionFairSharing.usageHalfLifeTime: "0s" is not positive; write for example "168h"',
        "admissionFairSharing.resourceWeights.cpu: -1 is negative; write 0 or more",
    ]


def test_an_unknown_ending_is_refused() -> None:
    (complaint,) = complaints(WORKLOAD.replace("Terminate", "Kill"))
    assert complaint.startswith('spec.onPreemption: "Kill" is not a value of this field')
