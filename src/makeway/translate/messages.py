"""What conditions and events say of Jobs, pods, gangs and queues, beside the engine's decisions.

`words.py` tells of decisions, `places.py` of nodes. What a user wrote wrongly is told by whoever
reads it, with the path of the field. Where `{}` stands, `format` puts a name or a number.
"""

from __future__ import annotations

from makeway.api.labels import ADMISSION_GATE, QUEUE_NAME
from makeway.engine.model import Inactive

# Workloads
OTHERS_MAKE_WAY = "Others make way for this workload"
NOBODY_MAKES_WAY = "Nobody makes way for this workload"
CHECK_RESET = "Reset to Pending after eviction. Previously: {}"  # in Kueue's words
NO_RESERVATION = "The workload has no reservation"
TERMINATED = "It had to make way, and asks not to be queued again then"
PREVIOUSLY = "Previously: {}"  # what a condition said while it was true
READY = "All pods are ready or succeeded"
NOT_READY = "Not all pods are ready or succeeded"
NO_LONGER_READY = "Pods that were ready no longer are"
ALL_SUPPORTED = "Nothing is asked for that Makeway lacks"
PODS_TO_REPLACE = "Some of its pods failed or were deleted, and need to be replaced"
NO_PODS_TO_REPLACE = "No pods need to be replaced"
PODS_SUCCEEDED = "Pods succeeded: {}/{}"
TIME_IS_UP = "The maximum execution time ({}s) exceeded"
REACTIVATED = "The workload was reactivated"
BACKOFF_FINISHED = "The workload backoff was finished"
QUEUE_RESTARTED = "The ClusterQueue was restarted after being stopped"
LOCAL_QUEUE_RESTARTED = "The LocalQueue was restarted after being stopped"

KEPT_LONG_ENOUGH = "It has finished, and was kept for as long as the configuration says"
GIVEN_UP_LONG_ENOUGH = (
    "Its queue has given it up, and it was kept for as long as the configuration says"
)

# Jobs and pods in queues
CREATED_WORKLOAD = "Created Workload: {}"
FINISHED_WORKLOAD = "Workload '{}' is declared finished"
ADMITTED_BY = "Admitted by ClusterQueue {}"
NOT_ADMITTED_BY = "LocalQueue {} has not admitted it"
HELD_BACK = "Held back until LocalQueue {} admits it"
HELD_BACK_WITHOUT_QUEUE = f"Held back until the label {QUEUE_NAME} names a LocalQueue for it"
STAYS_IN = "It stays in LocalQueue {} while it holds its quota"
CANNOT_START = "Can't start: {}"
WORKLOAD_FINISHED = "Its Workload was declared finished; it holds no quota"
WORKLOAD_DELETED = "Its Workload was deleted"
NO_WORKLOAD = "It runs without a Workload that holds quota for it"
JOB_CHANGED = "The Job no longer asks for what it was admitted with"
NO_GATE = (
    f"The pod is not queued: it was created without the scheduling gate {ADMISSION_GATE}, "
    "and a gate can't be added later"
)
NO_QUEUE = "The pod is held back, and names no queue that could admit it"
EXCESS_POD = "Its group has as many pods as it should have without it"
WAITS_FOR_GROUP = "Waits until all {} pods of group {} are there"
NAME_TAKEN = "There is another Workload with the name of group {}"
UNLIKE_GROUP = "It is unlike every pod that group {} was admitted with"

CANCELLED = "Cancelled by {}"

# Gangs
CLASSES_KNOWN = "The classes are known"
PODS_HAVE_NODES = "{} pods have a node"

# The automatic queue
AUTOMATIC_HELD = (
    "The queue default is held, as what it had belongs to ClusterQueues now ({}): move the job to "
    "a LocalQueue of theirs with `makeway edit -q`, or submit it again there"
)

# Queues, in Kueue's words
CAN_ADMIT = "Can admit new workloads"
CAN_SUBMIT = "Can submit new workloads to localQueue"
CANNOT_SUBMIT = "Can't submit new workloads to clusterQueue"
LOCAL_QUEUE_STOPPED = "LocalQueue is stopped"
_WHY_INACTIVE = {
    Inactive.TERMINATING: "is being deleted",
    Inactive.STOPPED: "is stopped",
    Inactive.FLAVOR_NOT_FOUND: "references a missing ResourceFlavor",
    Inactive.CHECK_NOT_FOUND: "references a missing AdmissionCheck",
    Inactive.CHECK_INACTIVE: "references an AdmissionCheck that nobody answers",
    Inactive.COHORT_CYCLE: "its cohort is its own ancestor",
}


def cannot_admit(why: Inactive, missing: tuple[str, ...]) -> str:
    names = f" ({', '.join(missing)})" if missing else ""
    return f"Can't admit new workloads: {_WHY_INACTIVE[why]}{names}"
