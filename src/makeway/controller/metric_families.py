"""Everything that Makeway measures: Kueue's names and labels, then a few of our own.

`docs/reference/metrics.md` is made from this file.
"""

from __future__ import annotations

from makeway.controller.series import Family, Type

COUNTER, GAUGE, HISTOGRAM = Type.COUNTER, Type.GAUGE, Type.HISTOGRAM


def _growing(count: int) -> tuple[float, ...]:
    """1, 2.5, and then each twice the one before."""
    return (1.0, *(2.5 * 2.0**power for power in range(count - 1)))


WAITS = _growing(14)  # up to about three hours
LONG_WAITS = _growing(16)  # up to half a day
MOMENTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SHORT_MOMENTS = (0.0005, 0.001, 0.0025, *MOMENTS)


def _kueue(
    name: str, type: Type, help: str, *labels: str, buckets: tuple[float, ...] = ()
) -> Family:
    return Family(f"kueue_{name}", type, help, (*labels, "replica_role"), buckets)


def _twin(family: Family) -> Family:
    """The same of a LocalQueue."""
    name = family.name.replace("kueue_", "kueue_local_queue_", 1)
    help = family.help.replace("ClusterQueue", "LocalQueue")
    return family._replace(name=name, help=help, labels=("name", "namespace", *family.labels[1:]))


# --- cycles ---

BUILD_INFO = Family(
    "kueue_build_info",
    GAUGE,
    "Always 1; the labels tell which Makeway this is, on what. There is no commit, date or Go.",
    ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform"),
)
ATTEMPTS = _kueue(
    "admission_attempts_total",
    COUNTER,
    "Cycles that had heads: success if at least one of them got quota, else inadmissible.",
    "result",
)
ATTEMPT_DURATION = _kueue(
    "admission_attempt_duration_seconds",
    HISTOGRAM,
    "How long a cycle that had heads took to decide.",
    "result",
    buckets=MOMENTS,
)
PREEMPTION_SKIPS = _kueue(
    "admission_cycle_preemption_skips",
    GAUGE,
    "Heads of the ClusterQueue that had victims in its last cycle, and lost to another head.",
    "cluster_queue",
)

# --- workloads that come and go ---

_BY_CLASS = ("cluster_queue", "priority_class")
RESERVED = _kueue(
    "quota_reserved_workloads_total",
    COUNTER,
    "Workloads that got quota reserved in the ClusterQueue.",
    *_BY_CLASS,
)
RESERVED_WAIT = _kueue(
    "quota_reserved_wait_time_seconds",
    HISTOGRAM,
    "From being queued in the ClusterQueue to quota being reserved.",
    *_BY_CLASS,
    buckets=WAITS,
)
ADMITTED = _kueue(
    "admitted_workloads_total", COUNTER, "Workloads that the ClusterQueue admitted.", *_BY_CLASS
)
ADMITTED_WAIT = _kueue(
    "admission_wait_time_seconds",
    HISTOGRAM,
    "From being queued in the ClusterQueue to admission.",
    *_BY_CLASS,
    buckets=LONG_WAITS,
)
CHECKS_WAIT = _kueue(
    "admission_checks_wait_time_seconds",
    HISTOGRAM,
    "From quota being reserved in the ClusterQueue to admission, where there are checks.",
    *_BY_CLASS,
    buckets=WAITS,
)
READY_WAIT = _kueue(
    "ready_wait_time_seconds",
    HISTOGRAM,
    "From being queued in the ClusterQueue to all pods being ready for the first time.",
    *_BY_CLASS,
    buckets=WAITS,
)
ADMITTED_UNTIL_READY = _kueue(
    "admitted_until_ready_wait_time_seconds",
    HISTOGRAM,
    "From admission by the ClusterQueue to all pods being ready for the first time.",
    *_BY_CLASS,
    buckets=WAITS,
)
FINISHED = _kueue(
    "finished_workloads_total", COUNTER, "Workloads of the ClusterQueue that ended.", *_BY_CLASS
)
EXECUTION = _kueue(
    "execution_time_seconds",
    HISTOGRAM,
    "From the last admission by the ClusterQueue to the workload's end. Kueue adds up all stays.",
    *_BY_CLASS,
    buckets=LONG_WAITS,
)
_BY_REASON = ("cluster_queue", "reason", "underlying_cause")
EVICTED = _kueue(
    "evicted_workloads_total",
    COUNTER,
    "Workloads of the ClusterQueue that were told to stop, by reason.",
    *_BY_REASON,
    "priority_class",
)
EVICTED_ONCE = _kueue(
    "evicted_workloads_once_total",
    COUNTER,
    "The same, each workload counted once for a reason.",
    *_BY_REASON,
    "priority_class",
)
PREEMPTED = _kueue(
    "preempted_workloads_total",
    COUNTER,
    "Victims of the preempting ClusterQueue, by the rule under which they were taken.",
    "preempting_cluster_queue",
    "reason",
)
EVICTION_LATENCY = _kueue(
    "workload_eviction_latency_seconds",
    HISTOGRAM,
    "From a workload of the ClusterQueue being told to stop to its quota being free.",
    "cluster_queue",
    "reason",
    buckets=WAITS,
)
READY_TO_EVICTED = _kueue(
    "pods_ready_to_evicted_time_seconds",
    HISTOGRAM,
    "From all pods being ready to the workload being told to stop.",
    *_BY_REASON,
    buckets=WAITS,
)

# --- how ClusterQueues stand ---

PENDING = _kueue(
    "pending_workloads",
    GAUGE,
    "Workloads that wait in the ClusterQueue: active are in line, inadmissible are parked until "
    "something changes, or wait in a ClusterQueue that admits nothing.",
    "cluster_queue",
    "status",
)
RESERVING_ACTIVE = _kueue(
    "reserving_active_workloads",
    GAUGE,
    "Workloads that hold quota of the ClusterQueue.",
    "cluster_queue",
)
ADMITTED_ACTIVE = _kueue(
    "admitted_active_workloads",
    GAUGE,
    "Workloads that the ClusterQueue admitted and that still hold its quota.",
    "cluster_queue",
)
QUEUE_STATUS = _kueue(
    "cluster_queue_status",
    GAUGE,
    "1 for the status of the ClusterQueue, 0 for the others.",
    "cluster_queue",
    "status",
)
QUEUE_INFO = _kueue(
    "cluster_queue_info",
    GAUGE,
    "Always 1; the labels tell where the ClusterQueue stands in the tree, to be joined with.",
    "cluster_queue",
    "parent_cohort",
    "root_cohort",
)
_BY_CELL = ("cohort", "cluster_queue", "flavor", "resource")
RESERVATION = _kueue(
    "cluster_queue_resource_reservation",
    GAUGE,
    "What those who hold quota of the ClusterQueue are charged.",
    *_BY_CELL,
)
USAGE = _kueue(
    "cluster_queue_resource_usage",
    GAUGE,
    "What those of them are charged that are admitted.",
    *_BY_CELL,
)
NOMINAL = _kueue("cluster_queue_nominal_quota", GAUGE, "The ClusterQueue's own quota.", *_BY_CELL)
BORROWING_LIMIT = _kueue(
    "cluster_queue_borrowing_limit",
    GAUGE,
    "What it may borrow at most; missing where there is no limit.",
    *_BY_CELL,
)
LENDING_LIMIT = _kueue(
    "cluster_queue_lending_limit",
    GAUGE,
    "What it lends at most; missing where there is no limit.",
    *_BY_CELL,
)
QUEUE_SHARE = _kueue(
    "cluster_queue_weighted_share",
    GAUGE,
    "Its share under fair sharing: zero when it does not borrow, NaN when it borrows with weight "
    "zero. Missing when fair sharing is off.",
    "cluster_queue",
    "cohort",
)

# --- how cohorts stand ---

COHORT_INFO = _kueue(
    "cohort_info",
    GAUGE,
    "Always 1; the labels tell where the cohort stands in its tree, to be joined with.",
    "cohort",
    "parent_cohort",
    "root_cohort",
)
COHORT_QUOTA = _kueue(
    "cohort_subtree_quota",
    GAUGE,
    "The cohort's own quota and what those below it lend.",
    "cohort",
    "flavor",
    "resource",
)
COHORT_RESERVATIONS = _kueue(
    "cohort_subtree_resource_reservations",
    GAUGE,
    "What those who hold quota of ClusterQueues below the cohort are charged.",
    "cohort",
    "flavor",
    "resource",
)
COHORT_ADMITTED = _kueue(
    "cohort_subtree_admitted_workloads_total",
    COUNTER,
    "Workloads admitted by ClusterQueues below the cohort.",
    "cohort",
    "priority_class",
)
COHORT_ADMITTED_ACTIVE = _kueue(
    "cohort_subtree_admitted_active_workloads",
    GAUGE,
    "Workloads admitted below the cohort that still hold quota.",
    "cohort",
)
COHORT_SHARE = _kueue(
    "cohort_weighted_share",
    GAUGE,
    "Its share under fair sharing, as for a ClusterQueue.",
    "cohort",
)

# --- LocalQueues ---

LOCAL_RESERVED, LOCAL_RESERVED_WAIT = _twin(RESERVED), _twin(RESERVED_WAIT)
LOCAL_ADMITTED, LOCAL_ADMITTED_WAIT = _twin(ADMITTED), _twin(ADMITTED_WAIT)
LOCAL_CHECKS_WAIT = _twin(CHECKS_WAIT)
LOCAL_READY_WAIT, LOCAL_ADMITTED_UNTIL_READY = _twin(READY_WAIT), _twin(ADMITTED_UNTIL_READY)
LOCAL_FINISHED, LOCAL_EXECUTION = _twin(FINISHED), _twin(EXECUTION)
LOCAL_EVICTED = _twin(EVICTED)
LOCAL_PENDING = _twin(PENDING)
LOCAL_RESERVING_ACTIVE, LOCAL_ADMITTED_ACTIVE = _twin(RESERVING_ACTIVE), _twin(ADMITTED_ACTIVE)
LOCAL_STATUS = _kueue(
    "local_queue_status",
    GAUGE,
    "1 for whether the LocalQueue is active, 0 for the other answers.",
    "name",
    "namespace",
    "active",
)
LOCAL_RESERVATION = _kueue(
    "local_queue_resource_reservation",
    GAUGE,
    "What workloads of the LocalQueue are charged.",
    *("name", "namespace", "flavor", "resource"),
)
LOCAL_USAGE = _kueue(
    "local_queue_resource_usage",
    GAUGE,
    "What those of them are charged that are admitted.",
    *("name", "namespace", "flavor", "resource"),
)

# --- ours ---

CYCLE_DURATION = Family(
    "makeway_cycle_duration_seconds",
    HISTOGRAM,
    "How long cycles took, those without heads too.",
    (),
    SHORT_MOMENTS,
)
LOOP_SYNCED = Family(
    "makeway_loop_synced",
    GAUGE,
    "1 once everything was listed, so that decisions are made; 0 before.",
    ("loop",),
)
LOOP_LISTED_AT = Family(
    "makeway_loop_last_list_timestamp_seconds",
    GAUGE,
    "When all objects of a resource (`jobs.batch`) were listed last; a watch tells the rest.",
    ("loop", "resource"),
)
WRITES_IN_FLIGHT = Family(
    "makeway_loop_writes_in_flight",
    GAUGE,
    "Objects to which a write is on its way or waits for its turn.",
    ("loop",),
)
WRITE_FAILURES = Family(
    "makeway_loop_write_failures_total",
    COUNTER,
    "Writes that failed, by HTTP status; 0 when there was no answer. Conflicts (409) are usual.",
    ("loop", "code"),
)

# All of the above, in this order.
FAMILIES = tuple(value for value in tuple(globals().values()) if isinstance(value, Family))
