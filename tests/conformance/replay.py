"""Replays recorded scenarios on the engine and tells where the answers differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from makeway.api.batch import Namespace
from makeway.api.codec import decode, decode_as
from makeway.api.meta import ObjectMeta
from makeway.api.queueing import Workload
from makeway.api.times import parse_time
from makeway.engine import events as ev
from makeway.engine.decisions import Admit, Cycle, Decision, Evict, HeadOutcome, Preempt, Reserve
from makeway.engine.engine import Engine
from makeway.engine.model import (
    HOLDING,
    Config,
    EvictionReason,
    Gates,
    RequeueTime,
    ShareRule,
    WorkloadKey,
)
from makeway.engine.upkeep import tend
from makeway.translate.queues import QueueObject, changed
from makeway.translate.workloads import status_of, workload_of

COMPARED = ("admitted", "preempted", "notNominated", "order", "pending_active", "inadmissible")
GATES = {
    "PartialAdmission": "partial_admission",
    "SchedulingEquivalenceHashing": "equal_shapes_together",
    "FlavorFungibilityPreserveScanProgress": "keep_scan_progress",
    "FlavorFungibilityImplicitPreferenceDefault": "implicit_preference",
    "RecomputeAssignmentUponPreemptionTargetsOverlap": "reassign_on_overlap",
    # Kueue does not have these: they are off where it was recorded.
    "HoldForPreemptor": "hold_for_preemptor",
    "OwnersFirst": "owners_first",
    "PreemptionBackoff": "preemption_backoff",
}
OWN_GATES = ("OwnersFirst", "HoldForPreemptor", "PreemptionBackoff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    cycle: int | None  # counted from 0; None: before the first or after the last
    what: str
    expected: object
    got: object

    def __str__(self) -> str:
        where = "at the end" if self.cycle is None else f"cycle {self.cycle}"
        return f"{where}, {self.what}\n    expected {self.expected}\n    got      {self.got}"


def replay(scenario: Mapping[str, Any], cycles: int | None = None) -> list[Difference]:
    """Run the script and compare cycle by cycle; `cycles` leaves out those from there on."""
    run = Replay(scenario)
    expected = scenario["expect"]
    differences = run.compare_start(expected)
    number = 0
    for step in scenario["script"]:
        if step["do"] != "cycle":
            run.take(step)
            continue
        if number == cycles:
            return differences
        got = run.cycle()
        differences += compare_cycle(number, expected["cycles"][number], got)
        number += 1
    differences += compare_values(None, "running", expected["running"], run.running())
    return differences


def compare_cycle(
    number: int, expected: Mapping[str, Any], got: Mapping[str, Any]
) -> list[Difference]:
    differences = compare_values(number, "noop", expected.get("noop", False), got["noop"])
    for what in COMPARED:
        differences += compare_values(
            number, what, expected.get(what) or type(got[what])(), got[what]
        )
    return differences


def compare_values(cycle: int | None, what: str, expected: Any, got: Any) -> list[Difference]:
    if expected == got:
        return []
    return [Difference(cycle=cycle, what=what, expected=expected, got=got)]


def config_of(recorded: Mapping[str, Any], own_gates: Mapping[str, bool]) -> Config:
    named = {**dict.fromkeys(OWN_GATES, False), **recorded["featureGates"], **own_gates}
    gates = {GATES[name]: is_on for name, is_on in named.items()}
    rules = tuple(map(ShareRule, recorded.get("preemptionStrategies") or ()))
    by_eviction = recorded.get("requeueTimestamp", "Eviction") == "Eviction"
    return Config(
        fair_sharing=recorded["fairSharing"],
        share_rules=rules or Config().share_rules,
        after_pods_ready_timeout=RequeueTime.EVICTION if by_eviction else RequeueTime.CREATION,
        skips_hopeless=False,  # the recorded cycles tell of every head
        gates=Gates(**gates),
    )


class Replay:
    """Drives the engine as the recording was driven: evictions take no time."""

    def __init__(
        self, scenario: Mapping[str, Any], own_gates: Mapping[str, bool] | None = None
    ) -> None:
        self.engine = Engine(config_of(scenario["config"], own_gates or {}))
        self.is_fair = scenario["config"]["fairSharing"]
        self.now = parse_time(scenario["now"])
        apply = self.engine.apply
        for namespace in scenario["namespaces"]:
            meta = ObjectMeta(name=namespace["name"], labels=namespace.get("labels") or {})
            apply(changed(Namespace(metadata=meta)))
        for field in ("resourceFlavors", "cohorts", "clusterQueues", "localQueues"):
            for document in scenario[field]:
                decoded = decode(document)
                assert isinstance(decoded.object, QueueObject), decoded.errors
                apply(changed(decoded.object))
        self.order: list[HeadOutcome] = []  # of the last cycle; where nothing changes it holds on
        self.submit(scenario["workloads"])
        self.engine.state.build_trees()
        self.evicted_at_start = self.let_go(tend(self.engine.state, self.now))

    def submit(self, documents: Iterable[Mapping[str, Any]]) -> None:
        for document in documents:
            decoded = decode_as(Workload, document)
            assert decoded.object is not None, [str(e) for e in decoded.errors]
            view = decoded.object
            self.engine.apply(ev.WorkloadSeen(workload_of(view), status_of(view)))

    def take(self, step: Mapping[str, Any]) -> None:
        match step["do"]:
            case "advance":
                self.now += step["seconds"]
            case "submit":
                self.submit(step["workloads"])
            case "finish":
                for key in step["workloads"]:
                    self.engine.apply(ev.WorkloadFinished(WorkloadKey(key)))
            case "evict":
                reason = EvictionReason(step["reason"])
                for key in step["workloads"]:
                    self.engine.apply(ev.Evicted(WorkloadKey(key), reason, self.now))
                    self.engine.apply(ev.PodsGone(WorkloadKey(key)))
            case other:
                raise ValueError(f"unknown step {other}")

    def let_go(self, decisions: Iterable[Decision]) -> list[tuple[str, str]]:
        """Pods of the evicted are gone at once; returns who was evicted and why."""
        evicted = [(d.workload, d.reason.value) for d in decisions if isinstance(d, Evict)]
        for key, _ in evicted:
            self.engine.apply(ev.PodsGone(key))
        return [(str(key), reason) for key, reason in evicted]

    def cycle(self) -> dict[str, Any]:
        queues = self.engine.state.queues
        standing = [o for o in self.order if queues[o.queue].tree.is_settled]
        cycle = self.run_cycle()
        preempted = [
            {"workload": victim.workload, "by": d.preemptor, "reason": victim.rule.value}
            for d in cycle.decisions
            if isinstance(d, Preempt)
            for victim in d.victims
        ]
        admitted = [self._admission(d) for d in cycle.decisions if isinstance(d, Admit | Reserve)]
        for victim in preempted:
            self.engine.apply(ev.PodsGone(WorkloadKey(victim["workload"])))
        self.now += 1
        order = self.order = [*standing, *cycle.order]
        return {
            "noop": not order and not cycle.not_nominated,
            "admitted": sorted(admitted, key=lambda a: a["workload"]),
            "preempted": sorted(preempted, key=lambda p: p["workload"]),
            "notNominated": sorted(cycle.not_nominated),
            "order": [self._outcome(o) for o in sorted(order, key=self._place)],
            "pending_active": self._waiting("active"),
            "inadmissible": self._waiting("parked"),
        }

    def run_cycle(self) -> Cycle:
        return self.engine.run_cycle(self.now)

    def _place(self, outcome: HeadOutcome) -> tuple[object, ...]:
        """Heads of all trees in one order; under fair sharing grouped by root, order kept."""
        if not self.is_fair:
            return outcome.rank
        root = self.engine.state.queues[outcome.queue].tree.root
        return (f"cq:{root.name}" if root.is_queue else f"cohort:{root.name}",)

    def _outcome(self, outcome: HeadOutcome) -> dict[str, Any]:
        return {
            "workload": outcome.workload,
            "clusterQueue": outcome.queue,
            "mode": outcome.mode.value,
            "result": outcome.result.value,
            "borrowLevel": outcome.borrow_level,
        }

    def _admission(self, decision: Admit | Reserve) -> dict[str, Any]:
        return {
            "workload": decision.workload,
            "clusterQueue": decision.queue,
            "podSets": [
                {"name": ps.name, "count": ps.count, "flavors": dict(ps.flavors)}
                for ps in decision.assignment.pod_sets
            ],
            "borrowing": decision.borrow_level > 0,
            "borrowLevel": decision.borrow_level,
        }

    def _waiting(self, which: str) -> dict[str, list[str]]:
        lists = {
            name: sorted(str(e.workload.key) for e in getattr(queue.pending, which)())
            for name, queue in self.engine.state.queues.items()
        }
        return {str(name): keys for name, keys in lists.items() if keys}

    def running(self) -> dict[str, list[str]]:
        lists: dict[str, list[str]] = {}
        for entry in self.engine.state.entries.values():
            if entry.phase in HOLDING:
                lists.setdefault(str(entry.queue), []).append(str(entry.workload.key))
        return {queue: sorted(keys) for queue, keys in lists.items()}

    def compare_start(self, expected: Mapping[str, Any]) -> list[Difference]:
        evicted = [(e["workload"], e["reason"]) for e in expected.get("startupEvicted") or ()]
        self.engine.state.build_trees()
        inactive = {
            str(name): queue.inactive.value
            for name, queue in self.engine.state.queues.items()
            if queue.inactive is not None
        }
        return [
            *compare_values(None, "startupEvicted", sorted(evicted), sorted(self.evicted_at_start)),
            *compare_values(
                None, "inactiveClusterQueues", expected.get("inactiveClusterQueues") or {}, inactive
            ),
        ]
