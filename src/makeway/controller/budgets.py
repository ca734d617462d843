"""How many pods a PodDisruptionBudget lets go, counted where no cluster does it for us."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from makeway.api import batch
from makeway.api.batch import ENDED_PHASES
from makeway.api.kinds import BUDGETS, JOBS, PODS, Resource
from makeway.api.meta import LabelSelector, controller_of
from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, with_condition
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key, status_patch

CHARGED_MAX_S = 120.0  # a pod that was to go and is still there after so long stays after all


class _Pod(NamedTuple):
    labels: Mapping[str, str]
    owner: str  # uid of what controls it; empty if nothing does
    is_healthy: bool  # ready
    is_leaving: bool


class BudgetStatuses(Reconciler):
    resources: tuple[Resource, ...] = (JOBS, BUDGETS, PODS)

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        self._pods = picture.index(PODS, _living_pod)  # by namespace
        self._wanted = picture.index(JOBS, _pods_wanted)  # by uid of the Job
        self._selectors = picture.index(BUDGETS, selector_of)  # by namespace

    def changed(self, change: Change) -> None:
        namespace = change.key.namespace
        if change.resource == BUDGETS:
            self.mark(change.key)
        elif change.resource == JOBS and self._wanted.touched(change):
            self.mark(*self._selectors.keys(namespace))
        elif change.resource == PODS and self._pods.touched(change):
            entries = self._pods.entry(change.old), self._pods.entry(change.new)
            for budget, selector in self._selectors.items(namespace):
                if any(entry and selector.matches(entry[1].labels) for entry in entries):
                    self.mark(budget)

    def reconcile(self, key: Key, now: float) -> Plan:
        found = self._picture.find(BUDGETS, key)
        if found is None or found.view is None:
            return NOTHING
        document, view = found.document, found.view
        selector = view.spec.selector  # None matches nothing, as in Kubernetes
        pods = () if selector is None else self._pods.items(key.namespace)
        covered = {pod: facts for pod, facts in pods if selector.matches(facts.labels)}
        charged = _still_charged(view, covered, now)
        recheck_at = min((at + CHARGED_MAX_S for at in charged.values()), default=None)
        after = self._status(document, view, covered, charged, now)
        before = document.get("status") or {}
        if {**before, **after} == before:
            return Plan((), recheck_at)
        # What is no longer charged has to be named in a merge patch for it to go.
        dropped = dict.fromkeys(before.get("disruptedPods") or {})
        status = {**after, "disruptedPods": {**dropped, **after["disruptedPods"]}}
        return Plan((status_patch(BUDGETS, document, status),), recheck_at)

    def _status(
        self,
        document: Document,
        view: batch.PodDisruptionBudget,
        covered: dict[Key, _Pod],
        charged: dict[str, float],
        now: float,
    ) -> Document:
        expected, desired = self._numbers(view.spec, covered.values())
        healthy = sum(
            pod.is_healthy and not pod.is_leaving and key.name not in charged
            for key, pod in covered.items()
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        generation = document["metadata"].get("generation")
        reason = "SufficientPods" if allowed else "InsufficientPods"
        told = "DisruptionAllowed", str(allowed > 0), reason, ""
        return {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "disruptedPods": {name: format_time(at) for name, at in sorted(charged.items())},
            "observedGeneration": generation,
            "conditions": with_condition(conditions_of(document), *told, now, generation),
        }

    def _numbers(
        self, spec: batch.PodDisruptionBudgetSpec, pods: Iterable[_Pod]
    ) -> tuple[int, int]:
        """How many pods there should be, and how many of them have to be healthy."""
        pods = list(pods)
        if isinstance(spec.min_available, int):
            return len(pods), spec.min_available
        expected = self._expected(pods)
        if spec.min_available is not None:
            return expected, _share(spec.min_available, expected)
        if spec.max_unavailable is not None:
            return expected, max(0, expected - _share(spec.max_unavailable, expected))
        return expected, 0

    def _expected(self, pods: list[_Pod]) -> int:
        """What the Jobs of these pods want; whoever has no Job counts for itself."""
        wanted = {pod.owner: self._wanted.values(pod.owner) for pod in pods}
        alone = sum(not wanted[pod.owner] for pod in pods)
        return alone + sum(map(sum, wanted.values()))


def selector_of(budget: Object) -> tuple[str, LabelSelector] | None:
    """A budget in the index by namespace; one without a selector covers nothing."""
    selector = None if budget.view is None else budget.view.spec.selector
    return None if selector is None else (budget.key.namespace, selector)


def _living_pod(pod: Object) -> tuple[str, _Pod] | None:
    view = pod.view
    if view is None or view.status.phase in ENDED_PHASES:
        return None
    owner = controller_of(pod.document)
    facts = _Pod(
        labels=view.metadata.labels,
        owner="" if owner is None else owner.uid,
        is_healthy=any(c.type == "Ready" and c.status == "True" for c in view.status.conditions),
        is_leaving=view.metadata.deletion_timestamp is not None,
    )
    return pod.key.namespace, facts


def _pods_wanted(job: Object) -> tuple[str, int] | None:
    """How many pods a Job wants at a time; towards its end it wants fewer."""
    view = job.view
    if view is None:
        return None
    count = view.spec.parallelism
    if view.spec.completions is not None:
        count = min(count, max(0, view.spec.completions - view.status.succeeded))
    return view.metadata.uid, count


def _share(value: int | str, expected: int) -> int:
    """A number, or a share of what is expected, rounded up as Kubernetes does."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%")) * expected // 100)


def _still_charged(
    view: batch.PodDisruptionBudget, covered: dict[Key, _Pod], now: float
) -> dict[str, float]:
    """Pods whose eviction was granted and that are neither leaving, nor gone, nor left alone."""
    namespace = view.metadata.namespace
    return {
        name: at
        for name, at in view.status.disrupted_pods.items()
        if (pod := covered.get(Key(namespace, name))) is not None
        and not pod.is_leaving
        and now < at + CHARGED_MAX_S
    }
