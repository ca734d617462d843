"""A server in miniature, and whoever runs pods, for stories about Jobs."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any

from makeway.api.times import format_time
from makeway.client.client import ApiError, Conflict, Document, NotFound, Resource, Unavailable
from makeway.client.resources import JOBS, PODS
from makeway.plane.parts import Done, Failed, Outcome, Plan
from makeway.plane.picture import Picture
from makeway.plane.writes import Create, Delete, Key, ObjectWrite, Patch, Say, key_of
from makeway.runner.jobs import JobPods

START = 1_700_000_000.0
ACTIVE = ("Pending", "Running")


def job(name: str = "train", **spec: Any) -> Document:
    template_spec: Document = {
        "restartPolicy": spec.pop("restartPolicy", "Never"),
        "containers": [{"name": "main", "command": ["true"]}],
    }
    template = {"metadata": {"labels": {"app": "x"}}, "spec": template_spec}
    metadata = {"name": name, "namespace": "lab"}
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": template, **spec},
        "status": {},
    }


def indexed(completions: int, **spec: Any) -> Document:
    spec.setdefault("parallelism", completions)
    return job(completions=completions, completionMode="Indexed", **spec)


class World:
    """Does at once what is asked; keeps everything said and counts every write."""

    def __init__(self, *jobs: Document, backoff_s: float = 10.0) -> None:
        self.now, self.revision, self.backoff_s = START, 0, backoff_s
        self.objects: dict[tuple[Resource, Key], Document] = {}
        self.watch: deque[tuple[Resource, Key, Document | None, int]] = deque()
        self.writes: list[ObjectWrite] = []
        self.said: list[str] = []
        self.refuses_pods = False
        self.next_at: float | None = None
        self.restart()
        for document in jobs:
            self.put(JOBS, document)
        self.settle()

    def restart(self) -> None:
        """Nothing is known any more but what the server lists."""
        self.watch.clear()
        self.picture = Picture()
        self.part = JobPods(self.picture, backoff_s=self.backoff_s)
        for (resource, key), document in self.objects.items():
            self._show(resource, key, document, self.revision)

    # The server

    def put(self, resource: Resource, document: Document) -> Document:
        """Write as whoever: the object has a new revision, and watches will tell."""
        self.revision += 1
        metadata = document["metadata"]
        metadata.setdefault("uid", f"uid-{self.revision}")
        metadata.setdefault("creationTimestamp", format_time(int(self.now)))
        metadata["resourceVersion"] = str(self.revision)
        key = key_of(document)
        is_held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not is_held:
            self.objects.pop((resource, key), None)
            self.watch.append((resource, key, None, self.revision))
        else:
            self.objects[resource, key] = document
            self.watch.append((resource, key, copy.deepcopy(document), self.revision))
        return copy.deepcopy(document)

    def apply(self, write: ObjectWrite) -> Document:
        where = (write.resource, write.key)
        found = copy.deepcopy(self.objects.get(where))
        if isinstance(write, Create):
            if self.refuses_pods:
                raise ApiError(403, "Forbidden", "quota exceeded")
            if found is not None:
                raise Conflict(409, "AlreadyExists", "exists")
            return self.put(PODS, copy.deepcopy(write.document) | {"status": {"phase": "Pending"}})
        if found is None:
            raise NotFound(404, "NotFound", "gone")
        if isinstance(write, Delete):
            if found["metadata"]["uid"] != write.uid:
                raise Conflict(409, "Conflict", "another uid")
            return self._mark_deleted(write.resource, found, write.propagation)
        assert isinstance(write, Patch)
        asked = write.patch["metadata"]
        for name in ("uid", "resourceVersion"):
            if asked[name] != found["metadata"][name]:
                raise Conflict(409, "Conflict", f"another {name}")
        merged = merge(found, write.patch)
        return merged if merged == found else self.put(write.resource, merged)

    def _mark_deleted(self, resource: Resource, document: Document, propagation: str) -> Document:
        metadata = document["metadata"]
        if metadata.get("deletionTimestamp"):
            return document
        grace_s = 30 if resource == PODS and document["spec"].get("nodeName") else 0
        metadata["deletionTimestamp"] = format_time(int(self.now) + grace_s)
        metadata["deletionGracePeriodSeconds"] = grace_s
        if propagation == "Foreground":
            metadata["finalizers"] = ["foregroundDeletion"]
        return self.put(resource, document)

    # The loop

    def tell(self, most: int = 1_000_000) -> None:
        for _ in range(min(most, len(self.watch))):
            self._show(*self.watch.popleft())

    def _show(self, resource: Resource, key: Key, document: Document | None, revision: int) -> None:
        if document is None:
            change = self.picture.lose(resource, key, revision)
        else:
            change = self.picture.take(resource, copy.deepcopy(document))
        if change is not None:
            self.part.changed(change)

    def ask(self) -> list[ObjectWrite]:
        plan: Plan = self.part.act(self.now)
        self.next_at = plan.next_at
        self.said += [write.reason for write in plan.writes if isinstance(write, Say)]
        return [write for write in plan.writes if not isinstance(write, Say)]

    def send(self, write: ObjectWrite, fate: str = "done") -> None:
        outcome: Outcome = Failed(Unavailable("no answer"))
        if fate != "lost":
            try:
                self.writes.append(write)
                document = self.apply(write)
            except ApiError as error:
                outcome = Failed(error) if fate == "done" else outcome
            else:
                if fate == "done":
                    self._show(write.resource, write.key, document, 0)
                    outcome = Done(document)
        sayings = self.part.settled(write, outcome, self.now)
        self.said += [saying.reason for saying in sayings]

    def settle(self) -> None:
        """Until nothing is left to do at this moment."""
        self.tell()
        while writes := self.ask():
            for write in writes:
                self.send(write)
            self.tell()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    # What there is

    def job(self, name: str = "train") -> Document:
        return self.objects[JOBS, Key("lab", name)]

    @property
    def status(self) -> Document:
        found: Document = self.job()["status"]
        return found

    @property
    def conditions(self) -> dict[str, str]:
        """Type and reason of the conditions that are true."""
        return {
            condition["type"]: condition["reason"]
            for condition in self.status.get("conditions", ())
            if condition["status"] == "True"
        }

    def pods(self, *phases: str, index: int | None = None) -> list[Document]:
        """In the order of creation."""
        found = [document for (kind, _), document in self.objects.items() if kind == PODS]
        if phases:
            found = [pod for pod in found if pod["status"]["phase"] in phases]
        if index is not None:
            found = [pod for pod in found if index_of(pod) == index]
        return found

    def active(self, index: int | None = None) -> list[Document]:
        """Those that run or will, and were not told to end."""
        pods = self.pods(*ACTIVE, index=index)
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    # Whoever runs pods, and people

    def run(self, *pods: Document) -> None:
        for pod in pods or self.active():
            running = copy.deepcopy(pod)
            running["spec"]["nodeName"] = "node"
            running["status"] = {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            self.put(PODS, running)
        self.settle()

    def end(self, *pods: Document, code: int = 0, condition: str = "") -> None:
        """Pods end with an exit code; those that were told to end are gone then."""
        for pod in pods:
            ended = copy.deepcopy(self.objects[PODS, key_of(pod)])
            terminated = {"exitCode": code, "finishedAt": format_time(int(self.now))}
            ended["status"] = {
                "phase": "Failed" if code else "Succeeded",
                "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
                "conditions": [{"type": condition, "status": "True"}] if condition else [],
            }
            ended["metadata"].pop("deletionGracePeriodSeconds", None)
            self.put(PODS, ended)
        self.settle()

    def delete(self, resource: Resource, document: Document, propagation: str = "") -> None:
        current = copy.deepcopy(self.objects[resource, key_of(document)])
        self._mark_deleted(resource, current, propagation)
        self.settle()

    def change(self, **spec: Any) -> None:
        document = copy.deepcopy(self.job())
        document["spec"].update(spec)
        self.put(JOBS, document)
        self.settle()


def index_of(pod: Document) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged
