"""Workloads whose machine was started anew: they wait again, at the place in line that was theirs.

Whoever runs pods says on those that a restart of the machine has ended why that is. Their Workload
is evicted with the same reason, so that the Job is stopped and queued again like one that made way.
"""

from __future__ import annotations

from makeway.api.kinds import PODS, WORKLOADS, Resource
from makeway.api.labels import WORKLOAD
from makeway.api.times import parse_time
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, reason_in, true_types, with_condition
from makeway.engine.model import EvictionReason
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Key, status_patch

REBOOTED = EvictionReason.NODE_REBOOTED.value
MESSAGE = "The machine was started anew while its pods ran"


class Reboots(Reconciler):
    resources: tuple[Resource, ...] = (PODS, WORKLOADS)

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        self._ended: dict[Key, float] = {}  # Workload -> when the last such pod of it was made

    def changed(self, change: Change) -> None:
        if change.resource == WORKLOADS:
            if change.new is None:
                self._ended.pop(change.key, None)
            elif change.key in self._ended:
                self.mark(change.key)
        elif change.new is not None:
            self._take(change.new.document)

    def _take(self, pod: Document) -> None:
        if reason_in(pod, "DisruptionTarget") != REBOOTED:
            return
        metadata = pod["metadata"]
        owners = metadata.get("ownerReferences") or ()
        if not any(owner.get("kind") == "Job" for owner in owners):
            return  # nobody makes such a pod anew: it has failed
        if name := (metadata.get("annotations") or {}).get(WORKLOAD, ""):
            key = Key(metadata["namespace"], name)
            made_at = parse_time(metadata["creationTimestamp"])
            self._ended[key] = max(made_at, self._ended.get(key, 0.0))
            self.mark(key)

    def reconcile(self, key: Key, now: float) -> Plan:
        document = self._picture.get(WORKLOADS, key)
        if document is None or not _holds_since_before(document, self._ended.get(key, 0.0)):
            return NOTHING
        generation = document["metadata"].get("generation")
        told = "Evicted", "True", REBOOTED, MESSAGE
        conditions = with_condition(conditions_of(document), *told, now, generation)
        return Plan([status_patch(WORKLOADS, document, {"conditions": conditions})])


def _holds_since_before(workload: Document, made_at: float) -> bool:
    """Whether the pod was made under the admission that holds now, not under one before it."""
    conditions = conditions_of(workload)
    true = true_types(conditions)
    if "Admitted" not in true or true & {"Evicted", "Finished"}:
        return False
    [admitted] = [one for one in conditions if one["type"] == "Admitted"]
    return int(parse_time(admitted["lastTransitionTime"])) <= made_at  # that has no fractions
