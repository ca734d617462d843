"""The parts that Makeway reads of Kubernetes' own kinds: Job, Pod, Node and what goes with them.

These views show parts of a document and keep the whole beside them (`document`). Fields that are
not listed here pass through untouched and unchecked; to change such an object, change its document.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from makeway.api.meta import UNNAMED, LabelSelector, ObjectMeta
from makeway.api.schema import Amount, Int32, Quantity, Time, Whole, unsupported

TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
TolerationOperator = Literal["Equal", "Exists"]
NodeSelectorOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
PreemptionPolicy = Literal["PreemptLowerPriority", "Never"]
PodReplacement = Literal["TerminatingOrFailed", "Failed"]
REQUIRED = {"name": "requiredDuringSchedulingIgnoredDuringExecution"}
ENDED_PHASES = ("Succeeded", "Failed")  # of pods that will not run again, and take no room
Amounts = Mapping[str, int]  # by resource name, each in its smallest unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    effect: TaintEffect
    value: str = ""
    time_added: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    key: str = ""  # empty, with operator Exists: tolerates every taint
    operator: TolerationOperator = "Equal"
    value: str = ""
    effect: TaintEffect | None = None  # None: every effect
    toleration_seconds: int | None = None  # None: for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRequirements:
    requests: Mapping[str, Amount] = field(default_factory=dict)
    limits: Mapping[str, Amount] = field(default_factory=dict)
    document: Whole = field(default=None, repr=False, compare=False)

    def requested(self) -> Amounts:
        """What counts as requested: a limit without a request is one."""
        return {**self.limits, **self.requests}


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    name: str
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar
    document: Whole = field(default=None, repr=False, compare=False)

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorRequirement:
    key: str
    operator: NodeSelectorOperator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorTerm:
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelector:
    node_selector_terms: tuple[NodeSelectorTerm, ...]  # one of them has to match


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity:
    required: NodeSelector | None = field(default=None, metadata=REQUIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinityTerm:
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAffinity:
    required: tuple[PodAffinityTerm, ...] = field(default=(), metadata=REQUIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpreadConstraint:
    max_skew: Int32
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingGate:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingGroup:
    pod_group_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadReference:
    """The group of a `scheduling.k8s.io` Workload that a pod belongs to."""

    name: str
    pod_group: str
    pod_group_replica_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None  # of the whole pod; wins over its containers'
    overhead: Mapping[str, Amount] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    priority: Int32 | None = None  # None: not resolved from the class yet
    priority_class_name: str = ""
    preemption_policy: PreemptionPolicy | None = None  # None: as its class says
    runtime_class_name: str = ""
    resource_claims: object = unsupported("claims of devices")
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    node_name: str = ""  # empty: not bound
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int = 30
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Always"
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplateSpec:
    metadata: ObjectMeta = UNNAMED
    spec: PodSpec = PodSpec()
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCondition:
    """A condition of a built-in kind; some carry more than ours, none of which we read."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStateTerminated:
    exit_code: int = 0
    finished_at: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    terminated: ContainerStateTerminated | None = None  # None: it waits or runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    name: str
    restart_count: int = 0
    state: ContainerState = ContainerState()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    phase: str = "Pending"
    conditions: tuple[StatusCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    reason: str = ""
    message: str = ""
    start_time: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Pod"

    metadata: ObjectMeta = UNNAMED
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCodeRule:
    operator: Literal["In", "NotIn"]
    values: tuple[Int32, ...] = ()
    container_name: str = ""  # empty: any container


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConditionRule:
    type: str
    status: str = "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFailureRule:
    action: Literal["FailJob", "FailIndex", "Ignore", "Count"]
    on_exit_codes: ExitCodeRule | None = None
    on_pod_conditions: tuple[PodConditionRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFailurePolicy:
    rules: tuple[PodFailureRule, ...] = ()  # the first that matches a failed pod counts


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessRule:
    succeeded_indexes: str = ""  # such as "0,2-4"; empty: all of them
    succeeded_count: Int32 | None = None  # None: all of those


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessPolicy:
    rules: tuple[SuccessRule, ...] = ()  # one of them has to be met


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    template: PodTemplateSpec
    parallelism: Int32 = 1
    completions: Int32 | None = None  # None: any success ends a work queue job
    suspend: bool = False
    backoff_limit: Int32 = 6
    backoff_limit_per_index: Int32 | None = None  # None: failures count for the whole job
    max_failed_indexes: Int32 | None = None  # None: however many
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: PodReplacement | None = None  # None: Failed with a podFailurePolicy
    completion_mode: Literal["NonIndexed", "Indexed"] = "NonIndexed"
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: Int32 | None = None
    managed_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedTerminatedPods:
    """Uids of pods that have ended and are in no counter yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    active: Int32 = 0
    ready: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    terminating: Int32 = 0
    start_time: Time | None = None
    completion_time: Time | None = None
    completed_indexes: str = ""  # such as "0,2-4"
    failed_indexes: str = ""
    uncounted_terminated_pods: UncountedTerminatedPods = UncountedTerminatedPods()
    conditions: tuple[StatusCondition, ...] = ()
    document: Whole = field(default=None, repr=False, compare=False)


class Owner(Protocol):
    """An object of a kind of Kubernetes' that controls others."""

    API_VERSION: ClassVar[str]
    KIND: ClassVar[str]

    @property
    def metadata(self) -> ObjectMeta: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    API_VERSION: ClassVar[str] = "batch/v1"
    KIND: ClassVar[str] = "Job"

    metadata: ObjectMeta = UNNAMED
    spec: JobSpec
    status: JobStatus = JobStatus()
    document: Whole = field(default=None, repr=False, compare=False)


def owner_reference(owner: Owner) -> dict[str, object]:
    """For the metadata of what an object controls."""
    return {
        "apiVersion": owner.API_VERSION,
        "kind": owner.KIND,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    capacity: Mapping[str, Amount] = field(default_factory=dict)
    allocatable: Mapping[str, Amount] = field(default_factory=dict)
    conditions: tuple[StatusCondition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Node"

    metadata: ObjectMeta = UNNAMED
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Namespace"

    metadata: ObjectMeta = UNNAMED
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"
    KIND: ClassVar[str] = "PriorityClass"

    metadata: ObjectMeta = UNNAMED
    value: Int32
    global_default: bool = False
    preemption_policy: PreemptionPolicy = "PreemptLowerPriority"
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDisruptionBudgetSpec:
    selector: LabelSelector | None = None
    min_available: int | str | None = None  # a count, or a share such as "50%"
    max_unavailable: int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDisruptionBudgetStatus:
    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    observed_generation: int = 0
    disrupted_pods: Mapping[str, Time] = field(default_factory=dict)  # charged, not gone yet


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDisruptionBudget:
    API_VERSION: ClassVar[str] = "policy/v1"
    KIND: ClassVar[str] = "PodDisruptionBudget"

    metadata: ObjectMeta = UNNAMED
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRangeItem:
    type: str  # Container, Pod or PersistentVolumeClaim
    max: Mapping[str, Amount] = field(default_factory=dict)
    min: Mapping[str, Amount] = field(default_factory=dict)
    default: Mapping[str, Amount] = field(default_factory=dict)  # limits of who names none
    default_request: Mapping[str, Amount] = field(default_factory=dict)
    max_limit_request_ratio: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRangeSpec:
    limits: tuple[LimitRangeItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "LimitRange"

    metadata: ObjectMeta = UNNAMED
    spec: LimitRangeSpec = LimitRangeSpec()
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    pod_fixed: Mapping[str, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClass:
    API_VERSION: ClassVar[str] = "node.k8s.io/v1"
    KIND: ClassVar[str] = "RuntimeClass"

    metadata: ObjectMeta = UNNAMED
    overhead: Overhead = Overhead()
    scheduling: object = unsupported("nodes by runtime class")
    document: Whole = field(default=None, repr=False, compare=False)


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """Return what one such pod asks for, counted as Kubernetes counts it.

    Containers and sidecars run together. An init container runs alone but for the sidecars started
    before it, so the pod needs the larger of the two. What is requested for the pod as a whole
    replaces the sum (a limit for the pod as a whole only stands in where there is no sum), and the
    overhead of running a pod at all comes on top.
    """
    running: dict[str, int] = {}
    starting: dict[str, int] = {}  # the most that any init container needs, with sidecars so far
    for container in spec.init_containers:
        requested = container.resources.requested()
        if container.is_sidecar:
            _add(running, requested)
            _raise_to(starting, running)
        else:
            together = dict(running)
            _add(together, requested)
            _raise_to(starting, together)
    for container in spec.containers:
        _add(running, container.resources.requested())
    _raise_to(running, starting)
    if spec.resources is not None:
        running = {**spec.resources.limits, **running, **spec.resources.requests}
    _add(running, spec.overhead)
    return running


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for resource, amount in least.items():
        total[resource] = max(total.get(resource, 0), amount)


def all_containers(spec: PodSpec) -> Iterable[tuple[str, int, Container]]:
    """Yield every container with the name of its list and its place in it."""
    for index, container in enumerate(spec.init_containers):
        yield "initContainers", index, container
    for index, container in enumerate(spec.containers):
        yield "containers", index, container
