"""Whether the parts of an object fit together, and objects with each other.

View in, field errors out, all of them, in the order of the fields. The rules are those of Kueue's
API and Kubernetes', plus our own for fallbacks. A reference to an object that does not exist is no
error: objects come in any order.
"""

from makeway.api.batch import Job, Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from makeway.api.configuration import Configuration
from makeway.api.errors import FieldError
from makeway.api.gangs import Gang, GangWorkload, PodGroup
from makeway.api.kinds import View
from makeway.api.queueing import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Workload,
)
from makeway.api.validation.changes import check_change, is_compared
from makeway.api.validation.configuration import check_configuration
from makeway.api.validation.findings import Findings
from makeway.api.validation.gangs import check_gang_workload, check_own_gang, check_pod_group
from makeway.api.validation.names import check_metadata, check_name
from makeway.api.validation.pods import (
    check_disruption_budget,
    check_job,
    check_pod,
    check_priority_class,
    check_taints,
)
from makeway.api.validation.queues import (
    check_admission_check,
    check_cluster_queue,
    check_cohort,
    check_resource_flavor,
)
from makeway.api.validation.sets import SetError, validate_set
from makeway.api.validation.workloads import check_workload

__all__ = ["SetError", "is_compared", "validate", "validate_set"]


def validate(view: View, old: View | None = None) -> tuple[FieldError, ...]:
    """Return what is wrong with an object by itself, and as a change of `old` if that is given."""
    found = Findings()
    if not isinstance(view, Configuration):
        check_metadata(
            view.metadata, found.at("metadata"), is_namespace=isinstance(view, Namespace)
        )
    match view:
        case ClusterQueue():
            check_cluster_queue(view, found)
        case Cohort():
            check_cohort(view, found)
        case LocalQueue():
            check_name(view.spec.cluster_queue, found.at("spec", "clusterQueue"))
        case ResourceFlavor():
            check_resource_flavor(view, found.at("spec"))
        case Workload():
            check_workload(view, found)
        case AdmissionCheck():
            check_admission_check(view, found.at("spec"))
        case Configuration():
            check_configuration(view, found)
        case Job():
            check_job(view, found)
        case Pod():
            check_pod(view, found)
        case Node():
            check_taints(view.spec.taints, found.at("spec", "taints"))
        case PriorityClass():
            check_priority_class(view, found)
        case PodDisruptionBudget():
            check_disruption_budget(view, found.at("spec"))
        case GangWorkload():
            check_gang_workload(view, found)
        case PodGroup():
            check_pod_group(view, found)
        case Gang():
            check_own_gang(view, found)
        case _:
            pass
    if old is not None:
        check_change(old, view, found)
    return tuple(found.errors)
