"""A cluster of documents for stories about placing: writes come true at once, or fail as told."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from makeway.client.client import ApiError, Conflict, Document, NotFound, Resource, Unavailable
from makeway.client.resources import (
    BUDGETS,
    GANG_WORKLOADS,
    GANGS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOADS,
)
from makeway.controller.placing import Placing
from makeway.plane.parts import Done, Failed, Outcome, Part
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Bind, Create, Delete, Evict, Key, ObjectWrite, Patch, Say, key_of
from makeway.server.patch import merge_patch

Fault = Callable[[ObjectWrite], Exception | None]
STEPS_MAX = 60


class Lab:
    """Names are short: everything lives in the namespace `lab`."""

    def __init__(self, part: Callable[[Picture], Part] = Placing, **nodes: int) -> None:
        self.truth = Picture()  # what the server has
        self.picture = Picture()  # what the part has heard of
        self._unheard: list[tuple[Resource, Key, Document | None, int]] = []
        self.is_late = False  # watches tell only when `hear` is called
        self._part = part
        self.part = part(self.picture)
        self.now = 1000.0
        self.revision = 0
        self.said: list[Say] = []
        self.written: list[ObjectWrite] = []
        self.fault: Fault = lambda write: None  # raised instead of carrying out
        self.is_lost: Callable[[ObjectWrite], bool] = lambda write: False  # done, no answer
        for name, cpu in nodes.items():
            self.node(name, cpu=cpu)

    # Objects

    def put(self, resource: Resource, document: Document) -> None:
        self.revision += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.revision)}
        metadata.setdefault("uid", f"uid-{self.revision}")
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        kinds = {"apiVersion": resource.api_version, "kind": resource.kind}
        document = {**document, **kinds, "metadata": metadata}
        self.truth.take(resource, document)
        self._unheard.append((resource, key_of(document), document, self.revision))
        if not self.is_late:
            self.hear()

    def remove(self, resource: Resource, name: str, namespace: str = "lab") -> None:
        self.revision += 1
        key = Key(namespace, name)
        if self.truth.lose(resource, key, self.revision):
            self._unheard.append((resource, key, None, self.revision))
        if not self.is_late:
            self.hear()

    def hear(self) -> None:
        """The watches tell what has happened."""
        unheard, self._unheard = self._unheard, []
        for resource, key, document, revision in unheard:
            if document is None:
                self._tell(self.picture.lose(resource, key, revision))
            else:
                self._tell(self.picture.take(resource, document))

    def _tell(self, change: Change | None) -> None:
        if change is not None and change.resource in self.part.resources:
            self.part.changed(change)

    def node(self, name: str, *, cpu: int = 4, **spec: Any) -> None:
        amounts = {"cpu": str(cpu), "pods": "110"}
        self.put(
            NODES,
            {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": amounts}},
        )

    def pod(
        self,
        name: str,
        *,
        cpu: int = 4,
        priority: int = 10,
        on: str = "",
        group: str = "",
        workload: str = "",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        owner: str = "",
        ready: bool = True,
        **spec: Any,
    ) -> None:
        metadata: Document = {"name": name, "namespace": "lab", "labels": dict(labels or {})}
        metadata["annotations"] = dict(annotations or {})
        if workload:
            metadata["annotations"]["kueue.x-k8s.io/workload"] = workload
            metadata["labels"]["kueue.x-k8s.io/podset"] = "main"
        if owner:
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
        spec = {"containers": [container], "priority": priority, **spec}
        if on:
            spec["nodeName"] = on
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        status: Document = {"phase": "Running" if on else "Pending", "conditions": []}
        if on and ready:
            status["conditions"] = [{"type": "Ready", "status": "True"}]
        self.put(PODS, {"metadata": metadata, "spec": spec, "status": status})

    def group(self, name: str, min_count: int, *, priority: int = 100, **spec: Any) -> None:
        policy = {"gang": {"minCount": min_count}}
        spec = {"schedulingPolicy": policy, "priority": priority, **spec}
        self.put(POD_GROUPS, {"metadata": {"name": name, "namespace": "lab"}, "spec": spec})

    def own_gang(self, name: str, min_count: int, **spec: Any) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec}
        self.put(GANGS, {"metadata": {"name": name, "namespace": "lab"}, "spec": spec})

    def gang_workload(self, name: str, min_count: int, **spec: Any) -> None:
        group = {"name": "workers", "policy": {"gang": {"minCount": min_count}}}
        spec = {"podGroups": [group], **spec}
        metadata = {"name": name, "namespace": "lab", "generation": 1}
        self.put(GANG_WORKLOADS, {"metadata": metadata, "spec": spec})

    def priority_class(self, name: str, value: int) -> None:
        self.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    def workload(
        self, name: str, count: int, *, priority: int = 10, mode: str = "Pod", given_back: int = 0
    ) -> None:
        """A queue Workload that is admitted."""
        template = {"spec": {"containers": [{"name": "main"}]}}
        status: Document = {
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"},
                {"type": "Admitted", "status": "True", "reason": "Admitted"},
            ],
            "admission": {
                "clusterQueue": "q",
                "podSetAssignments": [{"name": "main", "count": count}],
            },
        }
        if given_back:
            status["reclaimablePods"] = [{"name": "main", "count": given_back}]
        annotations = {"makeway.dev/preemption-mode": mode}
        self.put(
            WORKLOADS,
            {
                "metadata": {"name": name, "namespace": "lab", "annotations": annotations},
                "spec": {
                    "priority": priority,
                    "podSets": [{"name": "main", "count": count, "template": template}],
                },
                "status": status,
            },
        )

    def budget(self, name: str, *, allowed: int = 0, spec: Any = None, **labels: str) -> None:
        spec = {"selector": {"matchLabels": labels}, **(spec or {})}
        status = {"disruptionsAllowed": allowed}
        metadata = {"name": name, "namespace": "lab", "generation": 1}
        self.put(BUDGETS, {"metadata": metadata, "spec": spec, "status": status})

    def annotate(self, resource: Resource, name: str, annotations: dict[str, str]) -> None:
        found = self.get(resource, name)
        metadata = {**found["metadata"], "annotations": annotations}
        self.put(resource, {**found, "metadata": metadata})

    def get(self, resource: Resource, name: str) -> Document:
        found = self.truth.get(resource, Key("lab", name))
        assert found is not None, name
        return deepcopy(found)

    def ended(self, *names: str) -> None:
        """Pods that were asked to go are gone now."""
        for name in names:
            self.remove(PODS, name)

    def restart(self) -> None:
        """Another process takes over: it knows the objects and nothing else."""
        self.picture, self._unheard = Picture(), []
        self.part = self._part(self.picture)
        for resource in self.part.resources:
            for document in self.truth.all(resource):
                self._tell(self.picture.take(resource, document))

    # Time

    def run(self, seconds: float = 1.0) -> None:
        """Do what there is to do within this time, and see all that comes of it."""
        until = self.now + seconds
        for _ in range(STEPS_MAX):
            plan = self.part.act(self.now)
            writes = [write for write in plan.writes if not isinstance(write, Say)]
            self.said += [write for write in plan.writes if isinstance(write, Say)]
            for write in writes:
                self.answer(write)
            if writes:
                continue
            if plan.next_at is None or plan.next_at > until:
                break
            self.now = max(self.now, plan.next_at)
        else:
            raise AssertionError(f"no end of it: {self.written[-5:]}")
        self.now = until

    def answer(self, write: ObjectWrite) -> None:
        self.said += self.part.settled(write, self.carry_out(write), self.now)

    def carry_out(self, write: ObjectWrite) -> Outcome:
        self.written.append(write)
        error = self.fault(write)
        if error is None:
            try:
                self._do(write)
            except ApiError as refusal:
                error = refusal
        if error is None and self.is_lost(write):
            error = Unavailable("no answer")
        if error is None:
            return Done(self._answer_to(write))
        assert isinstance(error, ApiError | Unavailable)
        return Failed(error)

    def _answer_to(self, write: ObjectWrite) -> Document | None:
        """The object, where the server shows it; then the part hears of it before all else."""
        document = self.truth.get(write.resource, write.key)
        if isinstance(write, Bind | Evict) or document is None:
            return None
        self._tell(self.picture.take(write.resource, document))
        return document

    def _do(self, write: ObjectWrite) -> None:
        assert not isinstance(write, Create), write
        found = deepcopy(self.truth.get(write.resource, write.key))
        if found is None:
            raise NotFound(404, "NotFound", "not found")
        metadata = found["metadata"]
        match write:
            case Patch():
                asked = write.patch.get("metadata") or {}
                for name in ("uid", "resourceVersion"):
                    if asked.get(name) not in (None, metadata[name]):
                        raise Conflict(409, "Conflict", f"another {name}")
                assert write.subresource == "status"
                status = merge_patch(found.get("status") or {}, write.patch["status"])
                if status != found.get("status"):
                    self.put(write.resource, {**found, "status": status})
            case Bind():
                if found["spec"].get("nodeName") or metadata.get("deletionTimestamp"):
                    raise Conflict(409, "Conflict", "already assigned, or being deleted")
                self.put(PODS, {**found, "spec": {**found["spec"], "nodeName": write.node}})
            case Delete() | Evict():
                assert write.uid == metadata["uid"]
                marked = {**metadata, "deletionTimestamp": "2026-01-01T00:01:00Z"}
                if "deletionTimestamp" not in metadata:
                    self.put(write.resource, {**found, "metadata": marked})

    # What became of it

    def nodes_of(self, *names: str) -> list[str]:
        return [self.get(PODS, name)["spec"].get("nodeName", "") for name in names]

    def nominated(self, *names: str) -> list[str]:
        return [self.get(PODS, n)["status"].get("nominatedNodeName", "") for n in names]

    def leaving(self) -> list[str]:
        return sorted(
            pod["metadata"]["name"]
            for pod in self.truth.all(PODS)
            if pod["metadata"].get("deletionTimestamp")
        )

    def condition(self, resource: Resource, name: str, type: str) -> Document:
        conditions = (self.get(resource, name).get("status") or {}).get("conditions") or ()
        return next((c for c in conditions if c["type"] == type), {})

    def events(self, reason: str) -> list[tuple[str, str]]:
        return [(s.about["metadata"]["name"], s.message) for s in self.said if s.reason == reason]
