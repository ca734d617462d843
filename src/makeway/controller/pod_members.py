"""Pods that wait in a queue without a Job: what counts of each, and who belongs together.

A *unit* is what gets one Workload: a pod by itself, or all pods of a group. What counts of a pod is
read once, when it changes, so that looking at a group of a thousand costs little each time.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from makeway.api.batch import ENDED_PHASES, PodSpec, pod_requests
from makeway.api.codec import encode
from makeway.api.kinds import PODS
from makeway.api.labels import (
    ADMISSION_GATE,
    GROUP_FAST,
    GROUP_NAME,
    GROUP_TOTAL,
    IS_GROUP,
    MANAGED,
    POD_SET,
    PREBUILT,
    QUEUE_NAME,
    RETRIABLE,
    ROLE_HASH,
)
from makeway.api.meta import controller_of, is_part_of_a_job
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, true_types
from makeway.controller.job_workload import number_in
from makeway.plane.picture import Object
from makeway.plane.writes import Key

STOPPING = "TerminationTarget"  # condition of a pod: why a queue ends it
_GROUP = "group/"  # begins the key of a group, as no uid does
_ROLE_LENGTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What counts of a pod."""

    key: Key
    uid: str
    created_at: str  # sorts as it stands
    queue: str  # empty: it names none
    total: int | None  # pods in its group; None: it doesn't say so, or not as a number
    is_fast: bool  # the first pod of its group speaks for all
    is_final: bool  # no pod of its group is to be replaced
    has_other_owner: bool  # a controller, or a Workload that the pod names, answers for it as well
    role: str  # equal for pods that are alike to the queues
    defect: str  # why it can't be read; empty if it can
    phase: str
    is_managed: bool  # it was given to a queue when it was created
    is_held: bool  # by our finalizer
    is_gated: bool
    has_node: bool
    is_ready: bool
    is_leaving: bool  # somebody has deleted it
    is_force_deleted: bool  # the deletion waits for no process
    has_stop_condition: bool  # its status says why a queue ends it

    @property
    def is_ours(self) -> bool:
        """Whether it was held back when it was created: else no queue can have a say."""
        return self.is_managed or self.is_held or self.is_gated

    @property
    def is_over(self) -> bool:
        return self.phase in ENDED_PHASES

    @property
    def has_succeeded(self) -> bool:
        return self.phase == "Succeeded"

    @property
    def is_active(self) -> bool:
        """Whether it runs, or could at any moment."""
        is_stillborn = self.is_leaving and (self.is_force_deleted or not self.has_node)
        return not self.is_over and not self.is_gated and not is_stillborn

    @property
    def is_lost(self) -> bool:
        """Whether it is at an end, and not a good one."""
        return self.phase == "Failed" or (
            self.is_leaving and not self.is_active and not self.has_succeeded
        )

    @property
    def is_present(self) -> bool:
        """Whether it is one of those that its group needs: it waits, runs, or has succeeded."""
        return self.has_succeeded or not (self.is_lost or self.is_leaving)

    @property
    def rank(self) -> tuple[bool, bool, str, str]:
        """Who comes first is kept when there are too many."""
        return not self.has_succeeded, self.is_gated, self.created_at, self.key.name


def member_of(pod: Object) -> tuple[Key, Member] | None:
    """The unit that a pod belongs to, and what counts of the pod; None: it waits in no queue."""
    unit = unit_of_pod(pod)
    return None if unit is None else (unit, _member(pod))


def _member(pod: Object) -> Member:
    document = pod.document
    metadata, status = document["metadata"], document.get("status") or {}
    spec = document.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    true = true_types(conditions_of(document))
    is_gated = ADMISSION_GATE in gates
    read = pod.read
    shape = "" if read.object is None else role_of(read.object.spec)
    # What an admission adds would make it another one; before, nobody's word counts.
    told = "" if is_gated else labels.get(POD_SET) or annotations.get(ROLE_HASH)
    return Member(
        key=pod.key,
        uid=metadata["uid"],
        created_at=metadata.get("creationTimestamp") or "",
        queue=labels.get(QUEUE_NAME) or "",
        total=number_in(annotations.get(GROUP_TOTAL) or labels.get(GROUP_TOTAL)) or None,
        is_fast=annotations.get(GROUP_FAST) == "true",
        is_final=annotations.get(RETRIABLE) == "false",
        has_other_owner=bool(labels.get(PREBUILT)) or controller_of(document) is not None,
        role=told or shape,
        defect=str(read.errors[0]) if read.errors else "",
        phase=status.get("phase") or "Pending",
        is_managed=labels.get(MANAGED) == "true",
        is_held=MANAGED in (metadata.get("finalizers") or ()),
        is_gated=is_gated,
        has_node=bool(spec.get("nodeName")),
        is_ready="Ready" in true,
        is_leaving=bool(metadata.get("deletionTimestamp")),
        is_force_deleted=metadata.get("deletionGracePeriodSeconds") == 0,
        has_stop_condition=STOPPING in true,
    )


def role_of(spec: PodSpec) -> str:
    """A short name for all pods that ask the queues for the same.

    What else is in a pod may differ from one to the next: Kubernetes adds volumes to each.
    """
    shape = [
        sorted(pod_requests(spec).items()),
        sorted(spec.node_selector.items()),
        encode(spec.affinity) if spec.affinity is not None else None,
        [encode(toleration) for toleration in spec.tolerations],
        [encode(constraint) for constraint in spec.topology_spread_constraints],
        spec.priority_class_name,
        spec.scheduler_name,
    ]
    text = json.dumps(shape, sort_keys=True)
    # A pod set's name begins with a letter.
    return "r" + hashlib.sha256(text.encode()).hexdigest()[: _ROLE_LENGTH - 1]


def is_queued(document: Document) -> bool:
    """Whether a queue has to do with a pod for itself, not through its Job."""
    metadata = document["metadata"]
    labels = metadata.get("labels") or {}
    if is_part_of_a_job(metadata):
        return False
    is_managed = labels.get(MANAGED) == "true" or MANAGED in (metadata.get("finalizers") or ())
    return is_managed or bool(labels.get(QUEUE_NAME))


def unit_of_pod(pod: Object) -> Key | None:
    """By the name of its group, or its uid; None: no queue has to do with the pod for itself."""
    if not is_queued(pod.document):
        return None
    metadata = pod.document["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    group = labels.get(GROUP_NAME) or annotations.get(GROUP_NAME)
    return Key(pod.key.namespace, _GROUP + group if group else metadata["uid"])


def unit_of_workload(workload: Object) -> tuple[Key, None] | None:
    """The unit that a Workload was made for; None: it wasn't made for pods without a Job."""
    document, key = workload.document, workload.key
    if (document["metadata"].get("annotations") or {}).get(IS_GROUP) == "true":
        return Key(key.namespace, _GROUP + key.name), None
    owner = controller_of(document)
    if owner is None or owner.kind != PODS.kind:
        return None
    return Key(key.namespace, owner.uid), None


def group_of(unit: Key) -> str:
    """The name of a group; empty: the unit is a pod by itself."""
    return unit.name.removeprefix(_GROUP) if unit.name.startswith(_GROUP) else ""
