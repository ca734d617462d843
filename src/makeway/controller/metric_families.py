"""Everything that Makeway measures: Kueue's names and labels, then a few of our own.

`docs/reference/metrics.md` is made from this file.
"""

from __future__ import annotations

from makeway.controller.series import Family


def _growing(count: int) -> tuple[float, ...]:
    """1, 2.5, and then each twice the one before."""
    return (1.0, *(2.5 * 2.0**power for power in range(count - 1)))


WAITS = _growing(14)  # up to about three hours
LONG_WAITS = _growing(16)  # up to half a day
MOMENTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SHORT_MOMENTS = (0.0005, 0.001, 0.0025, *MOMENTS)


def _kueue(labels: str, *, buckets: tuple[float, ...] = (), **meanings: str) -> tuple[Family, ...]:
    """Families of the same labels: the name of each without its prefix, and what it means."""
    all_labels = (*labels.split(), "replica_role")
    named = meanings.items()
    return tuple(Family(f"kueue_{name}", help, all_labels, buckets) for name, help in named)


def _twins(*families: Family) -> tuple[Family, ...]:
    """The same of a LocalQueue."""
    return tuple(
        Family(
            family.name.replace("kueue_", "kueue_local_queue_", 1),
            family.help.replace("ClusterQueue", "LocalQueue"),
            ("name", "namespace", *family.labels[1:]),
            family.buckets,
        )
        for family in families
    )


# --- cycles ---

BUILD_INFO = Family(
    "kueue_build_info",
    "Always 1; the labels tell which Makeway this is, on what. There is no commit, date or Go.",
    ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform"),
)
(ATTEMPTS,) = _kueue(
    "result",
    admission_attempts_total="Cycles that had heads: success if at least one of them got quota, "
    "else inadmissible.",
)
(ATTEMPT_DURATION,) = _kueue(
    "result",
    buckets=MOMENTS,
    admission_attempt_duration_seconds="How long a cycle that had heads took to decide.",
)

# --- workloads that come and go ---

_BY_CLASS = "cluster_queue priority_class"
RESERVED, ADMITTED, FINISHED = _kueue(
    _BY_CLASS,
    quota_reserved_workloads_total="Workloads that got quota reserved in the ClusterQueue.",
    admitted_workloads_total="Workloads that the ClusterQueue admitted.",
    finished_workloads_total="Workloads of the ClusterQueue that ended.",
)
RESERVED_WAIT, CHECKS_WAIT, READY_WAIT, ADMITTED_UNTIL_READY = _kueue(
    _BY_CLASS,
    buckets=WAITS,
    quota_reserved_wait_time_seconds="From being queued in the ClusterQueue to quota being "
    "reserved.",
    admission_checks_wait_time_seconds="From quota being reserved in the ClusterQueue to "
    "admission, where there are checks.",
    ready_wait_time_seconds="From being queued in the ClusterQueue to all pods being ready for "
    "the first time.",
    admitted_until_ready_wait_time_seconds="From admission by the ClusterQueue to all pods being "
    "ready for the first time.",
)
ADMITTED_WAIT, EXECUTION = _kueue(
    _BY_CLASS,
    buckets=LONG_WAITS,
    admission_wait_time_seconds="From being queued in the ClusterQueue to admission.",
    execution_time_seconds="From the last admission by the ClusterQueue to the workload's end. "
    "Kueue adds up all stays.",
)
_BY_REASON = "cluster_queue reason underlying_cause"
EVICTED, EVICTED_ONCE = _kueue(
    f"{_BY_REASON} priority_class",
    evicted_workloads_total="Workloads of the ClusterQueue that were told to stop, by reason.",
    evicted_workloads_once_total="The same, each workload counted once for a reason.",
)
(PREEMPTED,) = _kueue(
    "preempting_cluster_queue reason",
    preempted_workloads_total="Victims of the preempting ClusterQueue, by the rule under which "
    "they were taken.",
)
(EVICTION_LATENCY,) = _kueue(
    "cluster_queue reason",
    buckets=WAITS,
    workload_eviction_latency_seconds="From a workload of the ClusterQueue being told to stop to "
    "its quota being free.",
)
(READY_TO_EVICTED,) = _kueue(
    _BY_REASON,
    buckets=WAITS,
    pods_ready_to_evicted_time_seconds="From all pods being ready to the workload being told to "
    "stop.",
)

# --- how ClusterQueues stand ---

PREEMPTION_SKIPS, RESERVING_ACTIVE, ADMITTED_ACTIVE = _kueue(
    "cluster_queue",
    admission_cycle_preemption_skips="Heads of the ClusterQueue that had victims in its last "
    "cycle, and lost to another head.",
    reserving_active_workloads="Workloads that hold quota of the ClusterQueue.",
    admitted_active_workloads="Workloads that the ClusterQueue admitted and that still hold its "
    "quota.",
)
PENDING, QUEUE_STATUS = _kueue(
    "cluster_queue status",
    pending_workloads="Workloads that wait in the ClusterQueue: active are in line, inadmissible "
    "are parked until something changes, or wait in a ClusterQueue that admits nothing.",
    cluster_queue_status="1 for the status of the ClusterQueue, 0 for the others.",
)
(QUEUE_INFO,) = _kueue(
    "cluster_queue parent_cohort root_cohort",
    cluster_queue_info="Always 1; the labels tell where the ClusterQueue stands in the tree, to "
    "be joined with.",
)
RESERVATION, USAGE, NOMINAL, BORROWING_LIMIT, LENDING_LIMIT = _kueue(
    "cohort cluster_queue flavor resource",
    cluster_queue_resource_reservation="What those who hold quota of the ClusterQueue are charged.",
    cluster_queue_resource_usage="What those of them are charged that are admitted.",
    cluster_queue_nominal_quota="The ClusterQueue's own quota.",
    cluster_queue_borrowing_limit="What it may borrow at most; missing where there is no limit.",
    cluster_queue_lending_limit="What it lends at most; missing where there is no limit.",
)
(QUEUE_SHARE,) = _kueue(
    "cluster_queue cohort",
    cluster_queue_weighted_share="Its share under fair sharing: zero when it does not borrow, NaN "
    "when it borrows with weight zero. Missing when fair sharing is off.",
)

# --- how cohorts stand ---

(COHORT_INFO,) = _kueue(
    "cohort parent_cohort root_cohort",
    cohort_info="Always 1; the labels tell where the cohort stands in its tree, to be joined with.",
)
COHORT_QUOTA, COHORT_RESERVATIONS = _kueue(
    "cohort flavor resource",
    cohort_subtree_quota="The cohort's own quota and what those below it lend.",
    cohort_subtree_resource_reservations="What those who hold quota of ClusterQueues below the "
    "cohort are charged.",
)
(COHORT_ADMITTED,) = _kueue(
    "cohort priority_class",
    cohort_subtree_admitted_workloads_total="Workloads admitted by ClusterQueues below the cohort.",
)
COHORT_ADMITTED_ACTIVE, COHORT_SHARE = _kueue(
    "cohort",
    cohort_subtree_admitted_active_workloads="Workloads admitted below the cohort that still hold "
    "quota.",
    cohort_weighted_share="Its share under fair sharing, as for a ClusterQueue.",
)

# --- LocalQueues ---

_COUNTED = (RESERVED, ADMITTED, FINISHED, EVICTED)
_TIMED = (RESERVED_WAIT, CHECKS_WAIT, READY_WAIT, ADMITTED_UNTIL_READY, ADMITTED_WAIT, EXECUTION)
LOCAL = dict(zip((*_COUNTED, *_TIMED), _twins(*_COUNTED, *_TIMED), strict=True))
LOCAL_PENDING, LOCAL_RESERVING_ACTIVE, LOCAL_ADMITTED_ACTIVE = _twins(
    PENDING, RESERVING_ACTIVE, ADMITTED_ACTIVE
)
(LOCAL_STATUS,) = _kueue(
    "name namespace active",
    local_queue_status="1 for whether the LocalQueue is active, 0 for the other answers.",
)
LOCAL_RESERVATION, LOCAL_USAGE = _kueue(
    "name namespace flavor resource",
    local_queue_resource_reservation="What workloads of the LocalQueue are charged.",
    local_queue_resource_usage="What those of them are charged that are admitted.",
)

(LOCAL_PAST_USAGE,) = _kueue(
    "name namespace",
    local_queue_admission_fair_sharing_usage="What the LocalQueue has used lately, by the weights "
    "of resources and its own; who has used less comes first.",
)

# --- ours ---

CYCLE_DURATION = Family(
    "makeway_cycle_duration_seconds",
    "How long cycles took, those without heads too.",
    buckets=SHORT_MOMENTS,
)
WAITING_FOR_OWNERS = Family(
    "makeway_workloads_waiting_for_owners",
    "Workloads of the ClusterQueue that fit, and may not begin to borrow what owners wait for.",
    ("cluster_queue",),
)
PAUSING = Family(
    "makeway_workloads_pausing_preemption",
    "Workloads of the ClusterQueue that have victims, and may not preempt so soon again.",
    ("cluster_queue",),
)
PAUSES = Family(
    "makeway_preemption_pauses_total",
    "Times that a workload of the ClusterQueue had to pause between two preemptions. Pauses that "
    "began before Makeway did are not counted.",
    ("cluster_queue",),
)
EVICTIONS_CAUSED = Family(
    "makeway_preemption_budget_spent",
    "Evictions of the last hour that count against the budget of the ClusterQueue.",
    ("cluster_queue",),
)
CLAIMS_GIVEN_UP = Family(
    "makeway_claims_given_up_total",
    "Places that were cleared for a workload of the ClusterQueue, and are not kept for it any "
    "more: it can't use them, or may not.",
    ("cluster_queue",),
)
PLACEMENT_ATTEMPTS = Family(
    "makeway_placement_attempts_total",
    "Attempts to give nodes to a pod or to a gang as a whole: placed, preempting (victims were "
    "chosen), waiting (for room), incomplete (members are missing), or unwound (it could not be "
    "bound as a whole).",
    ("unit", "result"),
)
PLACEMENT_DURATION = Family(
    "makeway_placement_duration_seconds",
    "How long it took to find nodes for all that waited.",
    buckets=SHORT_MOMENTS,
)
PLACEMENT_VICTIMS = Family(
    "makeway_placement_preemption_victims",
    "Pods that had to make way for a pod or a gang, per preemption.",
    ("unit",),
    buckets=tuple(2.0**power for power in range(11)),
)
HIGHEST_VICTIM = Family(
    "makeway_placement_highest_victim_priority",
    "The highest preemption priority among the victims of the last preemption by a pod or a gang.",
    ("unit",),
)
LOOP_SYNCED = Family(
    "makeway_loop_synced",
    "1 once everything was listed, so that decisions are made; 0 before.",
    ("loop",),
)
LOOP_LISTED_AT = Family(
    "makeway_loop_last_list_timestamp_seconds",
    "When all objects of a resource (`jobs.batch`) were listed last; a watch tells the rest.",
    ("loop", "resource"),
)
WRITES_IN_FLIGHT = Family(
    "makeway_loop_writes_in_flight",
    "Objects to which a write is on its way or waits for its turn.",
    ("loop",),
)
WRITE_FAILURES = Family(
    "makeway_loop_write_failures_total",
    "Writes that failed, by HTTP status; 0 when there was no answer. Conflicts (409) are usual.",
    ("loop", "code"),
)

_named = [value for value in globals().values() if isinstance(value, Family)]
FAMILIES = (*_named, *LOCAL.values())
