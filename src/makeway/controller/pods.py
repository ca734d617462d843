"""Keeps pods that wait in a queue without a Job and their Workloads in step.

The same for our own server and for Kubernetes, and side by side with `Jobs`. A pod can't be stopped
and started again: what holds it back is a scheduling gate that it was created with, and what stops
it is its deletion. Who creates a pod gives it the gate, the label and the finalizer
`kueue.x-k8s.io/managed` (our server does, on Kubernetes a policy); one that comes without is left
alone. Some choices:

- A pod by itself has one Workload, which goes with it. One that is evicted is gone: whoever creates
  it anew stands in the queue anew.
- Pods of a group have one Workload, made when all of them are there, with a pod set for pods that
  ask for the same. Evicted, it gives its quota back when the last pod has stopped, and stays for
  pods that take the place of those; it isn't admitted before they are there, and others pass it,
  however strict its queue. The same for pods that failed or were deleted: another may take their
  place, at once where the group holds quota.
- A pod that has succeeded is kept by its finalizer until its group is through, for it is counted.
- What is deleted as a whole goes as a whole: then no finalizer holds anything.
- A pod that runs without a Workload is ended, as in Kueue; but not if its controller or a Workload
  that it names may answer for it, for Kueue admits such pods otherwise than one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from makeway.api.batch import Pod
from makeway.api.codec import encode
from makeway.api.configuration import Configuration
from makeway.api.kinds import NAMESPACES, PODS, WORKLOADS, Resource
from makeway.api.labels import ADMISSION_GATE, IN_USE, MANAGED, POD_SET
from makeway.api.meta import find_condition, is_true
from makeway.api.queueing import PodSet
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, with_condition
from makeway.controller.job_priorities import Missing
from makeway.controller.job_status import Draft
from makeway.controller.job_template import Additions
from makeway.controller.job_workload import (
    annotation_changes,
    holds_quota,
    is_evicted,
    may_run,
    spec_changes,
    stop_of,
)
from makeway.controller.pod_members import STOPPING, Member, group_of, member_of, unit_of_workload
from makeway.controller.pod_status import (
    Unit,
    are_ready,
    ending_of,
    excess_of,
    is_gone,
    note_lack,
    reclaimable,
    startable,
)
from makeway.controller.pod_workload import (
    COPIED,
    Composition,
    annotations_of,
    composed,
    has_shape_of,
    limit_of,
    named_by,
    narrowed,
    new_workload,
    pod_set_of,
    queue_of,
)
from makeway.controller.workload_keeper import (
    DEFAULTS,
    REFERENCED_KINDS,
    WorkloadKeeper,
    admitted_by,
    creation,
    finish,
)
from makeway.controller.workload_writes import deletion, without_finalizer, workload_patch
from makeway.plane.parts import Plan
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key, Patch, Say, Write, as_seen, status_patch
from makeway.translate import messages


class Pods(WorkloadKeeper):
    resources: tuple[Resource, ...] = (PODS, WORKLOADS, NAMESPACES, *REFERENCED_KINDS)
    contested = (WORKLOADS,)

    def __init__(self, picture: Picture, configuration: Configuration = DEFAULTS) -> None:
        super().__init__(picture, configuration)
        self._pods = picture.index(PODS, member_of)  # by unit
        self._workloads = picture.index(WORKLOADS, unit_of_workload)
        # Other Workloads that have the name of a group, and the unit that waits for each to go.
        self._name_takers: dict[Key, Key] = {}

    def changed(self, change: Change) -> None:
        if change.resource in REFERENCED_KINDS:
            self.reference_changed()
        elif change.resource == PODS:
            self.mark(*self._pods.touched(change))
        elif change.resource == NAMESPACES:
            self.namespace_changed(change, PODS, self._pods)
        else:
            self.mark(*self._workloads.groups(change))
            if change.key in self._name_takers:
                self.mark(self._name_takers.pop(change.key))

    def event_target(self, key: Key) -> Document | None:
        members = self._members(key)
        return _about(members[0]) if members else None

    def reconcile(self, key: Key, now: float) -> Plan:
        group, everybody = group_of(key), self._members(key)
        members = tuple(member for member in everybody if member.is_ours)
        if not everybody:
            self._noted.pop(key, None)
        writes: list[Write] = [*self._pass_over(key, everybody)]
        found = [self._picture.find(WORKLOADS, k) for k in self._workloads.keys(key)]
        if not found or found[0] is None:
            return Plan([*writes, *self._first_sight(key, group, members, now)])
        document, read = found[0].document, found[0].read
        if read.object is None:
            problem = str(read.errors[0])
            return Plan([*writes, *self._note(key, members, "Unreadable", problem)])
        members = named_by(read.object, members) if group else members
        plan = self._step(Unit(key, group, members, read.object, document), now)
        return Plan([*writes, *plan.writes], plan.next_at)

    def _step(self, unit: Unit, now: float) -> Plan:
        workload = unit.workload
        draft = Draft(unit.document, workload, now)
        if is_true(workload.status.conditions, "Finished"):
            return Plan(self._after_the_end(unit, now))
        ending = ending_of(unit)
        if ending is not None:
            draft.note_reclaimable(reclaimable(unit))
            return Plan(finish(draft, _about(unit.members[0]), *ending))
        if workload.metadata.deletion_timestamp is not None:
            return Plan(self._leave(unit, now))
        if is_gone(unit):
            delete = deletion(WORKLOADS, unit.document)
            free = without_finalizer(WORKLOADS, unit.document, IN_USE)
            return Plan([delete, *free, *self._free(unit.members)])
        has_queue = any(member.queue for member in unit.members)
        if unit.members and not has_queue and not holds_quota(workload):
            return Plan([deletion(WORKLOADS, unit.document)])
        writes: list[Write] = [*self._tidy(unit)]
        if may_run(workload):
            writes += self._start(unit, draft)
        else:
            writes += self._stop(unit, draft, now)
        return self._tell(unit, draft, writes)

    def _tell(self, unit: Unit, draft: Draft, writes: list[Write]) -> Plan:
        """Bring the Workload up to date: its status, or if that is right, its spec."""
        next_at: float | None = None
        for member in unit.members[:1]:
            draft.note_unsupported(self._find(member).read.unsupported)
        if may_run(unit.workload):
            draft.note_readiness(are_ready=are_ready(unit))
            next_at = draft.note_time()
        draft.note_reclaimable(reclaimable(unit))
        note_lack(unit, draft)
        patch = draft.patch()
        if patch is not None:
            return Plan([*writes, patch], next_at)
        return Plan([*writes, *self._follow(unit)], next_at)

    # Pods without a Workload

    def _pass_over(self, key: Key, members: Iterable[Member]) -> Sequence[Write]:
        """Pods that name a queue and were not held back when they were created."""
        loose = [
            member
            for member in members
            if not (member.is_ours or member.is_over or member.has_node)
            and self.is_queued(self._document(member))
        ]
        return self._note(key, loose[:1], "NotQueued", messages.NO_GATE)

    def _first_sight(
        self, key: Key, group: str, members: Sequence[Member], now: float
    ) -> Sequence[Write]:
        """Pods get a Workload when they are all there and wait."""
        active = [member for member in members if member.is_active]
        is_going = not active and all(member.is_leaving for member in members)
        done = [m for m in members if m.is_lost or is_going or (m.is_over and not group)]
        writes: list[Write] = [*self._free(done)]
        for member in active:
            if member.has_other_owner:
                continue  # Kueue has Workloads for such pods that nothing here leads to
            writes += self._end(member, "NoWorkload", messages.NO_WORKLOAD, now)
        waiting = [member for member in members if member.is_gated and not member.is_leaving]
        if active or not waiting:
            return writes
        composition = composed(members, group)
        writes += [write for member in composition.excess for write in self._delete(member)]
        if composition.problem:
            return [*writes, *self._note(key, waiting, "Misunderstood", composition.problem)]
        if not composition.counts:
            message = messages.WAITS_FOR_GROUP.format(waiting[0].total, group)
            return [*writes, *self._note(key, waiting, "WaitingForPods", message, "Normal")]
        return [*writes, *self._create(key, group, waiting[0], composition)]

    def _create(
        self, key: Key, group: str, lead: Member, composition: Composition
    ) -> Sequence[Write]:
        if not lead.queue:
            return self._note(key, [lead], "NotQueued", messages.NO_QUEUE)
        taken = Key(key.namespace, group)
        if group and self._picture.has(WORKLOADS, taken):
            self._name_takers[taken] = key
            return self._note(key, [lead], "NameTaken", messages.NAME_TAKEN.format(group))
        pod = self._pod(lead)
        priority = self.priority_for(key, pod.metadata.labels, pod.spec)
        if isinstance(priority, Missing):
            return self.note_missing(key, _about(lead), priority)
        document = new_workload(pod, group, self._pod_sets(composition, ()), priority)
        return [creation(document, _about(lead))]

    # What is done to pods

    def _start(self, unit: Unit, draft: Draft) -> Sequence[Write]:
        ready: list[tuple[Member, Additions]] = []
        for name, members in startable(unit).items():
            additions = self.additions_for(unit.key, narrowed(unit.workload, name))
            if not isinstance(additions, Additions):
                return self.fail_to_start(unit.key, _about(unit.members[0]), draft, additions)
            additions.labels[POD_SET] = name
            ready += [(member, additions) for member in members]
        writes: list[Write] = [self._ungate(unit, *one) for one in ready]
        strangers = [m for m in unit.members if m.is_gated and m.role not in unit.counts]
        if unit.group and strangers:
            message = messages.UNLIKE_GROUP.format(unit.group)
            writes += self._note(unit.key, strangers, "NotAdmitted", message)
        return writes

    def _ungate(self, unit: Unit, member: Member, additions: Additions) -> Patch:
        document = self._document(member)
        spec = document["spec"]
        gates = [gate for gate in spec["schedulingGates"] if gate["name"] != ADMISSION_GATE]
        changes: Document = {"schedulingGates": gates or None}
        if additions.node_selector:
            changes["nodeSelector"] = additions.node_selector
        there = spec.get("tolerations") or []
        more = [encode(toleration) for toleration in additions.tolerations]
        if any(toleration not in there for toleration in more):
            changes["tolerations"] = [*there, *(item for item in more if item not in there)]
        metadata = {
            **as_seen(document),
            "labels": additions.labels,
            "annotations": additions.annotations,
        }
        patch = {"metadata": metadata, "spec": changes}
        then = (admitted_by(unit.workload, _about(member)),)
        return Patch(resource=PODS, key=member.key, patch=patch, then=then)

    def _stop(self, unit: Unit, draft: Draft, now: float) -> Sequence[Write]:
        """End what runs; and when the last has ended, give the quota back."""
        if unit.active:
            message = messages.NOT_ADMITTED_BY.format(unit.workload.spec.queue_name)
            stop = stop_of(unit.workload) or ("NotAdmitted", message)
            return [w for m in unit.active for w in self._end(m, *stop, now)]
        if is_evicted(unit.workload) and holds_quota(unit.workload):
            draft.release()
        return ()

    def _end(self, member: Member, reason: str, message: str, now: float) -> Sequence[Write]:
        """First the pod says why, then it goes."""
        if member.is_leaving:
            return ()
        document = self._document(member)
        if member.has_stop_condition:
            said = Say(about=_about(member), reason="Stopped", message=message)
            return [deletion(PODS, document, then=(said,))]
        told = with_condition(conditions_of(document), STOPPING, "True", reason, message, now)
        return [status_patch(PODS, document, {"conditions": told})]

    def _tidy(self, unit: Unit) -> Sequence[Write]:
        """Nobody needs pods beyond those that were asked for, nor holds those that are lost."""
        excess: Sequence[Member] = excess_of(unit)
        if not holds_quota(unit.workload):
            excess = composed(unit.members, unit.group).excess
        writes = [write for member in excess for write in self._delete(member)]
        return [*writes, *self._free(member for member in unit.members if member.is_lost)]

    def _delete(self, member: Member) -> Sequence[Write]:
        """A pod too many."""
        freed = () if member.is_active else self._free([member])
        message = messages.EXCESS_POD
        said = Say(about=_about(member), reason="ExcessPodDeleted", message=message)
        return [*freed, deletion(PODS, self._document(member), then=(said,))]

    def _free(self, members: Iterable[Member]) -> Sequence[Write]:
        """Let go of pods that nothing depends on any more."""
        return [
            write
            for member in members
            if member.is_held
            for write in without_finalizer(PODS, self._document(member), MANAGED, is_exact=True)
        ]

    # What is done to the Workload

    def _follow(self, unit: Unit) -> Sequence[Write]:
        """Let the Workload ask for what its pods ask for, as far as that may change now."""
        workload = unit.workload
        present = [m for m in unit.members if m.is_present and not m.defect]
        if not present:
            return ()
        pod = self._pod(present[0])
        priority = self.priority_for(unit.key, pod.metadata.labels, pod.spec)
        spec = spec_changes(workload, queue_of(pod), limit_of(pod), priority)
        composition = composed(unit.members, unit.group)
        may_change = not holds_quota(workload) and composition.is_whole
        if may_change and not has_shape_of(workload, composition):
            spec["podSets"] = self._pod_sets(composition, workload.spec.pod_sets)
        annotations = annotation_changes(workload, annotations_of(pod), COPIED)
        patch = workload_patch(unit.document, spec=spec, annotations=annotations)
        return [patch] if patch is not None else ()

    def _after_the_end(self, unit: Unit, now: float) -> Sequence[Write]:
        """Nothing is held any more; and pods that come under an old name are a new group."""
        writes: list[Write] = [*without_finalizer(WORKLOADS, unit.document, IN_USE)]
        for member in unit.active:
            writes += self._end(member, "WorkloadFinished", messages.WORKLOAD_FINISHED, now)
        finished = find_condition(unit.workload.status.conditions, "Finished")
        has_ended = finished is not None and finished.reason in ("Succeeded", "Failed")
        is_new = has_ended and not any(m.is_over or m.is_active for m in unit.members)
        if unit.group and (is_new or not unit.members):
            return [*writes, deletion(WORKLOADS, unit.document)]
        return [*writes, *self._free(m for m in unit.members if not m.is_active)]

    def _leave(self, unit: Unit, now: float) -> Sequence[Write]:
        """Somebody has deleted the Workload: end what runs, and let it go when that has ended."""
        writes: list[Write] = [*self._free(member for member in unit.members if member.is_lost)]
        if not unit.active:
            return [*writes, *without_finalizer(WORKLOADS, unit.document, IN_USE)]
        for member in unit.active:
            writes += self._end(member, "WorkloadDeleted", messages.WORKLOAD_DELETED, now)
        return writes

    # What there is

    def _members(self, unit: Key) -> tuple[Member, ...]:
        """Its pods, the first come first."""
        return tuple(sorted(self._pods.values(unit), key=lambda m: (m.created_at, m.key.name)))

    def _find(self, member: Member) -> Object:
        found = self._picture.find(PODS, member.key)
        assert found is not None, f"{member.key} is gone, and nobody said so"
        return found

    def _document(self, member: Member) -> Document:
        return self._find(member).document

    def _pod(self, member: Member) -> Pod:
        read = self._find(member).read
        assert isinstance(read.object, Pod), read.errors
        return read.object

    def _pod_sets(self, composition: Composition, known: Iterable[PodSet]) -> list[Document]:
        """Pods that were started carry what an admission added; what they were is known."""
        before = {pod_set.name: encode(pod_set) for pod_set in known}
        return [
            {**before[name], "count": composition.counts[name]}
            if name in before and not model.is_gated
            else pod_set_of(name, composition.counts[name], self._pod(model))
            for name, model in sorted(composition.models.items())
        ]

    def _note(
        self, key: Key, members: Sequence[Member], reason: str, message: str, type: str = "Warning"
    ) -> Sequence[Say]:
        """Say it about the first of these pods."""
        return self.note(key, _about(members[0]), reason, message, type) if members else ()


def _about(member: Member) -> Document:
    metadata = {"name": member.key.name, "namespace": member.key.namespace, "uid": member.uid}
    return {"apiVersion": PODS.api_version, "kind": PODS.kind, "metadata": metadata}
