"""How the simulated world behaves, apart from queues and jobs: `kind: Simulation`.

A document of this kind may stand among the queue objects of a file. Everything in it has a default
under which the world is without friction: pods start and stop at once, nothing fails, and an
evicted job begins again from nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal, TypeVar

from makeway.api.codec import decode_unconverted
from makeway.api.errors import ABSENT, FieldError, one_of
from makeway.api.gates import GATES
from makeway.api.meta import UNNAMED, ObjectMeta
from makeway.api.schema import Amount, Document, Duration, Int32, Quantity

GROUP = "makeway.dev"
EVERY = "*"
Distribution = Literal["Constant", "Uniform", "Exponential", "LogNormal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A span of time that may differ from one draw to the next."""

    delay: Duration = 0.0  # the mean
    distribution: Distribution = "Constant"
    spread: Duration = 0.0  # Uniform: to both sides; LogNormal: standard deviation


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup(Delay):
    """From admission until all pods are ready."""

    flavor: str = EVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """What an evicted job keeps: its progress up to the last full interval."""

    queue: str = EVERY
    interval: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Stockout:
    """A time in which no pod of a flavor starts; by schedule (`from`) or at random (`every`)."""

    flavor: str
    start: Duration | None = field(default=None, metadata={"name": "from"})
    lasts: Duration = field(metadata={"name": "for"})  # at random: the mean
    every: Duration | None = None  # the mean time from one beginning to the next
    share: Quantity = Fraction(1)  # of the flavor's quota that has no machines
    stops_running: bool = False  # True: machines in use are taken away as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A node dies: the pods of jobs on it fail, and start again where they hold quota."""

    flavor: str
    at: Duration | None = None
    every: Duration | None = None
    jobs: Int32 = 1  # jobs hit by the failure; with simulated nodes, the jobs on the node


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How much faster than in the trace jobs run on a flavor."""

    flavor: str
    factor: Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a unit of a flavor costs: while machines are rented, or, if reserved, all the time."""

    flavor: str
    resource: str = ""  # empty: the main resource of the trace
    per_hour: Quantity
    reserved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Delay):
    """How an admission check answers: after a while with Ready, Rejected or Retry."""

    name: str = EVERY
    rejects: Quantity = Fraction(0)  # share of the answers
    retries: Quantity = Fraction(0)
    retry_after: Duration = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellations:
    """Users who give up: a share of the jobs is cancelled if it has not ended after `patience`."""

    queue: str = EVERY
    share: Quantity
    patience: Delay


@dataclass(frozen=True, slots=True, kw_only=True)
class OnPreemption:
    """Whether jobs that had to make way are queued again or have ended with it."""

    queue: str = EVERY
    policy: Literal["Requeue", "Terminate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """Simulated nodes of a flavor. Gangs are placed on them, or wait for room."""

    flavor: str
    count: Int32
    capacity: Mapping[str, Amount]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSpec:
    resources: Mapping[str, str] = field(default_factory=dict)  # gpus: nvidia.com/gpu
    termination: Duration = 0.0  # from an eviction until the last pod is gone
    startup: tuple[Startup, ...] = ()
    checkpoints: tuple[Checkpoints, ...] = ()
    stockouts: tuple[Stockout, ...] = ()
    failures: tuple[Failure, ...] = ()
    checks: tuple[Check, ...] = ()
    cancellations: tuple[Cancellations, ...] = ()
    on_preemption: tuple[OnPreemption, ...] = ()
    nodes: tuple[NodePool, ...] = ()
    speeds: tuple[Speed, ...] = ()
    prices: tuple[Price, ...] = ()
    currency: str = ""  # a word to print
    pod_size_max: Mapping[str, Amount] = field(default_factory=dict)  # a bigger job has more pods
    feature_gates: Mapping[str, bool] = field(default_factory=dict)  # before those of Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    API_VERSION: ClassVar[str] = f"{GROUP}/v1alpha1"
    KIND: ClassVar[str] = "Simulation"

    metadata: ObjectMeta = UNNAMED
    spec: SimulationSpec = SimulationSpec()


NO_DELAY = Startup()
GATES_HINT = f"write {one_of(tuple(sorted(GATES)))}"
READY_AT_ONCE = Check()


def read_settings(document: Document) -> tuple[SimulationSpec, tuple[FieldError, ...]]:
    """The settings of a Simulation object; the defaults where there are errors."""
    version = document.get("apiVersion")
    if version != Simulation.API_VERSION:
        problem, hint = "is not a version that Makeway reads", f"write {Simulation.API_VERSION}"
        return SimulationSpec(), (FieldError("apiVersion", version, problem, hint),)
    decoded = decode_unconverted(Simulation, document)
    if decoded.object is None:
        return SimulationSpec(), decoded.errors
    return decoded.object.spec, tuple(check_settings(decoded.object.spec))


def check_settings(spec: SimulationSpec) -> Iterator[FieldError]:
    """What is wrong with settings that are right in form."""
    for gate in unknown_gates(spec.feature_gates):
        yield FieldError(f"spec.featureGates.{gate}", ABSENT, "is not a known gate", GATES_HINT)
    for i, stockout in enumerate(spec.stockouts):
        yield from _wrong_times(f"spec.stockouts[{i}]", stockout, "from", stockout.start)
        if stockout.lasts <= 0:
            yield FieldError(f"spec.stockouts[{i}].for", stockout.lasts, "is not positive")
        if not 0 < stockout.share <= 1:
            path, hint = f"spec.stockouts[{i}].share", "write 0.2 for one fifth"
            yield FieldError(path, float(stockout.share), "is no share", hint)
    for i, failure in enumerate(spec.failures):
        yield from _wrong_times(f"spec.failures[{i}]", failure, "at", failure.at)
    for i, pool in enumerate(spec.nodes):
        for resource, amount in pool.capacity.items():
            if amount <= 0:
                path = f"spec.nodes[{i}].capacity"
                yield FieldError(path, amount, f"of {resource} is no capacity")
    for resource, amount in spec.pod_size_max.items():
        if amount <= 0:
            yield FieldError("spec.podSizeMax", amount, f"of {resource} is no size for a pod")
    for i, speed in enumerate(spec.speeds):
        if speed.factor <= 0:
            path = f"spec.speeds[{i}].factor"
            yield FieldError(path, float(speed.factor), "is no factor", "write 2 for twice as fast")
    for i, price in enumerate(spec.prices):
        if price.per_hour < 0:
            yield FieldError(f"spec.prices[{i}].perHour", float(price.per_hour), "is negative")
    for i, checkpoints in enumerate(spec.checkpoints):
        if checkpoints.interval <= 0:
            path = f"spec.checkpoints[{i}].interval"
            yield FieldError(path, checkpoints.interval, "is not positive", "write for example 10m")
    for i, check in enumerate(spec.checks):
        if not 0 <= check.rejects <= check.rejects + check.retries <= 1:
            problem = "and retries are no shares of one whole"
            yield FieldError(f"spec.checks[{i}].rejects", float(check.rejects), problem)
    for i, cancelled in enumerate(spec.cancellations):
        if not 0 <= cancelled.share <= 1:
            path = f"spec.cancellations[{i}].share"
            yield FieldError(
                path, float(cancelled.share), "is no share", "write 0.05 for one in 20"
            )


def wrong_names(
    spec: SimulationSpec, flavors: Collection[str], queues: Collection[str], checks: Collection[str]
) -> Iterator[FieldError]:
    """Settings for what is not there: they would change nothing, and nobody would notice."""
    yield from _unknown("startup", "flavor", spec.startup, (EVERY, *flavors))
    yield from _unknown("stockouts", "flavor", spec.stockouts, flavors)
    yield from _unknown("failures", "flavor", spec.failures, flavors)
    yield from _unknown("nodes", "flavor", spec.nodes, flavors)
    yield from _unknown("speeds", "flavor", spec.speeds, flavors)
    yield from _unknown("prices", "flavor", spec.prices, flavors)
    yield from _unknown("checkpoints", "queue", spec.checkpoints, (EVERY, *queues))
    yield from _unknown("cancellations", "queue", spec.cancellations, (EVERY, *queues))
    yield from _unknown("onPreemption", "queue", spec.on_preemption, (EVERY, *queues))
    yield from _unknown("checks", "name", spec.checks, (EVERY, *checks))


def _unknown(
    where: str, word: str, settings: Iterable[object], known: Collection[str]
) -> Iterator[FieldError]:
    for i, setting in enumerate(settings):
        name: str = getattr(setting, word)
        if name not in known:
            kind = "admission check" if word == "name" else word
            hint = f"write {one_of(tuple(known))}"
            yield FieldError(f"spec.{where}[{i}].{word}", name, f"is no {kind} here", hint)


def unknown_gates(gates: Iterable[str]) -> list[str]:
    return [gate for gate in gates if gate not in GATES]


def _wrong_times(
    path: str, outage: Stockout | Failure, word: str, at: float | None
) -> Iterator[FieldError]:
    """An outage comes at one time, which `word` gives, or every so often."""
    if (at is None) == (outage.every is None):
        hint = f"write {word}: 2h, or every: 24h"
        yield FieldError(path, outage.flavor, "has no time, or two", hint)
    if outage.every is not None and outage.every <= 0:
        yield FieldError(f"{path}.every", outage.every, "is not positive")


SettingT = TypeVar("SettingT", Startup, Checkpoints, Cancellations, OnPreemption)


def setting_for(settings: Collection[SettingT], name: str) -> SettingT | None:
    """The setting that names the flavor or queue, else the one for every flavor or queue."""
    if not settings:
        return None
    by_name = {s.flavor if isinstance(s, Startup) else s.queue: s for s in settings}
    return by_name.get(name, by_name.get(EVERY))
