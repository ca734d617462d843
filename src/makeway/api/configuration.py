"""The file given with `--config`: Kueue's configuration, plus `requeueStrategy` (ours)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from makeway.api.gates import GATES
from makeway.api.meta import UNNAMED, LabelSelector, ObjectMeta, SelectorRequirement
from makeway.api.schema import Duration, Int32, Quantity, unsupported

RequeueTimestamp = Literal["UseEvictionTimestamp", "UseCreationTimestamp"]
FairPreemptionStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]

NAMESPACE_NAME = "kubernetes.io/metadata.name"  # label that every namespace has
# Where nothing is queued unless the configuration says otherwise: a cluster has to start without
# its queues.
SYSTEM_NAMESPACES = ("kube-system", "kueue-system")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueStrategy:
    """By which time an evicted workload queues again (ours); None: not said."""

    priority_preemption: RequeueTimestamp | None = None  # None: UseCreationTimestamp
    # After late pods or a fallback; None: as requeuingStrategy says, else UseEvictionTimestamp.
    pods_ready_timeout: RequeueTimestamp | None = None  # None: UseEvictionTimestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPriority:
    """What users may say about who may preempt them (ours)."""

    max_distance: Int32 | None = None  # above the priority of scheduling; None: any


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeuingStrategy:
    timestamp: Literal["Eviction", "Creation"] | None = None
    backoff_base_seconds: Int32 = 60
    backoff_max_seconds: Int32 = 3600
    backoff_limit_count: Int32 | None = None  # None: tries again for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForPodsReady:
    enable: bool = True  # false only in files of v1beta1
    timeout: Duration = 300.0
    block_admission: bool = False
    recovery_timeout: Duration | None = None  # None: the same as `timeout`; 0 never fires
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharingConfiguration:
    enable: bool = True  # false only in files of v1beta1
    preemption_strategies: tuple[FairPreemptionStrategy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFairSharing:
    """How usage of the past counts in the order of local queues."""

    usage_half_life_time: Duration
    usage_sampling_interval: Duration = 300.0
    resource_weights: Mapping[str, Quantity] = field(default_factory=dict)  # 1 where none is given


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTransformation:
    input: str
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""  # a resource whose requested amount multiplies the input's
    outputs: Mapping[str, Quantity] = field(default_factory=dict)  # per unit of the input


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesConfiguration:
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[ResourceTransformation, ...] = ()
    device_class_mappings: object = unsupported("dynamic resource allocation")
    quota_check_strategy: object = unsupported("ignoring resources without quota")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRetention:
    after_finished: Duration | None = None  # None: for ever
    after_deactivated_by_kueue: Duration | None = None  # None: for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRetentionPolicies:
    workloads: WorkloadRetention | None = None  # None: all are kept for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    API_VERSION: ClassVar[str] = "config.kueue.x-k8s.io/v1beta2"
    KIND: ClassVar[str] = "Configuration"

    metadata: ObjectMeta = UNNAMED
    requeue_strategy: RequeueStrategy = RequeueStrategy()
    preemption_priority: PreemptionPriority = PreemptionPriority()
    wait_for_pods_ready: WaitForPodsReady | None = None
    fair_sharing: FairSharingConfiguration | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None  # None: the past does not count
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    resources: ResourcesConfiguration = ResourcesConfiguration()
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: LabelSelector | None = None  # None: all but the system's
    namespace: object = unsupported("where the controller runs is not configured here")
    webhook: object = unsupported("webhooks")
    leader_election: object = unsupported("see the controller's own options")
    metrics: object = unsupported("see the controller's own options")
    health: object = unsupported("see the controller's own options")
    pprof_bind_address: object = unsupported("profiles over HTTP")
    controller: object = unsupported("concurrency per kind")
    tls: object = unsupported("see the server's own options")
    internal_cert_management: object = unsupported("webhooks")
    client_connection: object = unsupported("rate limits of the client")
    integrations: object = unsupported("jobs other than batch/v1 Job")
    queue_visibility: object = unsupported("positions in the status of a queue")
    multi_kueue: object = unsupported("multi-cluster dispatch")
    object_retention_policies: ObjectRetentionPolicies = ObjectRetentionPolicies()
    visibility_server: object = unsupported("a visibility server of its own")

    def gate(self, name: str) -> bool:
        """Tell whether a gate is on; `name` must be one that Makeway knows."""
        return self.feature_gates.get(name, GATES[name])

    @property
    def managed_namespaces(self) -> LabelSelector:
        """Where queues have to do with Jobs and pods at all, whether these name a queue or not."""
        return self.managed_jobs_namespace_selector or _all_but(SYSTEM_NAMESPACES)

    def outside_of(self, own: str) -> "Configuration":
        """The same for a controller in a namespace of its own, where nothing is queued either.

        The namespace `default` is everybody's.
        """
        if self.managed_jobs_namespace_selector is not None or own == "default":
            return self
        names = tuple(dict.fromkeys((*SYSTEM_NAMESPACES, own)))
        return replace(self, managed_jobs_namespace_selector=_all_but(names))

    @property
    def retention(self) -> WorkloadRetention | None:
        """How long Workloads are kept that are over; None: for ever."""
        kept = self.object_retention_policies.workloads
        return None if kept == WorkloadRetention() else kept

    @property
    def pods_ready(self) -> WaitForPodsReady | None:
        """How pods are waited for; None: they are not."""
        waiting = self.wait_for_pods_ready
        return waiting if waiting is not None and waiting.enable else None

    @property
    def is_sharing_fairly(self) -> bool:
        return self.fair_sharing is not None and self.fair_sharing.enable

    @property
    def fair_preemption_strategies(self) -> tuple[FairPreemptionStrategy, ...]:
        written = self.fair_sharing.preemption_strategies if self.fair_sharing else ()
        return written or ("LessThanOrEqualToFinalShare", "LessThanInitialShare")

    @property
    def requeue_after_preemption(self) -> RequeueTimestamp:
        return self.requeue_strategy.priority_preemption or "UseCreationTimestamp"

    @property
    def requeue_after_pods_ready_timeout(self) -> RequeueTimestamp:
        """Our spelling or Kueue's; validation refuses the two with different answers."""
        ours = self.requeue_strategy.pods_ready_timeout
        if ours is not None:
            return ours
        waiting = self.wait_for_pods_ready
        if waiting is not None and waiting.requeuing_strategy.timestamp == "Creation":
            return "UseCreationTimestamp"
        return "UseEvictionTimestamp"


def _all_but(names: tuple[str, ...]) -> LabelSelector:
    others = SelectorRequirement(key=NAMESPACE_NAME, operator="NotIn", values=names)
    return LabelSelector(match_expressions=(others,))
