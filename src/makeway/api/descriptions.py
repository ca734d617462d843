"""What each field of our kinds means, for `kubectl explain`, the CRDs and the reference.

By the name of the view that has the field, then by the field as users write it. An empty name
stands for the object itself. A test holds that no field is without.
"""

from collections.abc import Mapping

_METADATA = "Name, labels, annotations and what else all objects have."
_CONDITIONS = "What holds of the object right now, each with a reason and a sentence."
_STATUS = "What Makeway says about it; not for users to write."
_PENDING = "How many workloads wait for quota."
_RESERVING = "How many workloads hold quota, admitted or waiting for their checks."
_ADMITTED = "How many workloads are admitted and have not ended."
_RESERVATION = "How much of each flavor is reserved."
_USAGE = "How much of each flavor admitted workloads hold."
_NOT_ACTED_ON = "Accepted and kept; Makeway does not act on it."
_STOP = "None: admits. Hold: admits nobody. HoldAndDrain: who runs is stopped as well."
_GANG = "All or nothing: the pods are placed together."
_BASIC = "Pods are placed one by one."
_SINGLE = "Pods are preempted one by one."
_ALL = "If one pod has to make way, all of them do."
_TOPOLOGY = "Where the pods have to be placed together; at most one key."
_CLASS = "PriorityClass of its pods; unset: the global default, or priority 0."

DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "AdmissionCheck": {
        "": "A question that its controller answers before a workload with quota may start.",
        "metadata": _METADATA,
        "spec": "Who answers, and with which parameters.",
        "status": _STATUS,
    },
    "AdmissionCheckSpec": {
        "controllerName": "The controller that answers this check.",
        "parameters": "An object with what the controller has to know.",
        "retryDelayMinutes": _NOT_ACTED_ON,
    },
    "TypedReference": {
        "apiGroup": "API group of the object.",
        "kind": "Kind of the object.",
        "name": "Name of the object.",
    },
    "AdmissionCheckStatus": {"conditions": f"{_CONDITIONS} Active: its controller is there."},
    "Condition": {
        "type": "What is said, as one word.",
        "status": "True, False or Unknown.",
        "reason": "Why, as one word.",
        "message": "Why, as a sentence.",
        "lastTransitionTime": "Since when it has this status.",
        "observedGeneration": "The generation of the object that this speaks of.",
    },
    "ClusterQueue": {
        "": "A queue that owns quota, and decides who gets it when, and at whose expense.",
        "metadata": _METADATA,
        "spec": "Its quota and its rules.",
        "status": _STATUS,
    },
    "ClusterQueueSpec": {
        "resourceGroups": "The quota: groups of resources, with flavors in the order of trying.",
        "cohortName": "The cohort with which it lends and borrows; empty: with nobody.",
        "queueingStrategy": "StrictFIFO: nobody passes the first. BestEffortFIFO: who fits may.",
        "namespaceSelector": "Namespaces that may use the queue; unset: none, empty: all.",
        "flavorFungibility": "When the search for a flavor stops, and what follows when one fails.",
        "preemption": "Whom a workload of this queue may make give way.",
        "admissionChecksStrategy": "Checks that a workload has to pass once it has quota.",
        "stopPolicy": _STOP,
        "fairSharing": "What counts when queues share by weight.",
        "admissionScope": "How local queues stand in line: by what they have used lately, or not.",
        "aging": "How waiting counts in line (Makeway's); unset: not at all.",
        "concurrentAdmissionPolicy": _NOT_ACTED_ON,
    },
    "ResourceGroup": {
        "coveredResources": "Resources that are given together, all of one flavor.",
        "flavors": "Flavors with their quota, in the order in which they are tried.",
    },
    "FlavorQuotas": {
        "name": "Name of a ResourceFlavor.",
        "resources": "Quota for each covered resource, in the same order.",
    },
    "ResourceQuota": {
        "name": "Name of the resource.",
        "nominalQuota": "How much the queue or cohort owns.",
        "borrowingLimit": "How much it may borrow on top; unset: whatever is free.",
        "lendingLimit": "How much it lends; unset: all that it does not use.",
    },
    "FlavorFungibility": {
        "whenCanBorrow": "Whether the search may stop at a flavor that fits only by borrowing.",
        "whenCanPreempt": "Whether the search may stop at a flavor where others would have to go.",
        "preference": "Which is better if all flavors are looked at: to borrow or to preempt.",
        "fallbackStrategy": "When a flavor counts as exhausted for a workload (Makeway's).",
    },
    "FallbackStrategy": {
        "failurePolicy": "When no flavor is left: deactivate the workload, or try all again.",
        "strategy": "TimeoutBased, which is the only one.",
        "rules": "Flavors that may fail, and what counts as failing.",
    },
    "FallbackRule": {
        "name": 'A flavor of the queue, or "*" for all that have no rule of their own.',
        "trigger": "What counts: pods not ready in time, or a check that says no.",
        "timeout": "How long a workload may hold the flavor until its pods are ready.",
    },
    "ClusterQueuePreemption": {
        "withinClusterQueue": "Whom of its own queue a workload may preempt.",
        "reclaimWithinCohort": "Whom of queues that borrow it may preempt, within its own quota.",
        "borrowWithinCohort": "Whom of the cohort it may preempt while it borrows itself.",
        "triggerAfterWorkloadWaitingSeconds": "It preempts only so long after its first attempt"
        " (Makeway's); unset: at once.",
        "workloadSorting": "Who goes first of candidates with equal priority (Makeway's).",
        "minRuntimeSeconds": "How long workloads of this queue run before anybody may preempt them"
        " (Makeway's); unset: not at all.",
        "budget": "How many evictions it may cause (Makeway's); unset: any number.",
    },
    "PreemptionBudget": {
        "evictionsPerHour": "In any hour; quota of its own that it takes back does not count.",
    },
    "Aging": {
        "everySeconds": "For each such time of waiting ...",
        "priority": "... so much more priority counts in line,",
        "maximum": "but no more than this. Nobody may preempt by it.",
    },
    "AdmissionScope": {
        "admissionMode": "UsageBasedAdmissionFairSharing: who has used less comes first.",
    },
    "BorrowWithinCohort": {
        "policy": "Never, or workloads of lower priority.",
        "maxPriorityThreshold": "Only those of at most this priority; unset: any lower one.",
    },
    "AdmissionChecksStrategy": {
        "admissionChecks": "The checks, each perhaps for some flavors only."
    },
    "AdmissionCheckRule": {
        "name": "Name of an AdmissionCheck.",
        "onFlavors": "Flavors for which it is asked; empty: all.",
    },
    "FairSharing": {"weight": "How much of what is shared it deserves, compared with the others."},
    "ClusterQueueStatus": {
        "conditions": f"{_CONDITIONS} Active: it can admit.",
        "flavorsReservation": _RESERVATION,
        "flavorsUsage": _USAGE,
        "pendingWorkloads": _PENDING,
        "reservingWorkloads": _RESERVING,
        "admittedWorkloads": _ADMITTED,
        "fairSharing": "Its share.",
        "preemption": "What counts against its budget of evictions (Makeway's).",
        "pendingWorkloadsStatus": "Of an older version; nobody fills it.",
    },
    "QueuePreemptionStatus": {"evictions": "Those of the last hour that its preemptors caused."},
    "CausedEvictions": {"time": "When.", "count": "How many."},
    "FlavorUsage": {"name": "Name of the flavor.", "resources": "How much of each resource."},
    "ResourceUsage": {
        "name": "Name of the resource.",
        "total": "How much, borrowed or not.",
        "borrowed": "How much of it is borrowed.",
    },
    "FairSharingStatus": {
        "weightedShare": "How much it uses beyond what it owns, by its weight; 0: nothing.",
        "admissionFairSharingStatus": _NOT_ACTED_ON,
    },
    "Cohort": {
        "": "Queues and cohorts that lend to each other, perhaps with quota of their own.",
        "metadata": _METADATA,
        "spec": "Where it stands in the tree, and what it owns.",
        "status": _STATUS,
    },
    "CohortSpec": {
        "parentName": "The cohort above; empty: none.",
        "resourceGroups": "Quota that belongs to the cohort itself, and that all below may use.",
        "fairSharing": "What counts when cohorts share by weight.",
    },
    "CohortStatus": {"fairSharing": "Its share.", "conditions": _CONDITIONS},
    "LocalQueue": {
        "": "The door of a namespace to a ClusterQueue: Jobs name it in a label.",
        "metadata": _METADATA,
        "spec": "Which queue it leads to.",
        "status": _STATUS,
    },
    "LocalQueueSpec": {
        "clusterQueue": "The ClusterQueue behind it.",
        "stopPolicy": _STOP,
        "fairSharing": "What counts where local queues stand in line by past usage.",
        "preemption": "For workloads that have none of their own (Makeway's).",
        "wallTimePolicy": _NOT_ACTED_ON,
    },
    "WorkloadPreemption": {
        "disruptionCostMilestones": "What a disruption costs, by the time since admission.",
    },
    "DisruptionCostMilestone": {
        "seconds": "Since admission.",
        "cost": "What it costs then; in proportion between two milestones, flat at the ends.",
    },
    "LocalQueueStatus": {
        "conditions": f"{_CONDITIONS} Active: the queue behind it can admit.",
        "pendingWorkloads": _PENDING,
        "reservingWorkloads": _RESERVING,
        "admittedWorkloads": _ADMITTED,
        "flavorsReservation": _RESERVATION,
        "flavorsUsage": _USAGE,
        "fairSharing": "What it has used lately, where that counts.",
        "wallTimeFlavorUsage": _NOT_ACTED_ON,
        "flavors": "Of an older version; nobody fills it.",
    },
    "LocalQueueFairSharingStatus": {
        "weightedShare": "Of no meaning here; always 0.",
        "admissionFairSharingStatus": "What it has used lately.",
    },
    "AdmissionFairSharingStatus": {
        "consumedResources": "An average in which what was used a half-life ago counts half.",
        "lastUpdate": "As of when.",
    },
    "ResourceFlavor": {
        "": "A variety of hardware: spot or reserved, one GPU or another.",
        "metadata": _METADATA,
        "spec": "Which nodes belong to it.",
    },
    "ResourceFlavorSpec": {
        "nodeLabels": "Labels of its nodes; pods that get the flavor are sent to them.",
        "nodeTaints": "Taints of its nodes; who doesn't tolerate them doesn't get the flavor.",
        "tolerations": "Tolerations that pods get along with the flavor.",
        "topologyName": _NOT_ACTED_ON,
        "resourceWeights": _NOT_ACTED_ON,
    },
    "Workload": {
        "": "What a queue admits: pods that belong together, with a priority. Made for each Job.",
        "metadata": _METADATA,
        "spec": "What it asks for.",
        "status": _STATUS,
    },
    "WorkloadSpec": {
        "podSets": "Its pods: one or more sets of equal ones.",
        "queueName": "The LocalQueue in which it waits.",
        "priority": "The higher, the sooner; follows from the class.",
        "priorityClassRef": "The class that its priority comes from.",
        "active": "False: it does not run and does not wait.",
        "maximumExecutionTimeSeconds": "How long it may be admitted; after that it is deactivated.",
        "preemption": "What is considered when it may have to make way (Makeway's).",
        "onPreemption": "Terminate: it ends when it had to make way; unset: it is queued again.",
        "preemptionGates": _NOT_ACTED_ON,
    },
    "PodSet": {
        "name": "Name of the set, unique in the workload.",
        "template": "What its pods look like.",
        "count": "How many pods it has.",
        "minCount": "With how many it can do as well; unset: with all of them only.",
        "topologyRequest": _NOT_ACTED_ON,
    },
    "PriorityClassRef": {
        "group": "kueue.x-k8s.io or scheduling.k8s.io.",
        "kind": "WorkloadPriorityClass or PriorityClass.",
        "name": "Name of the class.",
    },
    "WorkloadStatus": {
        "conditions": f"{_CONDITIONS} QuotaReserved, Admitted, Evicted, PodsReady, Finished.",
        "admission": "The quota that it holds: queue, flavors, amounts.",
        "requeueState": "When it may be tried again after a time-out.",
        "reclaimablePods": "Pods that are not needed any more; their quota is given back.",
        "admissionChecks": "What the checks say.",
        "resourceRequests": "What it asks for, as it counts while it waits.",
        "accumulatedPastExecutionTimeSeconds": "How long it was admitted before the present time.",
        "schedulingStats": "How often it was evicted, and why.",
        "flavorAssignmentHistory": "Flavors that it has held, when, and how they failed.",
        "preemption": "What it has to do with preemptions (Makeway's).",
        "clusterName": _NOT_ACTED_ON,
        "nominatedClusterNames": _NOT_ACTED_ON,
        "unhealthyNodes": _NOT_ACTED_ON,
    },
    "Admission": {
        "clusterQueue": "The queue whose quota it holds.",
        "podSetAssignments": "For each pod set, which flavors and how much.",
    },
    "PodSetAssignment": {
        "name": "Name of the pod set.",
        "flavors": "The flavor of each resource.",
        "resourceUsage": "How much of each resource the set holds in all.",
        "count": "How many pods of it may run.",
        "topologyAssignment": _NOT_ACTED_ON,
        "delayedTopologyRequest": _NOT_ACTED_ON,
    },
    "RequeueState": {
        "count": "How often it was put back in line.",
        "requeueAt": "When it stands in line again.",
    },
    "ReclaimablePod": {"name": "Name of the pod set.", "count": "How many of its pods."},
    "AdmissionCheckState": {
        "name": "Name of the AdmissionCheck.",
        "state": "Pending, Ready, Retry (evict and ask again) or Rejected.",
        "message": "What its controller says.",
        "lastTransitionTime": "Since when it has this state.",
        "retryCount": "How often it asked for a retry.",
        "requeueAfterSeconds": "How long to wait before a retry.",
        "podSetUpdates": "What is added to the pods before they start.",
    },
    "PodSetUpdate": {
        "name": "Name of the pod set.",
        "labels": "Labels that its pods get.",
        "annotations": "Annotations that its pods get.",
        "nodeSelector": "Labels of nodes that its pods ask for.",
        "tolerations": "Tolerations that its pods get.",
    },
    "PodSetRequest": {"name": "Name of the pod set.", "resources": "What all its pods ask for."},
    "SchedulingStats": {"evictions": "Evictions, counted by reason."},
    "EvictionCount": {
        "reason": "Why it was evicted.",
        "underlyingCause": "What lay behind that reason.",
        "count": "How often.",
    },
    "FlavorAssignmentRecord": {
        "resourceFlavor": "Name of the flavor.",
        "assignmentTime": "When it was last assigned.",
        "exhaustedTime": "When it failed the workload; unset: it has not.",
        "reason": "The trigger that fired.",
    },
    "PreemptionState": {
        "claim": "The place that is kept for it while others make way.",
        "count": "How often it has made others give way without running for long since.",
        "lastTime": "When it last did.",
        "preemptedBy": "The workload for which it makes way.",
        "firstAttemptTime": "When it, or one like it, was first tried in vain.",
    },
    "PreemptionClaim": {
        "podSetAssignments": "Flavors and amounts that it claims.",
        "heldBefore": "What its queue held of these flavors when it made the claim.",
    },
    "FlavorAmounts": {"flavor": "Name of the flavor.", "resources": "How much of each resource."},
    "LabelSelector": {
        "matchLabels": "Labels that have to be there, each with this value.",
        "matchExpressions": "What else has to hold; all of it.",
    },
    "LabelSelectorRequirement": {
        "key": "Key of the label.",
        "operator": "In, NotIn, Exists or DoesNotExist.",
        "values": "Values for In and NotIn.",
    },
    "Taint": {
        "key": "Key of the taint.",
        "value": "Value of the taint.",
        "effect": "What it does to pods that don't tolerate it.",
        "timeAdded": "When it was added.",
    },
    "Toleration": {
        "key": "Key of the taint; empty: any.",
        "operator": "Equal or Exists.",
        "value": "Value of the taint, for Equal.",
        "effect": "Effect of the taint; empty: any.",
        "tolerationSeconds": "How long NoExecute is tolerated; unset: for ever.",
    },
    "WorkloadPriorityClass": {
        "": "A priority for waiting in queues; the priority of the pods is another matter.",
        "metadata": _METADATA,
        "value": "The higher, the sooner.",
        "description": "For whom this class is.",
    },
    "Gang": {
        "": "Pods that are placed together: those with the label makeway.dev/gang.",
        "metadata": _METADATA,
        "spec": "How many have to be placed together, and how they are preempted.",
        "status": _STATUS,
    },
    "GangSpec": {
        "schedulingPolicy": "Whether the pods are placed together.",
        "disruptionMode": "Whether the pods are preempted together; unset: one by one.",
        "priorityClassName": _CLASS,
        "schedulingConstraints": _TOPOLOGY,
    },
    "OwnSchedulingPolicy": {"gang": _GANG, "basic": _BASIC},
    "GangSchedulingPolicy": {"minCount": "How many pods have to be placed together."},
    "OwnDisruptionMode": {"single": _SINGLE, "all": _ALL},
    "SchedulingConstraints": {"topology": _TOPOLOGY},
    "TopologyConstraint": {"key": "A label of nodes: all pods go to nodes with one value of it."},
    "GangStatus": {"conditions": _CONDITIONS},
    "PodGroup": {
        "": "Pods that are placed together: those that name it in spec.schedulingGroup.",
        "metadata": _METADATA,
        "spec": "How many have to be placed together, and how they are preempted.",
        "status": _STATUS,
    },
    "PodGroupSpec": {
        "schedulingPolicy": "Whether the pods are placed together.",
        "disruptionMode": "Whether the pods are preempted together; unset: one by one.",
        "priorityClassName": _CLASS,
        "priority": "The number behind the class.",
        "preemptionPolicy": "Never: it makes nobody give way.",
        "schedulingConstraints": _TOPOLOGY,
    },
    "SchedulingPolicy": {"gang": _GANG, "basic": _BASIC},
    "DisruptionMode": {"single": _SINGLE, "all": _ALL},
    "PodGroupStatus": {"conditions": _CONDITIONS},
    "GangWorkload": {
        "": "Groups of pods, each placed together: pods name it in spec.workloadRef.",
        "metadata": _METADATA,
        "spec": "Its groups and their priorities.",
        "status": _STATUS,
    },
    "GangWorkloadSpec": {
        "podGroups": "The groups, each perhaps with replicas.",
        "controllerRef": "The object that it was made for.",
        "priorityClassName": f"{_CLASS} Counts when a place is looked for.",
        "preemptionPriorityClassName": "What counts when victims are looked for; unset: the same.",
    },
    "PodGroupTemplate": {
        "name": "Name of the group, unique in the object.",
        "policy": "Whether its pods are placed together.",
        "replicas": "How many groups of this form there are.",
    },
    "GroupPolicy": {"gang": _GANG, "basic": _BASIC},
    "GangPolicy": {
        "minCount": "How many pods have to be placed together.",
        "preemptionMode": "Pod: preempted one by one. PodGroup: all of the group or none.",
    },
    "GangWorkloadStatus": {
        "priority": "The number behind priorityClassName, as it was first.",
        "preemptionPriority": "The number that counts when victims are looked for.",
        "conditions": _CONDITIONS,
    },
}
