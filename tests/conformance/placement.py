"""Runs the scenarios of `shared/placement`: documents in, decisions out, constraints checked.

Every scenario is told twice where both ways can say it: with the Workload of KEP-5710's first
draft, and with today's PodGroup and the annotation for the preemption priority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from makeway.api import batch
from makeway.api.codec import decode, encode
from makeway.api.gangs import PODS_NOT_MATCHING_PRIORITY, GangWorkload
from makeway.api.intake import take_in
from makeway.api.kinds import GANG_WORKLOADS
from makeway.api.labels import PREEMPTION_PRIORITY_CLASS
from makeway.api.priorities import Priorities, resolve_priorities
from makeway.api.times import format_time
from makeway.controller.gangs import GangStatuses
from makeway.placement.decisions import BindPods, PreemptUnits
from makeway.placement.events import GangSeen, NodeGone, PlacementEvent, PodGone
from makeway.placement.model import GangKey, NodeName, PodKey, Unit, gang_unit, pod_unit
from makeway.placement.state import PlacementState
from makeway.translate.placement import seen_in_placement
from tests.harness.placing import PlacingPlane
from tests.harness.plane import NAMESPACE
from tests.placement.one import place_one

Json = dict[str, Any]
NOW = 1_000_000.0

# From a scenario to documents.


def _decoded(document: Json) -> Any:
    found = decode(document)
    assert found.object is not None, [str(error) for error in found.errors]
    return found.object


def _amounts(amounts: Mapping[str, int]) -> Json:
    return {name: str(amount) for name, amount in amounts.items()}


def _document(api_version: str, kind: str, metadata: Json, **rest: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _metadata(described: Json, **more: Any) -> Json:
    namespace = described.get("namespace") or "default"
    return {"name": described["name"], "namespace": namespace, **more}


def _node_document(node: Json) -> Json:
    metadata = {"name": node["name"], "labels": node.get("labels") or {}}
    spec = {
        "taints": node.get("taints") or [],
        "unschedulable": bool(node.get("unschedulable")),
    }
    status = {"allocatable": _amounts(node["capacity"])}
    return _document("v1", "Node", metadata, spec=spec, status=status)


def _pod_document(pod: Json, *, by_workload: bool) -> Json:
    metadata = _metadata(pod, labels=pod.get("labels") or {})
    if pod.get("terminating"):
        metadata["deletionTimestamp"] = format_time(NOW)
    if pod.get("preemptionPriority") is not None:
        metadata["annotations"] = {
            PREEMPTION_PRIORITY_CLASS: _class_name(pod["preemptionPriority"], None)
        }
    spec: Json = {
        "containers": [
            {"name": "main", "resources": {"requests": _amounts(pod.get("requests") or {})}}
        ],
        "priority": pod.get("priority") or 0,
        "priorityClassName": _class_name(pod.get("priority") or 0, None),
        "nodeSelector": pod.get("nodeSelector") or {},
        "tolerations": pod.get("tolerations") or [],
    }
    for name in ("affinity", "preemptionPolicy", "topologySpreadConstraints"):
        if pod.get(name):
            spec[name] = pod[name]
    if pod.get("node"):
        spec["nodeName"] = pod["node"]
    group = pod.get("group")
    replica = str(pod.get("replica") or "")
    if group and by_workload:
        reference = {"name": group, "podGroup": "group", "podGroupReplicaKey": replica}
        spec["workloadRef"] = reference
    elif group:
        spec["schedulingGroup"] = {"podGroupName": _replica_name(group, replica)}
    status: Json = {}
    if pod.get("startTime") is not None:
        status["startTime"] = format_time(float(pod["startTime"]))
    if pod.get("nominatedNode"):
        status["nominatedNodeName"] = pod["nominatedNode"]
    return _document("v1", "Pod", metadata, spec=spec, status=status)


def _class_name(priority: int, policy: str | None) -> str:
    return f"p{priority}{'-never' if policy == 'Never' else ''}"


def _class_documents(scenario: Json) -> list[Json]:
    """A priority class for every number and policy in a scenario."""
    steps = [step["pod"] for step in scenario.get("steps") or () if step.get("pod")]
    wanted: set[tuple[int, str | None]] = set()
    for owner in (*scenario["podGroups"], *scenario["pods"], *steps):
        wanted.add((owner.get("priority") or 0, owner.get("preemptionPolicy")))
        wanted.add((owner.get("priority") or 0, None))
        if owner.get("preemptionPriority") is not None:
            wanted.add((owner["preemptionPriority"], None))
    return [
        _class_document(
            name=_class_name(value, policy),
            value=value,
            preemptionPolicy=policy or "PreemptLowerPriority",
        )
        for value, policy in sorted(wanted, key=str)
    ]


def _class_document(*, name: str, **rest: Any) -> Json:
    return _document("scheduling.k8s.io/v1", "PriorityClass", {"name": name}, **rest)


def _workload_document(group: Json) -> Json:
    gang: Json = {"minCount": group.get("minCount") or 1}
    if group.get("preemptionMode") is not None:
        gang["preemptionMode"] = group["preemptionMode"]
    spec = {
        "podGroups": [{"name": "group", "policy": {"gang": gang}}],
        "priorityClassName": _class_name(group["priority"], group.get("preemptionPolicy")),
        "preemptionPriorityClassName": _class_name(_preemption_priority(group), None),
    }
    return _document("scheduling.k8s.io/v1alpha1", "Workload", _metadata(group), spec=spec)


def _replica_name(group: str, replica: str) -> str:
    return f"{group}-{replica}" if replica else group


def _group_document(group: Json, replica: str) -> Json:
    annotations = {PREEMPTION_PRIORITY_CLASS: _class_name(_preemption_priority(group), None)}
    metadata = _metadata(group, annotations=annotations)
    metadata["name"] = _replica_name(group["name"], replica)
    spec: Json = {
        "schedulingPolicy": {"gang": {"minCount": group.get("minCount") or 1}},
        "priorityClassName": _class_name(group["priority"], group.get("preemptionPolicy")),
    }
    if group.get("preemptionMode") is not None:
        spec["disruptionMode"] = (
            {"all": {}} if group["preemptionMode"] == "PodGroup" else {"single": {}}
        )
    if _topology_key(group):
        spec["schedulingConstraints"] = {"topology": [{"key": _topology_key(group)}]}
    return _document("scheduling.k8s.io/v1beta1", "PodGroup", metadata, spec=spec)


def _preemption_priority(group: Json) -> int:
    given = group.get("preemptionPriority")
    return int(group["priority"] if given is None else given)


def _topology_key(group: Json) -> str | None:
    return group.get("topologyKey") or group.get("topology")


def _budget_document(budget: Json) -> Json:
    charged = {name: format_time(NOW) for name in budget.get("disruptedPods") or ()}
    spec = {"selector": {"matchLabels": budget.get("matchLabels") or {}}}
    status = {
        "disruptionsAllowed": budget.get("disruptionsAllowed") or 0,
        "disruptedPods": charged,
    }
    metadata = _metadata(budget)
    return _document("policy/v1", "PodDisruptionBudget", metadata, spec=spec, status=status)


# The play.


class Outcome(NamedTuple):
    """One schedule step, by names of pods and nodes."""

    is_bound: bool
    victims: tuple[str, ...]
    highest_victim: int | None
    violations: int
    bound: dict[str, str]
    nominated: dict[str, str]


class Stage:
    """A cluster built from the documents of one scenario."""

    def __init__(self, scenario: Json, *, by_workload: bool) -> None:
        self._by_workload = by_workload
        self._classes = [_decoded(document) for document in _class_documents(scenario)]
        self._namespaces: dict[str, str] = {}
        self.state = PlacementState()
        self._groups: dict[str, GangKey] = {}
        for node in scenario["nodes"]:
            self.tell(_node_document(node))
        for group in scenario["podGroups"]:
            pods = (pod for pod in scenario["pods"] if pod.get("group") == group["name"])
            self._add_group(group, sorted({str(pod.get("replica") or "") for pod in pods} | {""}))
        for pod in scenario["pods"]:
            self.add_pod(pod)
        for budget in scenario["pdbs"]:
            self.tell(_budget_document(budget))

    def tell(self, document: Json, replicas: Sequence[str] | None = None) -> list[PlacementEvent]:
        told = seen_in_placement(_decoded(document), self._classes, replicas=replicas)
        for event in told:
            self.state.apply(event)
        return list(told)

    def _add_group(self, group: Json, replicas: Sequence[str]) -> None:
        if self._by_workload:
            told = self.tell(_workload_document(group), replicas)
        else:
            told = [e for replica in replicas for e in self.tell(_group_document(group, replica))]
        for replica, event in zip(replicas, told, strict=True):
            assert isinstance(event, GangSeen), event
            self._groups[_replica_name(group["name"], replica)] = event.gang.key

    def add_pod(self, pod: Json) -> None:
        document = _pod_document(pod, by_workload=self._by_workload)
        self._namespaces[pod["name"]] = document["metadata"]["namespace"]
        self.tell(document)

    def key(self, name: str) -> PodKey:
        return PodKey(f"{self._namespaces[name]}/{name}")

    def schedule(self, preemptor: str) -> Outcome:
        unit: Unit
        if preemptor in self._groups:
            unit = gang_unit(self._groups[preemptor])
        else:
            unit = pod_unit(self.key(preemptor))
        decision = place_one(self.state, unit, NOW)
        waiting = filter(None, map(self.state.pod, self.state.waiting(unit)))
        nominated = {_name(pod.key): str(pod.nominated) for pod in waiting if pod.nominated}
        match decision:
            case BindPods():
                bound = {_name(place.pod): str(place.node) for place in decision.placement}
                return Outcome(True, (), None, 0, bound, nominated)
            case PreemptUnits():
                victims = tuple(_name(key) for key in decision.pods)
                return Outcome(False, victims, decision.level, decision.violations, {}, nominated)
            case _:
                return Outcome(decision is None, (), None, 0, {}, nominated)


def _name(key: str) -> str:
    return key.rpartition("/")[2]


# What is expected.


def _differences(expect: Json, got: Outcome, bound_before: Mapping[str, str]) -> list[str]:
    victims, nominated = set(got.victims), got.nominated
    now_bound = {**bound_before, **got.bound}

    def is_nominated(wanted: Json | None) -> bool:
        if wanted is None:
            return not nominated
        return all(nominated.get(pod) == node for pod, node in wanted.items())

    def is_bound(check: Callable[[Mapping[str, str]], bool]) -> bool:
        return check(got.bound) or check(now_bound)

    checks: dict[str, Callable[[Any], bool]] = {
        "state": lambda wanted: wanted == ("scheduled" if got.is_bound else "unschedulable"),
        "victims": lambda wanted: victims == set(wanted),
        "victims_any_of": lambda wanted: any(victims == set(names) for names in wanted),
        "victims_count": lambda wanted: len(victims) == wanted,
        "victims_count_min": lambda wanted: len(victims) >= wanted,
        "victims_count_max": lambda wanted: len(victims) <= wanted,
        "victims_subset_of": lambda wanted: victims <= set(wanted),
        "must_contain": lambda wanted: victims >= set(wanted),
        "not_victims": lambda wanted: not victims & set(wanted),
        "max_victim_priority": lambda wanted: (
            got.highest_victim is None or got.highest_victim <= wanted
        ),
        "pdb_violations": lambda wanted: got.violations == wanted,
        "placed": lambda wanted: wanted.items() <= got.bound.items(),
        "placed_count": lambda wanted: len(got.bound) == wanted,
        "nominated": is_nominated,
        "nominated_nodes": lambda wanted: set(nominated.values()) == set(wanted),
        "nominated_count": lambda wanted: len(nominated) == wanted,
        "nominated_count_min": lambda wanted: len(nominated) >= wanted,
        "nominated_one_of": lambda wanted: bool(nominated) and set(nominated.values()) <= {*wanted},
        "bound": lambda wanted: is_bound(lambda bound: set(bound) == set(wanted)),
        "bound_count": lambda wanted: is_bound(lambda bound: len(bound) == wanted),
        "bound_nodes": lambda wanted: is_bound(lambda bound: set(bound.values()) == set(wanted)),
    }
    remarks = ("why", "prefer", "preemptionPolicy")
    differences = [f"unknown expectation {key}" for key in expect if key not in (*checks, *remarks)]
    for key, check in checks.items():
        if key in expect and not check(expect[key]):
            differences.append(f"{key}: expected {expect[key]}, got {got}")
    return differences


def run_scenario(scenario: Json) -> list[str]:
    """Play one scenario; return where its outcome is not the expected one."""
    if scenario["kind"] == "api":
        return _run_api(scenario["given"], scenario["expect"])
    spellings = [False] if any(map(_topology_key, scenario["podGroups"])) else [True, False]
    return [
        f"{'Workload' if by_workload else 'PodGroup'}: {difference}"
        for by_workload in spellings
        for difference in _play(scenario, Stage(scenario, by_workload=by_workload))
    ]


def _play(scenario: Json, stage: Stage) -> list[str]:
    if scenario["kind"] == "preempt":
        return _differences(scenario["expect"], stage.schedule(scenario["preemptor"]), {})
    differences: list[str] = []
    bound: dict[str, dict[str, str]] = {}
    for number, step in enumerate(scenario["steps"], start=1):
        match step["op"]:
            case "schedule":
                name = step["preemptor"]
                outcome = stage.schedule(name)
                found = _differences(step.get("expect") or {}, outcome, bound.get(name, {}))
                bound.setdefault(name, {}).update(outcome.bound)
                differences += [f"step {number}: {difference}" for difference in found]
            case "terminated":
                for pod in step["pods"]:
                    stage.state.apply(PodGone(stage.key(pod)))
            case "add_pod":
                stage.add_pod(step["pod"])
            case "add_node":
                stage.tell(_node_document(step["node"]))
            case "remove_node":
                stage.state.apply(NodeGone(NodeName(step["node"])))
            case unknown:
                differences.append(f"step {number}: unknown op {unknown}")
    return differences


# Admission.


def _run_api(given: Json, expect: Json) -> list[str]:
    classes = [_decoded(_class_document(**cls)) for cls in given.get("priorityClasses") or ()]
    workload = given.get("workload") or {}
    view, priorities, errors = _admit(workload, classes, None)
    differences: list[str] = []
    if expect.get("accepted", True) != (not errors):
        differences.append(f"accepted: expected {expect.get('accepted')}, errors {errors}")
    if view is None or priorities is None:
        return differences
    if "status" in expect:
        got = {"priority": priorities.scheduling, "preemptionPriority": priorities.preemption}
        if any(got.get(name) != value for name, value in expect["status"].items()):
            differences.append(f"status: expected {expect['status']}, got {got}")
    if "preemptionPolicy" in expect and priorities.preemption_policy != expect["preemptionPolicy"]:
        differences.append(f"preemptionPolicy: got {priorities.preemption_policy}")
    if "updateAccepted" in expect:
        _, _, errors = _admit({**workload, **(given.get("update") or {})}, classes, view)
        if expect["updateAccepted"] != (not errors):
            differences.append(f"updateAccepted: expected {expect['updateAccepted']}, {errors}")
    for name, wanted in (expect.get("condition") or {}).items():
        got_condition = _diverges(view, classes, given.get("podPriorities") or ())
        if name != "PodsNotMatchingPriority" or wanted != got_condition:
            differences.append(f"condition {name}: expected {wanted}, got {got_condition}")
    return differences


def _admit(
    workload: Json, classes: Sequence[batch.PriorityClass], old: GangWorkload | None
) -> tuple[GangWorkload | None, Priorities | None, list[str]]:
    gang: Json = {"minCount": workload.get("minCount", 1)}
    if "preemptionMode" in workload:
        gang["preemptionMode"] = workload["preemptionMode"]
    group: Json = {"name": "group", "policy": {"gang": gang}}
    if "replicas" in workload:
        group["replicas"] = workload["replicas"]
    names = ("priorityClassName", "preemptionPriorityClassName")
    spec = {"podGroups": [group], **{name: workload[name] for name in names if name in workload}}
    metadata = _metadata({"name": "workload"})
    document = _document("scheduling.k8s.io/v1alpha1", "Workload", metadata, spec=spec)
    intake = take_in(document, old)
    if not isinstance(intake.object, GangWorkload):
        return None, None, [str(error) for error in intake.errors]
    asked = intake.object.spec
    resolved = resolve_priorities(
        asked.priority_class_name, asked.preemption_priority_class_name, classes
    )
    return intake.object, resolved.priorities, [str(error) for error in resolved.errors]


def _diverges(
    view: GangWorkload, classes: Sequence[batch.PriorityClass], priorities: Iterable[int]
) -> bool:
    """What the part says of a Workload whose pods have these priorities."""
    plane = PlacingPlane(lambda picture: GangStatuses(picture, GANG_WORKLOADS))
    for priority_class in classes:
        plane.priority_class(priority_class.metadata.name, priority_class.value)
    document = {**encode(view), "metadata": {"name": "it", "namespace": NAMESPACE}}
    plane.put(GANG_WORKLOADS, document)
    reference = {"name": "it", "podGroup": view.spec.pod_groups[0].name}
    for index, priority in enumerate(priorities):
        plane.pod(f"pod-{index}", priority=priority, workloadRef=reference)
    plane.run()
    condition = plane.condition(GANG_WORKLOADS, "it", PODS_NOT_MATCHING_PRIORITY)
    plane.close()
    return condition.get("status") == "True"
