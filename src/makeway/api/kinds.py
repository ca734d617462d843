"""Which kinds there are, in which versions, and which Makeway knows by name only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from makeway.api.batch import Job, Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from makeway.api.configuration import Configuration
from makeway.api.errors import Unsupported
from makeway.api.gangs import Gang, GangWorkload, PodGroup
from makeway.api.gates import GATES_OF_KUEUE
from makeway.api.labels import UNSUPPORTED
from makeway.api.meta import UNNAMED, ObjectMeta
from makeway.api.queueing import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)
from makeway.api.schema import Document, Whole
from makeway.api.versions import (
    CONFIGURATION_GROUP,
    HUB_VERSION,
    OLD_VERSIONS,
    QUEUEING_GROUP,
    split_api_version,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedKind:
    """An object of a kind that Makeway knows by name only: kept, shown, not acted on."""

    api_version: str
    kind: str
    metadata: ObjectMeta = UNNAMED
    document: Whole = field(default=None, repr=False, compare=False)


View = (
    AdmissionCheck
    | ClusterQueue
    | Cohort
    | Configuration
    | Gang
    | GangWorkload
    | Job
    | LocalQueue
    | Namespace
    | Node
    | Pod
    | PodDisruptionBudget
    | PodGroup
    | PriorityClass
    | ResourceFlavor
    | UnsupportedKind
    | Workload
    | WorkloadPriorityClass
)


class Kind(Protocol):
    """What the class of a top-level object says about itself."""

    API_VERSION: ClassVar[str]
    KIND: ClassVar[str]


_CLASSES: tuple[type[Kind], ...] = (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Configuration,
    Gang,
    GangWorkload,
    Job,
    LocalQueue,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)
# By group and kind.
KINDS: Mapping[tuple[str, str], type[Kind]] = {
    (split_api_version(kind.API_VERSION)[0], kind.KIND): kind for kind in _CLASSES
}
UNSUPPORTED_KINDS: Mapping[tuple[str, str], str] = {
    (QUEUEING_GROUP, "Topology"): "topology-aware scheduling",
    (QUEUEING_GROUP, "MultiKueueConfig"): "multi-cluster dispatch",
    (QUEUEING_GROUP, "MultiKueueCluster"): "multi-cluster dispatch",
    (QUEUEING_GROUP, "ProvisioningRequestConfig"): "provisioning of nodes",
    (QUEUEING_GROUP, "DynamicResourceAllocationConfig"): "dynamic resource allocation",
}
_UNSUPPORTED_CONTROLLERS: Mapping[str, str] = {
    "kueue.x-k8s.io/multikueue": "multi-cluster dispatch",
    "kueue.x-k8s.io/provisioning-request": "provisioning of nodes",
}


def class_of(document: Document) -> type[Kind] | None:
    """Return the class that shows a document of the current version; None for any other."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    found = KINDS.get((split_api_version(api_version)[0], kind))
    return found if found is not None and api_version == found.API_VERSION else None


def versions_of(kind: type[Kind]) -> tuple[str, ...]:
    group, version = split_api_version(kind.API_VERSION)
    if group in (QUEUEING_GROUP, CONFIGURATION_GROUP):
        return (HUB_VERSION, *OLD_VERSIONS)
    return (version,)


def unsupported_parts(view: object) -> Iterable[Unsupported]:
    """Yield abilities that are asked for by a label, an annotation, a controller or a gate."""
    match view:
        case Workload():
            yield from _unsupported_keys("metadata", view.metadata)
            for index, pod_set in enumerate(view.spec.pod_sets):
                path = f"spec.podSets[{index}].template.metadata"
                yield from _unsupported_keys(path, pod_set.template.metadata)
        case Job():
            yield from _unsupported_keys("metadata", view.metadata)
            yield from _unsupported_keys("spec.template.metadata", view.spec.template.metadata)
        case Pod():
            yield from _unsupported_keys("metadata", view.metadata)
        case AdmissionCheck():
            what = _UNSUPPORTED_CONTROLLERS.get(view.spec.controller_name)
            if what is not None:
                yield Unsupported(path="spec.controllerName", what=what)
        case Configuration():
            for gate in view.feature_gates:
                if gate in GATES_OF_KUEUE:
                    yield Unsupported(path=f"featureGates.{gate}", what="no such gate in Makeway")


def _unsupported_keys(path: str, metadata: ObjectMeta) -> Iterable[Unsupported]:
    for place, keys in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        for key in keys:
            if key in UNSUPPORTED:
                yield Unsupported(path=f"{path}.{place}[{key}]", what=UNSUPPORTED[key])
