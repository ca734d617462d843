"""What is served: kinds with their versions, names and abilities."""

from collections.abc import Mapping
from dataclasses import dataclass

ALL_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
_CORE = "io.k8s.api.core.v1."


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    group: str  # empty for the core group
    versions: tuple[str, ...]  # the first one is stored and preferred
    kind: str
    plural: str
    schema: str  # name of the schema of the stored version
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    is_namespaced: bool = True
    has_status: bool = True
    # Kubernetes' own kinds understand strategic merge patches; those of a CRD don't.
    is_built_in: bool = False
    # A node reports itself with its status, so creating one keeps it.
    keeps_status_on_create: bool = False

    @property
    def verbs(self) -> tuple[str, ...]:
        """What can be asked of it; namespaces go one by one, since so much goes with each."""
        is_namespace = (self.group, self.kind) == ("", "Namespace")
        return tuple(v for v in ALL_VERBS if v != "deletecollection" or not is_namespace)

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def store_kind(self) -> str:
        """The name in the store, and in messages: jobs.batch."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    @property
    def stored_api_version(self) -> str:
        return self.api_version(self.versions[0])


_KUEUE = "kueue.x-k8s.io"
_KUEUE_VERSIONS = ("v1beta2", "v1beta1")


def _queueing(
    kind: str,
    plural: str,
    *short_names: str,
    is_namespaced: bool = True,
    has_status: bool = True,
) -> Resource:
    return Resource(
        group=_KUEUE,
        versions=_KUEUE_VERSIONS,
        kind=kind,
        plural=plural,
        schema=f"io.x-k8s.kueue.v1beta2.{kind}",
        short_names=short_names,
        is_namespaced=is_namespaced,
        has_status=has_status,
    )


# In the order of discovery: of kinds with the same name, kubectl takes the first one.
RESOURCES: tuple[Resource, ...] = (
    Resource(
        group="",
        versions=("v1",),
        kind="Event",
        plural="events",
        schema=_CORE + "Event",
        short_names=("ev",),
        has_status=False,
        is_built_in=True,
    ),
    Resource(
        group="",
        versions=("v1",),
        kind="Namespace",
        plural="namespaces",
        schema=_CORE + "Namespace",
        short_names=("ns",),
        is_namespaced=False,
        is_built_in=True,
    ),
    Resource(
        group="",
        versions=("v1",),
        kind="Node",
        plural="nodes",
        schema=_CORE + "Node",
        short_names=("no",),
        is_namespaced=False,
        is_built_in=True,
        keeps_status_on_create=True,
    ),
    Resource(
        group="",
        versions=("v1",),
        kind="Pod",
        plural="pods",
        schema=_CORE + "Pod",
        short_names=("po",),
        categories=("all",),
        is_built_in=True,
    ),
    Resource(
        group="batch",
        versions=("v1",),
        kind="Job",
        plural="jobs",
        schema="io.k8s.api.batch.v1.Job",
        categories=("all",),
        is_built_in=True,
    ),
    _queueing("AdmissionCheck", "admissionchecks", is_namespaced=False),
    _queueing("ClusterQueue", "clusterqueues", "cq", is_namespaced=False),
    _queueing("Cohort", "cohorts", is_namespaced=False),
    _queueing("LocalQueue", "localqueues", "queue", "queues", "lq"),
    _queueing("ResourceFlavor", "resourceflavors", "flavor", "flavors", "rf", is_namespaced=False),
    _queueing("Workload", "workloads", "wl", "kwl", "kueueworkload", "kueueworkloads"),
    _queueing(
        "WorkloadPriorityClass",
        "workloadpriorityclasses",
        is_namespaced=False,
        has_status=False,
    ),
    _queueing("Topology", "topologies", is_namespaced=False, has_status=False),
    _queueing("MultiKueueConfig", "multikueueconfigs", is_namespaced=False, has_status=False),
    _queueing("MultiKueueCluster", "multikueueclusters", is_namespaced=False),
    _queueing(
        "ProvisioningRequestConfig",
        "provisioningrequestconfigs",
        is_namespaced=False,
        has_status=False,
    ),
    Resource(
        group="makeway.dev",
        versions=("v1",),
        kind="Gang",
        plural="gangs",
        schema="dev.makeway.v1.Gang",
    ),
    Resource(
        group="scheduling.k8s.io",
        versions=("v1",),
        kind="PriorityClass",
        plural="priorityclasses",
        schema="io.k8s.api.scheduling.v1.PriorityClass",
        short_names=("pc",),
        is_namespaced=False,
        has_status=False,
        is_built_in=True,
    ),
    Resource(
        group="scheduling.k8s.io",
        versions=("v1beta1",),
        kind="PodGroup",
        plural="podgroups",
        schema="io.k8s.api.scheduling.v1beta1.PodGroup",
        is_built_in=True,
    ),
    Resource(
        group="scheduling.k8s.io",
        versions=("v1alpha1",),
        kind="Workload",
        plural="workloads",
        schema="io.k8s.api.scheduling.v1alpha1.Workload",
        is_built_in=True,
    ),
    Resource(
        group="policy",
        versions=("v1",),
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        schema="io.k8s.api.policy.v1.PodDisruptionBudget",
        short_names=("pdb",),
        is_built_in=True,
    ),
    Resource(
        group="coordination.k8s.io",
        versions=("v1",),
        kind="Lease",
        plural="leases",
        schema="io.k8s.api.coordination.v1.Lease",
        has_status=False,
        is_built_in=True,
    ),
)
# By group, version and plural.
BY_PATH: Mapping[tuple[str, str, str], Resource] = {
    (resource.group, version, resource.plural): resource
    for resource in RESOURCES
    for version in resource.versions
}
BY_STORE_KIND: Mapping[str, Resource] = {resource.store_kind: resource for resource in RESOURCES}
BY_KIND: Mapping[tuple[str, str], Resource] = {
    (resource.group, resource.kind): resource for resource in RESOURCES
}
BUDGETS = BY_STORE_KIND["poddisruptionbudgets.policy"]
EVENTS = BY_STORE_KIND["events"]
JOBS = BY_STORE_KIND["jobs.batch"]
NAMESPACES = BY_STORE_KIND["namespaces"]
PODS = BY_STORE_KIND["pods"]
PRIORITY_CLASSES = BY_STORE_KIND["priorityclasses.scheduling.k8s.io"]
QUEUE_WORKLOADS = BY_STORE_KIND["workloads.kueue.x-k8s.io"]
