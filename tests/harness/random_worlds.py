"""The one maker of random worlds: queues and their quota, cohorts, flavors and workloads.

Numbers are small, so that everybody is in everybody's way. `Knobs` say how large a world gets and
what it may contain. Tests of the engine and the laws take the values as they are;
`tests/simulation/supply.py` writes them as objects of the API. Nodes and pods are made by
`tests/placement/random_worlds.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from makeway.engine import events as ev
from makeway.engine.matching import Constraints
from makeway.engine.model import (
    Backoff,
    CheckName,
    Cohort,
    CohortName,
    Config,
    FailurePolicy,
    FallbackRule,
    Fallbacks,
    Flavor,
    FlavorName,
    FlavorQuotas,
    FlavorResource,
    Fungibility,
    Gates,
    LocalQueue,
    LocalQueueKey,
    NamespaceSelector,
    PodSet,
    PodSetName,
    PodsReadyPolicy,
    Policy,
    Preemption,
    Preference,
    Queue,
    QueueCheck,
    QueueName,
    Quota,
    RequeueTime,
    ResourceGroup,
    ResourceName,
    Search,
    ShareRule,
    StopPolicy,
    Strategy,
    Trigger,
    Workload,
    WorkloadKey,
)
from makeway.selectors import Requirement

NAMESPACE = "ns"
CHECK = CheckName("check")
OPEN_TO_TEAM_A = NamespaceSelector((Requirement("team", "In", ("a",)),))


@dataclass(frozen=True)
class World:
    config: Config
    flavors: tuple[Flavor, ...]
    cohorts: tuple[Cohort, ...]
    queues: tuple[Queue, ...]

    def events(self) -> list[ev.Event]:
        return [
            ev.NamespaceChanged(NAMESPACE, {"team": "a"}),
            ev.CheckChanged(CHECK, True),
            *map(ev.FlavorChanged, self.flavors),
            *map(ev.CohortChanged, self.cohorts),
            *map(ev.QueueChanged, self.queues),
            *(ev.LocalQueueChanged(local_queue_of(queue.name)) for queue in self.queues),
        ]


def local_queue_of(queue: QueueName, stop: StopPolicy = StopPolicy.NONE) -> LocalQueue:
    return LocalQueue(key=LocalQueueKey(f"{NAMESPACE}/{queue}"), queue=queue, stop_policy=stop)


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """Numbers are chosen from those listed; shares say how likely something is."""

    trees: Sequence[int] = (1, 2)
    loose: float = 0.2  # a tree is one queue without a cohort
    queues: Sequence[int] = (1, 2, 3, 4)  # of a tree that is none
    cohorts: Sequence[int] = (0, 0, 1, 2)  # of a tree, below its root
    undeclared: float = 0.0  # a cohort is only named by its queues
    resources: Sequence[Sequence[str]] = (("cpu",), ("cpu",), ("cpu", "gpu"))
    flavors: Sequence[int] = (1, 1, 2, 3)
    quotas: Sequence[int] = (0, 1, 2, 3, 4, 4, 6)
    lent: Sequence[int] = (0, 1, 2, 3, 4, 4, 6)  # quotas of cohorts, where they have any
    limits: float = 0.3  # a quota has a limit of borrowing, and one of lending
    thresholds: Sequence[int | None] = (None, 0, 1)
    priorities: Sequence[int] = (0, 1, 2)
    is_mild: bool = False  # nobody takes anything from a higher priority
    fair_sharing: bool | None = None  # None: either
    hold_for_preemptor: bool | None = None
    gates: Gates | None = None  # None: any
    odd_workloads: bool = True  # several pod sets, partial admission, a flavor of choice, defects
    split_groups: bool = True  # resources with flavors of their own
    fallbacks: bool = False
    checks: bool = False
    clocks: bool = False  # waitForPodsReady with back-off


PLAIN = Knobs()
EVERYTHING = Knobs(fallbacks=True, checks=True, clocks=True)


class Worldmaker:
    def __init__(self, rng: Random, knobs: Knobs) -> None:
        self.rng, self.knobs = rng, knobs
        self.config = self._config()
        self.is_fair = self.config.fair_sharing
        self.resources = tuple(map(ResourceName, rng.choice(knobs.resources)))
        names = [FlavorName(f"f{number}") for number in range(rng.choice(knobs.flavors))]
        self.flavors = tuple(Flavor(name=name, labels={"flavor": name}) for name in names)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def world(self) -> World:
        rng, knobs = self.rng, self.knobs
        cohorts: list[Cohort] = []
        queues: list[Queue] = []
        for tree in range(rng.choice(knobs.trees)):
            names: list[CohortName | None] = [None]
            if not self.chance(knobs.loose):
                grown = self._cohorts(f"t{tree}")
                cohorts += [cohort for cohort in grown if not self.chance(knobs.undeclared)]
                names = [cohort.name for cohort in grown]
            for number in range(1 if names == [None] else rng.choice(knobs.queues)):
                queues.append(self.queue(QueueName(f"q{tree}{number}"), rng.choice(names)))
        return World(self.config, self.flavors, tuple(cohorts), tuple(queues))

    def _config(self) -> Config:
        rng, knobs = self.rng, self.knobs
        is_fair = self.chance(0.3) if knobs.fair_sharing is None else knobs.fair_sharing
        holds = self.chance(0.8) if knobs.hold_for_preemptor is None else knobs.hold_for_preemptor
        gates = knobs.gates or Gates(hold_for_preemptor=holds, owners_first=self.chance(0.7))
        recovery_s, has_clocks = rng.choice([None, 5.0]), knobs.clocks and self.chance(0.5)
        waiting = PodsReadyPolicy(timeout_s=10.0, recovery_timeout_s=recovery_s)
        return Config(
            fair_sharing=is_fair,
            share_rules=rng.choice(
                [tuple(ShareRule), tuple(ShareRule)[:1], tuple(ShareRule)[1:]],
            ),
            after_preemption=rng.choice(list(RequeueTime)),
            after_pods_ready_timeout=rng.choice(list(RequeueTime)),
            pods_ready=waiting if has_clocks else None,
            backoff=Backoff(
                base_s=rng.choice([0.0, 5.0]), max_s=20.0, limit=rng.choice([None, 1, 3])
            ),
            gates=gates,
        )

    def _cohorts(self, root: str) -> list[Cohort]:
        cohorts = [self.cohort(CohortName(root), None)]
        for number in range(self.rng.choice(self.knobs.cohorts)):
            parent = self.rng.choice(cohorts)
            cohorts.append(self.cohort(CohortName(f"{root}-{number}"), parent.name))
        return cohorts

    def cohort(self, name: CohortName, parent: CohortName | None) -> Cohort:
        quotas = {}
        if self.chance(0.4):
            quotas = {
                FlavorResource(flavor.name, resource): self.quota(self.knobs.lent, bool(parent))
                for flavor in self.flavors
                for resource in self.resources
            }
        return Cohort(name=name, parent=parent, quotas=quotas, weight=self._weight())

    def _weight(self) -> float:
        return self.rng.choice([1.0, 1.0, 2.0, 0.5, 0.0]) if self.is_fair else 1.0

    def quota(self, nominals: Sequence[int], has_parent: bool) -> Quota:
        rng, limits = self.rng, self.knobs.limits if has_parent else 0.0
        nominal = rng.choice(nominals)
        return Quota(
            nominal,
            borrowing_limit=rng.randint(0, 4) if self.chance(limits) else None,
            lending_limit=rng.randint(0, nominal) if self.chance(limits) else None,
        )

    def queue(self, name: QueueName, cohort: CohortName | None) -> Queue:
        rng = self.rng
        few = frozenset({self.flavors[0].name}) if self.chance(0.3) else frozenset()
        is_checked = self.knobs.checks and self.chance(0.3)
        return Queue(
            name=name,
            groups=self.groups(cohort is not None),
            cohort=cohort,
            strategy=rng.choice(list(Strategy)),
            namespaces=OPEN_TO_TEAM_A if self.chance(0.2) else NamespaceSelector(),
            fungibility=self._fungibility(),
            preemption=self.preemption(),
            checks=(QueueCheck(CHECK, few),) if is_checked else (),
            weight=self._weight(),
        )

    def groups(self, has_parent: bool) -> tuple[ResourceGroup, ...]:
        """All resources in one group, or each in one of its own if there are flavors enough."""
        rng, flavors, nominals = self.rng, list(self.flavors), self.knobs.quotas
        rng.shuffle(flavors)
        may_split = self.knobs.split_groups and len(self.resources) == 2 and len(flavors) > 1
        parts = [(self.resources, flavors[: rng.randint(1, len(flavors))])]
        if may_split and self.chance(0.4):
            parts = [(self.resources[:1], flavors[:1]), (self.resources[1:], flavors[1:])]
        return tuple(
            ResourceGroup(
                resources,
                tuple(
                    FlavorQuotas(
                        flavor.name, {r: self.quota(nominals, has_parent) for r in resources}
                    )
                    for flavor in own
                ),
            )
            for resources, own in parts
        )

    def preemption(self) -> Preemption:
        rng = self.rng
        any_ = Policy.LOWER_PRIORITY if self.knobs.is_mild else Policy.ANY
        reclaim = rng.choice([Policy.NEVER, *[Policy.LOWER_PRIORITY, any_] * 2])
        borrows = reclaim is not Policy.NEVER and not self.is_fair and self.chance(0.3)
        return Preemption(
            within_queue=rng.choice(
                [Policy.NEVER, *[Policy.LOWER_PRIORITY, Policy.LOWER_OR_NEWER_EQUAL] * 2]
            ),
            reclaim=reclaim,
            borrow_while_reclaiming=borrows,
            borrow_threshold=rng.choice(self.knobs.thresholds) if borrows else None,
        )

    def _fungibility(self) -> Fungibility:
        rng = self.rng
        return Fungibility(
            when_can_borrow=rng.choice(list(Search)),
            when_can_preempt=rng.choice(list(Search)),
            preference=rng.choice([None, *Preference]),
            fallbacks=self.fallbacks(),
        )

    def fallbacks(self) -> Fallbacks:
        if not self.knobs.fallbacks or self.chance(0.6):
            return Fallbacks()
        rules = [
            FallbackRule("*", Trigger.TIMEOUT, 8.0),
            FallbackRule("*", Trigger.CHECK_REJECTED),
            FallbackRule("f0", Trigger.TIMEOUT, 4.0),
            FallbackRule("f1", None),
        ]
        return Fallbacks(
            rules=tuple(rule for rule in rules if self.chance(0.6)),
            failure_policy=self.rng.choice(list(FailurePolicy)),
        )

    def workload(self, number: int, queue: QueueName, now: float) -> Workload:
        is_odd, priority = self.knobs.odd_workloads, self.rng.choice(self.knobs.priorities)
        pod_sets = 2 if is_odd and self.chance(0.2) else 1
        return Workload(
            key=WorkloadKey(f"{NAMESPACE}/w{number}"),
            uid=f"{number:04}",
            local_queue=local_queue_of(queue).key,
            namespace=NAMESPACE,
            priority=priority,
            preemption_priority=priority + 1 if is_odd and self.chance(0.1) else None,
            created_at=now,
            pod_sets=tuple(map(self._odd_pods if is_odd else self._pods, range(pod_sets))),
            defect="it asks for the moon" if is_odd and self.chance(0.03) else None,
        )

    def _pods(self, number: int) -> PodSet:
        requests = tuple((resource, self.rng.randint(1, 4)) for resource in self.resources)
        return PodSet(name=PodSetName(f"ps{number}"), count=1, requests=requests)

    def _odd_pods(self, number: int) -> PodSet:
        rng = self.rng
        count = rng.choice([1, 1, 1, 1, 2, 3])
        requests = {resource: rng.choice([0, 0, 1, 2]) for resource in self.resources}
        requests[self.resources[0]] += 1
        chosen = rng.choice(self.flavors).name if self.chance(0.1) else None
        return PodSet(
            name=PodSetName(f"ps{number}"),
            count=count,
            requests=tuple(sorted(requests.items())),
            min_count=1 if count > 1 and self.chance(0.3) else None,
            constraints=Constraints(selector=(("flavor", chosen),) if chosen else ()),
        )
