"""Whether the parts of an object fit together, and objects with each other.

View in, field errors out, all of them, in the order of the fields. The rules are those of Kueue's
API and Kubernetes', plus our own for fallbacks. A reference to an object that does not exist is no
error: objects come in any order.
"""

from collections.abc import Callable, Mapping
from typing import Any

from makeway.api import batch, queueing
from makeway.api.configuration import Configuration
from makeway.api.cron import CronJob
from makeway.api.errors import FieldError
from makeway.api.gangs import Gang, GangWorkload, PodGroup
from makeway.api.key_values import ConfigMap, Secret
from makeway.api.kinds import View
from makeway.api.services import Service
from makeway.api.validation import gangs, key_values, pods, queues
from makeway.api.validation.changes import check_change, is_compared
from makeway.api.validation.configuration import check_configuration
from makeway.api.validation.cron import check_cron_job
from makeway.api.validation.findings import Findings
from makeway.api.validation.names import check_metadata
from makeway.api.validation.services import check_service
from makeway.api.validation.sets import SetError, validate_set
from makeway.api.validation.workloads import check_workload

__all__ = ["SetError", "is_compared", "validate", "validate_set"]

_CHECKS: Mapping[type, Callable[[Any, Findings], None]] = {
    queueing.AdmissionCheck: queues.check_admission_check,
    queueing.ClusterQueue: queues.check_cluster_queue,
    queueing.Cohort: queues.check_cohort,
    queueing.LocalQueue: queues.check_local_queue,
    queueing.ResourceFlavor: queues.check_resource_flavor,
    queueing.Workload: check_workload,
    batch.Job: pods.check_job,
    batch.Node: pods.check_node,
    batch.Pod: pods.check_pod,
    batch.PodDisruptionBudget: pods.check_disruption_budget,
    batch.PriorityClass: pods.check_priority_class,
    ConfigMap: key_values.check_config_map,
    Configuration: check_configuration,
    CronJob: check_cron_job,
    Gang: gangs.check_own_gang,
    GangWorkload: gangs.check_gang_workload,
    PodGroup: gangs.check_pod_group,
    Secret: key_values.check_secret,
    Service: check_service,
}


def validate(view: View, old: View | None = None) -> tuple[FieldError, ...]:
    """Return what is wrong with an object by itself, and as a change of `old` if that is given."""
    found = Findings()
    if not isinstance(view, Configuration):
        is_namespace = isinstance(view, batch.Namespace)
        check_metadata(view.metadata, found.at("metadata"), is_namespace=is_namespace)
    if check := _CHECKS.get(type(view)):
        check(view, found)
    if old is not None:
        check_change(old, view, found)
    return tuple(found.errors)
