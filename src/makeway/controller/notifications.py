"""Tells who wants to know that a job is over: `submit --notify`.

A notification is a pod of the job's namespace, so it runs as the account whose job it is and
reaches what that account reaches, under a deadline, beside everything else. Its name follows from
the job, so that there is one for each end, whatever is restarted meanwhile; when it is over, that
is noted at the Job and the pod goes. Of a namespace no more than two are under way at once.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Mapping

from makeway.api.batch import ENDED_PHASES
from makeway.api.kinds import JOBS, PODS, WORKLOADS, Resource
from makeway.api.labels import ID, NOTIFIED, NOTIFY
from makeway.api.meta import controller_of
from makeway.client.client import Document
from makeway.controller.dependencies import Outcome, outcome_of
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Create, Delete, Key, Patch

DEADLINE_S = 30
AT_ONCE_MAX = 2  # of one namespace
TELLS_OF = "makeway.dev/tells-of"  # label of a pod: the uid of the Job of whose end it tells
_IMAGE = "makeway.dev/local"
# `$(NAME)` and `$$` mean something in a container's command; what the user wrote means itself.
_EXPANDED = re.compile(r"\$(?=[$(])")
_POST = (
    "import os, sys, urllib.request as r;"
    "r.urlopen(r.Request(sys.argv[1], os.environ['MAKEWAY_MESSAGE'].encode(),"
    "{'Content-Type': 'application/json'}), timeout=25)"
)


class Notifications(Reconciler):
    """Its keys are Jobs."""

    resources: tuple[Resource, ...] = (JOBS, PODS, WORKLOADS)

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        self._tellers = picture.index(PODS, _teller)  # by namespace; those that are under way
        self._workloads = picture.index(WORKLOADS, _workload_of)
        self._waiting: dict[str, dict[Key, None]] = {}  # by namespace: Jobs whose turn it isn't yet

    def changed(self, change: Change) -> None:
        if change.resource == JOBS:
            self.mark(change.key)
        elif change.resource == PODS and (named := _named(change.new or change.old)) is not None:
            self.mark(named, *self._waiting.pop(change.key.namespace, {}))

    def reconcile(self, key: Key, now: float) -> Plan:
        job = self._picture.get(JOBS, key)
        notes = {} if job is None else job["metadata"].get("annotations") or {}
        if job is None or NOTIFY not in notes or outcome_of(job) is Outcome.OPEN:
            return NOTHING
        pod = self._picture.find(PODS, Key(key.namespace, _pod_name(job)))
        if pod is None:
            return NOTHING if NOTIFIED in notes else self._begin(key, job, notes)
        if NOTIFIED in notes:
            return Plan([Delete(resource=PODS, key=pod.key, uid=pod.uid, grace_s=0)])
        phase = (pod.document.get("status") or {}).get("phase")
        if phase not in ENDED_PHASES:
            return NOTHING
        said = {"annotations": {NOTIFIED: phase}, "uid": job["metadata"]["uid"]}
        return Plan([Patch(resource=JOBS, key=key, patch={"metadata": said})])

    def _begin(self, key: Key, job: Document, notes: Mapping[str, str]) -> Plan:
        if len(self._tellers.keys(key.namespace)) >= AT_ONCE_MAX:
            self._waiting.setdefault(key.namespace, {})[key] = None
            return NOTHING
        receivers = [line for line in notes[NOTIFY].splitlines() if line.strip()]
        owner = next(iter(self._workloads.values(Key(key.namespace, job["metadata"]["uid"]))), None)
        return Plan([Create(resource=PODS, document=_pod(job, receivers, owner))])


def _pod(job: Document, receivers: list[str], owner: Document | None) -> Document:
    metadata: Document = {
        "name": _pod_name(job),
        "namespace": job["metadata"]["namespace"],
        "labels": {TELLS_OF: job["metadata"]["uid"]},
        "annotations": {TELLS_OF: job["metadata"]["name"]},
    }
    if owner is not None:  # what belongs to somebody waits in no queue
        metadata["ownerReferences"] = [owner]
    (first, *_) = job["spec"]["template"]["spec"]["containers"]
    told = [{"name": name, "value": value} for name, value in _message(job).items()]
    containers = [
        {
            "name": f"receiver-{number}",
            "image": _IMAGE,
            "command": _command(receiver),
            "env": [*(first.get("env") or ()), *told],
            **({"workingDir": first["workingDir"]} if "workingDir" in first else {}),
        }
        for number, receiver in enumerate(receivers, 1)
    ]
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": DEADLINE_S,
        "terminationGracePeriodSeconds": 1,
        "containers": containers,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _command(receiver: str) -> list[str]:
    """A command for a shell, the address of a web hook, or one for mail."""
    if receiver.startswith(("http://", "https://")):
        return [sys.executable, "-I", "-c", _POST, receiver]
    if receiver.startswith("mailto:"):
        address = shlex.quote(receiver.removeprefix("mailto:"))
        subject = 'printf "Subject: %s\\n\\n%s\\n" "$MAKEWAY_SUBJECT" "$MAKEWAY_MESSAGE"'
        return ["sh", "-c", f"{subject} | sendmail {address}"]
    return ["sh", "-c", _EXPANDED.sub("$$", receiver)]


def _message(job: Document) -> dict[str, str]:
    """What is told, as variables."""
    metadata, status = job["metadata"], job.get("status") or {}
    number = (metadata.get("labels") or {}).get(ID, "")
    ended = [c for c in status.get("conditions") or () if c.get("status") == "True"]
    last: Document = next((c for c in ended if c["type"] in ("Complete", "Failed")), {})
    is_cancelled = last.get("reason") == "Cancelled"
    word = "succeeded" if last.get("type") == "Complete" else "failed"
    word = "cancelled" if is_cancelled else word
    told = {
        "id": number,
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "status": word,
        "reason": last.get("message") or last.get("reason") or "",
        "startedAt": status.get("startTime") or "",
        "endedAt": last.get("lastTransitionTime") or "",
    }
    return {
        "MAKEWAY_JOB_ID": number,
        "MAKEWAY_JOB_NAME": metadata["name"],
        "MAKEWAY_JOB_STATUS": word,
        "MAKEWAY_JOB_REASON": told["reason"],
        "MAKEWAY_SUBJECT": f"job {number or metadata['name']} has {word}".replace("has c", "was c"),
        "MAKEWAY_MESSAGE": json.dumps(told),
    }


def _pod_name(job: Document) -> str:
    metadata = job["metadata"]
    digest = hashlib.sha256(f"{metadata['uid']}/told".encode()).hexdigest()[:8]
    return f"{metadata['name'][:48].rstrip('-.')}-told-{digest}"


def _named(pod: Object | None) -> Key | None:
    """The Job that a pod tells of; None: it is another sort of pod."""
    if pod is None or TELLS_OF not in (pod.document["metadata"].get("labels") or {}):
        return None
    return Key(pod.key.namespace, pod.document["metadata"]["annotations"][TELLS_OF])


def _teller(pod: Object) -> tuple[str, None] | None:
    phase = (pod.document.get("status") or {}).get("phase")
    is_over = phase in ENDED_PHASES
    return None if is_over or _named(pod) is None else (pod.key.namespace, None)


def _workload_of(workload: Object) -> tuple[Key, Document] | None:
    """By namespace and uid of its Job: how to say that something belongs to it."""
    owner = controller_of(workload.document)
    if owner is None or owner.kind != JOBS.kind:
        return None
    reference = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "name": workload.key.name,
        "uid": workload.uid,
        "controller": True,
    }
    return Key(workload.key.namespace, owner.uid), reference
