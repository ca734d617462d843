"""Objects become events, and decisions the events that follow. No policy: only the shape changes.

`queues.py` and `workloads.py` speak to the engine, `placement.py` to placement; the last also says
what one of the two has to hear of the other.
"""

from makeway.translate.placement import not_matching_condition, seen_in_placement
from makeway.translate.queues import (
    QueueObject,
    changed,
    cohort_of,
    config_of,
    flavor_of,
    local_queue_of,
    queue_of,
)
from makeway.translate.workloads import (
    LACKS_PODS,
    NO_TRANSFORMATIONS,
    PODS_GONE,
    PREEMPTOR,
    assignment_of,
    constraints_of,
    counted,
    key_of,
    status_of,
    workload_of,
)

__all__ = [
    "LACKS_PODS",
    "NO_TRANSFORMATIONS",
    "PODS_GONE",
    "PREEMPTOR",
    "QueueObject",
    "assignment_of",
    "changed",
    "cohort_of",
    "config_of",
    "constraints_of",
    "counted",
    "flavor_of",
    "key_of",
    "local_queue_of",
    "not_matching_condition",
    "queue_of",
    "seen_in_placement",
    "status_of",
    "workload_of",
]
