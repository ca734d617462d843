"""How many pods a PodDisruptionBudget lets go, counted where no cluster does it for us."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from makeway.api import batch
from makeway.api.codec import decode
from makeway.api.meta import LabelSelector, controller_of
from makeway.api.times import format_time
from makeway.client.client import Document, Resource
from makeway.client.resources import BUDGETS, JOBS, PODS
from makeway.controller.conditions import conditions_of, with_condition
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Picture
from makeway.plane.writes import Key, status_patch
from makeway.translate.placement import ENDED

CHARGED_MAX_S = 120.0  # a pod that was to go and is still there after so long stays after all


class _Pod(NamedTuple):
    labels: tuple[tuple[str, str], ...]
    owner: str  # uid of what controls it; empty if nothing does
    is_healthy: bool  # ready
    is_leaving: bool


class BudgetStatuses(Reconciler):
    resources: tuple[Resource, ...] = (JOBS, BUDGETS, PODS)

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        self._pods: dict[str, dict[Key, _Pod]] = {}  # by namespace; those that have not ended
        self._wanted: dict[str, int] = {}  # uid of a Job -> how many pods it wants at a time
        self._owners: dict[Key, str] = {}  # Job -> its uid
        self._selectors: dict[str, dict[Key, LabelSelector]] = {}  # by namespace
        self._covered: dict[Key, dict[Key, None]] = {}  # budget -> its pods

    def changed(self, resource: Resource, key: Key, document: Document | None) -> None:
        if resource == PODS:
            self._see_pod(key, None if document is None else _pod_of(document))
        elif resource == JOBS:
            self._see_job(key, document)
        else:
            self._see_budget(key, document)

    def _see_pod(self, key: Key, pod: _Pod | None) -> None:
        pods = self._pods.setdefault(key.namespace, {})
        known = pods.get(key)
        if known == pod:
            return
        for budget, selector in self._selectors.get(key.namespace, {}).items():
            if pod is not None and selector.matches(dict(pod.labels)):
                self._covered[budget][key] = None
                self.mark(budget)
            elif key in self._covered[budget]:
                del self._covered[budget][key]
                self.mark(budget)
        if pod is None:
            del pods[key]
        else:
            pods[key] = pod

    def _see_job(self, key: Key, document: Document | None) -> None:
        view = None if document is None else decode(document).object
        if isinstance(view, batch.Job):
            self._owners[key] = view.metadata.uid
            wanted = _wanted_by(view)
            if self._wanted.get(view.metadata.uid) == wanted:
                return
            self._wanted[view.metadata.uid] = wanted
        else:
            self._wanted.pop(self._owners.pop(key, ""), None)
        for budget in self._selectors.get(key.namespace, ()):
            self.mark(budget)

    def _see_budget(self, key: Key, document: Document | None) -> None:
        view = None if document is None else decode(document).object
        selectors = self._selectors.setdefault(key.namespace, {})
        if not isinstance(view, batch.PodDisruptionBudget):
            selectors.pop(key, None)
            self._covered.pop(key, None)
            return
        self.mark(key)
        selector = view.spec.selector
        if selector is None:  # matches nothing, as in Kubernetes
            selectors.pop(key, None)
            self._covered[key] = {}
        elif selectors.get(key) != selector:
            selectors[key] = selector
            self._covered[key] = {
                pod: None
                for pod, facts in self._pods.get(key.namespace, {}).items()
                if selector.matches(dict(facts.labels))
            }

    def reconcile(self, key: Key, now: float) -> Plan:
        document = self._picture.get(BUDGETS, key)
        view = None if document is None else decode(document).object
        if document is None or not isinstance(view, batch.PodDisruptionBudget):
            return NOTHING
        covered = {pod: self._pods[pod.namespace][pod] for pod in self._covered[key]}
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
        return {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "disruptedPods": {name: format_time(at) for name, at in sorted(charged.items())},
            "observedGeneration": generation,
            "conditions": with_condition(
                conditions_of(document),
                "DisruptionAllowed",
                "True" if allowed else "False",
                "SufficientPods" if allowed else "InsufficientPods",
                "",
                now,
                generation,
            ),
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
        owners = {pod.owner for pod in pods}
        alone = sum(pod.owner not in self._wanted for pod in pods)
        return alone + sum(self._wanted[owner] for owner in owners if owner in self._wanted)


def _pod_of(document: Document) -> _Pod | None:
    view = decode(document).object
    if not isinstance(view, batch.Pod) or view.status.phase in ENDED:
        return None
    owner = controller_of(document)
    return _Pod(
        labels=tuple(sorted(view.metadata.labels.items())),
        owner="" if owner is None else owner.uid,
        is_healthy=any(c.type == "Ready" and c.status == "True" for c in view.status.conditions),
        is_leaving=view.metadata.deletion_timestamp is not None,
    )


def _wanted_by(job: batch.Job) -> int:
    """Pods at a time; towards its end a Job wants fewer."""
    if job.spec.completions is None:
        return job.spec.parallelism
    return min(job.spec.parallelism, max(0, job.spec.completions - job.status.succeeded))


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
