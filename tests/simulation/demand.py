"""What people ask of a world: jobs of all kinds, pods in queues, and gangs that no queue sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from makeway.api.kinds import BUDGETS, GANG_WORKLOADS, JOBS, POD_GROUPS, PODS
from makeway.api.labels import (
    GROUP_NAME,
    GROUP_TOTAL,
    MAX_EXEC_TIME,
    MIN_PARALLELISM,
    PREEMPTION_MODE,
    PRIORITY_CLASS,
    QUEUE_NAME,
    RETRIABLE,
)
from tests.simulation.machine import Behaviour
from tests.simulation.supply import POD_CLASSES
from tests.simulation.worlds import (
    GPU,
    JOB_MAX,
    PRIORITIES,
    Create,
    Document,
    Size,
    Traits,
    named,
)


def jobs(chance: Random, size: Size, traits: Traits, queues: list[str]) -> list[Create]:
    """In the order of their arrival; in most worlds the later ones are the more urgent ones."""
    count, is_rising = chance.randint(size.jobs_min, size.jobs_max), chance.random() < 0.7
    classes = [chance.choice(list(PRIORITIES)) for _ in range(count)]
    if is_rising:
        classes.sort(key=PRIORITIES.__getitem__)
    return [
        _job(chance, f"job-{n}", klass, queues, size.gpu_share, traits)
        for n, klass in enumerate(classes)
    ]


def others(chance: Random, traits: Traits, queues: list[str]) -> Iterator[list[Create]]:
    """What comes besides jobs; each lot at one moment."""
    if traits.has_loose_pods:
        for number in range(chance.randint(1, 3)):
            yield _loose_pods(chance, f"loose-{number}", queues, traits)
    if traits.has_gangs:
        for number in range(chance.randint(1, 2)):
            yield _gang(chance, f"gang-{number}", traits)
    if traits.has_budgets:
        spec = {"maxUnavailable": chance.randint(0, 1), "selector": {"matchLabels": {"tier": "a"}}}
        yield [named(BUDGETS, "careful", spec=spec)]


def _job(
    chance: Random, name: str, klass: str, queues: list[str], gpu_share: float, traits: Traits
) -> Create:
    pods = chance.choice([1, 1, 1, 2, 2, 4])
    requests = {"cpu": str(max(chance.randint(1, JOB_MAX // pods) for _ in range(2)))}
    if chance.random() < gpu_share:
        requests[GPU] = str(chance.randint(1, JOB_MAX // pods))
    spec: Document = {
        "suspend": True,
        "parallelism": pods,
        "backoffLimit": chance.randint(0, 2),
        "template": _template(chance, requests, traits),
        **_completions(chance, pods, traits),
    }
    created = named(JOBS, name, spec=spec)
    labels = {
        QUEUE_NAME: chance.choice(queues),
        PRIORITY_CLASS: klass,
    }
    if traits != Traits() and chance.random() < 0.1:
        labels[MAX_EXEC_TIME] = str(chance.randint(20, 100))
    annotations = {}
    if pods > 1 and "completions" in spec and chance.random() < 0.3:
        annotations[MIN_PARALLELISM] = str(chance.randint(1, pods - 1))
    if traits.is_tight and chance.random() < 0.5:
        annotations[PREEMPTION_MODE] = "PodGroup"
    created.document["metadata"] |= {"labels": labels, "annotations": annotations}
    return created


def _completions(chance: Random, pods: int, traits: Traits) -> Document:
    """So many, each with a number or not; or as many as the first that succeeds finds enough."""
    kind = chance.choice(["NonIndexed", "NonIndexed", "Indexed", "Indexed", "work queue"])
    if kind == "work queue" and traits != Traits():
        return {"completionMode": "NonIndexed"}
    mode = "Indexed" if kind == "Indexed" else "NonIndexed"
    completions = {"completionMode": mode, "completions": pods * chance.choice([1, 1, 2])}
    if mode == "Indexed" and traits.is_split:
        # Two who decide may stop it and go on at once; this must not run an index twice.
        completions["podReplacementPolicy"] = "Failed"
    return completions


def _template(chance: Random, requests: Mapping[str, str], traits: Traits) -> Document:
    template: Document = {"spec": _pod_spec(chance, requests, traits)}
    if traits.has_budgets and chance.random() < 0.5:
        template["metadata"] = {"labels": {"tier": "a"}}
    return template


def _pod_spec(chance: Random, requests: Mapping[str, str], traits: Traits) -> Document:
    restarts = traits != Traits() and chance.random() < 0.2
    behaviour = Behaviour(
        run_s=chance.randint(10, 120),
        exit_code=1 if not restarts and chance.random() < 0.15 else 0,
        stop_s=chance.choice([0.5, 5, 100]),
        failures=chance.randint(0, 2) if restarts else 0,
        ready_s=chance.choice([0, 0, 5]) if traits.waits_for_pods else 0,
    )
    container = {
        "name": "main",
        "image": "none",
        "command": behaviour.command(),
        "resources": {"requests": dict(requests), "limits": dict(requests)},
    }
    spec: Document = {
        "containers": [container],
        "restartPolicy": "OnFailure" if restarts else "Never",
        "terminationGracePeriodSeconds": 10,
    }
    if traits.is_tight and chance.random() < 0.8:
        spec["priorityClassName"] = chance.choice(list(POD_CLASSES))
    return spec


def _loose_pods(chance: Random, name: str, queues: list[str], traits: Traits) -> list[Create]:
    """One pod in a queue, or some that are admitted together."""
    count = chance.choice([1, 1, 2])
    requests = {"cpu": str(chance.randint(1, JOB_MAX // count))}
    labels = {QUEUE_NAME: chance.choice(queues), PRIORITY_CLASS: chance.choice(list(PRIORITIES))}
    annotations: dict[str, str] = {}
    if count > 1:
        labels[GROUP_NAME] = name
        annotations |= {GROUP_TOTAL: str(count), RETRIABLE: "false"}  # nobody replaces a pod
    spec = _pod_spec(chance, requests, traits)
    return [_pod(f"{name}-{n}", spec, labels=labels, annotations=annotations) for n in range(count)]


def _gang(chance: Random, name: str, traits: Traits) -> list[Create]:
    """Pods that go to their nodes together, named in one of two ways."""
    count = chance.randint(2, 3)
    spec = _pod_spec(chance, {"cpu": "1"}, traits)
    goes_together = chance.random() < 0.5
    klass = spec.pop("priorityClassName", "pod-middle")
    if chance.random() < 0.5:
        mode = "PodGroup" if goes_together else "Pod"
        policy = {"gang": {"minCount": count, "preemptionMode": mode}}
        groups = [{"name": "all", "policy": policy}]
        whole = named(GANG_WORKLOADS, name, spec={"podGroups": groups, "priorityClassName": klass})
        spec["workloadRef"] = {"name": name, "podGroup": "all"}
    else:
        group: Document = {
            "schedulingPolicy": {"gang": {"minCount": count}},
            "disruptionMode": {"all": {}} if goes_together else {"single": {}},
            "priorityClassName": klass,
        }
        whole = named(POD_GROUPS, name, spec=group)
        spec["schedulingGroup"] = {"podGroupName": name}
    spec["priorityClassName"] = klass
    return [whole, *(_pod(f"{name}-{n}", spec) for n in range(count))]


def _pod(name: str, spec: Document, **metadata: Any) -> Create:
    created = named(PODS, name, spec=spec)
    created.document["metadata"] |= metadata
    return created
