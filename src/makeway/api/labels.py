"""Labels and annotations with a meaning, by the names that Kueue's users know."""

from collections.abc import Mapping

QUEUE_NAME = "kueue.x-k8s.io/queue-name"  # label: the LocalQueue of a Job or pod
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"  # label: a WorkloadPriorityClass
DEFAULT = "default"  # the LocalQueue and the WorkloadPriorityClass of who names none
MAX_EXEC_TIME = "kueue.x-k8s.io/max-exec-time-seconds"  # label
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"  # annotation: partial admission
# Annotation of an indexed Job: started with fewer pods, it has as many completions.
SYNC_COMPLETIONS = "kueue.x-k8s.io/job-completions-equal-parallelism"
JOB_NAME = "batch.kubernetes.io/job-name"  # label of a pod: its Job
JOB_UID = "kueue.x-k8s.io/job-uid"  # label of a queue Workload: the uid of its Job
IN_USE = "kueue.x-k8s.io/resource-in-use"  # finalizer: pods may hold what the queues count
WORKLOAD = "kueue.x-k8s.io/workload"  # annotation of a pod: the queue Workload it belongs to
POD_SET = "kueue.x-k8s.io/podset"  # label of a pod: its pod set in that Workload
# Of pods that wait in a queue without a Job. Kueue writes the first two as label or annotation.
GROUP_NAME = "kueue.x-k8s.io/pod-group-name"  # these pods are admitted together
GROUP_TOTAL = "kueue.x-k8s.io/pod-group-total-count"  # so many they are
GROUP_FAST = "kueue.x-k8s.io/pod-group-fast-admission"  # annotation: the first speaks for all
RETRIABLE = "kueue.x-k8s.io/retriable-in-group"  # annotation: "false" if none is to be replaced
IS_GROUP = "kueue.x-k8s.io/is-group-workload"  # annotation of a queue Workload: of such pods
# Annotation of a pod: the pod set of its group's Workload, as Kueue names it.
ROLE_HASH = "kueue.x-k8s.io/role-hash"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"  # label: a Workload that somebody else has made
MANAGED = "kueue.x-k8s.io/managed"  # label and finalizer: a queue decides about this pod
ADMISSION_GATE = "kueue.x-k8s.io/admission"  # scheduling gate: until it is admitted
PREEMPTION_PRIORITY_CLASS = "makeway.dev/preemption-priority-class"  # annotation (ours)
PREEMPTION_MODE = "makeway.dev/preemption-mode"  # annotation of a Job (ours): Pod or PodGroup
GANG = "makeway.dev/gang"  # label of a pod (ours): the Gang it belongs to
ON_PREEMPTION = "makeway.dev/on-preemption"  # annotation of a Job (ours): Requeue or Terminate
# Annotation of a Job (ours): what a disruption costs so many seconds after admission, "0=0,60=100".
DISRUPTION_COSTS = "makeway.dev/disruption-cost-milestones"
# Annotation of a Job or Workload (ours), written by the job: the time of its last checkpoint.
LAST_CHECKPOINT = "makeway.dev/last-checkpoint"
AUTOMATIC = "makeway.dev/automatic"  # label (ours): "true" on the queue of who has made none
ID = "makeway.dev/id"  # label of a Job (ours): the short number that people call it by
NAME = "makeway.dev/name"  # label of a Job (ours): what its user calls it; several may have it
RETRY_OF = "makeway.dev/retry-of"  # annotation of a Job (ours): the one that it does again
ARRAY = "makeway.dev/array"  # label of a Job (ours): the array of which it is one; its number
ARRAY_INDEX = "makeway.dev/array-index"  # label of a Job (ours): which one of the array it is
ARRAY_LIMIT = "makeway.dev/array-limit"  # annotation (ours): so many of its array run at once
# Annotations of a Job (ours): Jobs of its namespace that it waits for, with commas between.
AFTER = "makeway.dev/after"  # until they have succeeded
AFTER_ANY = "makeway.dev/after-any"  # until they are over
AFTER_FAILED = "makeway.dev/after-failed"  # until they have failed
# Annotations of a Job (ours): who is to be told of its end, a line each; and that they were.
NOTIFY = "makeway.dev/notify"
NOTIFIED = "makeway.dev/notified"
# Of the Job of a function (ours): label, the executor that waits for it; annotation, which call.
EXECUTOR, CALL = "makeway.dev/executor", "makeway.dev/call"
CANCELLED_BY = "makeway.dev/cancelled-by"  # annotation of a Job (ours): who wants it to end
STARTS = "makeway.dev/starts"  # annotation of a Job (ours): how often its queue has let it begin
LAST_END = (
    "makeway.dev/last-end"  # annotation of a Job and its pods (ours): why the run before ended
)
ATTEMPT = "makeway.dev/attempt"  # annotation of a Job's pod (ours): the how manieth run it is
# Annotations of a pod (ours): a signal and how many seconds before SIGTERM it comes, `USR1@120`;
# and so many seconds after its start it comes in any case, as the job's time is about to be over.
SIGNAL = "makeway.dev/signal"
SIGNAL_AFTER = "makeway.dev/signal-after-seconds"
GONE_AT = "makeway.dev/deleted-at"  # annotations of a Job that was deleted (ours): when,
EXIT_CODE = "makeway.dev/exit-code"  # and how its last attempt ended
LET_GO = "makeway.dev/let-go"  # annotation of a pod that was stopped, and has not failed (ours)
HOLD = "makeway.dev/hold"  # annotation of a Job (ours): "true" lets its Workload begin inactive
HELD_BY = "makeway.dev/held-by"  # annotation of a Job (ours): who said `makeway hold`
SUBMITTED_BY = "makeway.dev/submitted-by"  # annotations of a Job (ours): by whom, from where, what
SUBMITTED_FROM = "makeway.dev/submitted-from"
GIT_REVISION = "makeway.dev/git-revision"
# Annotations of a Namespace (ours), where several share a server: the account whose it is. The
# first is on Jobs and pods as well.
ACCOUNT, ACCOUNT_UID = "makeway.dev/account", "makeway.dev/uid"
SHARE = "makeway.dev/share"  # label (ours): "true" on what `makeway share` has made
# Annotations of such a ClusterQueue (ours): `account:ada` or `group:vision`, and which came first.
SHARE_OF, SHARE_ORDER = "makeway.dev/share-of", "makeway.dev/share-order"
SHARE_LABEL = "share.makeway.dev/"  # with its name, label (ours) of its members' namespaces
FOR = "makeway.dev/for"  # label of a priority class (ours): "everyone" if all may use it
EVERYONE = "everyone"

# Annotation of a pod (ours): "umask=027 core=0", of the shell that submitted it.
SHELL_LIMITS = "makeway.dev/shell-limits"

# Prefixes of keys with a meaning to us. Where several people share a server, they write these keys
# and no others with such a prefix: the rest is ours, and some of it decides who runs.
OURS = ("kueue.x-k8s.io/", "makeway.dev/")
WRITTEN_BY_PEOPLE = frozenset(
    {
        *(QUEUE_NAME, PRIORITY_CLASS, MAX_EXEC_TIME, MIN_PARALLELISM, SYNC_COMPLETIONS),
        *(GROUP_NAME, GROUP_TOTAL, GROUP_FAST, RETRIABLE),
        *(PREEMPTION_PRIORITY_CLASS, PREEMPTION_MODE, ON_PREEMPTION, DISRUPTION_COSTS),
        *(
            LAST_CHECKPOINT,
            HOLD,
            HELD_BY,
            SUBMITTED_FROM,
            GIT_REVISION,
            NAME,
            RETRY_OF,
            CANCELLED_BY,
        ),
        *(ARRAY, ARRAY_INDEX, ARRAY_LIMIT, AFTER, AFTER_ANY, AFTER_FAILED),
        *(NOTIFY, SIGNAL, SIGNAL_AFTER, EXECUTOR, CALL),
        SHELL_LIMITS,
    }
)

# Annotation of a Node (ours): which GPUs it has, by index, as all servers of a machine know them.
GPU_UUIDS = "makeway.dev/gpu-uuids"

_TOPOLOGY = "topology-aware scheduling"

# Keys that ask for what Makeway lacks.
UNSUPPORTED: Mapping[str, str] = {
    "kueue.x-k8s.io/podset-required-topology": _TOPOLOGY,
    "kueue.x-k8s.io/podset-preferred-topology": _TOPOLOGY,
    "kueue.x-k8s.io/podset-unconstrained-topology": _TOPOLOGY,
    "kueue.x-k8s.io/podset-slice-required-topology": _TOPOLOGY,
    "kueue.x-k8s.io/podset-slice-size": _TOPOLOGY,
    "kueue.x-k8s.io/podset-group-name": _TOPOLOGY,
    "kueue.x-k8s.io/elastic-job": "jobs that change their size while they run",
    "kueue.x-k8s.io/concurrent-admission": "pursuing several flavors at once",
    "kueue.x-k8s.io/concurrent-admission-parent": "pursuing several flavors at once",
    "kueue.x-k8s.io/multikueue-origin": "multi-cluster dispatch",
    "kueue.x-k8s.io/admission-gated-by": "admission held back by an annotation",
    "kueue.x-k8s.io/workload-allowed-resource-flavors": "flavors allowed by an annotation",
    "kueue.x-k8s.io/priority-boost": "priority raised by an annotation",
    PREBUILT: "workloads built by the user",
    "kueue.x-k8s.io/pod-group-serving": "pod groups that serve and never end",
}
