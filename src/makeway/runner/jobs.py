"""Gives Jobs their pods and follows them to their end, as Kubernetes' job controller does.

`job_actions` says what a Job needs, `job_tally` why no end of a pod is missed or counted twice.
Here that becomes writes. Nothing is remembered that the objects don't tell, but for one thing: a
pod whose creation had no answer, or whose name was taken by a pod that no watch has shown yet, may
exist unseen. Its name is kept until it is seen or the server answers, and is used before any other,
so that it never runs beside a pod that was meant to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from makeway.api.batch import Job
from makeway.api.kinds import JOBS, PODS, Resource
from makeway.api.labels import JOB_NAME, LET_GO
from makeway.api.meta import controller_of
from makeway.client.client import ApiError, Conflict, Document
from makeway.plane.parts import Done, Outcome, Plan, Reconciler
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import (
    Create,
    Delete,
    EventText,
    Key,
    ObjectWrite,
    Patch,
    Say,
    Write,
    key_of,
    status_patch,
)
from makeway.runner.job_actions import JobActions, JobFacts, decide
from makeway.runner.job_pods import INDEX, TRACKING, JobPod, pod_document

BACKOFF_S = 10.0
MANAGER = "kubernetes.io/job-controller"  # who manages jobs that name it or nobody


@dataclass(frozen=True, slots=True)
class Unseen:
    """A pod that may exist though we haven't seen it."""

    job_uid: str
    index: int | None


class Owned(NamedTuple):
    owner: str  # uid; empty: it was taken from its job
    pod: JobPod | None  # None: it can't be understood


class JobPods(Reconciler):
    resources: tuple[Resource, ...] = (JOBS, PODS)

    def __init__(self, picture: Picture, *, backoff_s: float = BACKOFF_S) -> None:
        super().__init__()
        self._picture, self._backoff_s = picture, backoff_s
        self._pods = picture.index(PODS, _owned)  # by job
        self._unseen: dict[Key, dict[str, Unseen]] = {}  # by job and name
        self._refused: set[Key] = set()  # jobs whose last new pod the server would not have

    def changed(self, change: Change) -> None:
        self.mark(*((change.key,) if change.resource == JOBS else self._pods.groups(change)))

    def reconcile(self, key: Key, now: float) -> Plan:
        found = self._picture.find(JOBS, key)
        uid = found.uid if found is not None else ""
        everybody = self._pods.values(key)
        pods = [owned.pod for owned in everybody if owned.owner == uid]
        others = [owned.pod for owned in everybody if owned.owner != uid]
        # Pods that were given up, or whose job is gone: nobody else would let them go.
        strays = [_without_tracking(pod) for pod in others if pod is not None and pod.is_tracked]
        if found is None:
            self._unseen.pop(key, None)
            self._refused.discard(key)
            return Plan(strays)
        job: Job | None = found.view
        if job is None or job.spec.managed_by not in ("", MANAGER):
            return Plan(strays)
        known = [pod for pod in pods if pod is not None]
        if len(known) < len(pods):
            return Plan(strays)  # one that can't be understood may be running all the same
        actions = decide(self._facts(key, job, known, now))
        return Plan([*strays, *self._writes(found.document, job, actions)], actions.next_at)

    def _facts(self, key: Key, job: Job, pods: Sequence[JobPod], now: float) -> JobFacts:
        namespace = key.namespace

        def is_taken(name: str) -> bool:
            return self._picture.has(PODS, Key(namespace, name))

        unseen = {
            name: found.index
            for name, found in self._unseen.get(key, {}).items()
            if found.job_uid == job.metadata.uid and not is_taken(name)
        }
        return JobFacts(
            job=job,
            pods=pods,
            now=now,
            backoff_s=self._backoff_s,
            unseen=unseen,
            is_taken=is_taken,
            was_refused=key in self._refused,
        )

    def _writes(self, about: Document, job: Job, actions: JobActions) -> list[Write]:
        writes: list[Write] = []
        if actions.status:
            then = tuple(event.about(about) for event in actions.events)
            patch = status_patch(JOBS, about, dict(actions.status))
            writes.append(replace(patch, then=then))
        for new in actions.create:
            said = EventText("SuccessfulCreate", f"Created pod: {new.name}").about(about)
            writes.append(Create(resource=PODS, document=pod_document(job, new), then=(said,)))
        for pod in actions.delete:
            said = EventText("SuccessfulDelete", f"Deleted pod: {pod.name}").about(about)
            whom = Key(job.metadata.namespace, pod.name)
            writes.append(Delete(resource=PODS, key=whom, uid=pod.uid, then=(said,)))
        writes += [_without_tracking(pod, is_let_go=pod.is_active) for pod in actions.release]
        if actions.delete_job:
            uid, key = job.metadata.uid, key_of(about)
            writes.append(Delete(resource=JOBS, key=key, uid=uid, propagation="Foreground"))
        return writes

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        if isinstance(write, Create) and write.cause is not None:
            self._note_created(write.cause, write, outcome)
        return super().settled(write, outcome, now)

    def _note_created(self, job: Key, write: Create, outcome: Outcome) -> None:
        unseen = self._unseen.setdefault(job, {})
        may_exist = not isinstance(outcome, Done) and (
            outcome.is_unknown or isinstance(outcome.error, Conflict)
        )
        if may_exist:
            index = write.document["metadata"]["annotations"].get(INDEX)
            owner = controller_of(write.document)
            uid = "" if owner is None else owner.uid
            unseen[write.key.name] = Unseen(uid, int(index) if index is not None else None)
        else:
            unseen.pop(write.key.name, None)
        if isinstance(outcome, Done):
            self._refused.discard(job)
        if not unseen:
            del self._unseen[job]

    def refused(self, key: Key, write: ObjectWrite, error: ApiError) -> Sequence[Say]:
        document = self._picture.get(JOBS, key)
        if not isinstance(write, Create) or document is None:
            return ()
        self._refused.add(key)
        event = EventText("FailedCreate", f"Error creating: {error.message}", "Warning")
        return (event.about(document),)


def _owned(pod: Object) -> tuple[Key, Owned] | None:
    """Of which Job it is or was: an owner may have been taken from it, the label stays."""
    owner = controller_of(pod.document)
    if owner is None:
        name = (pod.document["metadata"].get("labels") or {}).get(JOB_NAME)
    else:
        name = owner.name if owner.kind == Job.KIND else ""
    if not name:
        return None
    view, facts = pod.view, None
    if view is not None:
        node = view.spec.node_name
        facts = JobPod(metadata=view.metadata, node_name=node, status=view.status)
    return Key(pod.key.namespace, name), Owned("" if owner is None else owner.uid, facts)


def _without_tracking(pod: JobPod, *, is_let_go: bool = False) -> Patch:
    metadata = pod.metadata
    rest = [name for name in metadata.finalizers if name != TRACKING]
    mark = {"annotations": {LET_GO: "true"}} if is_let_go else {}
    as_seen = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    patch = {"metadata": {**as_seen, "finalizers": rest or None, **mark}}
    return Patch(resource=PODS, key=Key(metadata.namespace, metadata.name), patch=patch)
