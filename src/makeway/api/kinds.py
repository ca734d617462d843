"""The one table of kinds: how servers name them, in which versions, and the view of each.

Server, client, rights and reference are fed from here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from makeway.api.batch import (
    Job,
    LimitRange,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
)
from makeway.api.configuration import Configuration
from makeway.api.cron import CronJob
from makeway.api.errors import Unsupported
from makeway.api.gangs import Gang, GangWorkload, PodGroup
from makeway.api.gates import GATES_OF_KUEUE
from makeway.api.key_values import ConfigMap, Secret
from makeway.api.labels import UNSUPPORTED
from makeway.api.meta import UNNAMED, ObjectMeta
from makeway.api.queueing import (
    HUB,
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)
from makeway.api.resource import Kind as Kind
from makeway.api.resource import Resource as Resource
from makeway.api.schema import Document, Whole
from makeway.api.services import Service
from makeway.api.versions import QUEUEING_GROUP, split_api_version


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
    | ConfigMap
    | Configuration
    | CronJob
    | Gang
    | GangWorkload
    | Job
    | LimitRange
    | LocalQueue
    | Namespace
    | Node
    | Pod
    | PodDisruptionBudget
    | PodGroup
    | PriorityClass
    | ResourceFlavor
    | RuntimeClass
    | Secret
    | Service
    | UnsupportedKind
    | Workload
    | WorkloadPriorityClass
)


def _known(view: type[Kind], plural: str, *short_names: str, **more: Any) -> Resource:
    return Resource(view.API_VERSION, plural, view.KIND, short_names=short_names, view=view, **more)


def _queueing(view: type[Kind], plural: str, *short_names: str, **more: Any) -> Resource:
    return _known(view, plural, *short_names, **{"older_versions": _OLDER, **more})


def _not_acted_on(plural: str, kind: str, *, has_status: bool = False) -> Resource:
    return Resource(
        HUB, plural, kind, is_namespaced=False, has_status=has_status, older_versions=_OLDER
    )


_OLDER = ("v1beta1",)
_OLDEST = (*_OLDER, "v1alpha2")  # of kinds that were there from the first

CONFIG_MAPS = _known(ConfigMap, "configmaps", "cm", has_status=False)
SECRETS = _known(Secret, "secrets", has_status=False)
EVENTS = Resource("v1", "events", "Event", short_names=("ev",), has_status=False)
NEW_EVENTS = Resource(
    "events.k8s.io/v1", "events", "Event", short_names=("ev",), has_status=False, stored_as=EVENTS
)
SERVICES = _known(Service, "services", "svc", categories=("all",))
ENDPOINT_SLICES = Resource(
    "discovery.k8s.io/v1", "endpointslices", "EndpointSlice", has_status=False
)
NAMESPACES = _known(Namespace, "namespaces", "ns", is_namespaced=False)
NODES = _known(Node, "nodes", "no", is_namespaced=False)
PODS = _known(Pod, "pods", "po", categories=("all",))
CRON_JOBS = _known(CronJob, "cronjobs", "cj", categories=("all",))
JOBS = _known(Job, "jobs", categories=("all",))
CHECKS = _queueing(AdmissionCheck, "admissionchecks", is_namespaced=False)
QUEUES = _queueing(ClusterQueue, "clusterqueues", "cq", is_namespaced=False, older_versions=_OLDEST)
COHORTS = _queueing(Cohort, "cohorts", is_namespaced=False)
LOCAL_QUEUES = _queueing(LocalQueue, "localqueues", "queue", "queues", "lq", older_versions=_OLDEST)
FLAVORS = _queueing(
    ResourceFlavor,
    "resourceflavors",
    "flavor",
    "flavors",
    "rf",
    is_namespaced=False,
    older_versions=_OLDEST,
)
WORKLOADS = _queueing(
    Workload,
    "workloads",
    "wl",
    "kwl",
    "kueueworkload",
    "kueueworkloads",
    older_versions=_OLDEST,
)
WORKLOAD_CLASSES = _queueing(
    WorkloadPriorityClass, "workloadpriorityclasses", is_namespaced=False, has_status=False
)
GANGS = _known(Gang, "gangs")
PRIORITY_CLASSES = _known(
    PriorityClass, "priorityclasses", "pc", is_namespaced=False, has_status=False
)
POD_GROUPS = _known(PodGroup, "podgroups")
GANG_WORKLOADS = _known(GangWorkload, "workloads")
BUDGETS = _known(PodDisruptionBudget, "poddisruptionbudgets", "pdb")
LIMIT_RANGES = _known(LimitRange, "limitranges", "limits", has_status=False)
RUNTIME_CLASSES = _known(RuntimeClass, "runtimeclasses", is_namespaced=False, has_status=False)
LEASES = Resource("coordination.k8s.io/v1", "leases", "Lease", has_status=False)
# Who may do what, where several people share a server.
_ACCESS = "rbac.authorization.k8s.io/v1"
CLUSTER_ROLES = Resource(
    _ACCESS, "clusterroles", "ClusterRole", is_namespaced=False, has_status=False
)
CLUSTER_ROLE_BINDINGS = Resource(
    _ACCESS, "clusterrolebindings", "ClusterRoleBinding", is_namespaced=False, has_status=False
)
ROLES = Resource(_ACCESS, "roles", "Role", has_status=False)
ROLE_BINDINGS = Resource(_ACCESS, "rolebindings", "RoleBinding", has_status=False)

# All that the embedded server serves. In the order of discovery: of kinds with the same name,
# kubectl takes the first one.
RESOURCES: tuple[Resource, ...] = (
    *(
        CONFIG_MAPS,
        EVENTS,
        LIMIT_RANGES,
        NAMESPACES,
        NODES,
        PODS,
        SECRETS,
        SERVICES,
        RUNTIME_CLASSES,
        CRON_JOBS,
        JOBS,
        CHECKS,
        QUEUES,
        COHORTS,
        LOCAL_QUEUES,
        FLAVORS,
    ),
    *(WORKLOADS, WORKLOAD_CLASSES),
    _not_acted_on("topologies", "Topology"),
    _not_acted_on("multikueueconfigs", "MultiKueueConfig"),
    _not_acted_on("multikueueclusters", "MultiKueueCluster", has_status=True),
    _not_acted_on("provisioningrequestconfigs", "ProvisioningRequestConfig"),
    *(GANGS, PRIORITY_CLASSES, POD_GROUPS, GANG_WORKLOADS, BUDGETS, LEASES, ENDPOINT_SLICES),
    *(CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS),
)
# Other names for kinds of these, which are served as well.
ALIASES: tuple[Resource, ...] = (NEW_EVENTS,)
# By group, version and plural.
BY_PATH: Mapping[tuple[str, str, str], Resource] = {
    (resource.group, version, resource.plural): resource
    for resource in (*RESOURCES, *ALIASES)
    for version in resource.versions
}
BY_FULL_NAME: Mapping[str, Resource] = {resource.full_name: resource for resource in RESOURCES}
BY_KIND: Mapping[tuple[str, str], Resource] = {
    (resource.group, resource.kind): resource for resource in RESOURCES
}
# Views by group and kind; a configuration is read like an object, and served by nobody.
KINDS: Mapping[tuple[str, str], type[Kind]] = {
    (split_api_version(view.API_VERSION)[0], view.KIND): view
    for view in (*(resource.view for resource in RESOURCES), Configuration)
    if view is not None
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
