"""A control plane of toys: just enough of one to prove that the harness finds what is wrong.

Whoever fits is admitted, within the nominal quota of the queue's first flavor; nobody borrows and
nobody is preempted. Each toy can be built with a flaw, of the kind that real code has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from makeway.api.kinds import JOBS, LOCAL_QUEUES, NODES, PODS, QUEUES, WORKLOADS, Resource
from makeway.api.meta import controller_of
from makeway.api.quantity import amount
from makeway.api.times import format_time
from makeway.client.client import Document
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Bind, Create, Key, Patch, key_of
from tests.simulation.checkers import INDEX, QUEUE_NAME, has, holds_quota, is_over, pod_requests

ENDS = ("Complete", "Failed")


class ToyQueue(Reconciler):
    """Makes a Workload of each Job, admits it when there is room, and lets the Job go."""

    resources: tuple[Resource, ...] = (JOBS, WORKLOADS, QUEUES, LOCAL_QUEUES)

    def __init__(
        self, picture: Picture, *, counts_assumed: bool = True, wakes_others: bool = True
    ) -> None:
        super().__init__()
        self._picture = picture
        self._counts_assumed, self._wakes_others = counts_assumed, wakes_others
        # Job -> queue and cpu, until the picture says so itself: a write that failed may yet count.
        self._assumed: dict[Key, tuple[str, int]] = {}

    def changed(self, change: Change) -> None:
        key, others = change.key, self._picture.keys(JOBS) if self._wakes_others else ()
        for job in (Key(key.namespace, key.name.removeprefix("job-of-")), *others):
            self.mark(job)

    def reconcile(self, key: Key, now: float) -> Plan:
        job = self._picture.get(JOBS, key)
        if job is None:
            return NOTHING
        workload = self._picture.get(WORKLOADS, _workload_key(key))
        if workload is None:
            return Plan([Create(resource=WORKLOADS, document=_workload(job))])
        if any(has(job, end) for end in ENDS):
            self._assumed.pop(key, None)
            return NOTHING if has(workload, "Finished") else self._finish(workload, now)
        if has(workload, "Admitted"):
            self._assumed.pop(key, None)
            return self._let_go(job) if job["spec"].get("suspend") else NOTHING
        return self._admit(key, workload, now)

    def _admit(self, key: Key, workload: Document, now: float) -> Plan:
        local = Key(key.namespace, workload["spec"]["queueName"])
        found = self._picture.get(LOCAL_QUEUES, local)
        queue = found and self._picture.get(QUEUES, Key("", found["spec"]["clusterQueue"]))
        if not queue:
            return NOTHING
        name = queue["metadata"]["name"]
        flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]
        nominal = amount("cpu", flavor["resources"][0]["nominalQuota"])
        (pods,) = workload["spec"]["podSets"]
        asked = pod_requests(pods["template"]["spec"])["cpu"] * pods["count"]
        if self._used(name, key) + asked > nominal:
            return NOTHING
        self._assumed[key] = (name, asked)
        admission = {
            "clusterQueue": name,
            "podSetAssignments": [
                {
                    "name": "main",
                    "flavors": {"cpu": flavor["name"]},
                    "resourceUsage": {"cpu": f"{asked}m"},
                    "count": pods["count"],
                }
            ],
        }
        return Plan([_status(workload, now, ["QuotaReserved", "Admitted"], admission=admission)])

    def _used(self, queue: str, but: Key) -> int:
        total = 0
        for workload in self._picture.all(WORKLOADS):
            job = Key(workload["metadata"]["namespace"], workload["metadata"]["name"][7:])
            is_counted = self._counts_assumed and job in self._assumed
            if holds_quota(workload) and not is_counted:
                admission = workload["status"]["admission"]
                if admission["clusterQueue"] == queue:
                    usage = admission["podSetAssignments"][0]["resourceUsage"]
                    total += amount("cpu", usage["cpu"])
        if self._counts_assumed:
            total += sum(
                cpu for job, (name, cpu) in self._assumed.items() if name == queue and job != but
            )
        return total

    def _let_go(self, job: Document) -> Plan:
        patch = {"metadata": {"uid": job["metadata"]["uid"]}, "spec": {"suspend": False}}
        return Plan([Patch(resource=JOBS, key=key_of(job), patch=patch)])

    def _finish(self, workload: Document, now: float) -> Plan:
        return Plan([_status(workload, now, ["QuotaReserved", "Admitted", "Finished"])])


class ToyJobs(Reconciler):
    """Makes the pods of Jobs that may run, and ends a Job when its pods have."""

    resources: tuple[Resource, ...] = (JOBS, PODS)

    def __init__(self, picture: Picture, *, has_fixed_names: bool = True) -> None:
        super().__init__()
        self._picture, self._has_fixed_names = picture, has_fixed_names
        self._pods = picture.index(PODS, _by_controller)

    def changed(self, change: Change) -> None:
        key, pod = change.key, change.new
        if change.resource == JOBS:
            self.mark(key)
        elif pod is not None:
            self.mark(Key(key.namespace, pod.document["metadata"]["labels"]["job"]))

    def reconcile(self, key: Key, now: float) -> Plan:
        job = self._picture.get(JOBS, key)
        if job is None or job["spec"].get("suspend") or any(has(job, end) for end in ENDS):
            return NOTHING
        found = [self._picture.get(PODS, pod) for pod in self._pods.keys(job["metadata"]["uid"])]
        pods = [pod for pod in found if pod is not None]
        phases = Counter((pod.get("status") or {}).get("phase", "Pending") for pod in pods)
        active = {_share(pod) for pod in pods if not is_over(pod)}
        if phases["Failed"] > job["spec"].get("backoffLimit", 6):
            return NOTHING if active else Plan([_ended(job, "Failed", now)])
        if phases["Succeeded"] >= job["spec"]["completions"]:
            return Plan([_ended(job, "Complete", now)])
        done = {
            _share(pod) for pod in pods if (pod.get("status") or {}).get("phase") == "Succeeded"
        }
        due = [n for n in range(job["spec"]["completions"]) if n not in active | done]
        room = job["spec"]["parallelism"] - len(active)
        made = [self._pod(job, n, phases["Failed"], now) for n in due[: max(room, 0)]]
        return Plan([Create(resource=PODS, document=pod) for pod in made])

    def _pod(self, job: Document, index: int, attempt: int, now: float) -> Document:
        template, metadata = job["spec"]["template"], job["metadata"]
        last = str(attempt) if self._has_fixed_names else f"{attempt}-{int(now * 1000)}"
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{metadata['name']}-{index}-{last}",
                "namespace": metadata["namespace"],
                "labels": {"job": metadata["name"]},
                "annotations": {INDEX: str(index)},
                "ownerReferences": [_owner(job)],
            },
            "spec": template["spec"],
        }


def _by_controller(pod: Object) -> tuple[str, None] | None:
    owner = controller_of(pod.document)
    return None if owner is None else (owner.uid, None)


class ToyBinder(Reconciler):
    """Gives every pod the first node with room for it."""

    resources: tuple[Resource, ...] = (PODS, NODES)

    def __init__(self, picture: Picture, *, counts_assumed: bool = True) -> None:
        super().__init__()
        self._picture, self._counts_assumed = picture, counts_assumed
        self._assumed: dict[str, str] = {}  # pod uid -> node, until the picture says so itself

    def changed(self, change: Change) -> None:
        for pod in self._picture.keys(PODS):
            self.mark(pod)
        document = None if change.new is None else change.new.document
        if document is not None and change.resource == PODS and document["spec"].get("nodeName"):
            self._assumed.pop(document["metadata"]["uid"], None)

    def reconcile(self, key: Key, now: float) -> Plan:
        pod = self._picture.get(PODS, key)
        if pod is None or pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return NOTHING
        uid, asked = pod["metadata"]["uid"], pod_requests(pod["spec"])["cpu"]
        if uid in self._assumed:
            return Plan([Bind(key=key, uid=uid, node=self._assumed[uid])])
        for node in sorted(self._picture.keys(NODES)):
            document = self._picture.get(NODES, node)
            assert document is not None
            room = amount("cpu", document["status"]["allocatable"]["cpu"])
            if self._used(node.name) + asked <= room:
                if self._counts_assumed:
                    self._assumed[uid] = node.name
                return Plan([Bind(key=key, uid=uid, node=node.name)])
        return NOTHING

    def _used(self, node: str) -> int:
        total = 0
        for pod in self._picture.all(PODS):
            where = pod["spec"].get("nodeName") or self._assumed.get(pod["metadata"]["uid"])
            if where == node and not is_over(pod):
                total += pod_requests(pod["spec"])["cpu"]
        return total


def _share(pod: Document) -> int:
    return int(pod["metadata"]["annotations"][INDEX])


def _owner(job: Document) -> Document:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
    }


def _workload_key(job: Key) -> Key:
    return Key(job.namespace, f"job-of-{job.name}")


def _workload(job: Document) -> Document:
    key = _workload_key(key_of(job))
    pods = {
        "name": "main",
        "count": job["spec"]["parallelism"],
        "template": job["spec"]["template"],
    }
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "ownerReferences": [_owner(job)],
        },
        "spec": {"queueName": job["metadata"]["labels"][QUEUE_NAME], "podSets": [pods]},
    }


def _conditions(types: Sequence[str], now: float) -> list[Document]:
    at = format_time(int(now))
    return [
        {"type": name, "status": "True", "reason": name, "message": "", "lastTransitionTime": at}
        for name in types
    ]


def _status(workload: Document, now: float, types: Sequence[str], **more: Any) -> Patch:
    status = {"conditions": _conditions(types, now), **more}
    patch = {"metadata": {"uid": workload["metadata"]["uid"]}, "status": status}
    return Patch(resource=WORKLOADS, key=key_of(workload), patch=patch, subresource="status")


def _ended(job: Document, end: str, now: float) -> Patch:
    patch = {
        "metadata": {"uid": job["metadata"]["uid"]},
        "status": {"conditions": _conditions([end], now)},
    }
    return Patch(resource=JOBS, key=key_of(job), patch=patch, subresource="status")
