"""The kinds that Makeway reads and writes, as every server names them."""

from makeway.client.client import Resource

_QUEUEING, _GANGS = "kueue.x-k8s.io/v1beta2", "scheduling.k8s.io/v1alpha1"

FLAVORS = Resource(_QUEUEING, "resourceflavors", "ResourceFlavor", False)
QUEUES = Resource(_QUEUEING, "clusterqueues", "ClusterQueue", False)
COHORTS = Resource(_QUEUEING, "cohorts", "Cohort", False)
LOCAL_QUEUES = Resource(_QUEUEING, "localqueues", "LocalQueue", True)
CHECKS = Resource(_QUEUEING, "admissionchecks", "AdmissionCheck", False)
WORKLOADS = Resource(_QUEUEING, "workloads", "Workload", True)
WORKLOAD_CLASSES = Resource(_QUEUEING, "workloadpriorityclasses", "WorkloadPriorityClass", False)
GANG_WORKLOADS = Resource(_GANGS, "workloads", "Workload", True)
GANGS = Resource("makeway.dev/v1", "gangs", "Gang", True)
POD_GROUPS = Resource("scheduling.k8s.io/v1beta1", "podgroups", "PodGroup", True)
PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", False)
JOBS = Resource("batch/v1", "jobs", "Job", True)
PODS = Resource("v1", "pods", "Pod", True)
NODES = Resource("v1", "nodes", "Node", False)
NAMESPACES = Resource("v1", "namespaces", "Namespace", False)
EVENTS = Resource("v1", "events", "Event", True)
BUDGETS = Resource("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
LEASES = Resource("coordination.k8s.io/v1", "leases", "Lease", True)
