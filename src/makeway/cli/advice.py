"""What is allowed and still hardly meant: rules over all objects of a set of files.

A reference is judged only where the files hold objects of the kind that is missing: whoever keeps
flavors in another repository is not told about it in every run. Each rule is a generator over the
whole set; none knows of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from makeway.api.batch import Job, Namespace, Pod, PodSpec, all_containers
from makeway.api.configuration import Configuration
from makeway.api.errors import ABSENT, FieldError
from makeway.api.kinds import UnsupportedKind, View
from makeway.api.labels import PRIORITY_CLASS, QUEUE_NAME
from makeway.api.meta import ObjectMeta
from makeway.api.queueing import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    Workload,
    WorkloadPriorityClass,
)

MEMORY_LEAST = 1024**2  # bytes; less is a mistake
CORES_MOST = 500  # per pod; more is a mistake
MILLI = 1000
DEFAULT_NAMESPACE = "default"

V = TypeVar("V")


class Advice(NamedTuple):
    place: int  # of the object in the set
    error: FieldError
    is_error: bool = False  # else a warning


@dataclass(frozen=True, slots=True)
class ManifestSet:
    """All objects of the files, each with its place among them."""

    views: Sequence[View]

    def of(self, kind: type[V]) -> list[tuple[int, V]]:
        return [(index, view) for index, view in enumerate(self.views) if isinstance(view, kind)]

    def names(self, kind: type[View]) -> set[str]:
        return {
            view.metadata.name
            for view in self.views
            if isinstance(view, kind) and not isinstance(view, Configuration)
        }

    @property
    def configuration(self) -> Configuration | None:
        found = self.of(Configuration)
        return found[0][1] if found else None


def advice(
    index: int, path: str, value: object, problem: str, hint: str, *, is_error: bool = False
) -> Advice:
    return Advice(index, FieldError(path, value, problem, hint), is_error)


# --- units ---


def units_of_requests(files: ManifestSet) -> Iterator[Advice]:
    for index, view in enumerate(files.views):
        for base, spec in _pod_specs(view):
            for part, number, container in all_containers(spec):
                for what in ("requests", "limits"):
                    amounts = getattr(container.resources, what)
                    path = f"{base}.{part}[{number}].resources.{what}"
                    document: Mapping[str, Any] = container.resources.document or {}
                    for resource, amount in amounts.items():
                        text = document[what][resource]
                        yield from _odd_amount(index, path, resource, amount, text)


def _pod_specs(view: View) -> Iterator[tuple[str, PodSpec]]:
    match view:
        case Job():
            yield "spec.template.spec", view.spec.template.spec
        case Pod():
            yield "spec", view.spec
        case Workload():
            for index, pod_set in enumerate(view.spec.pod_sets):
                yield f"spec.podSets[{index}].template.spec", pod_set.template.spec


def _odd_amount(
    index: int, path: str, resource: str, amount: int, written: object
) -> Iterator[Advice]:
    here = f"{path}[{resource}]" if "/" in resource else f"{path}.{resource}"
    text = str(written)
    if resource == "memory" and 0 < amount < MEMORY_LEAST:
        yield advice(index, here, written, *_tiny_memory(text, amount))
    elif resource == "cpu" and amount > CORES_MOST * MILLI:
        cores = amount // MILLI
        hint = f"for {cores} thousandths of a core write {cores}m" if text.isdecimal() else ""
        yield advice(index, here, written, f"is {cores} whole cores per pod", hint)


def _tiny_memory(text: str, amount: int) -> tuple[str, str]:
    bare = text.rstrip("m")
    if text.endswith("m"):
        return "is less than a byte each: m is a thousandth", f"write {bare}Mi for mebibytes"
    size = f"{amount} byte{'' if amount == 1 else 's'}"
    return f"is {size}", f"write {bare}Gi or {bare}Mi" if bare.isdecimal() else "use Mi or Gi"


def units_of_quotas(files: ManifestSet) -> Iterator[Advice]:
    for index, view in enumerate(files.views):
        if not isinstance(view, ClusterQueue | Cohort):
            continue
        for path, _, quota in cells_of(view.spec.resource_groups):
            nominal = quota.nominal_quota
            if quota.name == "memory" and 0 < nominal < MEMORY_LEAST:
                problem, hint = _tiny_memory(str(nominal), nominal)
                yield advice(index, f"{path}.nominalQuota", nominal, problem, hint)


def cells_of(groups: Iterable[ResourceGroup]) -> Iterator[tuple[str, str, ResourceQuota]]:
    """Path, flavor and quota of everything that groups have quota of."""
    for g, group in enumerate(groups):
        for f, flavor in enumerate(group.flavors):
            for r, quota in enumerate(flavor.resources):
                path = f"spec.resourceGroups[{g}].flavors[{f}].resources[{r}]"
                yield path, flavor.name, quota


# --- names ---


def duplicates(files: ManifestSet) -> Iterator[Advice]:
    """Of two objects with one name, the later would replace the earlier."""
    seen: set[tuple[type[View], str, str]] = set()
    for index, view in enumerate(files.views):
        if isinstance(view, Configuration) or not view.metadata.name:
            continue
        is_namespaced = isinstance(view, Job | Pod | LocalQueue | Workload)
        namespace = namespace_in(view.metadata) if is_namespaced else ""
        key = (type(view), namespace, view.metadata.name)
        if key in seen and not isinstance(view, UnsupportedKind):
            problem, hint = "is there twice: only the last would count", "rename one of the two"
            yield advice(index, "metadata.name", view.metadata.name, problem, hint, is_error=True)
        seen.add(key)


# --- references ---


def missing_references(files: ManifestSet) -> Iterator[Advice]:
    queues = files.names(ClusterQueue)
    for index, local in files.of(LocalQueue):
        yield from _missing(
            index, "spec.clusterQueue", local.spec.cluster_queue, "ClusterQueue", queues
        )
    flavors, checks = files.names(ResourceFlavor), files.names(AdmissionCheck)
    for index, queue in files.of(ClusterQueue):
        yield from _missing_flavors(index, queue.spec.resource_groups, flavors)
        strategy = queue.spec.admission_checks_strategy
        for number, rule in enumerate(strategy.admission_checks if strategy else ()):
            path = f"spec.admissionChecksStrategy.admissionChecks[{number}].name"
            yield from _missing(index, path, rule.name, "AdmissionCheck", checks)
    for index, cohort in files.of(Cohort):
        yield from _missing_flavors(index, cohort.spec.resource_groups, flavors)


def missing_references_of_jobs(files: ManifestSet) -> Iterator[Advice]:
    classes = files.names(WorkloadPriorityClass)
    queues: dict[str, set[str]] = {}  # by namespace
    for _, local in files.of(LocalQueue):
        queues.setdefault(namespace_in(local.metadata), set()).add(local.metadata.name)
    for index, job in files.of(Job):
        labels, namespace = job.metadata.labels, namespace_in(job.metadata)
        path = f"metadata.labels[{PRIORITY_CLASS}]"
        name = labels.get(PRIORITY_CLASS, "")
        yield from _missing(index, path, name, "WorkloadPriorityClass", classes)
        path, name = f"metadata.labels[{QUEUE_NAME}]", labels.get(QUEUE_NAME, "")
        if queues and name and namespace not in queues:
            problem = f"is not there: namespace {namespace} has no LocalQueue in these files"
            yield advice(index, path, name, problem, "write one", is_error=True)
        yield from _missing(index, path, name, "LocalQueue", queues.get(namespace, set()))


def _missing_flavors(
    index: int, groups: Iterable[ResourceGroup], flavors: set[str]
) -> Iterator[Advice]:
    for g, group in enumerate(groups):
        for f, flavor in enumerate(group.flavors):
            path = f"spec.resourceGroups[{g}].flavors[{f}].name"
            yield from _missing(index, path, flavor.name, "ResourceFlavor", flavors)


def _missing(index: int, path: str, name: str, kind: str, known: set[str]) -> Iterator[Advice]:
    if name and known and name not in known:
        hint = f"there are: {', '.join(sorted(known))}"
        problem = f"names a {kind} that is not there"
        yield advice(index, path, name, problem, hint, is_error=True)


def namespace_in(metadata: ObjectMeta) -> str:
    return metadata.namespace or DEFAULT_NAMESPACE


def unused_objects(files: ManifestSet) -> Iterator[Advice]:
    used = {
        flavor.name
        for view in files.views
        if isinstance(view, ClusterQueue | Cohort)
        for group in view.spec.resource_groups
        for flavor in group.flavors
    }
    for index, flavor in files.of(ResourceFlavor):
        if used and flavor.metadata.name not in used:
            problem, hint = "is in no queue's quota", "give some queue quota of it, or remove it"
            yield advice(index, "metadata.name", flavor.metadata.name, problem, hint)
    pointed_at = {local.spec.cluster_queue for _, local in files.of(LocalQueue)}
    for index, queue in files.of(ClusterQueue):
        if pointed_at and queue.metadata.name not in pointed_at:
            problem = "has no LocalQueue, so no job can come to it"
            hint = "write a LocalQueue that names it; or keep it to lend its quota"
            yield advice(index, "metadata.name", queue.metadata.name, problem, hint)


def namespaces_not_selected(files: ManifestSet) -> Iterator[Advice]:
    queues = {queue.metadata.name: queue for _, queue in files.of(ClusterQueue)}
    labels = {n.metadata.name: labels_of(n) for _, n in files.of(Namespace)}
    for index, queue in files.of(ClusterQueue):
        if queue.spec.namespace_selector is None:
            problem = "is missing: no namespace may use this queue"
            hint = "write {} to let every namespace use it"
            yield advice(index, "spec.namespaceSelector", ABSENT, problem, hint)
    for index, local in files.of(LocalQueue):
        queue_of_it = queues.get(local.spec.cluster_queue)
        namespace = namespace_in(local.metadata)
        if queue_of_it is None or namespace not in labels:
            continue
        selector = queue_of_it.spec.namespace_selector
        if selector is not None and not selector.matches(labels[namespace]):
            problem = f"does not select namespace {namespace}, so nothing here is ever admitted"
            hint = "label the namespace as spec.namespaceSelector of the queue wants it"
            name = local.spec.cluster_queue
            yield advice(index, "spec.clusterQueue", name, problem, hint, is_error=True)


def labels_of(namespace: Namespace) -> dict[str, str]:
    """With the one that every server adds."""
    name = namespace.metadata.name
    return {"kubernetes.io/metadata.name": name, **namespace.metadata.labels}


# --- quota and policies without effect ---


def lonely_policies(files: ManifestSet) -> Iterator[Advice]:
    """Rules about a cohort in a queue that has none, or is alone in it."""
    cohorts = files.of(Cohort)
    with_quota = {c.metadata.name for _, c in cohorts if c.spec.resource_groups}
    in_trees = {c.metadata.name for _, c in cohorts if c.spec.parent_name}
    in_trees |= {c.spec.parent_name for _, c in cohorts if c.spec.parent_name}
    members: dict[str, int] = {}
    for _, queue in files.of(ClusterQueue):
        members[queue.spec.cohort_name] = members.get(queue.spec.cohort_name, 0) + 1
    for index, queue in files.of(ClusterQueue):
        cohort, preemption = queue.spec.cohort_name, queue.spec.preemption
        if not cohort:
            if preemption.reclaim_within_cohort != "Never":
                path, value = (
                    "spec.preemption.reclaimWithinCohort",
                    preemption.reclaim_within_cohort,
                )
                problem = "never takes effect: the queue is in no cohort"
                yield advice(index, path, value, problem, "write spec.cohortName, or Never here")
        elif members[cohort] == 1 and cohort not in with_quota | in_trees:
            problem = "has no other queue and no quota: there is nobody to lend or borrow"
            hint = "name the cohort of another queue, or none"
            yield advice(index, "spec.cohortName", cohort, problem, hint)
    for index, found in cohorts:
        name = found.metadata.name
        if name not in members and name not in in_trees:
            problem, hint = "has no queues", "name it in spec.cohortName of a queue, or remove it"
            yield advice(index, "metadata.name", name, problem, hint)


# --- policies that circle, or that another policy overrides ---


def circling_policies(files: ManifestSet) -> Iterator[Advice]:
    """Settings under which workloads can take each other's place for ever."""
    configuration = files.configuration
    if configuration is None:
        return
    config_index = files.of(Configuration)[0][0]
    queues = files.of(ClusterQueue)
    preempts = any(
        queue.spec.preemption.within_cluster_queue != "Never"
        or queue.spec.preemption.reclaim_within_cohort != "Never"
        for _, queue in queues
    )
    by_creation = configuration.requeue_after_preemption == "UseCreationTimestamp"
    if preempts and by_creation and not configuration.gate("HoldForPreemptor"):
        problem = "lets an older victim take back the place that was cleared at its expense"
        hint = "switch it on, or write requeueStrategy.priorityPreemption: UseEvictionTimestamp"
        yield advice(config_index, "featureGates.HoldForPreemptor", False, problem, hint)
    by_eviction = configuration.requeue_after_pods_ready_timeout == "UseEvictionTimestamp"
    for index, queue in queues:
        within = queue.spec.preemption.within_cluster_queue
        if configuration.pods_ready is None or not by_eviction:
            break
        if within == "LowerOrNewerEqualPriority":
            problem = (
                "can circle: whoever's pods are late counts as newer, and its equal preempts it"
            )
            hint = "write requeueStrategy.podsReadyTimeout: UseCreationTimestamp, or LowerPriority"
            yield advice(index, "spec.preemption.withinClusterQueue", within, problem, hint)


def blocking_policies(files: ManifestSet) -> Iterator[Advice]:
    """A strict queue whose first workload can come back to its front again and again."""
    configuration = files.configuration
    if configuration is None:
        return
    if configuration.requeue_after_pods_ready_timeout != "UseCreationTimestamp":
        return
    for index, queue in files.of(ClusterQueue):
        fallbacks = queue.spec.flavor_fungibility.fallback_strategy
        has_clock = configuration.pods_ready is not None or fallbacks is not None
        strategy = queue.spec.queueing_strategy
        if strategy == "StrictFIFO" and has_clock:
            problem = (
                "can block: whoever's pods are not ready in time is the first again, and nobody "
                "passes it"
            )
            hint = "write BestEffortFIFO, or requeueStrategy.podsReadyTimeout: UseEvictionTimestamp"
            yield advice(index, "spec.queueingStrategy", strategy, problem, hint)


def overridden_policies(files: ManifestSet) -> Iterator[Advice]:
    configuration = files.configuration
    if configuration is None or not configuration.is_sharing_fairly:
        return
    for index, queue in files.of(ClusterQueue):
        policy = queue.spec.preemption.borrow_within_cohort.policy
        if policy != "Never":
            path = "spec.preemption.borrowWithinCohort.policy"
            problem = "never takes effect: under fair sharing the shares decide who is preempted"
            yield advice(index, path, policy, problem, "write Never, or switch fairSharing off")
