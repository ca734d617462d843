"""What the engine itself says of the files, before anything runs: quota and jobs without hope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from makeway.api.batch import Job, Namespace
from makeway.api.errors import ABSENT
from makeway.api.kinds import View
from makeway.api.labels import MIN_PARALLELISM, QUEUE_NAME
from makeway.api.meta import ObjectMeta
from makeway.api.quantity import format_amount
from makeway.api.queueing import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    PodSet,
    ResourceFlavor,
    Workload,
    WorkloadSpec,
)
from makeway.cli.advice import Advice, ManifestSet, advice, cells_of, labels_of, namespace_in
from makeway.engine import events as ev
from makeway.engine.decisions import NamespaceNotAdmitted
from makeway.engine.engine import Engine
from makeway.engine.explain import Explanation
from makeway.engine.model import (
    CheckName,
    FlavorName,
    FlavorResource,
    Phase,
    QueueName,
    ResourceName,
    Strategy,
    WorkloadStatus,
)
from makeway.engine.model import Workload as EngineWorkload
from makeway.translate.categories import category_of
from makeway.translate.queues import changed, config_of
from makeway.translate.words import waiting_message
from makeway.translate.workloads import NO_TRANSFORMATIONS, workload_of

NOW = 0.0
N = TypeVar("N", LocalQueue, Workload)


def flavors_without_quota(files: ManifestSet) -> Iterator[Advice]:
    """A flavor of a queue that has nothing in it, not even to borrow."""
    capacity = {queue.spec.name: queue.capacity for queue in engine_of(files).view.queues()}
    for index, queue in files.of(ClusterQueue):
        for path, flavor, quota in cells_of(queue.spec.resource_groups):
            cell = FlavorResource(FlavorName(flavor), ResourceName(quota.name))
            if capacity[QueueName(queue.metadata.name)][cell] <= 0:
                problem = f"leaves nothing of {quota.name} in flavor {flavor}, not even to borrow"
                hint = "give it quota, or a cohort that has some and a borrowingLimit above 0"
                value = format_amount(quota.name, quota.nominal_quota)
                yield advice(index, f"{path}.nominalQuota", value, problem, hint)


def quota_out_of_reach(files: ManifestSet) -> Iterator[Advice]:
    """Quota of a cohort in a flavor that no queue below lists."""
    reached: set[tuple[str, str, str]] = set()  # cohort, flavor, resource
    above_queue = {queue.spec.name: queue.cohorts for queue in engine_of(files).view.queues()}
    for _, queue in files.of(ClusterQueue):
        above = above_queue[QueueName(queue.metadata.name)]
        for _, flavor, quota in cells_of(queue.spec.resource_groups):
            reached |= {(cohort, flavor, quota.name) for cohort in above}
    populated = {cohort for cohort, _, _ in reached}
    for index, cohort in files.of(Cohort):
        name = cohort.metadata.name
        for path, flavor, quota in cells_of(cohort.spec.resource_groups):
            is_reached = (name, flavor, quota.name) in reached
            if quota.nominal_quota and name in populated and not is_reached:
                value = format_amount(quota.name, quota.nominal_quota)
                problem = f"is quota of flavor {flavor} that no queue below can use"
                hint = f"list flavor {flavor} in a queue of this cohort, with nominalQuota 0"
                yield advice(index, f"{path}.nominalQuota", value, problem, hint)


# --- jobs that never run ---


def engine_of(files: ManifestSet) -> Engine:
    """An engine that knows the queues of the files, and nobody who waits."""
    configuration = files.configuration
    engine = Engine(None if configuration is None else config_of(configuration))
    if not files.of(ResourceFlavor):
        # They lie elsewhere; nothing is known against them.
        cells = (c for _, q in files.of(ClusterQueue) for c in cells_of(q.spec.resource_groups))
        for name in sorted({flavor for _, flavor, _ in cells}):
            engine.apply(changed(ResourceFlavor(metadata=ObjectMeta(name=name))))
    for view in files.views:
        match view:
            case ClusterQueue() | Cohort() | ResourceFlavor():
                engine.apply(changed(view))
            case LocalQueue():
                engine.apply(changed(_in_a_namespace(view)))
            case Namespace():
                engine.apply(ev.NamespaceChanged(view.metadata.name, labels_of(view)))
            case AdmissionCheck():
                engine.apply(ev.CheckChanged(CheckName(view.metadata.name), True))
            case _:
                pass
    return engine


def _in_a_namespace(view: N) -> N:
    """As a server would store it."""
    namespace = namespace_in(view.metadata)
    return replace(view, metadata=replace(view.metadata, namespace=namespace))


def jobs_that_never_run(files: ManifestSet) -> Iterator[Advice]:
    """Jobs that even an empty cluster would not admit; one try of the engine for each."""
    engine = engine_of(files)
    configuration = files.configuration
    resources = NO_TRANSFORMATIONS if configuration is None else configuration.resources
    known = files.names(Namespace)
    for index, view in enumerate(files.views):
        queued = _workload_of(view)
        if queued is None:
            continue
        workload = workload_of(queued, resources)
        namespace = workload.namespace
        if namespace not in known:
            engine.apply(ev.NamespaceChanged(namespace, {"kubernetes.io/metadata.name": namespace}))
        explanation = _try(engine, workload)
        reasons = [
            reason
            for reason in explanation.obstacles
            if category_of(reason).is_final
            # Nobody can say which labels a namespace has that the files don't show.
            and (namespace in known or not isinstance(reason, NamespaceNotAdmitted))
        ]
        if explanation.phase is Phase.PENDING and reasons:
            problem = f"can never be admitted: {waiting_message(reasons)}"
            is_strict = _is_strict(engine, explanation)
            hint = "in a StrictFIFO queue it holds up everybody behind it" if is_strict else ""
            yield advice(index, "", ABSENT, problem, hint, is_error=True)


def _try(engine: Engine, workload: EngineWorkload) -> Explanation:
    """What the engine says of a workload that is alone with it; no trace of it stays."""
    engine.apply(ev.WorkloadSeen(workload, WorkloadStatus()))
    engine.run_cycle(NOW)
    explanation = engine.explain(workload.key)
    engine.apply(ev.WorkloadRemoved(workload.key))
    return explanation


def _is_strict(engine: Engine, explanation: Explanation) -> bool:
    spec = engine.view.spec(explanation.queue) if explanation.queue is not None else None
    return spec is not None and spec.strategy is Strategy.STRICT_FIFO


def _workload_of(view: View) -> Workload | None:
    """What a Job in a queue would be queued as; None for everything else."""
    match view:
        case Workload():
            return _in_a_namespace(view)
        case Job() if view.metadata.labels.get(QUEUE_NAME):
            spec = view.spec
            count = min(spec.parallelism, spec.completions or spec.parallelism)
            least = view.metadata.annotations.get(MIN_PARALLELISM, "")
            pods = PodSet(
                template=spec.template,
                count=count,
                min_count=int(least) if least.isdecimal() and len(least) < 9 else None,
            )
            return Workload(
                metadata=ObjectMeta(
                    name=view.metadata.name or view.metadata.generate_name,
                    namespace=namespace_in(view.metadata),
                    uid="lint",
                ),
                spec=WorkloadSpec(pod_sets=(pods,), queue_name=view.metadata.labels[QUEUE_NAME]),
            )
        case _:
            return None
