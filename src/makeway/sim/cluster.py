"""The simulated cluster: queue objects from files, ready to be told to an engine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from makeway.api.batch import Namespace, PriorityClass
from makeway.api.configuration import Configuration
from makeway.api.errors import FieldError
from makeway.api.intake import take_in
from makeway.api.kinds import View
from makeway.api.manifests import Manifest, Position, read_manifests
from makeway.api.queueing import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from makeway.api.validation import validate_set
from makeway.engine import events as ev
from makeway.engine.model import (
    CheckName,
    CohortName,
    Config,
    Flavor,
    FlavorName,
    FlavorResource,
    LocalQueueKey,
    Queue,
    QueueName,
)
from makeway.engine.model import Cohort as EngineCohort
from makeway.engine.model import LocalQueue as EngineLocalQueue
from makeway.sim.overlay import documents_of_kind, laid_over
from makeway.sim.settings import (
    GATES_HINT,
    Simulation,
    SimulationSpec,
    read_settings,
    unknown_gates,
    wrong_names,
)
from makeway.sim.trace_jobs import SimulationError, position_of
from makeway.sim.traces import read_text, source_name
from makeway.translate.queues import cohort_of, config_of, flavor_of, local_queue_of, queue_of

FLAVOR_LABEL = "makeway.dev/flavor"  # jobs ask for flavors by it, whatever labels those have
NAMESPACE = "default"  # of queues that the file does not give a LocalQueue
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


def as_name(text: str) -> str:
    """The name of an object for a word of a trace: `VC A` is `vc-a`."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-.") or "queue"


class NoQueues(SimulationError):
    """There is no ClusterQueue; whoever asked for it says where to get one."""


@dataclass(slots=True)
class SimulatedCluster:
    """What the files say. Everything else about the world is in `settings`."""

    source: str
    configuration: Configuration = field(default_factory=Configuration)
    settings: SimulationSpec = field(default_factory=SimulationSpec)
    queues: dict[QueueName, Queue] = field(default_factory=dict)
    cohorts: dict[CohortName, EngineCohort] = field(default_factory=dict)
    flavors: dict[FlavorName, Flavor] = field(default_factory=dict)
    local_queues: dict[LocalQueueKey, EngineLocalQueue] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)  # of priority classes
    priority_default: int = 0
    namespaces: set[str] = field(default_factory=set)
    events: list[ev.Event] = field(default_factory=list)  # that tell all this to an engine
    notes: list[str] = field(default_factory=list)  # what stands there and has no effect here
    manifests: tuple[Manifest, ...] = ()  # the objects as written, to change them and read again

    @property
    def gates(self) -> dict[str, bool]:
        """The feature gates that are mentioned somewhere."""
        return {**self.configuration.feature_gates, **self.settings.feature_gates}

    @property
    def config(self) -> Config:
        return config_of(replace(self.configuration, feature_gates=self.gates))

    def with_gates(self, gates: Mapping[str, bool]) -> SimulatedCluster:
        """The same cluster with some gates turned on or off."""
        if unknown := unknown_gates(gates):
            raise SimulationError(f"{unknown[0]}: is not a known gate; {GATES_HINT}")
        settings = replace(self.settings, feature_gates={**self.settings.feature_gates, **gates})
        words = ", ".join(f"{name}={str(is_on).lower()}" for name, is_on in gates.items())
        source = f"{self.source} with {words}" if gates else self.source
        return replace(self, source=source, settings=settings)

    def cells(self) -> tuple[FlavorResource, ...]:
        """Every flavor-resource that there is quota of, in the order of the file."""
        found = [cell for queue in self.queues.values() for cell in nominal_of(queue)]
        found += [cell for cohort in self.cohorts.values() for cell in cohort.quotas]
        return tuple(dict.fromkeys(found))

    def quota_of(self, cell: FlavorResource) -> int:
        """All the quota there is of it."""
        queues = sum(nominal_of(queue).get(cell, 0) for queue in self.queues.values())
        cohorts = (c.quotas[cell].nominal for c in self.cohorts.values() if cell in c.quotas)
        return queues + sum(cohorts)

    def quota_by_root(self, resource: str) -> dict[str, int]:
        """All the quota of each tree, over all flavors."""
        totals: dict[str, int] = {}
        quotas = [(self.root_of(name), nominal_of(q)) for name, q in self.queues.items()]
        for name, cohort in self.cohorts.items():
            nominal = {cell: quota.nominal for cell, quota in cohort.quotas.items()}
            quotas.append((self._top_of(name), nominal))
        for root, amounts in quotas:
            own = sum(n for cell, n in amounts.items() if cell.resource == resource)
            totals[root] = totals.get(root, 0) + own
        return totals

    def root_of(self, queue: QueueName) -> str:
        """The top of the tree that a queue lends to and borrows from."""
        cohort = self.queues[queue].cohort
        return f"queue {queue}" if cohort is None else self._top_of(cohort)

    def _top_of(self, cohort: CohortName) -> str:
        known = self.cohorts.get(cohort)
        if known is None or known.parent is None:
            return f"cohort {cohort}"
        return self._top_of(known.parent)  # validation has refused cycles

    def find_queue(self, word: str) -> LocalQueueKey | None:
        """The local queue that a word of a trace means; one is made for a bare cluster queue."""
        for name in (word, as_name(word)):
            if LocalQueueKey(name) in self.local_queues:
                return LocalQueueKey(name)
            named = [key for key in self.local_queues if key.partition("/")[2] == name]
            if len(named) == 1:
                return named[0]
            if QueueName(name) in self.queues:
                return self._local_queue_for(QueueName(name))
        return None

    def only_queue(self) -> LocalQueueKey | None:
        if len(self.local_queues) == 1:
            return next(iter(self.local_queues))
        if not self.local_queues and len(self.queues) == 1:
            return self._local_queue_for(next(iter(self.queues)))
        return None

    def _local_queue_for(self, queue: QueueName) -> LocalQueueKey:
        for key, local_queue in self.local_queues.items():
            if local_queue.queue == queue:
                return key
        key = LocalQueueKey(f"{NAMESPACE}/{queue}")
        self.add_local_queue(EngineLocalQueue(key=key, queue=queue))
        return key

    def add_local_queue(self, local_queue: EngineLocalQueue) -> None:
        self.local_queues[local_queue.key] = local_queue
        self.add_namespace(local_queue.key.partition("/")[0], {})
        self.events.append(ev.LocalQueueChanged(local_queue))

    def add_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        if labels or name not in self.namespaces:
            self.namespaces.add(name)
            self.events.append(ev.NamespaceChanged(name, labels))

    def flavors_named(self, word: str) -> tuple[FlavorName, ...]:
        """The flavors that a word of a trace means: by name, or by the value of a label."""
        word, name = word.lower(), as_name(word)
        return tuple(
            flavor.name
            for flavor in self.flavors.values()
            if flavor.name.lower() in (word, name)
            or word in (value.lower() for value in flavor.labels.values())
        )

    def priority_of(self, text: str) -> int | None:
        """The number that a trace's priority means; None for an undefined class."""
        if not text:
            return self.priority_default
        if text in self.priorities:
            return self.priorities[text]
        folded = {name.lower(): value for name, value in self.priorities.items()}
        if text.lower() in folded:
            return folded[text.lower()]
        try:
            return int(float(text))
        except ValueError:
            return None


def nominal_of(queue: Queue) -> dict[FlavorResource, int]:
    return {
        FlavorResource(flavor.flavor, resource): quota.nominal
        for group in queue.groups
        for flavor in group.flavors
        for resource, quota in flavor.quotas.items()
    }


def read_cluster(
    files: Sequence[str | Path], extra: Iterable[Mapping[str, object]] = ()
) -> SimulatedCluster:
    """Read queue objects and settings; the first error ends it, with its place.

    What a later file says of an object is laid over what an earlier one says.
    """
    manifests: tuple[Manifest, ...] = ()
    for file in files:
        manifests = laid_over(manifests, read_objects(file))
    source = ", ".join(map(source_name, files)) or "the trace"
    for index, document in enumerate(extra):
        position = Position(source, 0)
        manifests += (Manifest(document=document, index=index, position=position),)
    return build_cluster(manifests, source)


def read_objects(file: str | Path) -> Sequence[Manifest]:
    return _manifests_of(read_text(Path(file)), source_name(file))


def parse_cluster(text: str, source: str) -> SimulatedCluster:
    return build_cluster(_manifests_of(text, source), source)


def _manifests_of(text: str, source: str) -> Sequence[Manifest]:
    found = read_manifests(text, source)
    for trouble in found.troubles:
        raise SimulationError(f"{position_of(trouble.position)}: {trouble.error}")
    return found.manifests


def build_cluster(manifests: Sequence[Manifest], source: str) -> SimulatedCluster:
    cluster = SimulatedCluster(source, manifests=tuple(manifests))
    views = list(_views(manifests, cluster))
    for between in validate_set([view for _, view in views]):
        _refuse(views[between.index][0], between.error)
    for manifest, view in views:
        _add(cluster, view, manifest)
    if not cluster.queues:
        kinds = sorted({str(manifest.document.get("kind")) for manifest in manifests})
        only = f", only {', '.join(kinds)}" if kinds else ""
        raise NoQueues(f"{source}: no ClusterQueue in it{only}")
    for key, local_queue in cluster.local_queues.items():
        if local_queue.queue not in cluster.queues:
            known = ", ".join(cluster.queues)
            raise SimulationError(
                f"{source}: LocalQueue {key} names ClusterQueue {local_queue.queue},"
                f" which is not there (there are {known})"
            )
    return cluster


def check_names(cluster: SimulatedCluster) -> None:
    """What settings name has to be there; asked when nothing more is laid over the cluster."""
    flavors = dict.fromkeys([*cluster.flavors, *(cell.flavor for cell in cluster.cells())])
    checks = [event.name for event in cluster.events if isinstance(event, ev.CheckChanged)]
    for manifest in documents_of_kind(cluster.manifests, Simulation.KIND):
        for error in wrong_names(cluster.settings, flavors, cluster.queues, checks):
            _refuse(manifest, error)


def _views(
    manifests: Iterable[Manifest], cluster: SimulatedCluster
) -> Iterator[tuple[Manifest, View]]:
    settings_seen: list[Manifest] = []
    for manifest in manifests:
        if manifest.document.get("kind") == Simulation.KIND:
            if settings_seen:
                problem = "a Simulation is there already; write one, or lay files over each other"
                raise SimulationError(f"{position_of(manifest.position)}: {problem}")
            settings_seen.append(manifest)
            cluster.settings, errors = read_settings(manifest.document)
            for error in errors:
                _refuse(manifest, error)
            continue
        taken = take_in(manifest.document)
        for error in taken.errors:
            _refuse(manifest, error)
        assert taken.object is not None
        for part in taken.unsupported:
            cluster.notes.append(f"{position_of(manifest.locate(part.path))}: {part}")
        yield manifest, taken.object


def _refuse(manifest: Manifest, error: FieldError) -> None:
    raise SimulationError(f"{position_of(manifest.locate(error.path))}: {error}")


def _add(cluster: SimulatedCluster, view: View, manifest: Manifest) -> None:
    match view:
        case ClusterQueue():
            queue = queue_of(view)
            if queue.name in cluster.queues:
                problem = f"ClusterQueue {queue.name} is there twice"
                raise SimulationError(f"{position_of(manifest.locate('metadata.name'))}: {problem}")
            cluster.queues[queue.name] = queue
            cluster.events.append(ev.QueueChanged(queue))
        case Cohort():
            cohort = cohort_of(view)
            cluster.cohorts[cohort.name] = cohort
            cluster.events.append(ev.CohortChanged(cohort))
        case ResourceFlavor():
            flavor = flavor_of(view)
            cluster.flavors[flavor.name] = flavor
            labels = {**flavor.labels, FLAVOR_LABEL: str(flavor.name)}
            cluster.events.append(ev.FlavorChanged(replace(flavor, labels=labels)))
        case LocalQueue():
            cluster.add_local_queue(local_queue_of(view))
        case Namespace():
            cluster.add_namespace(view.metadata.name, view.metadata.labels)
        case AdmissionCheck():
            # The simulation itself answers checks, as its settings say.
            cluster.events.append(ev.CheckChanged(CheckName(view.metadata.name), True))
        case WorkloadPriorityClass():
            cluster.priorities[view.metadata.name] = view.value
        case PriorityClass():
            cluster.priorities[view.metadata.name] = view.value
            if view.global_default:
                cluster.priority_default = view.value
        case Configuration():
            cluster.configuration = view
        case _:
            kind, name = manifest.document.get("kind"), view.metadata.name
            cluster.notes.append(
                f"{position_of(manifest.position)}: {kind}/{name} is not simulated"
            )
